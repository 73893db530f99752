"""Submit every answer: path 3 of ``POST /chat``, and ``POST /chat/{id}/answers``.

Each answer to a pending call is submitted in its own transaction, in order; one failure never stops the others. An answer to a call
that is over gets its outcome from the facts (over never reverts). ``continuing`` decides from the outcomes, after the last one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from app.errors import Code, ServiceError
from app.log import cause_chain, get_logger
from app.sessions.answer_facts import Seen, SeenBatch, batch_of, facts
from app.sessions.fitness import AnswerLimits, misfit
from app.sessions.leases import Leases
from app.store import calls, sessions
from app.store.faults import Fault, classify
from app.store.transaction import Store, Tx

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Submitted:
    """What became of one answer. ``differs``: it was answered before, with another value. ``fault``: why a submit failed."""

    answer: Answer
    outcome: Outcome
    pending: bool = False
    batch: SeenBatch | None = None
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
        for each in await facts(tx, session_id, answers):
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
            accepted = outcome in (Outcome.STORED, Outcome.ALREADY_COMPLETED)
            batch = await batch_of(tx, found, claimed=claimed is not None) if accepted else None
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
        batch: SeenBatch | None = None
        try:
            async with self._store.transaction() as tx:
                call = (await calls.facts(tx, session_id, [seen.answer.call_id])).get(seen.answer.call_id)
                if call is not None and call.answer == seen.answer.value:
                    batch = await batch_of(tx, call, claimed=False)
        except Exception as again:
            log.debug("submit.outcome_unreadable", causes=cause_chain(again))
        if seen.call is not None:
            # Outside of the transaction, whose context its task would inherit.
            self._adopt(seen.call.root_run)
        if batch is not None:
            return Submitted(seen.answer, Outcome.STORED, batch=batch)
        return Submitted(seen.answer, Outcome.FAILED, pending=True, fault=error)


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
