"""A plain ``pydantic_ai.Agent`` behind our ports: what of it is served, and what is refused at the start.

Its instructions (static and dynamic), system prompts, model, settings, tools, toolsets, history processors,
capabilities and output types keep working: each model request is made by the agent itself (``pydantic_ai_step``),
one at a time. Everything after the response is ours: its tools are rows of the ledger, run at most once, each in
the agent's own machinery but one call at a time.

====================================================  ==================================================
``tool(requires_approval=True)``                      an approval
``toolset.approval_required(…)``, an                  an approval, when it says so for these arguments
``args_validator`` that raises ``ApprovalRequired``
``ApprovalRequired`` raised while it runs             an approval; after a yes it runs again, from its
                                                      beginning and with ``tool_call_approved``
``CallDeferred`` raised while it runs                 a client call: the answer is the page's, or comes from
                                                      elsewhere; the tool does not run again
``ExternalToolset``                                   a client tool; its arguments are not judged here
``ModelRetry``, ``ToolFailed``, refused arguments     a failed result that the model reads, and no end of
                                                      the run: our limits bound the tries, not ``retries``
any other exception                                   a failed result with one fixed sentence
data and source chunks in ``ToolReturn.metadata``     shown on the page (the library's Vercel adapter's way)
a structured output                                   ends the run; the user reads it as JSON text, and for
                                                      a sub-agent it is the value of the parent's call
====================================================  ==================================================

Refused with a ``RegistryError``: no name, no model, dependencies without a factory, agents wrapped for a durable
engine of another kind, tool names that the wire cannot carry.
"""

import inspect
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Protocol, cast

from pydantic import ValidationError
from pydantic_ai import exceptions
from pydantic_ai.models import Model as LibraryModel
from pydantic_ai.models import infer_model
from pydantic_ai.tools import Tool as LibraryTool
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import FunctionToolset

from app.agent.context import RequestContext, ToolContext
from app.agent.declaration import Agent, AgentStep, RegistryError
from app.agent.kept import Kept, Unavailable
from app.agent.model import Model, ModelEvent, ModelRequest, ModelResponse
from app.agent.own import Own
from app.agent.pydantic_ai_calls import run_call
from app.agent.pydantic_ai_step import OwnStep
from app.agent.scripted import ScriptedModel
from app.agent.tool_input import InputShape, refusal
from app.agent.tools import NAME, Predicate, Tool

CONNECT_TIMEOUT_S = 30.0


def served(declared: Own, name: str | None, model_name: str | None) -> Agent:
    """The agent under ``name``, or its own. ``model_name``: the model of an agent without one. Raises
    ``RegistryError``."""
    library = declared.agent
    named = name or declared.name or getattr(library, "name", None)
    if not named:
        raise RegistryError(
            "a pydantic_ai.Agent needs a name: make AGENT_SERVER_AGENTS a mapping, or give it name="
        )
    if any(kind.__module__.startswith("pydantic_ai.durable_exec") for kind in type(library).__mro__):
        raise RegistryError(
            f"agent {named}: a {type(library).__name__} brings another engine; register the agent in it"
        )
    wanted = cast("type | None", getattr(library, "deps_type", None))
    if declared.deps is None and wanted not in (None, object, NoneType):
        what = getattr(wanted, "__name__", str(wanted))
        raise RegistryError(
            f"agent {named}: it needs dependencies of type {what}; register own(agent, deps=…)"
        )
    for seconds in (declared.timeout_s, declared.deadline_s):
        if seconds is not None and seconds <= 0:
            raise RegistryError(f"agent {named}: timeout_s and deadline_s are positive, or None")
    model = library.model or model_name
    if model is None:
        raise RegistryError(f"agent {named}: it has no model, and AGENT_SERVER_MODEL is not set")
    try:
        inferred = infer_model(model)
    except (exceptions.UserError, ImportError, ValueError) as error:
        raise RegistryError(f"agent {named}: {' '.join(str(error).split())}") from error
    if isinstance(model, str) and hasattr(client := getattr(inferred, "client", None), "max_retries"):
        client.max_retries = 0  # pyright: ignore[reportOptionalMemberAccess]  the step loop repeats, and it alone
    known = {each.name: each for toolset in library.toolsets for each in _functions_of(toolset)}
    for tool in known:
        if not NAME.fullmatch(tool):
            raise RegistryError(
                f"agent {named}: a tool's name is 1 to 64 letters, digits, _ or -, not {tool!r}"
            )
    driver = Driver(named, declared, inferred, known)
    return OwnAgent(
        named,
        "",
        driver,
        limits=declared.limits,
        usage_metadata=declared.usage_metadata,
        driver=driver,
    )


