"""The README says what the code does: tables, names, addresses and snippets."""

import json
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from fastapi.routing import APIRoute

from app.agent.registry import Registry
from app.domain.grammar import StreamState
from app.domain.ui_message import MessageFold
from app.errors import ERRORS, ChatError, Code
from app.main import create_app
from app.settings import PREFIX, Settings, variable
from tests.architecture import ROOT
from tests.architecture.readme import BLOCKS, README, blocks, code, written
from tests.inprocess.fixtures import fresh_agents, logs, serve
from tests.inprocess.server import Server
from tests.test_errors import NOT_OURS, OURS

__all__ = ["fresh_agents", "logs", "serve"]

TEXT = README.read_text()
PROSE = re.sub(r"^```.*?^```$", "", TEXT, flags=re.DOTALL | re.MULTILINE)
QUOTED = re.findall(r"`([^`\n]+)`", PROSE)


# --- tables ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BLOCKS)
def test_a_table_is_as_the_code_says_it_now(name: str) -> None:
    assert blocks(TEXT)[name] == BLOCKS[name]().strip(), "write it anew: make readme"


def test_writing_it_anew_changes_nothing_and_leaves_no_table_out() -> None:
    assert written(TEXT) == TEXT
    assert set(blocks(TEXT)) == set(BLOCKS)


def test_every_error_code_has_a_row_with_what_to_do() -> None:
    rows = [line for line in TEXT.splitlines() if line.startswith("| `")]
    for error in Code:
        (row,) = [line for line in rows if line.startswith(f"| `{error}` |")]
        assert ERRORS[error].do in row


def test_every_setting_has_a_row() -> None:
    for field in Settings.model_fields:
        assert f"\n| `{variable(field)}` |" in TEXT


# --- names ----------------------------------------------------------------------------------------------------------------


def test_it_names_no_setting_that_there_is_not() -> None:
    known = {variable(field) for field in Settings.model_fields}
    named = set(re.findall(rf"{PREFIX}[A-Z_]+(?![A-Z_*])", TEXT)) - {f"{PREFIX}MAX_", PREFIX}
    assert named <= known


def test_it_names_every_room() -> None:
    there = {path.name for path in (ROOT / "app").iterdir() if path.name[0] not in "_."}
    assert not [name for name in there if f"`app/{name.removesuffix('.py')}" not in TEXT]


def test_every_file_and_test_that_it_names_is_there() -> None:
    named = [word for word in QUOTED if re.match(r"(app|tests|migrations)/", word)]
    assert named
    for word in named:
        path, _, test = word.partition("::")
        assert (ROOT / path).exists(), word
        assert not test or f"def {test}(" in (ROOT / path).read_text(), word


