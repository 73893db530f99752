"""Tables that decide: proved total at import, printable as markdown.

A ``Table`` maps every combination of its axes' members to one outcome. Construction raises ``TypeError`` naming the rows that are
missing, so that a new enum member cannot be forgotten; a doubled row is refused by ruff (F601) where the literal is written.
"""

from collections.abc import Mapping
from enum import StrEnum
from itertools import product
from typing import Generic, TypeVar

Outcome = TypeVar("Outcome")


class Table(Generic[Outcome]):
    """``rows`` maps a tuple with one member of each axis to the outcome of that combination.

    Raises ``TypeError`` when a combination is missing or a row is no combination of the axes."""

    def __init__(
        self,
        name: str,
        axes: Mapping[str, type[StrEnum]],
        rows: Mapping[tuple[StrEnum, ...], Outcome],
        *,
        outcome: str = "outcome",
    ) -> None:
        wanted = set(product(*axes.values()))
        if missing := wanted - set(rows):
            raise TypeError(f"table {name}: no row for {sorted(missing)}")
        if unknown := set(rows) - wanted:
            raise TypeError(f"table {name}: rows outside its axes: {sorted(unknown)}")
        self.name = name
        self.axes = dict(axes)
        self.rows = dict(rows)
        self._outcome = outcome

    def __getitem__(self, combination: tuple[StrEnum, ...]) -> Outcome:
        return self.rows[combination]

    def markdown(self) -> str:
        """The table as a markdown grid. Two axes make rows and columns; any other number makes one line a row."""
        names = list(self.axes)
        if len(names) == 2:
            rows_axis, columns_axis = self.axes.values()
            columns = list(columns_axis)
            lines = [
                f"| {names[0]} ↓ {names[1]} → | " + " | ".join(f"`{c}`" for c in columns) + " |",
                "|---" * (len(columns) + 1) + "|",
            ]
            lines += [
                f"| `{row}` | " + " | ".join(_cell(self.rows[(row, column)]) for column in columns) + " |"
                for row in rows_axis
            ]
            return "\n".join(lines)
        lines = ["| " + " | ".join([*names, self._outcome]) + " |", "|---" * (len(names) + 1) + "|"]
        lines += [
            "| " + " | ".join([*(f"`{member}`" for member in key), _cell(value)]) + " |"
            for key, value in self.rows.items()
        ]
        return "\n".join(lines)


def _cell(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(str(item) for item in value if item is not None)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return str(value)
