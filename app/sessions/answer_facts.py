"""How do the calls of a request's answers stand? Read once, in the request's own facts transaction; a submit reads its call again."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from app.domain.answers import Answer, CallFacts, Standing, standing_of
from app.domain.call_state import ANSWERABLE
from app.domain.continuation import BatchView
from app.store import calls, messages, runs
from app.store.faults import CorruptRow
from app.store.transaction import Tx


@dataclass(frozen=True, slots=True)
class SeenBatch:
    """The batch of an accepted answer, and the run and message it belongs to."""

    view: BatchView
    run_id: UUID
    message_id: str


@dataclass(frozen=True, slots=True)
class Seen:
    """An answer and how its call stood when the request's facts were read. ``batch`` only when the call is over. ``corrupt``: its row
    cannot be read."""

    answer: Answer
    standing: Standing
    call: CallFacts | None
    root_of_message: UUID | None
    batch: SeenBatch | None = None
    corrupt: CorruptRow | None = None

    @property
    def is_history(self) -> bool:
        """A part of a call that this session knows as the server's own: what a client shows of it is no answer."""
        return self.call is not None and self.call.kind not in ANSWERABLE


async def facts(tx: Tx, session_id: UUID | None, answers: Sequence[Answer]) -> list[Seen]:
    """How the calls of these answers stand; without a session none of them is known."""
    if session_id is None:
        return [Seen(answer, Standing.ABSENT, None, None) for answer in answers]
    known, unreadable = await _known_calls(tx, session_id, answers)
    roots = await messages.runs_of(tx, session_id, [a.message_id for a in answers if a.message_id])
    seen: list[Seen] = []
    for answer in answers:
        if (corrupt := unreadable.get(answer.call_id)) is not None:
            seen.append(Seen(answer, Standing.WAITS, None, None, corrupt=corrupt))
            continue
        call, root = known.get(answer.call_id), roots.get(answer.message_id or "")
        standing = standing_of(call, answer, root)
        batch: SeenBatch | None = None
        if standing is Standing.OVER and call is not None:
            batch = await batch_of(tx, call, claimed=False)
        seen.append(Seen(answer, standing, call, root, batch))
    return seen


async def _known_calls(
    tx: Tx, session_id: UUID, answers: Sequence[Answer]
) -> tuple[dict[str, CallFacts], dict[str, CorruptRow]]:
    """The calls of these answers, and those whose row cannot be read: one such row poisons one answer only."""
    try:
        return await calls.facts(tx, session_id, [answer.call_id for answer in answers]), {}
    except CorruptRow:
        pass
    known: dict[str, CallFacts] = {}
    unreadable: dict[str, CorruptRow] = {}
    for answer in answers:
        try:
            known |= await calls.facts(tx, session_id, [answer.call_id])
        except CorruptRow as error:
            unreadable[answer.call_id] = error
    return known, unreadable


async def batch_of(tx: Tx, call: CallFacts, *, claimed: bool) -> SeenBatch:
    """The call's batch as it is now. ``claimed``: by the submit that asks."""
    root = await runs.get(tx, call.root_run)
    if root is None:
        raise LookupError("a call without its run")
    view = BatchView(
        batch=call.batch,
        current=root.batch,
        pending=await calls.pending(tx, call.root_run) if call.batch == root.batch else 0,
        root_state=root.state,
        claimed=claimed,
        calls=tuple(await calls.answerable_of_batch(tx, call.root_run, call.batch)),
    )
    return SeenBatch(view, root.id, root.message or "")
