"""What an agent can do: the declaration of a tool, and how one is run.

Three ways to declare one::

    @tool                                                   a plain typed function, run by the server;
                                                            ``@tool(needs_approval=True)`` waits for a yes
    client_tool("get_location", "Where the user is.")       executed by the frontend
    subagent("research", "Looks things up.", "researcher")  answered by a child run of another agent

A tool never takes the server down: whatever it raises becomes a failed result (``run_tool``), with its own
public text if it raised ``ToolError`` and one fixed sentence otherwise. Only the cancellation of the run
itself passes through.
"""

import functools
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict, Unpack, cast, overload

from pydantic import BaseModel

from app.agent.context import RequestContext, ToolContext
from app.agent.daemon_thread import in_thread
from app.agent.model import ToolSpec
from app.agent.plain import plain
from app.agent.tool_input import (
    InputShape,
    InvalidInput,
    from_model,
    from_schema,
    from_signature,
    parsed,
    schema_check,
    summary_of,
)
from app.agent.tool_run import (
    ApprovalRequired,
    Asks,
    CallDeferred,
    ToolError,
    ToolResult,
    asked_again,
    invalid_input,
    run_tool,
    too_large,
    unknown_tool,
)
from app.domain.call_state import CallKind
from app.log import get_logger

__all__ = [
    "ApprovalRequired",
    "Asks",
    "CallDeferred",
    "InvalidInput",
    "Kind",
    "RequestContext",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolResult",
    "asked_again",
    "client_tool",
    "invalid_input",
    "run_tool",
    "subagent",
    "too_large",
    "tool",
    "unknown_tool",
]

log = get_logger(__name__)

Kind = CallKind
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

Predicate = Callable[[Mapping[str, Any]], bool]
InputDeclaration = type[BaseModel] | Mapping[str, Any] | Callable[..., Any]


Run = Callable[[ToolContext, dict[str, Any]], Awaitable[Any]]


