"""What follows the accepted answers, and does this client see it? (contract: which answers decide)

Only the accepted answers of the newest batch among them decide. Two axes: how far that batch has come (``Progress``) and what the
client that asks already shows of it (``Posted``). The result is the continuation and which of the two 200s carries it: A, the
run's content, or B, a step that ends the client's own.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, cast

from app.domain.decision import Table
from app.domain.run_state import LIVE, RunState
from app.domain.ui_message import identity


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
    """The continued message is the run's, and only step starts, data parts and sources follow the step that holds the batch."""
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


@dataclass(frozen=True, slots=True)
class Held:
    """What a posted message shows already. ``calls``: their ids, ``asked``: of those it shows with an approval; ``shown``: its data
    and sources, ``identity`` → the part."""

    calls: frozenset[str] = frozenset()
    asked: frozenset[str] = frozenset()
    shown: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict[Any, Any])

    def lacks(self, part: Mapping[str, Any]) -> bool:
        """Whether a stored part is a source that this message does not show, or data that it shows otherwise or not at all."""
        key = identity(part)
        held = self.shown.get(key) if key is not None else None
        return key is not None and (held is None or held.get("data") != part.get("data"))


def held_in(parts: Sequence[Any]) -> Held:
    calls: set[str] = set()
    asked: set[str] = set()
    shown: dict[tuple[str, str], Mapping[str, Any]] = {}
    for part in parts:
        fields = cast("dict[str, Any]", part) if isinstance(part, dict) else {}
        if isinstance(call_id := fields.get("toolCallId"), str):
            calls.add(call_id)
            if "approval" in fields:
                asked.add(call_id)
        if isinstance(fields.get("type"), str) and (key := identity(fields)) is not None:
            shown[key] = fields
    return Held(frozenset(calls), frozenset(asked), shown)


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
    content = [kind for kind in beyond if kind != "step-start" and not kind.startswith(("data-", "source-"))]
    return Posted.BEYOND if content else Posted.AT_BATCH
