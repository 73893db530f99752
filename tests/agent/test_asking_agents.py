"""Agents written for plain pydantic-ai, whose tools ask while they run, behind the real server."""

import pytest

from tests.agent.asking_agents import files, tasks
from tests.inprocess.chat import Page, call, calls, continues, script
from tests.inprocess.fixtures import logs, serve

__all__ = ["logs", "serve"]  # fixtures

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def forgotten():
    files.clear()
    tasks.clear()


@pytest.fixture
async def server(serve):
    async with serve(agents="tests.agent.asking_agents:AGENTS", scripted=True) as server:
        yield server


def update(call_id: str, path: str):
    return call("update_file", call_id, path=path, content="x")


EDITS = (
    calls(
        update("a", "README.md"),
        update("b", ".env"),
        call("delete_file", "c", path="__init__.py"),
        call("calculate_answer", "d", question="of everything"),
    ),
    {"text": "done"},
)


async def test_the_documented_agent_works_unchanged(server):
    page = Page(server)
    await page.play(*EDITS)
    assert {each: page.part(each)["state"] for each in "abcd"} == {
        "a": "output-available",
        "b": "approval-requested",
        "c": "approval-requested",
        "d": "input-available",
    }
    assert (files, tasks) == ({"README.md": "x"}, {"d": "of everything"})
    await server.answers("chat", {"toolCallId": "d", "output": 42})
    await page.reload()
    page.decide("c", False, "keep it").decide("b", True)
    assert continues(await page.post(), page.last["id"])
    assert page.text == "done"
    assert page.part("b")["output"] == "File '.env' updated: 'x'"
    assert page.part("c")["state"] == "output-denied"
    assert page.part("d")["output"] == 42
    assert files == {"README.md": "x", ".env": "x"}


async def test_as_a_sub_agent_it_asks_in_the_message_of_who_called_it(server):
    page = Page(server)
    topic = script(calls(update("b", ".env")), {"text": "edited"})
    await page.send(script(calls(call("edit", "e", topic=topic)), {"text": "done"}), agent="boss")
    assert page.part("b")["input"] == {"path": ".env", "content": "x"}
    assert continues(await page.decide("b", True).post(), page.last["id"])
    assert (page.part("e")["output"], page.text) == ("edited", "done")
    assert files == {".env": "x"}