@dataclass(frozen=True)
class Tool:
    """A declared tool. ``run`` takes the context and the checked input; client tools and sub-agents
    (``agent``) have none.

    ``timeout_s`` bounds a run of a server tool. ``deadline_s`` bounds the wait for a client tool or an
    approval. ``retry_safe``: may be run again when the server died in the middle of it. ``output_schema``
    judges a client tool's output.

    Raises ``ValueError`` for a declaration that makes no sense."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    client: bool = False
    needs_approval: bool | Predicate = False
    timeout_s: float | None = 60.0
    deadline_s: float | None = None
    retry_safe: bool = False
    output_schema: Mapping[str, Any] | None = None
    agent: str | None = None
    run: Run | None = field(default=None, repr=False)
    shape: InputShape | None = field(default=None, repr=False, compare=False)
    """How the input is read; made from ``input_schema`` when it is not given."""

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ValueError(f"a tool's name is 1 to 64 letters, digits, _ or -, not {self.name!r}")
        elsewhere = self.client or self.agent is not None
        if self.client and self.agent is not None:
            raise ValueError(f"tool {self.name}: a sub-agent does not run in the client")
        if elsewhere and (self.run is not None or self.needs_approval):
            raise ValueError(f"tool {self.name}: only a server tool has a function or needs an approval")
        if not elsewhere and self.run is None:
            raise ValueError(f"tool {self.name}: a server tool needs a function to run")
        if inspect.iscoroutinefunction(self.needs_approval):
            raise ValueError(
                f"tool {self.name}: needs_approval is asked before the step is stored and cannot be async"
            )
        for seconds in (self.timeout_s, self.deadline_s):
            if seconds is not None and seconds <= 0:
                raise ValueError(f"tool {self.name}: timeout_s and deadline_s are positive, or None")
        if self.shape is None:
            object.__setattr__(self, "shape", from_schema(self.input_schema))

    @property
    def spec(self) -> ToolSpec:
        """The tool as the model sees it."""
        return ToolSpec(self.name, self.description, self.input_schema)

    def check(self, raw: object) -> dict[str, Any]:
        """The validated input of a call, plain JSON with defaults applied. ``raw`` is any JSON value, or an
        unparsed text.

        Raises ``InvalidInput``."""
        value = parsed(raw)
        if not isinstance(value, dict):
            raise InvalidInput("The arguments must be a JSON object.")
        return self._shape.check(cast("dict[str, Any]", value))

    def kind_for(self, arguments: Mapping[str, Any]) -> Kind:
        """The kind of a call with this checked input. A predicate that fails asks for the approval."""
        if self.client:
            return Kind.CLIENT
        if self.agent is not None:
            return Kind.SUBAGENT
        if isinstance(self.needs_approval, bool):
            return Kind.APPROVAL if self.needs_approval else Kind.SERVER
        try:
            needed = bool(self.needs_approval(arguments))
        except Exception as error:
            log.warning("tool.predicate_failed", tool=self.name, error=type(error).__name__, exc_info=error)
            needed = True
        return Kind.APPROVAL if needed else Kind.SERVER

    async def call(self, context: ToolContext, arguments: dict[str, Any]) -> Any:
        """Run the function with a checked input and give its output as plain JSON (no output is null).

        Raises whatever the function raises, and ``ValueError`` for an output that JSON cannot say."""
        if self.run is None:
            raise TypeError(f"tool {self.name} has no function")
        return plain(await self.run(context, arguments))

    @property
    def _shape(self) -> InputShape:
        assert self.shape is not None  # noqa: S101
        return self.shape


class Options(TypedDict, total=False):
    """What ``tool`` takes beside the function; see ``Tool``."""

    name: str
    description: str
    needs_approval: bool | Predicate
    client: bool
    timeout_s: float | None
    deadline_s: float | None
    retry_safe: bool
    output_schema: Mapping[str, Any] | None


@overload
def tool(fn: Callable[..., Any], /, **options: Unpack[Options]) -> Tool: ...
@overload
def tool(fn: None = None, /, **options: Unpack[Options]) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    fn: Callable[..., Any] | None = None, /, **options: Unpack[Options]
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """A tool from a plain typed function: its parameters are the schema, its docstring the description.

    A parameter annotated ``ToolContext`` is filled by the server and not shown to the model. A sync function
    runs in a thread of its own. With ``client=True`` only the signature counts. Raises ``TypeError`` for
    parameters that JSON cannot fill."""
    if fn is None:
        return functools.partial(_from_function, options=options)
    return _from_function(fn, options)


def _from_function(fn: Callable[..., Any], options: Options) -> Tool:
    shape, context_name = from_signature(fn, injected=ToolContext)

    async def run(context: ToolContext, stored: dict[str, Any]) -> Any:
        arguments = shape.arguments(stored)
        if context_name is not None:
            arguments[context_name] = context
        if inspect.iscoroutinefunction(fn):
            return await fn(**arguments)
        result = await in_thread(functools.partial(fn, **arguments))
        return await result if inspect.isawaitable(result) else result

    declared: Options = {"name": fn.__name__, "description": summary_of(inspect.getdoc(fn) or ""), **options}
    run_here = None if declared.get("client") else run
    return Tool(input_schema=shape.schema, shape=shape, run=run_here, **declared)


def client_tool(
    name: str,
    description: str,
    input: InputDeclaration | None = None,  # noqa: A002  the word of the declaration
    *,
    output_schema: Mapping[str, Any] | None = None,
    deadline_s: float | None = None,
) -> Tool:
    """A tool the frontend executes. ``input``: a pydantic model, a JSON schema of an object, a typed function
    whose signature counts, or None for no parameters."""
    if output_schema is not None:
        schema_check(output_schema)
    shape = _shape_of(input)
    return Tool(
        name,
        description,
        shape.schema,
        client=True,
        deadline_s=deadline_s,
        output_schema=output_schema,
        shape=shape,
    )


def subagent(name: str, description: str, agent: str, input: InputDeclaration | None = None) -> Tool:  # noqa: A002
    """A tool answered by a child run of the agent registered as ``agent``. The default input is ``{"topic":
    string}``; the child's first user message is the ``topic``, or the whole input as JSON when there is
    none."""
    shape = _shape_of(input if input is not None else _TOPIC)
    return Tool(name, description, shape.schema, agent=agent, shape=shape)


_TOPIC: dict[str, Any] = {
    "type": "object",
    "properties": {"topic": {"type": "string", "minLength": 1}},
    "required": ["topic"],
    "additionalProperties": False,
}


def _shape_of(declared: InputDeclaration | None) -> InputShape:
    if declared is None:
        return from_schema({"type": "object", "properties": {}, "additionalProperties": False})
    if isinstance(declared, Mapping):
        return from_schema(cast("Mapping[str, Any]", declared))
    if inspect.isclass(declared) and issubclass(declared, BaseModel):
        return from_model(declared)
    return from_signature(cast("Callable[..., Any]", declared))[0]
