"""A ``pydantic_ai.Agent`` of one's own, registered as it is: what the registry is told of it.

Needs nothing of the library: an agent is recognised by its class, and served by ``pydantic_ai_agent``, which is
imported only when there is one.
"""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from app.agent.context import RequestContext
from app.agent.declaration import Limits

Deps = Callable[[RequestContext], Any | Awaitable[Any]]


@dataclass(frozen=True)
class Own:
    """See ``own``."""

    agent: Any
    name: str | None = None
    deps: Deps | None = None
    limits: Limits = field(default_factory=Limits)
    timeout_s: float | None = 60.0
    deadline_s: float | None = None
    retry_safe: Collection[str] = ()
    usage_metadata: bool = False


def own(
    agent: Any,
    *,
    name: str | None = None,
    deps: Deps | None = None,
    limits: Limits | None = None,
    timeout_s: float | None = 60.0,
    deadline_s: float | None = None,
    retry_safe: Collection[str] = (),
    usage_metadata: bool = False,
) -> Own:
    """``agent``, a ``pydantic_ai.Agent``, with what it cannot say itself.

    ``deps`` makes the agent's dependencies (async too) from the request's context, anew for each model request and
    for each tool call. ``timeout_s`` bounds a run of a tool that has no timeout of its own; ``deadline_s`` the wait
    for an approval or an external tool; ``retry_safe`` names the tools that may be run again when the server died
    in the middle of them; ``usage_metadata`` is that of ``Agent``."""
    return Own(agent, name, deps, limits or Limits(), timeout_s, deadline_s, retry_safe, usage_metadata)


def is_pydantic_ai_agent(found: object) -> bool:
    """Whether it is an agent of the library, which is not imported for the question."""
    return any(
        kind.__module__.startswith("pydantic_ai.agent") and kind.__name__ == "AbstractAgent"
        for kind in type(found).__mro__
    )
