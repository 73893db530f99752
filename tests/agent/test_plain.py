"""Any value of a tool as plain JSON."""

import dataclasses
import datetime as dt
import enum
import functools
import math
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import structlog
from pydantic import BaseModel

from app.agent.plain import MAX_DEPTH, plain


@pytest.fixture
def logged():
    with structlog.testing.capture_logs() as entries:
        yield entries


class Colour(enum.Enum):
    RED = "red"


class Place(BaseModel):
    city: str


DEEP: Any = functools.reduce(lambda inner, _: [inner], range(MAX_DEPTH + 1), 1)


@dataclasses.dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ({"a": (1, 2.5, True)}, {"a": [1, 2.5, True]}),
        (Place(city="x"), {"city": "x"}),
        ([Point(1)], [{"x": 1}]),
        (dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "2026-01-01T00:00:00Z"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Decimal("1.50"), "1.50"),
        (Colour.RED, "red"),
        (b"\xff", "_w=="),
        (Path("a/b"), "a/b"),
        ({1: "a", None: "b", (1, 2): "c"}, {"1": "a", "None": "b", "1,2": "c"}),
        ([math.nan, {"x": -math.inf}], [None, {"x": None}]),
        (2**70, float(2**70)),
        (10**400, None),
        ("a\ud800b", "a\ufffdb"),
        ("\ud83d\ude00", "😀"),
        ({"\udfff": 1}, {"\ufffd": 1}),
        ("nul \x00", "nul \x00"),
    ],
)
def test_any_value_becomes_plain_json(value, expected):
    assert plain(value) == expected


def test_what_was_replaced_is_logged(logged):
    plain([math.nan, "\ud800", 2**70])
    assert [(entry["event"], entry["kinds"]) for entry in logged] == [
        ("tool_value.replaced", ["big_integer", "not_finite", "surrogate"])
    ]
    logged.clear()
    plain({"fine": "ünïcode 😀"})
    assert not logged


def test_what_json_cannot_say_is_an_error():
    circle: list[Any] = []
    circle.append(circle)
    for value in (object(), circle, DEEP, open, {"x": object()}):
        with pytest.raises((ValueError, TypeError)):
            plain(value)
