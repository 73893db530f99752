"""A stored message as frames, so that a client that folds them holds what the message holds.

Settled calls come as input and result together, their input flagged: no app runs them again (a client's own output then clears the
flag). Pending calls come as they were announced.
"""

from collections.abc import Collection, Iterator, Sequence

from app.domain import frames
from app.domain.frames import Chunk
from app.domain.ui_message import Part, laid_over
from app.sessions.view import RunView


def is_call(part: Part) -> bool:
    return part["type"].startswith("tool-")


def replay(view: RunView, first: int = 0) -> Iterator[Chunk]:
    """The frames of ``view.parts[first:]``, steps included. The last step is left as ``view.step_open`` says."""
    in_step = False
    for index in range(first, len(view.parts)):
        part = view.parts[index]
        if part["type"] == "step-start":
            if in_step:
                yield frames.FINISH_STEP
            in_step = True
            yield frames.START_STEP
        else:
            yield from replay_part(view, part, f"r{index}")
    if in_step and not view.step_open:
        yield frames.FINISH_STEP


def replay_part(view: RunView, part: Part, part_id: str) -> Iterator[Chunk]:
    kind: str = part["type"]
    if kind == "text" and part["text"]:
        yield from (
            frames.text_start(part_id),
            frames.text_delta(part_id, part["text"]),
            frames.text_end(part_id),
        )
    elif kind == "reasoning":
        start, end = frames.reasoning_start(part_id), frames.reasoning_end(part_id)
        if "providerMetadata" in part:
            start = {**start, "providerMetadata": part["providerMetadata"]}
        yield from (start, frames.reasoning_delta(part_id, part["text"]), end)
    elif kind == "file":
        yield frames.file(part["mediaType"], part["url"])
    elif kind.startswith(("source-", "data-")):
        yield dict(part)
    elif is_call(part):
        yield from _call(view, laid_over(part, view.answered))


def _call(view: RunView, part: Part) -> Iterator[Chunk]:
    call_id, tool, state = part["toolCallId"], part["type"].removeprefix("tool-"), part["state"]
    input_ = part.get("input", {})
    asked = part.get("approval", {}).get("id")
    match state:
        case "output-available" | "output-error":
            yield frames.tool_input_available(call_id, tool, input_, flagged=True)
            yield from result_of(part, replayed=True)
        case "output-denied":
            yield frames.tool_input_available(call_id, tool, input_)
            yield frames.tool_approval_request(call_id, asked)
            yield frames.tool_output_denied(call_id)
        case "approval-requested" | "approval-responded":
            yield frames.tool_input_available(call_id, tool, input_)
            denied = part["approval"].get("approved") is False
            if state == "approval-requested" or not view.batch_complete or denied:
                yield frames.tool_approval_request(call_id, asked)
            if state == "approval-responded" and view.batch_complete and denied:
                yield frames.tool_output_denied(call_id)
        case _:
            yield frames.tool_input_available(call_id, tool, input_)


def result_of(part: Part, *, replayed: bool) -> Iterator[Chunk]:
    """The frame of a settled part's result. ``replayed``: its input was flagged, so a client's own result clears the flag."""
    call_id = part["toolCallId"]
    flag = True if part.get("providerExecuted") else (False if replayed else None)
    match part["state"]:
        case "output-available":
            yield frames.tool_output_available(call_id, part["output"], flagged=flag)
        case "output-error":
            yield frames.tool_output_error(call_id, part["errorText"], flagged=flag)
        case "output-denied":
            yield frames.tool_output_denied(call_id)
        case _:
            pass


def steps_after(parts: Sequence[Part], calls: Collection[str]) -> tuple[int, int]:
    """(first, next): the part range of the step that holds the last of these calls; ``next`` is where the following step starts,
    or the length. Both are the length when no part is one of the calls."""
    held = [i for i, part in enumerate(parts) if part.get("toolCallId") in calls]
    if not held:
        return len(parts), len(parts)
    starts = [i for i, part in enumerate(parts) if part["type"] == "step-start"]
    first = max((i for i in starts if i < held[-1]), default=0)
    return first, min((i for i in starts if i > held[-1]), default=len(parts))
