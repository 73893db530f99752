"""Submit every answer, then decide: path 3 of ``POST /chat``, and ``POST /chat/{id}/answers``.

Each answer to a pending call is submitted in its own transaction, in order; one failure never stops the others. An answer to a call
that is over gets its outcome from the facts (over never reverts). What the request is answered is decided after the last one, from
the outcomes alone: ``domain.chat_answer`` and ``domain.continuation``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from uuid import UUID

from app.domain.answers import (
    PENDING,
    SUBMIT,
    Answer,
    CallFacts,
    Fitness,
    Outcome,
    Standing,
    has_malformed_id,
    standing_of,
)
from app.domain.call_state import ANSWERABLE
from app.domain.chat_answer import CHAT_ANSWER, ChatAnswer, accepted, first_rejection, trouble
from app.domain.continuation import (
    CONTINUATION,
    BatchView,
    Continuation,
    Wire,
    held_in,
    posted,
    progress,
)
from app.domain.turn import Posted as PostedMessage
from app.errors import Code, ServiceError, SubmitRefusalCause
from app.log import cause_chain, get_logger
from app.sessions.fitness import AnswerLimits, misfit
from app.sessions.leases import Leases
from app.sessions.plans import Attach, HarmlessStep, Mode, Plan
from app.store import calls, messages, runs, sessions
from app.store.engine import dumps
from app.store.faults import CorruptRow, Fault, classify
from app.store.transaction import Store, Tx

log = get_logger(__name__)

_REASONS = {
    Outcome.UNKNOWN_TOOL_CALL: "unknown-tool-call",
    Outcome.STALE_RUN: "stale-run",
    Outcome.RUN_STOPPED: "run-stopped",
    Outcome.MALFORMED_APPROVAL_ID: "malformed-approval-id",
}
_CAUSES = {
    Outcome.UNKNOWN_TOOL_CALL: SubmitRefusalCause.UNKNOWN_TOOL_CALL,
    Outcome.STALE_RUN: SubmitRefusalCause.STALE_RUN,
    Outcome.RUN_STOPPED: SubmitRefusalCause.RUN_STOPPED,
}


@dataclass(frozen=True, slots=True)
class Seen:
    """An answer and how its call stood when the request's facts were read. ``batch`` only when the call is over. ``corrupt``: its row
    cannot be read."""

    answer: Answer
    standing: Standing
    call: CallFacts | None
    root_of_message: UUID | None
    batch: "Batch | None" = None
    corrupt: CorruptRow | None = None

    @property
    def is_history(self) -> bool:
        """A part of a call that this session knows as the server's own: what a client shows of it is no answer."""
        return self.call is not None and self.call.kind not in ANSWERABLE


@dataclass(frozen=True, slots=True)
class Batch:
    """The batch of an accepted answer, and the run and message it belongs to."""

    view: BatchView
    run_id: UUID
    message_id: str


@dataclass(frozen=True, slots=True)
class Submitted:
    """What became of one answer. ``differs``: it was answered before, with another value. ``fault``: why a submit failed."""

    answer: Answer
    outcome: Outcome
    pending: bool = False
    batch: Batch | None = None
    error: ServiceError | None = None
    fault: Exception | None = None
    differs: bool = False


