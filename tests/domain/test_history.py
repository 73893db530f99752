"""The history a model is sent pairs every call with exactly one result, directly after it."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.history import Entry, assistant_entry, calls_of, tool_entry, unpaired, user_entry

USER = user_entry([{"type": "text", "text": "hello"}])


def said(*call_ids: str) -> Entry:
    text: dict[str, Any] = {"type": "text", "text": "…"}
    return assistant_entry(
        [text, *({"type": "call", "id": i, "tool": "pick", "input": {}} for i in call_ids)]
    )


def told(*call_ids: str) -> Entry:
    return tool_entry([{"id": i, "tool": "pick", "outcome": "ok", "value": 1} for i in call_ids])


@pytest.mark.parametrize(
    ("history", "wrong"),
    [
        pytest.param([], [], id="an empty history"),
        pytest.param([USER, said()], [], id="no calls"),
        pytest.param([USER, said("c1"), told("c1"), said()], [], id="one call, one result"),
        pytest.param([USER, said("c1", "c2"), told("c2", "c1")], [], id="results in another order"),
        pytest.param(
            [USER, said("c1"), told("c1"), said("c1"), told("c1")], [], id="the same id in a later step"
        ),
        pytest.param([USER, said("c1")], ["c1"], id="no result at the end"),
        pytest.param([USER, said("c1"), USER], ["c1"], id="a user message in between"),
        pytest.param([USER, said("c1"), said(), told("c1")], ["c1"], id="a result that comes too late"),
        pytest.param([USER, said("c1", "c2"), told("c1")], ["c1", "c2"], id="a result missing"),
        pytest.param([USER, said("c1"), told("c1", "c2")], ["c1"], id="a result too many"),
        pytest.param([USER, said("c1"), told("c1", "c1")], ["c1"], id="two results for a call"),
        pytest.param([USER, said("c1"), told("c2")], ["c1"], id="another call's result"),
        pytest.param([USER, said("c1"), told()], ["c1"], id="an empty tool entry"),
    ],
)
def test_what_is_unpaired(history: Sequence[Entry], wrong: list[str]) -> None:
    assert unpaired(history) == wrong


def test_only_an_assistants_entry_has_calls() -> None:
    assert [part["id"] for part in calls_of(said("c1", "c2"))] == ["c1", "c2"]
    assert calls_of(USER) == calls_of(told("c1")) == []


def test_a_providers_own_dump_rides_along_only_when_there_is_one() -> None:
    assert "provider" not in assistant_entry([])
    assert assistant_entry([], {"name": "x"})["provider"] == {"name": "x"}


STEPS = st.lists(st.lists(st.sampled_from(["c1", "c2", "c3", "c4"]), unique=True, max_size=3), max_size=5)


def paired(steps: list[list[str]]) -> list[Entry]:
    entries = [USER]
    for ids in steps:
        entries += [said(*ids), told(*reversed(ids))] if ids else [said()]
    return entries


@settings(max_examples=30)
@given(STEPS)
def test_a_history_written_pair_by_pair_is_paired(steps: list[list[str]]) -> None:
    assert unpaired(paired(steps)) == []


@settings(max_examples=30)
@given(STEPS, st.data())
def test_whatever_is_taken_out_between_a_call_and_its_result_is_noticed(
    steps: list[list[str]], data: st.DataObject
) -> None:
    entries = paired(steps)
    results = [index for index, entry in enumerate(entries) if entry["role"] == "tool"]
    if results:
        gone = data.draw(st.sampled_from(results))
        ids = [result["id"] for result in entries[gone]["results"]]
        assert sorted(unpaired(entries[:gone] + entries[gone + 1 :])) == sorted(ids)
