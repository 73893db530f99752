"""The words of an enum with what its source says of each: the string that stands below a member."""

import ast
import inspect
import textwrap
from enum import StrEnum


def meanings(kind: type[StrEnum]) -> dict[str, str]:
    """Member's value → its docstring in one line; empty for a member that needs no words."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(body, ast.ClassDef)
    found = {str(member): "" for member in kind}
    last = ""
    for statement in body.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            last = str(kind[statement.targets[0].id])
        elif last and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            found[last] = " ".join(str(statement.value.value).split()).replace("``", "`")
            last = ""
    return found


def listed(*kinds: type[StrEnum], leave_out: tuple[str, ...] = ()) -> str:
    """The members that have words, one line each."""
    lines = [
        f"- `{value}`: {meaning}"
        for kind in kinds
        for value, meaning in meanings(kind).items()
        if meaning and value not in leave_out
    ]
    return "\n".join(lines)
