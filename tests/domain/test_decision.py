"""A table that decides is whole, or is not made at all."""

from enum import StrEnum

import pytest

from app.domain.decision import Table


class Light(StrEnum):
    RED = "red"
    GREEN = "green"


class Walker(StrEnum):
    HURRIED = "hurried"
    CALM = "calm"


WHOLE: dict[tuple[StrEnum, ...], str] = {
    (Light.RED, Walker.HURRIED): "wait",
    (Light.RED, Walker.CALM): "wait",
    (Light.GREEN, Walker.HURRIED): "run",
    (Light.GREEN, Walker.CALM): "walk",
}
AXES = {"light": Light, "walker": Walker}


def test_a_whole_table_answers_every_combination() -> None:
    table = Table("crossing", AXES, WHOLE)
    assert table[Light.RED, Walker.CALM] == "wait"
    assert table[Light.GREEN, Walker.HURRIED] == "run"


def test_a_missing_row_stops_the_construction_and_is_named() -> None:
    rows = {key: value for key, value in WHOLE.items() if key != (Light.GREEN, Walker.CALM)}
    with pytest.raises(TypeError, match=r"table crossing: no row for .*green.*calm"):
        Table("crossing", AXES, rows)


def test_a_new_member_of_an_axis_is_missed_in_every_row_it_needs() -> None:
    class More(StrEnum):
        RED = "red"
        GREEN = "green"
        AMBER = "amber"

    rows = {(More(str(light)), walker): value for (light, walker), value in WHOLE.items()}
    with pytest.raises(TypeError) as caught:
        Table("crossing", {"light": More, "walker": Walker}, rows)
    assert str(caught.value).count("amber") >= 2


def test_a_row_outside_the_axes_stops_the_construction() -> None:
    class Weather(StrEnum):
        RAIN = "rain"

    with pytest.raises(TypeError, match="rows outside its axes"):
        Table("crossing", AXES, {**WHOLE, (Light.RED, Weather.RAIN): "stay in"})


def test_a_row_with_too_few_members_is_outside_the_axes() -> None:
    with pytest.raises(TypeError, match="rows outside its axes"):
        Table("crossing", AXES, {**WHOLE, (Light.RED,): "wait"})


def test_a_table_cannot_be_changed_through_the_rows_it_was_made_of() -> None:
    rows = dict(WHOLE)
    table = Table("crossing", AXES, rows)
    rows[Light.RED, Walker.CALM] = "go"
    assert table[Light.RED, Walker.CALM] == "wait"


def test_two_axes_are_printed_as_a_grid() -> None:
    assert Table("crossing", AXES, WHOLE).markdown().splitlines() == [
        "| light ↓ walker → | `hurried` | `calm` |",
        "|---|---|---|",
        "| `red` | wait | wait |",
        "| `green` | run | walk |",
    ]


def test_one_axis_is_printed_as_a_list_and_a_pair_as_its_members() -> None:
    table = Table(
        "light", {"light": Light}, {(Light.RED,): ("wait", None), (Light.GREEN,): ("go", "now")}, outcome="do"
    )
    assert table.markdown().splitlines() == [
        "| light | do |",
        "|---|---|",
        "| `red` | wait |",
        "| `green` | go, now |",
    ]
