"""How much of what its tools show a message takes."""

from typing import Any

import pytest

from app.agent.room import FULL, Room
from app.agent.tool_run import ToolError
from app.domain import frames

EMPTY: list[dict[str, Any]] = []


def chart(value: Any, part_id: str = "one", **more: Any) -> dict[str, Any]:
    return frames.data("chart", value, part_id=part_id, **more)


@pytest.mark.parametrize(
    ("said", "refused"),
    [
        ([chart("x" * 500)], chart("y" * 500, "two")),
        ([chart("x" * 500), chart("y" * 10)], None),
        ([chart("x" * 500), chart("y" * 10), chart("z" * 500, "two")], chart("y" * 500)),
        ([chart("")], chart("x" * 1000)),
        ([chart(1, str(n)) for n in range(5)], chart(1, "five")),
        ([chart(1, str(n)) for n in range(5)], frames.source_url("five", "https://a.example")),
        ([chart(1, "4") for _ in range(100)], None),
        ([frames.source_url("a", "https://a.example") for _ in range(100)], None),
        ([chart("x" * 900, str(n), transient=True) for n in range(100)], None),
    ],
)
def test_what_is_replaced_makes_room_and_what_is_not_stored_takes_none(said: list[Any], refused: Any):
    room = Room(EMPTY, max_parts=5, max_bytes=1000)
    for chunk in said:
        room.take(chunk)
    if refused is not None:
        for _ in range(2):
            with pytest.raises(ToolError, match=FULL):
                room.take(refused)
    room.take(said[-1])


def test_what_the_message_holds_already_counts():
    parts = [
        {"type": "text", "text": "x" * 5000},
        chart("x" * 500),
        frames.source_url("a", "https://a.example"),
    ]
    room = Room(parts, max_parts=3, max_bytes=1000)
    room.take(chart("x" * 600))
    with pytest.raises(ToolError):
        room.take(chart("x" * 600, "two"))
    room.take(chart(1, "two"))
    with pytest.raises(ToolError):
        room.take(chart(1, "three"))