class Submitter:
    """``wake(run, epoch)`` drives a run that a submit claimed; ``adopt(run)`` drives it if a lost commit did claim it."""

    def __init__(
        self,
        store: Store,
        leases: Leases,
        limits: AnswerLimits,
        *,
        wake: Callable[[UUID, int], None],
        adopt: Callable[[UUID], None],
    ) -> None:
        self._store = store
        self._leases = leases
        self._limits = limits
        self._wake = wake
        self._adopt = adopt

    async def facts(self, tx: Tx, session_id: UUID | None, answers: Sequence[Answer]) -> list[Seen]:
        """How the calls of these answers stand, read in the request's own facts transaction."""
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
            batch = (
                await _batch(tx, call, claimed=False)
                if standing is Standing.OVER and call is not None
                else None
            )
            seen.append(Seen(answer, standing, call, root, batch))
        return seen

    async def submit_all(self, session_id: UUID | None, seen: Sequence[Seen]) -> list[Submitted]:
        """Submits every answer, in order. Whatever a submit meets becomes its outcome."""
        submitted: list[Submitted] = []
        for each in seen:
            if each.corrupt is not None:
                submitted.append(_refused_for(each.answer, each.corrupt))
                continue
            if session_id is None or each.standing not in PENDING:
                submitted.append(_from_facts(each))
                continue
            try:
                submitted.append(await self._submit(session_id, each))
            except Exception as error:
                submitted.append(await self._after_fault(session_id, each, error))
        return submitted

    async def submit_in(self, tx: Tx, session_id: UUID, answers: Sequence[Answer]) -> None:
        """Takes the answers of the message that is left behind, in the transaction that closes its run, with no claim."""
        for each in await self.facts(tx, session_id, answers):
            if each.call is not None and each.standing in PENDING:
                fitness, _ = await self._fitness(tx, session_id, each.call, each.answer, each.standing)
                if SUBMIT[each.standing, fitness] is Outcome.STORED:
                    await calls.answer(tx, session_id, each.answer.call_id, each.answer.value)

    async def _submit(self, session_id: UUID, seen: Seen) -> Submitted:
        answer = seen.answer
        claimed: tuple[UUID, int] | None = None
        async with self._store.transaction() as tx:
            locked = await sessions.lock_by_id(tx, session_id)
            found = (
                (await calls.facts(tx, session_id, [answer.call_id])).get(answer.call_id) if locked else None
            )
            standing = standing_of(found, answer, seen.root_of_message)
            if found is None:
                return _from_facts(Seen(answer, standing, None, None))
            fitness, error = await self._fitness(tx, session_id, found, answer, standing)
            outcome = SUBMIT[standing, fitness]
            if outcome is Outcome.STORED:
                await calls.answer(tx, session_id, answer.call_id, answer.value)
                await sessions.touch(tx, session_id)
                claimed = await self._leases.claim_complete(tx, found.root_run)
            accepted_ = outcome in (Outcome.STORED, Outcome.ALREADY_COMPLETED)
            batch = await _batch(tx, found, claimed=claimed is not None) if accepted_ else None
        if claimed is not None:
            self._wake(*claimed)
        differs = outcome is Outcome.ALREADY_COMPLETED and found.answer != answer.value
        return Submitted(
            answer, outcome, pending=standing in PENDING, batch=batch, error=error, differs=differs
        )

    async def _fitness(
        self, tx: Tx, session_id: UUID, call: CallFacts, answer: Answer, standing: Standing
    ) -> tuple[Fitness, ServiceError | None]:
        if has_malformed_id(answer):
            return Fitness.MALFORMED_ID, None
        if standing is Standing.WAITS and (error := await misfit(tx, session_id, call, answer, self._limits)):
            return Fitness.MISFIT, error
        return Fitness.FIT, None

    async def _after_fault(self, session_id: UUID, seen: Seen, error: Exception) -> Submitted:
        """A submit raised. Its reply may be all that was lost: that is read again, on a new connection."""
        if classify(error) is Fault.PERMANENT:
            return _refused_for(seen.answer, error)
        batch: Batch | None = None
        try:
            async with self._store.transaction() as tx:
                call = (await calls.facts(tx, session_id, [seen.answer.call_id])).get(seen.answer.call_id)
                if call is not None and call.answer == seen.answer.value:
                    batch = await _batch(tx, call, claimed=False)
        except Exception as again:
            log.debug("submit.outcome_unreadable", causes=cause_chain(again))
        if seen.call is not None:
            self._adopt(
                seen.call.root_run
            )  # outside of the transaction, whose context its task would inherit
        if batch is not None:
            return Submitted(seen.answer, Outcome.STORED, batch=batch)
        return Submitted(seen.answer, Outcome.FAILED, pending=True, fault=error)

    def plan(self, submitted: Sequence[Submitted], continued: PostedMessage) -> Plan:
        """The answer of ``POST /chat``. Raises the typed error of every row that is one."""
        rejected = self.check(submitted)
        newest = newest_batch(submitted)
        of_run = continued.id == newest.message_id
        at = posted(continued.parts, batch=newest.view.calls, is_runs_message=of_run)
        continuation, wire = CONTINUATION[progress(newest.view), at]
        message_id = continued.id or ""
        if wire is Wire.A:
            return Attach(
                newest.run_id,
                message_id,
                Mode.DEFERRED if continuation is Continuation.DEFERRED else Mode.AFTER_BATCH,
                batch=newest.view.calls,
                held=held_in(continued.parts),
                continued=message_id,
                rejected=rejected,
                continuation=continuation,
            )
        differing = tuple(s.answer.call_id for s in submitted if s.differs)
        elsewhere = newest.view.calls if continuation is Continuation.REANCHOR else differing
        return HarmlessStep(
            message_id, rejected, elsewhere, continuation, fingerprint_of([s.answer for s in submitted])
        )

    def check(self, submitted: Sequence[Submitted]) -> tuple[tuple[str, str], ...]:
        """Raises the error that the outcomes ask for; else gives the rejections that ride along."""
        outcomes = [s.outcome for s in submitted]
        stored = Outcome.STORED in outcomes
        match CHAT_ANSWER[trouble([(s.outcome, s.pending) for s in submitted]), accepted(outcomes)]:
            case ChatAnswer.REFUSAL:
                error = next(s.error for s in submitted if s.error is not None)
                error.committed = error.committed or stored
                raise error
            case ChatAnswer.RETRY:
                raise ServiceError(Code.FRAMEWORK_INTERNAL_ERROR) from _first_fault(submitted)
            case ChatAnswer.NOT_STORED:
                raise _not_stored(submitted)
            case ChatAnswer.REJECTED:
                rejection = first_rejection(outcomes)
                if rejection is Outcome.MALFORMED_APPROVAL_ID:
                    raise ServiceError(Code.VALIDATION_ERROR, "a malformed approval id")
                raise ServiceError(Code.STATE_NOT_RESUMABLE, cause=_CAUSES[rejection])
            case ChatAnswer.CONTINUATION:
                return tuple(
                    (s.answer.call_id, _REASONS[s.outcome]) for s in submitted if s.outcome in _REASONS
                )
            case ChatAnswer.IMPOSSIBLE:
                raise RuntimeError("a submit without an answer")


