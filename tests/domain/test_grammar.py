"""What may follow what in a stream, how it is closed early, and when an end needs a boundary of its own."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain import frames
from app.domain.frames import ABORT, FINISH, FINISH_STEP, START_STEP, Chunk
from app.domain.grammar import FOLLOWS, GrammarError, Place, StreamState

START = frames.start("a1")
TEXT = [frames.text_start("t"), frames.text_delta("t", "x"), frames.text_end("t")]
CALL = frames.tool_input_available("c1", "pick", {})
ANSWER = frames.tool_output_available("c1", 1)
SERVER_RESULT = frames.tool_output_available("c1", 1, flagged=True)
TRANSIENT = frames.data("subagent", {}, transient=True)


def after(*chunks: Chunk) -> StreamState:
    state = StreamState()
    for chunk in chunks:
        state.accept(chunk)
    return state


LEGAL = {
    ("before", "start"): "between",
    ("between", "start"): "between",
    ("between", "start_step"): "step",
    ("between", "ending"): "ended",
    ("step", "start"): "step",
    ("step", "content"): "step",
    ("step", "finish_step"): "between",
}


def test_these_may_follow_and_nothing_else() -> None:
    assert {(str(place), str(said)): str(then) for (place, said), then in FOLLOWS.items()} == LEGAL


@pytest.mark.parametrize(
    "stream",
    [
        pytest.param([START, START_STEP, *TEXT, FINISH_STEP, FINISH], id="a turn"),
        pytest.param([START, START_STEP, START, FINISH_STEP, FINISH], id="a harmless step"),
        pytest.param(
            [START, START_STEP, *TEXT, FINISH_STEP, START_STEP, CALL, FINISH_STEP, FINISH], id="two steps"
        ),
        pytest.param([START, START_STEP, FINISH_STEP, ABORT], id="a stopped run"),
        pytest.param([START, START_STEP, FINISH_STEP, frames.error("{}")], id="a failed run"),
        pytest.param(
            [START, TRANSIENT, START_STEP, TRANSIENT, FINISH_STEP, FINISH, TRANSIENT],
            id="transient data anywhere",
        ),
        pytest.param(
            [START, START_STEP, ANSWER, FINISH_STEP, FINISH], id="an output of an earlier step's call"
        ),
    ],
)
def test_a_legal_stream(stream: list[Chunk]) -> None:
    assert after(*stream).place is Place.ENDED


@pytest.mark.parametrize(
    "stream",
    [
        pytest.param([START_STEP], id="a step before the start"),
        pytest.param([FINISH], id="an end before the start"),
        pytest.param([TRANSIENT], id="transient data before the start"),
        pytest.param([START, *TEXT], id="content outside a step"),
        pytest.param([START, frames.data("note", 1)], id="data outside a step"),
        pytest.param([START, FINISH_STEP], id="the end of no step"),
        pytest.param([START, START_STEP, START_STEP], id="a step inside a step"),
        pytest.param([START, START_STEP, FINISH], id="an end inside a step"),
        pytest.param([START, START_STEP, ABORT], id="an abort inside a step"),
        pytest.param([START, START_STEP, frames.error("{}")], id="an error inside a step"),
        pytest.param([START, FINISH, START], id="anything after the end"),
        pytest.param([START, START_STEP, TEXT[0], FINISH_STEP], id="a step finished over an open text"),
        pytest.param([START, START_STEP, TEXT[1]], id="a delta of no text"),
        pytest.param([START, START_STEP, TEXT[2]], id="the end of no text"),
        pytest.param([START, START_STEP, *TEXT, TEXT[1]], id="a delta of a text that has ended"),
        pytest.param([START, START_STEP, *TEXT, TEXT[0]], id="an id used twice"),
        pytest.param(
            [START, START_STEP, *TEXT, FINISH_STEP, START_STEP, TEXT[0]], id="an id used twice, a step later"
        ),
        pytest.param(
            [START, START_STEP, TEXT[0], frames.reasoning_delta("t", "x")], id="a delta of the other kind"
        ),
    ],
)
def test_an_illegal_stream(stream: list[Chunk]) -> None:
    with pytest.raises(GrammarError):
        after(*stream)


def test_a_text_and_a_reasoning_part_do_not_share_an_id() -> None:
    with pytest.raises(GrammarError):
        after(START, START_STEP, *TEXT, frames.reasoning_start("t"))


# --- closing early --------------------------------------------------------------------------------------------------------


def test_what_is_open_is_closed_before_its_step() -> None:
    state = after(START, START_STEP, frames.text_start("1"), frames.reasoning_start("2"))
    assert state.closing() == [frames.text_end("1"), frames.reasoning_end("2"), FINISH_STEP]


@pytest.mark.parametrize("stream", [[], [START], [START, START_STEP, *TEXT, FINISH_STEP], [START, FINISH]])
def test_nothing_open_needs_no_closing(stream: list[Chunk]) -> None:
    assert after(*stream).closing() == []


# --- an end that must not satisfy a stock predicate -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        pytest.param([], False, id="an empty step"),
        pytest.param(TEXT, False, id="a text"),
        pytest.param([CALL], False, id="a call that waits"),
        pytest.param([CALL, frames.tool_approval_request("c1", "apr")], False, id="an approval that waits"),
        pytest.param([CALL, ANSWER], True, id="a client's answer"),
        pytest.param([CALL, frames.tool_output_error("c1", "no")], True, id="a client's error"),
        pytest.param([CALL, SERVER_RESULT], False, id="a server tool's output"),
        pytest.param(
            [CALL, frames.tool_output_error("c1", "no", flagged=True)], False, id="a server tool's error"
        ),
        pytest.param(
            [CALL, frames.tool_approval_request("c1", "apr"), frames.tool_output_denied("c1")],
            True,
            id="a denied call",
        ),
        pytest.param(
            [CALL, ANSWER, frames.tool_input_available("c2", "pick", {})],
            False,
            id="another call of the step waits",
        ),
        pytest.param(
            [
                CALL,
                ANSWER,
                frames.tool_input_available("c2", "look", {}),
                frames.tool_output_available("c2", 1, flagged=True),
            ],
            True,
            id="a client's answer beside a server tool's output",
        ),
        pytest.param(
            [
                frames.tool_input_available("c1", "pick", {}, flagged=True),
                frames.tool_output_available("c1", 1, flagged=False),
            ],
            True,
            id="a replayed answer of a client",
        ),
        pytest.param([ANSWER], False, id="an output of an earlier step's call"),
    ],
)
def test_whether_a_last_step_would_make_a_client_send_once_more(step: list[Chunk], expected: bool) -> None:
    assert after(START, START_STEP, *step).needs_boundary() is expected


def test_a_later_step_takes_the_need_away() -> None:
    assert not after(START, START_STEP, CALL, ANSWER, FINISH_STEP, START_STEP).needs_boundary()


def test_the_boundary_takes_the_need_away_and_is_legal() -> None:
    state = after(START, START_STEP, CALL, ANSWER, FINISH_STEP)
    for chunk in frames.boundary("a1"):
        state.accept(chunk)
    assert not state.needs_boundary()
    state.accept(FINISH)


# --- properties -------------------------------------------------------------------------------------------------------------

IDS, CALLS = ("1", "2", "3"), ("c1", "c2")
CHUNKS: list[Chunk] = [
    START,
    START_STEP,
    FINISH_STEP,
    TRANSIENT,
    frames.data("note", 1),
    *(frames.text_start(i) for i in IDS),
    *(frames.text_delta(i, "x") for i in IDS),
    *(frames.text_end(i) for i in IDS),
    *(frames.reasoning_start(f"r{i}") for i in IDS),
    *(frames.reasoning_end(f"r{i}") for i in IDS),
    *(frames.tool_input_available(c, "pick", {}, flagged=flag) for c in CALLS for flag in (True, False)),
    *(frames.tool_approval_request(c, "apr") for c in CALLS),
    *(frames.tool_output_available(c, 1, flagged=flag) for c in CALLS for flag in (None, True, False)),
    *(frames.tool_output_denied(c) for c in CALLS),
]
STEPS: st.SearchStrategy[list[Chunk]] = st.lists(st.sampled_from(CHUNKS), max_size=20)


def sent(chunks: list[Chunk]) -> StreamState:
    """A stream of those of the chunks that may come where they stand; the first step is open."""
    state = after(START, START_STEP)
    for chunk in chunks:
        try:
            state.accept(chunk)
        except GrammarError:
            continue
    return state


@settings(max_examples=60)
@given(STEPS, st.sampled_from([FINISH, ABORT, frames.error("{}")]))
def test_closing_always_makes_an_end_legal(chunks: list[Chunk], ending: Chunk) -> None:
    state = sent(chunks)
    for chunk in state.closing():
        state.accept(chunk)
    assert state.closing() == []
    if state.needs_boundary():
        for chunk in frames.boundary("a1"):
            state.accept(chunk)
    assert not state.needs_boundary()
    state.accept(ending)
    assert state.place is Place.ENDED


@settings(max_examples=60)
@given(STEPS, st.sampled_from(CHUNKS))
def test_a_chunk_that_is_refused_changes_nothing(chunks: list[Chunk], chunk: Chunk) -> None:
    state = sent(chunks)
    before: tuple[Any, ...] = (state.place, state.closing(), state.needs_boundary())
    try:
        state.accept(chunk)
    except GrammarError:
        assert (state.place, state.closing(), state.needs_boundary()) == before
