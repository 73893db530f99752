"""What one result does a call get, and how is it shown?

Every call of a tree gets exactly one result: by its tool, by its answer at the drain, or by the server when its run ends.
``shown`` is the one classification behind the live frame and the stored part, so a failed tool renders the same live and reloaded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.domain import frames
from app.domain.call_state import CLOSED, CallKind, CallState, CloseCode, Outcome
from app.domain.frames import Chunk
from app.domain.ui_message import MessageFold

_CLOSE_CODES = frozenset(CloseCode)


@dataclass(frozen=True, slots=True)
class Result:
    """``value``: the output for ``ok``, else the text that the model may read (for ``denied`` the reason, or empty). ``public``: the
    text that the user reads instead of ``value``.

    ``error_code`` stays in the row and the log; a ``CloseCode`` means that the server itself gave the result."""

    outcome: Outcome
    value: Any
    error_code: str | None = None
    public: str | None = None


def closed(code: CloseCode) -> Result:
    outcome, text = CLOSED[code]
    return Result(outcome, text, code)


def of_answer(kind: CallKind, answer: Mapping[str, Any], error_code: str | None) -> Result | None:
    """The result that an answer is; ``None`` for a granted approval, whose tool has yet to run."""
    if error_code == CloseCode.TIMEOUT:
        return closed(CloseCode.TIMEOUT)
    if kind is CallKind.APPROVAL:
        return (
            None
            if answer.get("approved") is True
            else Result(Outcome.DENIED, answer.get("reason", ""), "denied")
        )
    if "errorText" in answer:
        return Result(Outcome.ERROR, answer["errorText"], "client_tool_error")
    return Result(Outcome.OK, answer.get("output"))


def at_the_end(
    kind: CallKind,
    state: CallState,
    answer: Mapping[str, Any] | None,
    error_code: str | None,
    *,
    code: CloseCode,
    started: CloseCode,
) -> Result:
    """The result of a call that has none when its run ends. An answer already stored keeps its value; a granted approval that has
    not begun never begins. ``started``: what a tool that runs right now is told."""
    if state is CallState.ANSWERED and answer is not None:
        return of_answer(kind, answer, error_code) or closed(code)
    # A child run is no tool: its own calls tell.
    runs_now = state is CallState.STARTED and kind is not CallKind.SUBAGENT
    return closed(started if runs_now else code)


def shown(kind: CallKind, call_id: str, tool: str, input_: Any, result: Result) -> list[Chunk]:
    """The frames that show a result. A sub-agent's call is shown only now, input and result together."""
    mine = kind is CallKind.CLIENT and result.error_code not in _CLOSE_CODES
    flag = None if mine else True
    chunks: list[Chunk] = []
    if kind is CallKind.SUBAGENT:
        chunks.append(frames.tool_input_available(call_id, tool, input_, flagged=True))
    match result.outcome:
        case Outcome.OK:
            chunks.append(frames.tool_output_available(call_id, result.value, flagged=flag))
        case Outcome.DENIED:
            chunks.append(frames.tool_output_denied(call_id))
        case _:
            chunks.append(frames.tool_output_error(call_id, result.public or str(result.value), flagged=flag))
    return chunks


def fold_result(
    fold: MessageFold, call_id: str, chunks: Sequence[Chunk], answer: Mapping[str, Any] | None, result: Result
) -> None:
    """Writes a result into the message: its frames, and what no frame can say."""
    for chunk in chunks:
        fold.apply(chunk)
    if result.error_code in _CLOSE_CODES:
        fold.close(call_id, str(result.value))
    elif (
        answer is not None
        and "approved" in answer
        and (part := fold.call(call_id)) is not None
        and "approval" in part
    ):
        part["approval"] = {**part["approval"], **answer}


def to_model(call_id: str, tool: str, result: Result) -> dict[str, Any]:
    """A result of a ``tool`` history entry."""
    return {"id": call_id, "tool": tool, "outcome": str(result.outcome), "value": result.value}