def _functions_of(toolset: object) -> list[LibraryTool[Any]]:
    return list(toolset.tools.values()) if isinstance(toolset, FunctionToolset) else []


class Validator(Protocol):
    """The library's validator of a tool's arguments."""

    def validate_json(self, given: str, /) -> Any: ...


@dataclass
class Driver:
    """What all steps and calls of one agent share. Stands as its model, so that the registry closes it."""

    name: str
    declared: Own
    model: LibraryModel
    known: Mapping[str, LibraryTool[Any]]
    _entered: Kept[Any] = field(init=False)

    def __post_init__(self) -> None:
        self._entered = Kept(f"agent {self.name}", self._open, open_timeout_s=CONNECT_TIMEOUT_S)

    @asynccontextmanager
    async def _open(self) -> AsyncGenerator[Any]:
        async with self.model, self.declared.agent as agent:
            yield agent

    async def entered(self) -> Any:
        """The library's agent, its model and toolsets connected once for all runs. When one cannot be, each run
        connects by itself, and says why it fails."""
        try:
            return await self._entered.get()
        except Unavailable:
            return self.declared.agent

    async def deps_for(self, context: RequestContext) -> Any:
        """Raises what the factory raises."""
        if self.declared.deps is None:
            return None
        made = self.declared.deps(context)
        return await made if inspect.isawaitable(made) else made

    def known_tool(self, name: str) -> Tool | None:
        """A function tool of the agent itself; ``None`` for one that only a toolset may have."""
        tool = self.known.get(name)
        return self.tool(tool.tool_def, tool.function_schema.validator) if tool is not None else None

    def tool(
        self,
        definition: ToolDefinition,
        validator: Validator | None = None,
        *,
        needs_approval: bool | Predicate = False,
        shape: InputShape | None = None,
    ) -> Tool:
        """A tool of the agent for the ledger. ``validator`` judges its arguments, unless ``shape`` does."""
        external = definition.kind == "external"
        # The library's own timeout says more: it comes first.
        timeout_s = definition.timeout + 1 if definition.timeout is not None else self.declared.timeout_s

        async def run(context: ToolContext, arguments: dict[str, Any]) -> Any:
            return await run_call(self, definition.name, context, arguments)

        return Tool(
            definition.name,
            definition.description or "",
            definition.parameters_json_schema,
            client=external,
            needs_approval=False if external else definition.kind == "unapproved" or needs_approval,
            timeout_s=None if external else timeout_s,
            deadline_s=self.declared.deadline_s,
            retry_safe=definition.name in self.declared.retry_safe,
            run=None if external else run,
            shape=shape or _shape(definition, validator),
        )

    async def step(self, request: ModelRequest) -> AsyncGenerator[ModelEvent | ModelResponse, None]:
        raise RuntimeError("an agent of the library is asked through for_step")
        yield  # a generator, as every step

    async def aclose(self) -> None:
        await self._entered.aclose()


@dataclass(frozen=True)
class OwnAgent(Agent):
    """An agent of the library, registered as it is."""

    driver: Driver = field(kw_only=True)

    async def for_step(self, context: RequestContext) -> AgentStep:
        step = OwnStep(self.driver, context)
        # A script plays without the agent; whatever it does not play is the agent's.
        model: Model = ScriptedModel(step) if isinstance(self.model, ScriptedModel) else step
        return AgentStep("", model, (), {}, find=step.tool)

    def tool(self, name: str) -> Tool | None:
        """The tool that runs a stored call. A tool that only its toolset knows is looked up when it runs."""
        return self.driver.known_tool(name) or self.driver.tool(ToolDefinition(name=name))

    async def is_retry_safe(self, name: str) -> bool:
        return name in self.driver.declared.retry_safe


def _shape(definition: ToolDefinition, validator: Validator | None) -> InputShape:
    def check(raw: Any) -> dict[str, Any]:
        if validator is not None:
            try:
                validator.validate_json(json.dumps(raw))
            except ValidationError as error:
                raise refusal(error) from None
        return raw

    return InputShape(definition.parameters_json_schema, check, lambda stored: stored)
