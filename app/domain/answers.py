"""What was answered, and what becomes of one answer? (contract: submit every answer, then decide)

``answers_in`` finds the answers in a posted assistant message. ``SUBMIT`` decides the outcome of one of them from two classifiers:
how its call stands (``Standing``) and whether the answer fits it as sent (``Fitness``). State comes before fitness: a call that is
over is never validated again.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, cast
from uuid import UUID

from app.domain.call_state import ANSWERABLE, CallKind, CallState, CloseCode
from app.domain.decision import Table
from app.domain.run_state import RunState

_APPROVAL_ID = re.compile(r"apr_([0-9a-f]{32})_([0-9a-f]{32})")


def approval_id(root_run: UUID, unique: UUID) -> str:
    """An approval id: it carries the root run that waits for it. It is looked up, never trusted."""
    return f"apr_{root_run.hex}_{unique.hex}"


def run_of_approval(value: object) -> UUID | None:
    """The root run an approval id names; ``None`` when it is not in our format."""
    match = _APPROVAL_ID.fullmatch(value) if isinstance(value, str) else None
    return UUID(match[1]) if match else None


class AnswerKind(StrEnum):
    OUTPUT = "output"
    ERROR = "error"
    APPROVAL = "approval"


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer as posted. ``message_id``: the posted message that held it, if one did.

    ``value`` is what is stored: ``{"output"}``, ``{"errorText"}`` or ``{"approved", "reason"?}``; unchecked until it is judged."""

    call_id: str
    kind: AnswerKind
    value: Mapping[str, Any] = field(default_factory=dict[str, Any])
    approval_id: object = None
    message_id: str | None = None


def answers_in(message_id: str, parts: Sequence[Any]) -> Iterator[Answer]:
    """The answers in the parts of one assistant message, the whole message, in order.

    Outputs flagged ``providerExecuted`` and half-streamed inputs are history, not answers."""
    for part in parts:
        if not isinstance(part, Mapping):
            continue
        if (answer := _answer_in(part, message_id)) is not None:  # pyright: ignore[reportUnknownArgumentType]
            yield answer


def _answer_in(part: Mapping[str, Any], message_id: str) -> Answer | None:
    kind, call_id = part.get("type"), part.get("toolCallId")
    if not isinstance(kind, str) or not isinstance(call_id, str) or not call_id:
        return None
    if not (kind.startswith("tool-") or kind == "dynamic-tool"):
        return None
    match part.get("state"):
        case "output-available" | "output-error" if part.get("providerExecuted") is True:
            return None
        case "output-available":
            return Answer(call_id, AnswerKind.OUTPUT, {"output": part.get("output")}, message_id=message_id)
        case "output-error":
            return Answer(
                call_id, AnswerKind.ERROR, {"errorText": part.get("errorText")}, message_id=message_id
            )
        case "approval-responded":
            approval: Any = part.get("approval")
            given = cast("Mapping[str, Any]", approval if isinstance(approval, Mapping) else {})
            return approval_answer(
                call_id, given.get("id"), given.get("approved"), given.get("reason"), message_id=message_id
            )
        case _:
            return None


def approval_answer(
    call_id: str, approval: object, approved: object, reason: object, *, message_id: str | None = None
) -> Answer:
    value: dict[str, Any] = {"approved": approved}
    if isinstance(reason, str) and reason:
        value["reason"] = reason
    return Answer(call_id, AnswerKind.APPROVAL, value, approval_id=approval, message_id=message_id)


def first_of_each_call(answers: Iterator[Answer] | Sequence[Answer]) -> tuple[Answer, ...]:
    """Two answers for one call: the first counts."""
    kept: dict[str, Answer] = {}
    for answer in answers:
        kept.setdefault(answer.call_id, answer)
    return tuple(kept.values())


@dataclass(frozen=True, slots=True)
class CallFacts:
    """A call's row and its root run, as far as a submit looks at them."""

    call_id: str
    root_run: UUID
    kind: CallKind
    state: CallState
    approval_id: str | None
    drained: bool
    answer: Mapping[str, Any] | None
    error_code: str | None
    root_state: RunState
    stop_requested: bool
    batch: int


class Standing(StrEnum):
    """How the call of an answer stands. The first that applies, in this order."""

    ABSENT = "absent"
    """No row: never known, or its retention ended."""
    NOT_ANSWERABLE = "not_answerable"
    """A server or sub-agent call, or one that was closed because its run failed."""
    RUN_STOPPED = "run_stopped"
    """Not drained, and its run was stopped, or a stop is recorded."""
    SUPERSEDED = "superseded"
    """Not drained, and its run gave way to a newer one."""
    OVER = "over"
    """It has an answer (a client's, or its deadline's), or is drained."""
    WAITS_ELSEWHERE = "waits_elsewhere"
    """Pending, but the answer names another root run than the one that waits."""
    WAITS = "waits"
    """Pending, and the answer is meant for it."""


class Fitness(StrEnum):
    """Whether the answer fits the call as it was sent."""

    FIT = "fit"
    MALFORMED_ID = "malformed_id"
    """An approval answer whose id does not have our format."""
    MISFIT = "misfit"
    """Over a limit, of the wrong kind, or refused by the tool's schema: a repeat cannot succeed."""


