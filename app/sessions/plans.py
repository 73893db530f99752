"""What a use case tells the edge to answer: a stream to attach to, or a harmless step."""

from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID

from app.domain.continuation import Continuation, Held


class Mode(StrEnum):
    FULL = "full"
    """The whole assistant message from its first step, then live to the end."""
    AFTER_BATCH = "after_batch"
    """From the end of the step that holds a batch: the run's continuation, appended to the client's message."""
    DEFERRED = "deferred"
    """From the end of the model response that made the newest answered call, while its step still executes."""


@dataclass(frozen=True, slots=True)
class Attach:
    """Stream a run. ``batch``: the answered batch's calls; ``held``: what the posted message shows already.

    ``continued``: the id of the message that the client appends to (A's prefix repeats it); ``None`` for a new or replayed one.
    ``rejected``: (call, reason) pairs that ride along."""

    run_id: UUID
    message_id: str
    mode: Mode = Mode.FULL
    batch: tuple[str, ...] = ()
    held: Held = field(default_factory=Held)
    continued: str | None = None
    rejected: tuple[tuple[str, str], ...] = ()
    continuation: Continuation | None = None


@dataclass(frozen=True, slots=True)
class HarmlessStep:
    """Case B: a step that ends the client's own and holds no tool part."""

    message_id: str
    rejected: tuple[tuple[str, str], ...] = ()
    elsewhere: tuple[str, ...] = ()
    continuation: Continuation | None = None
    fingerprint: str | None = field(default=None)
    """Of the answers (ids and values), for the breaker; ``None`` when there were none."""


Plan = Attach | HarmlessStep
