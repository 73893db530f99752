"""What frames make of a message: what the stock client makes of them, written by hand."""

from typing import Any

import pytest

from app.domain import frames
from app.domain.frames import Chunk
from app.domain.ui_message import MessageFold, Part

STEP: Part = {"type": "step-start"}
OPEN, CLOSE = frames.START_STEP, frames.FINISH_STEP


def text(part_id: str, *deltas: str) -> list[Chunk]:
    return [
        frames.text_start(part_id),
        *(frames.text_delta(part_id, d) for d in deltas),
        frames.text_end(part_id),
    ]


def folded(*chunks: Chunk) -> list[Part]:
    fold = MessageFold()
    for chunk in chunks:
        fold.apply(chunk)
    return fold.stored()


def call(state: str, **more: Any) -> Part:
    return {"type": "tool-pick", "toolCallId": "c1", "state": state, "input": {"n": 1}, **more}


ASKED = frames.tool_input_available("c1", "pick", {"n": 1})
FLAGGED = frames.tool_input_available("c1", "pick", {"n": 1}, flagged=True)

EXAMPLES: dict[str, tuple[list[Chunk], list[Part]]] = {
    "an empty step": ([OPEN, CLOSE], [STEP]),
    "starts, ends and finished steps leave nothing": (
        [frames.start("a1"), OPEN, frames.start("a1"), CLOSE, frames.FINISH],
        [STEP],
    ),
    "a text is its deltas": (
        [OPEN, *text("t", "Hel", "lo"), CLOSE],
        [STEP, {"type": "text", "text": "Hello", "state": "done"}],
    ),
    "texts that are open at once stand in the order of their starts": (
        [
            OPEN,
            frames.text_start("1"),
            frames.text_start("2"),
            frames.text_delta("2", "b"),
            frames.text_delta("1", "a"),
            frames.text_end("2"),
            frames.text_end("1"),
        ],
        [
            STEP,
            {"type": "text", "text": "a", "state": "done"},
            {"type": "text", "text": "b", "state": "done"},
        ],
    ),
    "reasoning stands beside text": (
        [
            OPEN,
            frames.reasoning_start("1"),
            frames.reasoning_delta("1", "hm"),
            frames.reasoning_end("1"),
            *text("1", "x"),
        ],
        [
            STEP,
            {"type": "reasoning", "text": "hm", "state": "done"},
            {"type": "text", "text": "x", "state": "done"},
        ],
    ),
    "a part's metadata of its provider is kept": (
        [
            OPEN,
            {**frames.reasoning_start("1"), "providerMetadata": {"p": {"sig": "s"}}},
            frames.reasoning_delta("1", "hm"),
            frames.reasoning_end("1"),
        ],
        [STEP, {"type": "reasoning", "text": "hm", "state": "done", "providerMetadata": {"p": {"sig": "s"}}}],
    ),
    "a call that waits": ([OPEN, ASKED], [STEP, call("input-available")]),
    "a call whose input was streamed": (
        [OPEN, frames.tool_input_start("c1", "pick"), frames.tool_input_delta("c1", '{"n":'), ASKED],
        [STEP, call("input-available")],
    ),
    "a null input is an input": (
        [OPEN, frames.tool_input_available("c1", "pick", None)],
        [STEP, call("input-available", input=None)],
    ),
    "a server tool's output is flagged": (
        [OPEN, ASKED, frames.tool_output_available("c1", {"r": 2}, flagged=True)],
        [STEP, call("output-available", output={"r": 2}, providerExecuted=True)],
    ),
    "a client's output is not": (
        [OPEN, ASKED, frames.tool_output_available("c1", "Oslo")],
        [STEP, call("output-available", output="Oslo")],
    ),
    "a null output is an output": (
        [OPEN, ASKED, frames.tool_output_available("c1", None)],
        [STEP, call("output-available", output=None)],
    ),
    "the flag of an input stays": (
        [OPEN, FLAGGED, frames.tool_output_available("c1", 1)],
        [STEP, call("output-available", output=1, providerExecuted=True)],
    ),
    "an output that says false clears the flag of its input": (
        [OPEN, FLAGGED, frames.tool_output_available("c1", 1, flagged=False)],
        [STEP, call("output-available", output=1)],
    ),
    "a failed tool": (
        [OPEN, ASKED, frames.tool_output_error("c1", "The tool failed.", flagged=True)],
        [STEP, call("output-error", errorText="The tool failed.", providerExecuted=True)],
    ),
    "an approval that waits is not flagged": (
        [OPEN, ASKED, frames.tool_approval_request("c1", "apr")],
        [STEP, call("approval-requested", approval={"id": "apr"})],
    ),
    "an approved tool's output keeps the approval": (
        [
            OPEN,
            ASKED,
            frames.tool_approval_request("c1", "apr"),
            CLOSE,
            OPEN,
            frames.tool_output_available("c1", 1, flagged=True),
        ],
        [STEP, call("output-available", output=1, approval={"id": "apr"}, providerExecuted=True), STEP],
    ),
    "a denied call": (
        [
            OPEN,
            ASKED,
            frames.tool_approval_request("c1", "apr"),
            CLOSE,
            OPEN,
            frames.tool_output_denied("c1"),
        ],
        [STEP, call("output-denied", approval={"id": "apr"}), STEP],
    ),
    "an output finds its call in an earlier step": (
        [OPEN, ASKED, CLOSE, OPEN, frames.tool_output_available("c1", 1), *text("t", "x")],
        [STEP, call("output-available", output=1), STEP, {"type": "text", "text": "x", "state": "done"}],
    ),
    "a later output overwrites an earlier one": (
        [
            OPEN,
            ASKED,
            frames.tool_output_available("c1", "client"),
            frames.tool_output_available("c1", "server"),
        ],
        [STEP, call("output-available", output="server")],
    ),
    "a file": (
        [OPEN, frames.file("image/png", "data:,x")],
        [STEP, {"type": "file", "mediaType": "image/png", "url": "data:,x"}],
    ),
    "a source": (
        [OPEN, {"type": "source-url", "sourceId": "s1", "url": "https://a.example", "title": "A"}],
        [STEP, {"type": "source-url", "sourceId": "s1", "url": "https://a.example", "title": "A"}],
    ),
    "data without an id is appended": (
        [OPEN, frames.data("note", 1), frames.data("note", 2)],
        [STEP, {"type": "data-note", "data": 1}, {"type": "data-note", "data": 2}],
    ),
    "data with an id is updated in place": (
        [
            OPEN,
            frames.data("note", 1, part_id="n"),
            frames.data("note", 2),
            frames.data("note", 3, part_id="n"),
        ],
        [STEP, {"type": "data-note", "data": 3, "id": "n"}, {"type": "data-note", "data": 2}],
    ),
    "data of another name with the same id is another part": (
        [OPEN, frames.data("note", 1, part_id="n"), frames.data("mark", 2, part_id="n")],
        [STEP, {"type": "data-note", "data": 1, "id": "n"}, {"type": "data-mark", "data": 2, "id": "n"}],
    ),
    "transient data leaves nothing": ([OPEN, frames.data("note", 1, transient=True)], [STEP]),
}


