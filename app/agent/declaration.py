"""What an agent is: instructions, a model, tools, toolsets and limits under a name.

``Agent`` is the declaration, checked when it is made. ``Agent.for_step`` makes it ready for one model request: the
functions of the request's context are called, the toolsets are asked for their tools.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

from app.agent.context import RequestContext
from app.agent.model import Model
from app.agent.output import NAME as OUTPUT
from app.agent.output import Judged, Output, OutputDeclaration, output_from
from app.agent.tools import NAME, Run, Tool, ToolContext, ToolError

Instructions = str | Callable[[RequestContext], str | Awaitable[str]]


class RegistryError(ValueError):
    """A declaration that cannot be served; ``str()`` is one line for the operator."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may use, a sub-agent's by itself; ``None``: no limit. ``max_tokens`` counts input and output;
    ``max_seconds`` counts running time only, not the time a run is suspended, and is the root's for its whole
    tree: a sub-agent's own is not looked at. Raises ``RegistryError`` for a limit that is not positive."""

    max_steps: int | None = 32
    max_tool_calls: int | None = 200
    max_tokens: int | None = None
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        for limit in fields(self):
            most = getattr(self, limit.name)
            if most is not None and most <= 0:
                raise RegistryError(f"{limit.name} is positive, or None for no limit, not {most}")


class Toolset(Protocol):
    """Tools that are only known at run time (an MCP server's). One instance serves any number of runs."""

    async def tools(self) -> Sequence[Tool]:
        """The tools as they are now. Never raises: a server that is down has the tools it had, or none."""
        ...

    def may_have(self, name: str) -> bool:
        """Whether a tool of that name may be one of these."""
        ...

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True)
class AgentStep:
    """An agent made ready for one model request: everything that depends on the turn is a plain value here.

    ``find`` answers for the tools of a model that chooses them itself while it is asked (see
    ``pydantic_ai_agent``); without it ``tools`` are all there are."""

    instructions: str
    model: Model
    tools: tuple[Tool, ...]
    settings: Mapping[str, Any]
    find: Callable[[str], Tool | None] | None = None

    def tool(self, name: str) -> Tool | None:
        """The tool of that name, if the agent has it in this step."""
        if self.find is not None:
            return self.find(name)
        return next((declared for declared in self.tools if declared.name == name), None)


@dataclass(frozen=True)
class Agent:
    """Instructions, a model, tools and limits under a name.

    ``instructions``: a text, or a function (async too) of the request's context. ``toolsets``: where more tools
    come from (``mcp``). ``settings`` go to the model as they are. ``output``: a pydantic model, or a JSON schema of
    an object, that a run ends with (``agent.output``). ``usage_metadata``: what the turn has used so far, sub-agents
    included, is told in the message's ``metadata.usage``. Raises ``RegistryError`` for a bad name, a doubled tool, an
    output that is neither, or a model without ``step``."""

    name: str
    instructions: Instructions
    model: Model
    tools: Sequence[Tool] = ()
    limits: Limits = Limits()
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    toolsets: Sequence[Toolset] = ()
    output: OutputDeclaration | None = None
    usage_metadata: bool = False
    _output: Output | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise RegistryError(f"an agent's name is 1 to 64 letters, digits, _ or -, not {self.name!r}")
        object.__setattr__(self, "tools", tuple(self.tools))
        object.__setattr__(self, "toolsets", tuple(self.toolsets))
        if not callable(getattr(self.model, "step", None)):
            raise RegistryError(
                f"agent {self.name}: its model has no step method; name one with model('provider:name')"
            )
        if self.output is not None:
            try:
                object.__setattr__(self, "_output", output_from(self.output))
            except (TypeError, ValueError) as error:
                raise RegistryError(f"agent {self.name}: {error}") from error
        seen: set[str] = set() if self.output is None else {OUTPUT}
        for declared in self.tools:
            if not isinstance(declared, Tool):  # pyright: ignore[reportUnnecessaryIsInstance]  users' modules are not all typed
                raise RegistryError(f"agent {self.name}: {declared!r} is not a Tool; declare it with @tool")
            if declared.name in seen:
                raise RegistryError(f"agent {self.name}: two tools are called {declared.name}")
            seen.add(declared.name)
        for toolset in self.toolsets:
            if not hasattr(toolset, "may_have"):
                raise RegistryError(f"agent {self.name}: {toolset!r} is not a toolset; declare it with mcp()")

    def tool(self, name: str) -> Tool | None:
        """The tool that runs a stored call of that name, if the agent has it. A toolset's is looked up when it
        runs: its server need not be up, nor have been asked by this process yet."""
        declared = self._declared(name)
        if declared is None and any(toolset.may_have(name) for toolset in self.toolsets):
            return Tool(name, "", {"type": "object"}, timeout_s=None, run=self._later(name))
        return declared

    async def is_retry_safe(self, name: str) -> bool:
        """Whether the tool that runs a stored call of that name may be run again. A toolset's says so itself; one whose server is
        down does not."""
        declared = self._declared(name) or await self._listed(name)
        return declared is not None and declared.retry_safe

    async def for_step(self, context: RequestContext) -> AgentStep:
        """The agent as this step's model sees it. Raises what the agent's own instructions function raises."""
        said = self.instructions if isinstance(self.instructions, str) else self.instructions(context)
        tools = {declared.name: declared for declared in self.tools}
        for more in await asyncio.gather(*(toolset.tools() for toolset in self.toolsets)):
            for declared in more:
                tools.setdefault(declared.name, declared)
        text = await said if inspect.isawaitable(said) else said
        if self._output is None:
            return AgentStep(text, self.model, tuple(tools.values()), self.settings)
        judged = Judged(self.model, self._output)
        tools.pop(OUTPUT, None)
        found = {**tools, OUTPUT: judged.tool()}
        return AgentStep(text, judged, tuple(tools.values()), self.settings, find=found.get)

    def _declared(self, name: str) -> Tool | None:
        return next((declared for declared in self.tools if declared.name == name), None)

    async def _listed(self, name: str) -> Tool | None:
        """The tool as its toolset has it now."""
        for toolset in self.toolsets:
            for declared in await toolset.tools() if toolset.may_have(name) else ():
                if declared.name == name:
                    return declared
        return None

    def _later(self, name: str) -> Run:
        async def run(context: ToolContext, arguments: dict[str, Any]) -> Any:
            declared = await self._listed(name)
            if declared is None:
                raise ToolError("The server of this tool cannot be reached.")
            async with asyncio.timeout(declared.timeout_s):
                return await declared.call(context, arguments)

        return run