def newest_batch(submitted: Sequence[Submitted]) -> Batch:
    """Only the accepted answers of the newest batch decide; of its views the one that claimed, else the latest."""
    views = [s.batch for s in submitted if s.batch is not None]
    newest = max((batch.run_id, batch.view.batch) for batch in views)
    of_newest = [batch for batch in views if (batch.run_id, batch.view.batch) == newest]
    return next((batch for batch in of_newest if batch.view.claimed), of_newest[-1])


def fingerprint_of(answers: Sequence[Answer]) -> str:
    """One value for the same answers, ids and values, in any order."""
    return sha256(
        "\n".join(sorted(f"{a.call_id} {dumps(dict(a.value))}" for a in answers)).encode()
    ).hexdigest()


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


def _refused_for(answer: Answer, error: Exception) -> Submitted:
    """A permanent store error: a repeat reads the same row."""
    refusal = ServiceError(Code.FRAMEWORK_INTERNAL_ERROR, permanent=True)
    refusal.__cause__ = error
    return Submitted(answer, Outcome.REFUSED, pending=True, error=refusal)


def _from_facts(seen: Seen) -> Submitted:
    fitness = Fitness.MALFORMED_ID if has_malformed_id(seen.answer) else Fitness.FIT
    outcome = SUBMIT[seen.standing, fitness]
    differs = (
        outcome is Outcome.ALREADY_COMPLETED
        and seen.call is not None
        and seen.call.answer != seen.answer.value
    )
    return Submitted(seen.answer, outcome, batch=seen.batch, differs=differs)


async def _batch(tx: Tx, call: CallFacts, *, claimed: bool) -> Batch:
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
    return Batch(view, root.id, root.message or "")


def _first_fault(submitted: Sequence[Submitted]) -> Exception | None:
    return next((s.fault for s in submitted if s.fault is not None), None)


def _not_stored(submitted: Sequence[Submitted]) -> ServiceError:
    """Case C. Each failed submit has its own log line, instead of the request's one."""
    failed = [s for s in submitted if s.outcome is Outcome.FAILED]
    for each in failed:
        log.error(
            "handleResumePath: submit failed (its answer was not stored)",
            call_id=each.answer.call_id,
            code=str(Code.FRAMEWORK_INTERNAL_ERROR),
            causes=cause_chain(each.fault) if each.fault is not None else [],
        )
    open_calls = [
        s.answer.call_id
        for s in submitted
        if s.outcome is Outcome.FAILED or (s.pending and s.outcome in _REASONS)
    ]
    error = ServiceError(
        Code.STATE_NOT_RESUMABLE,
        cause=SubmitRefusalCause.ANSWER_NOT_STORED,
        tool_call_ids=open_calls,
        committed=True,
    )
    error.logged = bool(failed)
    return error