def test_every_make_target_that_it_names_is_there() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z]+)`", PROSE)) <= targets


def test_every_link_within_it_leads_somewhere() -> None:
    headings = re.findall(r"^#+ (.+)$", PROSE, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]+)\)", PROSE)) <= anchors


def test_every_dependency_has_a_line_of_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    table = TEXT[TEXT.index("## Dependencies") : TEXT.index("## Decisions")]
    named = set(re.findall(r"`([a-z0-9-]+)`", table))
    assert {re.split(r"[\[><=;]", line)[0] for line in project["dependencies"]} == named


def test_every_route_has_a_row() -> None:
    app = create_app(Settings(playground=False))
    addresses = {
        f"{method} {route.path.replace('{chat_id:path}', '{id}')}"
        for route in _routes(app.routes)
        if route.include_in_schema
        for method in route.methods or ()
    }
    assert "POST /chat" in addresses
    assert not [address for address in addresses if f"`{address}`" not in TEXT]


def _routes(routes: list[Any]) -> Iterator[APIRoute]:
    for route in routes:
        if isinstance(route, APIRoute):
            yield route
        else:
            yield from _routes(getattr(getattr(route, "original_router", route), "routes", None) or [])


# --- snippets -------------------------------------------------------------------------------------------------------------


def test_the_page_is_one_file_on_stock_packages() -> None:
    (page,) = code(TEXT, "tsx")
    assert page.count("export default function") == 1
    assert set(re.findall(r"from '([^']+)'", page)) == {"@ai-sdk/react", "ai", "react"}
    for stock in (
        "lastAssistantMessageIsCompleteWithToolCalls(options) ||",
        "resume: snap.live",
        "addToolOutput({ tool, toolCallId, output",
        "addToolOutput({ state: 'output-error'",
        "approved: true",
        "approved: false",
        "recover",
    ):
        assert stock in page


def test_the_pages_reader_of_errors_is_short_and_reads_what_ours_reads() -> None:
    """It is run without its types by Node."""
    if shutil.which("node") is None:
        assert "CI" not in os.environ, "node is needed"
        pytest.skip("node is needed")
    (page,) = code(TEXT, "tsx")
    found = re.search(r"^function parseChatError\(.*?^}$", page, re.DOTALL | re.MULTILINE)
    assert found is not None
    assert len(found[0].splitlines()) <= 15
    function = found[0].replace("(text: string): ChatError | null", "(text)")
    texts = [*(text for text, _ in OURS), *NOT_OURS]
    program = f"{function}\nconsole.log(JSON.stringify({json.dumps(texts)}.map(parseChatError)))"
    run = subprocess.run(["node", "-e", program], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == [
        *(_as_in_typescript(error) for _, error in OURS),
        *(None for _ in NOT_OURS),
    ]


def _as_in_typescript(error: ChatError) -> dict[str, Any]:
    cause = {"cause": error.cause} if error.cause is not None else {}
    return {"code": error.code, "error": error.error, **cause, "toolCallIds": list(error.tool_call_ids)}


def test_the_agents_of_ones_own_can_be_served() -> None:
    (module,) = code(TEXT, "python")
    names: dict[str, Any] = {"__name__": "my_agents"}
    exec(module, names)
    registry = Registry(names["agents"])
    assert registry.default == "support"
    found = registry.get("support")
    assert found is not None
    assert [tool.name for tool in found.tools] == ["find_order", "refund", "choose_date"]


Serve = Callable[..., AbstractAsyncContextManager[Server]]


def _curls() -> list[tuple[str, str, Any]]:
    """``(method, path, body)`` of the curl commands, in order."""
    found: list[tuple[str, str, Any]] = []
    for block in code(TEXT, "sh"):
        for command in re.findall(r"^curl .*?(?=^curl |\Z)", block, re.DOTALL | re.MULTILINE):
            words = shlex.split(command, comments=True)
            path = next(word for word in words if word.startswith("http")).removeprefix(
                "http://127.0.0.1:8000"
            )
            body = json.loads(words[words.index("-d") + 1]) if "-d" in words else None
            found.append(("POST" if body is not None else "GET", path, body))
    return found


@pytest.mark.timeout(60)
async def test_the_commands_do_what_is_said_of_them(serve: Serve) -> None:
    async with serve(agents=None, scripted=False) as server:
        weather, where, answer, stream, snapshot = _curls()
        for _ in range(2):  # the second time it is the stored turn
            chunks = await (await server.ask(*weather)).rest()
            state, fold = StreamState(), MessageFold()
            for chunk in chunks:
                state.accept(chunk)
                fold.apply(chunk)
            tools = [part["output"]["city"] for part in fold.parts if part["type"] == "tool-get_weather"]
            assert tools == ["Oslo", "Rome"]
        assert len((await server.snapshot("hello"))["messages"]) == 2

        await (await server.ask(*where)).rest()
        assert (await server.snapshot("where"))["pending"][0]["toolCallId"] == "call_0_0"
        outcomes = await (await server.ask(*answer)).json()
        assert outcomes == {
            "outcomes": [{"toolCallId": "call_0_0", "outcome": "stored", "continuation": "caller_resumes"}]
        }
        assert (await server.ask(*stream)).status in (200, 204)
        await server.quiet("where")
        shown = await (await server.ask(*snapshot)).json()
        assert shown["messages"][-1]["parts"][-1]["text"] == "You are at 59.91, 10.75."
