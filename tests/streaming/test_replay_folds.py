"""A replay gives a client the message that is stored: folding the frames of a replay is the identity on stored messages.

Equal as far as a stream can tell it: no frame says what was decided about an approval, and a granted one is replayed without it.
"""

from itertools import count
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain import frames
from app.domain.frames import Chunk
from app.domain.grammar import StreamState
from app.domain.run_state import RunState
from app.domain.ui_message import MessageFold, Part
from app.sessions.view import RunView
from app.streaming.encode import Encoder
from app.streaming.replay import replay, steps_after

STEP: Part = {"type": "step-start"}
APPROVED = {"id": "apr", "approved": True}
DENIED = {"id": "apr", "approved": False, "reason": "no"}
JSON = st.sampled_from([None, 0, "", "text", [1, {"a": None}], {"b": True}])


def view(
    parts: list[Part], *, step_open: bool = False, batch_complete: bool = True, answered: Any = None
) -> RunView:
    return RunView(
        run_id=UUID(int=1),
        session_id=UUID(int=2),
        message_id="a1",
        state=RunState.RUNNING,
        error_code=None,
        epoch=1,
        watermark=0,
        step_open=step_open,
        parts=parts,
        metadata={},
        answered=answered or {},
        batch_complete=batch_complete,
    )


def folded(chunks: list[Chunk], onto: list[Part] | None = None) -> list[Part]:
    fold = MessageFold(onto or [])
    for chunk in chunks:
        fold.apply(chunk)
    return fold.stored()


def as_replayed(part: Part) -> Part:
    """A settled part as a view shows it that was never asked for the approval."""
    if part.get("state") == "output-denied":
        return {**part, "approval": {"id": part["approval"]["id"]}}
    return {
        key: value
        for key, value in part.items()
        if key != "approval" or part["state"] == "approval-requested"
    }


# --- legal messages -------------------------------------------------------------------------------------------------------

CALLS: list[Part] = [
    {"state": "input-available"},
    {"state": "approval-requested", "approval": {"id": "apr"}},
    {"state": "output-available", "output": 1},
    {"state": "output-error", "errorText": "no"},
    {"state": "output-available", "output": 1, "providerExecuted": True},
    {"state": "output-error", "errorText": "The tool failed.", "providerExecuted": True},
    {"state": "output-available", "output": 1, "providerExecuted": True, "approval": APPROVED},
    {
        "state": "output-error",
        "errorText": "The tool failed.",
        "providerExecuted": True,
        "approval": APPROVED,
    },
    {"state": "output-denied", "approval": DENIED},
]
SAID: list[Part] = [
    {"type": "text", "text": "Hello", "state": "done"},
    {"type": "reasoning", "text": "hm", "state": "done"},
    {"type": "reasoning", "text": "hm", "state": "done", "providerMetadata": {"p": {"sig": "s"}}},
    {"type": "file", "mediaType": "image/png", "url": "data:,x"},
    {"type": "source-url", "sourceId": "s1", "url": "https://a.example"},
    {"type": "data-note", "data": {"n": 1}},
]


@st.composite
def messages(draw: st.DrawFn) -> list[Part]:
    """Stored messages: steps of texts, files, data and calls in every state that is stored."""
    ids = count(1)
    parts: list[Part] = []
    for step in draw(
        st.lists(st.lists(st.sampled_from([*SAID, *CALLS]), max_size=4), min_size=1, max_size=4)
    ):
        parts.append(STEP)
        for part in step:
            if "type" in part:
                parts.append(dict(part))
            else:
                call = {"type": "tool-pick", "toolCallId": f"c{next(ids)}", "input": draw(JSON), **part}
                parts.append({**call, "output": draw(JSON)} if "output" in part else call)
    return parts


@settings(max_examples=60)
@given(messages(), st.booleans())
def test_folding_a_replay_gives_the_stored_message(parts: list[Part], step_open: bool) -> None:
    assert folded(list(replay(view(parts, step_open=step_open)))) == [as_replayed(part) for part in parts]


