"""What is a request answered whose answers were submitted? From their outcomes alone, by ``chat_answer`` and ``continuation`` of the
domain: a typed error, a stream to attach to, or a harmless step.
"""

from collections.abc import Sequence
from hashlib import sha256

from app.domain.answers import Answer, Outcome
from app.domain.chat_answer import CHAT_ANSWER, ChatAnswer, accepted, first_rejection, trouble
from app.domain.continuation import CONTINUATION, Continuation, Wire, held_in, posted, progress
from app.domain.turn import Posted
from app.errors import Code, ServiceError, SubmitRefusalCause
from app.log import cause_chain, get_logger
from app.sessions.answer_facts import SeenBatch
from app.sessions.plans import Attach, HarmlessStep, Mode, Plan
from app.sessions.submit import Submitted
from app.store.engine import dumps

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


def plan(submitted: Sequence[Submitted], continued: Posted) -> Plan:
    """The answer of ``POST /chat``. Raises the typed error of every row that is one."""
    rejected = check(submitted)
    newest = _newest_batch(submitted)
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
        message_id, rejected, elsewhere, continuation, _fingerprint_of([s.answer for s in submitted])
    )


def check(submitted: Sequence[Submitted]) -> tuple[tuple[str, str], ...]:
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
            return tuple((s.answer.call_id, _REASONS[s.outcome]) for s in submitted if s.outcome in _REASONS)
        case ChatAnswer.IMPOSSIBLE:
            raise RuntimeError("a submit without an answer")


def _newest_batch(submitted: Sequence[Submitted]) -> SeenBatch:
    """Only the accepted answers of the newest batch decide; of its views the one that claimed, else the latest."""
    views = [s.batch for s in submitted if s.batch is not None]
    newest = max((batch.run_id, batch.view.batch) for batch in views)
    of_newest = [batch for batch in views if (batch.run_id, batch.view.batch) == newest]
    return next((batch for batch in of_newest if batch.view.claimed), of_newest[-1])


def _fingerprint_of(answers: Sequence[Answer]) -> str:
    """One value for the same answers, ids and values, in any order."""
    lines = sorted(f"{a.call_id} {dumps(dict(a.value))}" for a in answers)
    return sha256("\n".join(lines).encode()).hexdigest()


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
