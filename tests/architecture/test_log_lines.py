"""The lines of the log: their events have stable names, and an operator finds every warning and error in the README."""

import ast
import re
from collections.abc import Iterator

from tests.architecture import ROOT
from tests.architecture.readme import README

LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
NAME = re.compile(r"[a-z]+(?:_[a-z]+)*\.[a-z]+(?:_[a-z]+)*")
SENTENCES = {
    "handleChatStream.reconcileSession: reconcile failed (permanent)",
    "handleResumePath: submit failed (its answer was not stored)",
}


def said() -> Iterator[tuple[str, str, ast.Call]]:
    """Where, at which level and how the service writes a line."""
    for path in sorted((ROOT / "app").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            named = node.func if isinstance(node, ast.Call) else None
            if (
                isinstance(node, ast.Call)
                and isinstance(named, ast.Attribute)
                and isinstance(named.value, ast.Name)
                and named.value.id == "log"
                and named.attr in LEVELS
            ):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", named.attr, node


def event(call: ast.Call) -> str:
    first = call.args[0] if call.args else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""


def test_every_line_has_a_name_that_can_be_searched_for_and_its_facts_as_keys() -> None:
    lines = list(said())
    assert len(lines) > 30
    odd = [
        where
        for where, _, call in lines
        if len(call.args) != 1 or not (NAME.fullmatch(event(call)) or event(call) in SENTENCES)
    ]
    assert not odd, "an event is one constant text like run.ended; data are keys"


def test_a_chain_of_causes_has_one_key() -> None:
    for where, _, call in said():
        for keyword in call.keywords:
            is_chain = "cause_chain(" in ast.unparse(keyword.value)
            assert not is_chain or keyword.arg == "causes", f"{where}: {keyword.arg}"


def test_every_warning_and_error_stands_in_the_readme() -> None:
    text = README.read_text()
    loud = {event(call) for _, level, call in said() if level in ("warning", "error")}
    assert len(loud) > 20
    assert not {name for name in loud if f"`{name}`" not in text}
