"""What follows the accepted answers, and does this client see it? (contract: which answers decide)

Only the accepted answers of the newest batch among them decide. Two axes: how far that batch has come (``Progress``) and what the
client that asks already shows of it (``Posted``). The result is the continuation and which of the two 200s carries it: A, the
run's content, or B, a step that ends the client's own.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from app.domain.decision import Table
from app.domain.run_state import LIVE, RunState


class Progress(StrEnum):
    CLAIMED = "claimed"
    """This request stored the last answer of the batch and claimed the run."""
    EXECUTING = "executing"
    """No call of the batch is pending and the tree still executes: it goes on by itself."""
    PENDING = "pending"
    """Other calls of the batch wait for their answers."""
    WENT_ON = "went_on"
    """The batch went on without this request, and its run is live."""
    OVER = "over"
    """The batch went on, and its run is settled."""


class Posted(StrEnum):
    AT_BATCH = "at_batch"
    """The continued message is the run's, and nothing but step starts and data parts follows the step that holds the batch."""
    BEYOND = "beyond"
    """The continued message is the run's, and already holds content after the batch."""
    ELSEWHERE = "elsewhere"
    """The continued message is not the live run's: its frames must not be appended to it."""


class Continuation(StrEnum):
    CALLER_RESUMES = "caller_resumes"
    DEFERRED = "deferred"
    AWAITING_BATCH = "awaiting_batch"
    NEW_RUN = "new_run"
    REANCHOR = "reanchor"
    CONSUMED = "consumed"


class Wire(StrEnum):
    A = "A"
    B = "B"


_C, _W = Continuation, Wire

# fmt: off
CONTINUATION: Table[tuple[Continuation, Wire]] = Table("continuation", {"batch": Progress, "posted": Posted}, {
    (Progress.CLAIMED,   Posted.AT_BATCH):  (_C.CALLER_RESUMES, _W.A),
    (Progress.CLAIMED,   Posted.BEYOND):    (_C.CALLER_RESUMES, _W.A),
    (Progress.CLAIMED,   Posted.ELSEWHERE): (_C.CALLER_RESUMES, _W.B),
    (Progress.EXECUTING, Posted.AT_BATCH):  (_C.DEFERRED,       _W.A),
    (Progress.EXECUTING, Posted.BEYOND):    (_C.DEFERRED,       _W.A),
    (Progress.EXECUTING, Posted.ELSEWHERE): (_C.DEFERRED,       _W.B),
    (Progress.PENDING,   Posted.AT_BATCH):  (_C.AWAITING_BATCH, _W.B),
    (Progress.PENDING,   Posted.BEYOND):    (_C.AWAITING_BATCH, _W.B),
    (Progress.PENDING,   Posted.ELSEWHERE): (_C.AWAITING_BATCH, _W.B),
    (Progress.WENT_ON,   Posted.AT_BATCH):  (_C.NEW_RUN,        _W.A),
    (Progress.WENT_ON,   Posted.BEYOND):    (_C.REANCHOR,       _W.B),
    (Progress.WENT_ON,   Posted.ELSEWHERE): (_C.CONSUMED,       _W.B),
    (Progress.OVER,      Posted.AT_BATCH):  (_C.CONSUMED,       _W.B),
    (Progress.OVER,      Posted.BEYOND):    (_C.CONSUMED,       _W.B),
    (Progress.OVER,      Posted.ELSEWHERE): (_C.CONSUMED,       _W.B),
})
# fmt: on


@dataclass(frozen=True, slots=True)
class BatchView:
    """A batch as a submit saw it, in the submit's own transaction.

    ``current``: the tree's batch number then; a call of a lower number has gone on. ``calls``: the ids of the batch's client and
    approval calls. ``claimed``: this submit claimed the run."""

    batch: int
    current: int
    pending: int
    root_state: RunState
    claimed: bool
    calls: tuple[str, ...]


def progress(view: BatchView) -> Progress:
    if view.claimed:
        return Progress.CLAIMED
    if view.batch < view.current:
        return Progress.WENT_ON if view.root_state in LIVE else Progress.OVER
    if view.root_state not in LIVE:
        return Progress.OVER
    return Progress.PENDING if view.pending else Progress.EXECUTING


def calls_in(parts: Sequence[Any], *, asked: bool = False) -> frozenset[str]:
    """The ids of the calls that a posted message shows; ``asked``: only of those it shows with an approval."""
    held: set[str] = set()
    for part in parts:
        shown = cast("dict[str, Any]", part) if isinstance(part, dict) else {}
        call_id: Any = shown.get("toolCallId")
        if isinstance(call_id, str) and (not asked or "approval" in shown):
            held.add(call_id)
    return frozenset(held)


def posted(parts: Sequence[Any], *, batch: Collection[str], is_runs_message: bool) -> Posted:
    """What the continued message, as posted, shows of the batch whose calls are ``batch``."""
    if not is_runs_message:
        return Posted.ELSEWHERE
    types = [str(part.get("type", "")) if isinstance(part, dict) else "" for part in parts]  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    held = [
        index
        for index, part in enumerate(parts)
        if isinstance(part, dict) and part.get("toolCallId") in batch  # pyright: ignore[reportUnknownMemberType]
    ]
    if not held:
        return Posted.AT_BATCH
    after = types[held[-1] + 1 :]
    if "step-start" not in after:
        return Posted.AT_BATCH
    beyond = after[after.index("step-start") :]
    content = [kind for kind in beyond if kind != "step-start" and not kind.startswith("data-")]
    return Posted.BEYOND if content else Posted.AT_BATCH
