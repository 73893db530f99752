"""Sizes, words and habits: what a reviewer would otherwise have to look for in every change."""

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.architecture import ROOT
from tests.architecture.sizes import DISCUSSED, REFUSED, longer_than


@cache
def tracked() -> tuple[Path, ...]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return tuple(ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file())


def lines() -> Iterator[tuple[str, str]]:
    """``file:number`` and the line, of every text file that is tracked."""
    for path in tracked():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            yield f"{path.relative_to(ROOT)}:{number}", line


def test_no_file_of_the_service_is_too_long() -> None:
    refused = longer_than(REFUSED)
    assert not refused, f"over {REFUSED} lines: {refused}; getting long: {longer_than(DISCUSSED)}"


def test_every_module_stands_on_the_page_of_its_room() -> None:
    rooms = [path for path in (ROOT / "app").iterdir() if (path / "__init__.py").exists()]
    assert len(rooms) > 6
    missing = [
        str(module.relative_to(ROOT))
        for room in rooms
        for page in [(room / "__init__.py").read_text()]
        for module in room.glob("[!_]*.py")
        if not re.search(rf"``{module.stem}(\.|``)", page)
    ]
    assert not missing, "name it in the __init__.py of its room"


MACHINES = re.compile(r"(?<![\w./-])/(?:home|Users|root|mnt|private|work[a-z]*|builds?)/\S")
REGISTRIES = re.compile(
    r"registry\.(?:npmjs|yarnpkg)|pyp[i]\.org|python[h]osted\.org|artifact[o]ry|verdacc[i]o|dev[p]i"
)


def test_no_file_names_a_folder_of_a_machine() -> None:
    here, home = str(ROOT), f"{Path.home()}/"
    made_up = "/home/me/"  # in tests of what a log line does not tell
    found = [
        where
        for where, line in lines()
        if here in line or home in line or MACHINES.search(line.replace(made_up, ""))
    ]
    assert not found


def test_no_file_names_the_host_of_a_package_registry() -> None:
    assert not [where for where, line in lines() if REGISTRIES.search(line)]


# --- tests ----------------------------------------------------------------------------------------------------------------


def trees() -> Iterator[tuple[str, ast.Module]]:
    for path in tracked():
        if path.suffix == ".py" and path.is_relative_to(ROOT / "tests"):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


def imports(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def test_tests_pass_things_in_and_patch_nothing() -> None:
    for file, tree in trees():
        assert not {"unittest.mock", "mock", "pytest_mock"} & imports(tree), file
        arguments = {
            arg.arg for node in ast.walk(tree) if isinstance(node, ast.arguments) for arg in node.args
        }
        assert "mocker" not in arguments, file


def sleeps(node: ast.AST, *, in_loop: bool = False) -> Iterator[ast.Call]:
    """The calls of ``sleep`` that are no step of a loop which polls. ``sleep(0)`` gives way and waits for nothing."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from sleeps(child)
            continue
        looping = in_loop or isinstance(child, ast.While | ast.For | ast.AsyncFor)
        named = child.func if isinstance(child, ast.Call) else None
        is_sleep = (
            isinstance(named, ast.Attribute | ast.Name) and ast.unparse(named).rpartition(".")[2] == "sleep"
        )
        if isinstance(child, ast.Call) and is_sleep and not looping and ast.unparse(child.args[0]) != "0":
            yield child
        yield from sleeps(child, in_loop=looping)


# What stands in for another machine or another process takes the time that these take.
MAY_SLEEP = ("tests/fakes/", "tests/bench/", "tests/acceptance/")


def test_tests_wait_for_what_happens_and_not_for_the_clock() -> None:
    found = [
        f"{file}:{call.lineno} {ast.unparse(call)}"
        for file, tree in trees()
        if not file.startswith(MAY_SLEEP)
        for call in sleeps(tree)
    ]
    assert not found


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("def test():\n    time.sleep(1)", 1),
        ("async def test():\n    await asyncio.sleep(0.1)", 1),
        ("from time import sleep\nsleep(1)", 1),
        ("while not there():\n    sleep(0.01)", 0),
        ("async def test():\n    await asyncio.sleep(0)", 0),
        ("for _ in range(3):\n    def inner():\n        sleep(1)", 1),
        ("sleeper.sleep_well(1)", 0),
    ],
)
def test_what_counts_as_waiting_for_the_clock(source: str, count: int) -> None:
    assert len(list(sleeps(ast.parse(source)))) == count
