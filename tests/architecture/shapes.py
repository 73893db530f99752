"""From the shape of a request to its answer, computed by the code that decides it and not typed.

Each row gives the facts of a request; the answer comes from the tables of ``domain`` and the errors of ``sessions.continuing``.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from structlog.testing import capture_logs

from app.domain.answers import Answer, AnswerKind, Outcome
from app.domain.continuation import CONTINUATION, Posted, Progress, Wire
from app.domain.path import PATH, Ask, Path, Standing
from app.errors import Code, ServiceError
from app.sessions.continuing import check
from app.sessions.submit import Submitted

_PATHS: dict[Path, str] = {
    Path.FRESH: "200: a new message, from its first step",
    Path.NEXT_TURN: "200: a new message, from its first step",
    Path.ABANDON: "200: a new message, from its first step",
    Path.REWIND: "200: a new message, from its first step",
    Path.ATTACH: "200: the live message from its first step, then what follows",
    Path.RETRY: "200: the stored message as it was streamed, with its ending",
    Path.CASE_B: "200, case B",
}
_ERRORS = {Path.BUSY: Code.STATE_RUN_ACTIVE, Path.NOT_FOUND: Code.STATE_SESSION_NOT_FOUND}
_WIRES = {Wire.A: "200, case A", Wire.B: "200, case B"}


@dataclass(frozen=True)
class Shape:
    """One kind of request, in words, and its answer."""

    request: str
    answer: str


def _refused(error: ServiceError) -> str:
    cause = f", cause `{error.cause}`" if error.cause is not None else ""
    calls = ", `toolCallIds`" if error.tool_call_ids else ""
    return f"{error.status} `{error.code}`{cause}{calls}"


def path(ask: Ask, session: Standing) -> str:
    """What a request on this path is answered."""
    found = PATH[ask, session]
    return _PATHS[found] if found in _PATHS else _refused(ServiceError(_ERRORS[found]))


def submitted(outcomes: Iterable[tuple[Outcome, bool]], error: Code | None = None) -> str:
    """What a request with these outcomes (and whether their calls are still pending) is refused with."""
    given = [
        Submitted(
            Answer(f"c{number}", AnswerKind.OUTPUT),
            outcome,
            pending=pending,
            error=ServiceError(error) if outcome is Outcome.REFUSED and error is not None else None,
        )
        for number, (outcome, pending) in enumerate(outcomes)
    ]
    try:
        with capture_logs():
            check(given)
    except ServiceError as refusal:
        return _refused(refusal)
    return "200"


def continued(batch: Progress, at: Posted) -> str:
    """Which of the two 200s carries this continuation."""
    name, wire = CONTINUATION[batch, at]
    return f"{_WIRES[wire]} (`{name}`)"


def shapes() -> list[Shape]:
    stored, completed, failed, refused = (
        Outcome.STORED,
        Outcome.ALREADY_COMPLETED,
        Outcome.FAILED,
        Outcome.REFUSED,
    )
    unknown, stopped, stale, malformed = (
        Outcome.UNKNOWN_TOOL_CALL,
        Outcome.RUN_STOPPED,
        Outcome.STALE_RUN,
        Outcome.MALFORMED_APPROVAL_ID,
    )
    beside = "beside an answer that is stored: "
    return [
        Shape("a user message, first of its chat", path(Ask.NEW, Standing.NONE)),
        Shape("a user message after a turn that is over", path(Ask.NEW, Standing.SETTLED)),
        Shape("a user message while calls wait", path(Ask.NEW, Standing.SUSPENDED)),
        Shape("a user message while a run is running", path(Ask.NEW, Standing.RUNNING)),
        Shape("the live run's own user message again", path(Ask.SAME_LIVE, Standing.RUNNING)),
        Shape("an earlier user message again, as it is stored", path(Ask.SAME_PAST, Standing.SETTLED)),
        Shape("an edited user message, or a regeneration", path(Ask.EDIT, Standing.SETTLED)),
        Shape("an assistant message without answers, nothing running", path(Ask.NOTHING, Standing.SETTLED)),
        Shape(
            "an assistant message without answers while a run is running", path(Ask.NOTHING, Standing.RUNNING)
        ),
        Shape("an assistant message without answers, unknown chat", path(Ask.NOTHING, Standing.NONE)),
        Shape("the last answers of a batch", continued(Progress.CLAIMED, Posted.AT_BATCH)),
        Shape(
            "the last answer while the tree still executes", continued(Progress.EXECUTING, Posted.AT_BATCH)
        ),
        Shape("answers while other calls of the batch wait", continued(Progress.PENDING, Posted.AT_BATCH)),
        Shape(
            "answers again; the run went on and is live; the client shows nothing of it",
            continued(Progress.WENT_ON, Posted.AT_BATCH),
        ),
        Shape("the same, and the client shows more", continued(Progress.WENT_ON, Posted.BEYOND)),
        Shape("answers again; the run is over", continued(Progress.OVER, Posted.AT_BATCH)),
        Shape(
            "answers in a message that is not the live run's", continued(Progress.WENT_ON, Posted.ELSEWHERE)
        ),
        Shape("an answer that does not fit its call", submitted([(refused, True)], Code.VALIDATION_ERROR)),
        Shape("an answer that is too large", submitted([(refused, True)], Code.VALIDATION_PAYLOAD_TOO_LARGE)),
        Shape("a transient fault, nothing stored", submitted([(failed, True)])),
        Shape(
            "a transient fault beside an answer stored before",
            submitted([(failed, True), (completed, False)]),
        ),
        Shape(f"{beside}a transient fault", submitted([(stored, False), (failed, True)])),
        Shape(
            f"{beside}one that names another run, for a call that waits",
            submitted([(stored, False), (stale, True)]),
        ),
        Shape(
            f"{beside}a malformed approval id, for a call that waits",
            submitted([(stored, False), (malformed, True)]),
        ),
        Shape(
            f"{beside}one for a call that does not wait",
            submitted([(stored, False), (unknown, False)]) + ", case A or B with `data-resume-rejected`",
        ),
        Shape(
            "no answer applies: a malformed approval id among them",
            submitted([(unknown, False), (malformed, False)]),
        ),
        Shape(
            "no answer applies: a call of a stopped run among them",
            submitted([(stale, False), (stopped, False)]),
        ),
        Shape(
            "no answer applies: a call of an abandoned run among them",
            submitted([(unknown, False), (stale, False)]),
        ),
        Shape("no answer applies: all calls are unknown", submitted([(unknown, False)])),
    ]


def markdown() -> str:
    rows = [f"| {shape.request} | {shape.answer} |" for shape in shapes()]
    return "\n".join(["| request | answer |", "|---|---|", *rows])