@settings(max_examples=60)
@given(messages(), st.data())
def test_a_client_that_holds_the_first_steps_is_given_the_rest(
    parts: list[Part], data: st.DataObject
) -> None:
    first = data.draw(st.sampled_from([i for i, part in enumerate(parts) if part == STEP]))
    rest = [as_replayed(part) for part in parts[first:]]
    assert folded(list(replay(view(parts), first)), onto=parts[:first]) == [*parts[:first], *rest]


@settings(max_examples=60)
@given(messages(), st.booleans(), st.sampled_from([frames.FINISH, frames.ABORT, frames.error("{}")]))
def test_a_whole_replayed_stream_is_legal_and_leaves_no_client_with_a_reason_to_send(
    parts: list[Part], step_open: bool, ending: Chunk
) -> None:
    encoder = Encoder("a1")
    sent = list(encoder.start())
    for chunk in replay(view(parts, step_open=step_open)):
        sent += encoder.feed(chunk)
    sent += encoder.feed(ending)
    state = StreamState()
    for chunk in sent:
        state.accept(chunk)
    assert encoder.ended
    assert ending["type"] == "error" or not state.needs_boundary()
    shown, stored = folded(sent), [as_replayed(part) for part in parts]
    assert shown in (stored, [*stored, STEP])  # a boundary at the end is not stored


@settings(max_examples=60)
@given(messages())
def test_no_app_is_asked_to_run_a_call_that_has_its_result(parts: list[Part]) -> None:
    settled = {p["toolCallId"] for p in parts if p.get("state") in ("output-available", "output-error")}
    asked = {
        chunk["toolCallId"]
        for chunk in replay(view(parts))
        if chunk["type"] == "tool-input-available" and not chunk.get("providerExecuted")
    }
    assert not asked & settled


# --- calls between their answer and their drain -------------------------------------------------------------------------------


def call(state: str, **more: Any) -> Part:
    return {"type": "tool-pick", "toolCallId": "c1", "input": {}, "state": state, **more}


WAITING = call("approval-requested", approval={"id": "apr"})


@pytest.mark.parametrize(
    ("stored", "answer", "batch_complete", "shown"),
    [
        pytest.param(
            call("input-available"),
            {"state": "output-available", "output": 1},
            False,
            call("output-available", output=1),
            id="a client's answer",
        ),
        pytest.param(
            call("input-available"),
            {"state": "output-error", "errorText": "no"},
            True,
            call("output-error", errorText="no"),
            id="a client's error",
        ),
        pytest.param(
            WAITING,
            {"state": "approval-responded", "approval": APPROVED},
            False,
            WAITING,
            id="granted, others wait",
        ),
        pytest.param(
            WAITING,
            {"state": "approval-responded", "approval": DENIED},
            False,
            WAITING,
            id="denied, others wait",
        ),
        pytest.param(
            WAITING,
            {"state": "approval-responded", "approval": APPROVED},
            True,
            call("input-available"),
            id="granted, the batch is complete",
        ),
        pytest.param(
            WAITING,
            {"state": "approval-responded", "approval": DENIED},
            True,
            call("output-denied", approval={"id": "apr"}),
            id="denied, the batch is complete",
        ),
    ],
)
def test_an_answered_call_is_replayed_as_far_as_a_stream_can_say_it(
    stored: Part, answer: Part, batch_complete: bool, shown: Part
) -> None:
    seen = view([STEP, stored], batch_complete=batch_complete, answered={"c1": answer})
    assert folded(list(replay(seen))) == [STEP, shown]


# --- where a batch's step ends --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        pytest.param([STEP, call("input-available")], (0, 2), id="the only step"),
        pytest.param([STEP, call("input-available"), STEP, SAID[0]], (0, 2), id="a later step follows"),
        pytest.param(
            [STEP, SAID[0], STEP, call("input-available"), SAID[0], STEP], (2, 5), id="a step in between"
        ),
        pytest.param([STEP, SAID[0]], (2, 2), id="no step holds the batch"),
        pytest.param([], (0, 0), id="an empty message"),
    ],
)
def test_the_step_that_holds_a_batch(parts: list[Part], expected: tuple[int, int]) -> None:
    assert steps_after(parts, {"c1"}) == expected