@pytest.mark.parametrize(("chunks", "parts"), EXAMPLES.values(), ids=EXAMPLES.keys())
def test_frames_become_parts(chunks: list[Chunk], parts: list[Part]) -> None:
    assert folded(*chunks) == parts


@pytest.mark.parametrize(("chunks", "parts"), EXAMPLES.values(), ids=EXAMPLES.keys())
def test_a_message_that_is_stored_in_between_goes_on_the_same(chunks: list[Chunk], parts: list[Part]) -> None:
    fold = MessageFold()
    for chunk in chunks:
        if chunk["type"] == "start-step":  # where another owner may take over
            fold = MessageFold(fold.stored(), fold.metadata)
        fold.apply(chunk)
    assert fold.stored() == parts


# --- what is stored -----------------------------------------------------------------------------------------------------


def test_an_open_text_is_stored_as_done() -> None:
    assert folded(OPEN, frames.text_start("t"), frames.text_delta("t", "half")) == [
        STEP,
        {"type": "text", "text": "half", "state": "done"},
    ]


def test_a_half_streamed_input_is_not_stored() -> None:
    assert folded(OPEN, frames.tool_input_start("c1", "pick"), frames.tool_input_delta("c1", "{")) == [STEP]


def test_what_was_stored_does_not_change_with_later_frames() -> None:
    fold = MessageFold()
    for chunk in (OPEN, frames.text_start("t"), frames.text_delta("t", "a")):
        fold.apply(chunk)
    stored = fold.stored()
    fold.apply(frames.text_delta("t", "b"))
    assert stored[1]["text"] == "a"


def test_metadata_is_kept_beside_the_parts() -> None:
    fold = MessageFold(metadata={"a": 1, "b": 1})
    fold.apply(frames.message_metadata({"b": 2}))
    assert fold.metadata == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    "chunk",
    [
        frames.text_delta("t", "x"),
        frames.text_end("t"),
        frames.tool_output_available("c1", 1),
        frames.tool_output_error("c1", "x"),
        frames.tool_output_denied("c1"),
        frames.tool_approval_request("c1", "apr"),
    ],
)
def test_a_frame_of_a_part_that_is_not_there_is_an_emitters_bug(chunk: Chunk) -> None:
    fold = MessageFold()
    fold.apply(OPEN)
    with pytest.raises(LookupError):
        fold.apply(chunk)


def test_a_step_in_which_nothing_was_said_is_taken_back() -> None:
    fold = MessageFold([STEP, call("input-available"), STEP, STEP])
    fold.trim()
    assert fold.stored() == [STEP, call("input-available")]
