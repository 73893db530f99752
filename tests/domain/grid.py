"""A decision table written as text: the copy of the rules that a test holds beside the one in the code."""

Cells = dict[tuple[str, str], str]


def grid(text: str) -> Cells:
    """``(row, column) → cell`` of a table whose first line names the columns and whose other lines begin with the row's name."""
    head, *lines = [line.split() for line in text.strip().splitlines() if line.strip()]
    cells: Cells = {}
    for row, *values in lines:
        for column, value in zip(head, values, strict=True):
            if (row, column) in cells:
                raise ValueError(f"two rows for {row}, {column}")
            cells[row, column] = value
    return cells


def names(cells: Cells) -> list[str]:
    """A name for each cell, as the id of its test."""
    return [f"{row} + {column} = {cell}" for (row, column), cell in cells.items()]