class Outcome(StrEnum):
    STORED = "stored"
    ALREADY_COMPLETED = "already_completed"
    UNKNOWN_TOOL_CALL = "unknown_tool_call"
    RUN_STOPPED = "run_stopped"
    STALE_RUN = "stale_run"
    MALFORMED_APPROVAL_ID = "malformed_approval_id"
    REFUSED = "refused"
    FAILED = "failed"
    """A transient fault struck the submit: nothing is stored for it. No row of the table: an exception is its cause."""


# fmt: off
SUBMIT: Table[Outcome] = Table("submit", {"call": Standing, "answer": Fitness}, {
    (Standing.ABSENT,          Fitness.FIT):          Outcome.UNKNOWN_TOOL_CALL,
    (Standing.ABSENT,          Fitness.MALFORMED_ID): Outcome.MALFORMED_APPROVAL_ID,
    (Standing.ABSENT,          Fitness.MISFIT):       Outcome.UNKNOWN_TOOL_CALL,
    (Standing.NOT_ANSWERABLE,  Fitness.FIT):          Outcome.UNKNOWN_TOOL_CALL,
    (Standing.NOT_ANSWERABLE,  Fitness.MALFORMED_ID): Outcome.UNKNOWN_TOOL_CALL,
    (Standing.NOT_ANSWERABLE,  Fitness.MISFIT):       Outcome.UNKNOWN_TOOL_CALL,
    (Standing.RUN_STOPPED,     Fitness.FIT):          Outcome.RUN_STOPPED,
    (Standing.RUN_STOPPED,     Fitness.MALFORMED_ID): Outcome.RUN_STOPPED,
    (Standing.RUN_STOPPED,     Fitness.MISFIT):       Outcome.RUN_STOPPED,
    (Standing.SUPERSEDED,      Fitness.FIT):          Outcome.STALE_RUN,
    (Standing.SUPERSEDED,      Fitness.MALFORMED_ID): Outcome.STALE_RUN,
    (Standing.SUPERSEDED,      Fitness.MISFIT):       Outcome.STALE_RUN,
    (Standing.OVER,            Fitness.FIT):          Outcome.ALREADY_COMPLETED,
    (Standing.OVER,            Fitness.MALFORMED_ID): Outcome.ALREADY_COMPLETED,
    (Standing.OVER,            Fitness.MISFIT):       Outcome.ALREADY_COMPLETED,
    (Standing.WAITS_ELSEWHERE, Fitness.FIT):          Outcome.STALE_RUN,
    (Standing.WAITS_ELSEWHERE, Fitness.MALFORMED_ID): Outcome.MALFORMED_APPROVAL_ID,
    (Standing.WAITS_ELSEWHERE, Fitness.MISFIT):       Outcome.STALE_RUN,
    (Standing.WAITS,           Fitness.FIT):          Outcome.STORED,
    (Standing.WAITS,           Fitness.MALFORMED_ID): Outcome.MALFORMED_APPROVAL_ID,
    (Standing.WAITS,           Fitness.MISFIT):       Outcome.REFUSED,
})
# fmt: on

PENDING = frozenset({Standing.WAITS, Standing.WAITS_ELSEWHERE})


def standing_of(call: CallFacts | None, answer: Answer, root_of_message: UUID | None) -> Standing:
    """How the call stands. ``root_of_message``: the root run this session knows the answer's message by, if it does."""
    if call is None:
        return Standing.ABSENT
    if call.kind not in ANSWERABLE or (call.error_code == CloseCode.RUN_FAILED and not call.drained):
        return Standing.NOT_ANSWERABLE
    if not call.drained and (call.root_state is RunState.STOPPED or call.stop_requested):
        return Standing.RUN_STOPPED
    if not call.drained and call.root_state is RunState.SUPERSEDED:
        return Standing.SUPERSEDED
    if call.drained or call.state is not CallState.PENDING:
        return Standing.OVER
    named = {run for run in (run_of_approval(answer.approval_id), root_of_message) if run is not None}
    return Standing.WAITS if named <= {call.root_run} else Standing.WAITS_ELSEWHERE


def has_malformed_id(answer: Answer) -> bool:
    return answer.kind is AnswerKind.APPROVAL and run_of_approval(answer.approval_id) is None


def kind_misfit(call: CallFacts, answer: Answer) -> str | None:
    """Why a pending call cannot take this kind of answer, in words for the log; ``None`` when it can."""
    if answer.kind is AnswerKind.APPROVAL:
        if call.kind is not CallKind.APPROVAL:
            return "an approval for a client call"
        if answer.approval_id != call.approval_id:
            return "an approval id of this run that is not this call's"
        if not isinstance(answer.value.get("approved"), bool):
            return "approved is not a boolean"
        return None
    if call.kind is CallKind.APPROVAL:
        return "an output for an approval call"
    if answer.kind is AnswerKind.ERROR and not isinstance(answer.value.get("errorText"), str):
        return "errorText is not a string"
    return None
