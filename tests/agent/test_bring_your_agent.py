"""The example agents, served by a process of their own, on a loopback provider that judges every request."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from tests.acceptance.replica import Replica
from tests.fakes import openai_server as fake
from tests.fakes.openai_server import OpenAIServer, openai_server
from tests.inprocess.chat import Page
from tests.inprocess.fixtures import logs, serve

__all__ = ["logs", "serve"]  # fixtures

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(90)]


@pytest.fixture
async def provider() -> AsyncIterator[OpenAIServer]:
    async with openai_server() as running:
        yield running
        assert [fault for request in running.requests for fault in fake.faults_of(request)] == []
        assert running.replies == []


@pytest.fixture(autouse=True)
def on_the_provider(provider, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", provider.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")


SETTINGS: dict[str, Any] = {
    "agents": "tests.agent.example_agents:AGENTS",
    "model": "openai-chat:some-model",
    "auth": "api_key",
    "api_keys": "ada:k",
}
KEY = {"authorization": "Bearer k"}


@pytest.fixture
async def replica(database_url, tmp_path) -> AsyncIterator[Replica]:
    made = Replica("one", tmp_path, database_url, scripted=None, **SETTINGS)
    await made.start()
    yield made
    await made.terminate()
    made.kill()


class Tab(Page):
    """A tab of Ada's, over HTTP."""

    def __init__(self, replica: Replica, agent: str) -> None:
        super().__init__(None, "chat-1")  # pyright: ignore[reportArgumentType]
        self._replica = replica
        self._agent = agent

    async def go(self, **keys: Any) -> list[dict[str, Any]]:
        """Posts what is shown, shows the answer, and gives its frames."""
        async with httpx2.AsyncClient(trust_env=False, timeout=30) as client:
            sent = self.body(agent=self._agent, **keys)
            reply = await client.post(f"{self._replica.url}/chat", json=sent, headers=KEY)
        assert reply.status_code == 200, reply.text
        lines = [line[6:] for line in reply.text.splitlines() if line.startswith("data: ")]
        assert lines.pop() == "[DONE]"
        frames = [json.loads(line) for line in lines]
        self.show(frames)
        return frames

    async def stored(self) -> list[dict[str, Any]]:
        async with httpx2.AsyncClient(trust_env=False) as client:
            reply = await client.get(f"{self._replica.url}/chat/chat-1", headers=KEY)
        return reply.json()["messages"][-1]["parts"]


def calls(*made: tuple[str, str, dict[str, Any]], said: str = "") -> fake.Reply:
    started = [
        fake.call_start(i, call_id, name, json.dumps(given)) for i, (call_id, name, given) in enumerate(made)
    ]
    return fake.stream(
        *([fake.text(said)] if said else ()), *started, fake.delta("tool_calls"), fake.usage(3, 2)
    )


def told(request: dict[str, Any]) -> dict[str, str]:
    """What the model was told of each call."""
    return {m["tool_call_id"]: m["content"] for m in request["messages"] if m["role"] == "tool"}


async def test_a_plain_agent_is_served_as_it_is_and_its_approval_outlives_the_process(provider, replica):
    provider.replies.append(
        calls(
            ("c1", "customer_balance", {"include_pending": False}),
            ("c2", "close_account", {"reason": "fraud"}),
            ("c3", "customer_balance", {"include_pending": "perhaps"}),
            said="Let me see.",
        )
    )
    tab = Tab(replica, "bank")
    tab.say("Close my account!")
    await tab.go()
    first = provider.requests[0]
    assert [m["content"] for m in first["messages"] if m["role"] == "system"] == [
        "You are a support agent of a bank: advise the customer, and judge the risk of the query.",
        "The customer's name is 'ada'.",
    ]
    assert {t["function"]["name"] for t in first["tools"]} == {
        "customer_balance",
        "close_account",
        "final_result",
    }
    assert tab.text == "Let me see."
    assert tab.part("c1")["errorText"] == "Ask for the pending payments too."
    assert tab.part("c2")["state"] == "approval-requested"
    assert tab.part("c3")["state"] == "output-error"

    replica.kill()
    await replica.start()

    provider.replies += [
        calls(("c4", "customer_balance", {"include_pending": True})),
        calls(("c5", "final_result", {"advice": "Stay calm.", "block_card": True, "risk": 99})),
        calls(("c6", "final_result", {"advice": "Stay calm.", "block_card": True, "risk": 9})),
    ]
    tab.decide("c2", True)
    await tab.go()
    assert tab.part("c2")["output"] == "closed: fraud"
    assert tab.part("c4")["output"] == "123.45"
    assert told(provider.requests[1])["c2"] == "closed: fraud"
    assert "Ask for the pending payments" in told(provider.requests[1])["c1"]
    assert "less than or equal to 10" in json.dumps(provider.requests[3])
    said = [part["text"] for part in await tab.stored() if part["type"] == "text"]
    assert [json.loads(said[-1]), tab.text] == [
        {"advice": "Stay calm.", "block_card": True, "risk": 9},
        "".join(said),
    ]
    assert "final_result" not in json.dumps(await tab.stored())

    provider.replies.append(calls(("c7", "final_result", {"advice": "No.", "block_card": False, "risk": 0})))
    tab.say("And now?")
    await tab.go()
    assert json.loads(tab.text)["advice"] == "No."


async def test_a_denied_approval_is_told_and_an_invented_tool_fails(provider, serve):
    provider.replies.append(calls(("c1", "close_account", {"reason": "?"}), ("c2", "launch", {})))
    async with serve(**SETTINGS) as server:
        server.headers = KEY
        page = Page(server)
        await page.send("Close it", agent="bank")
        assert page.part("c2")["state"] == "output-error"
        provider.replies.append(
            calls(("c3", "final_result", {"advice": "Kept.", "block_card": False, "risk": 0}))
        )
        await page.decide("c1", False, "too soon").post()
    assert "too soon" in told(provider.requests[1])["c1"]


async def test_a_declared_agent_has_its_context_tools_and_approvals_that_depend_on_the_input(provider, serve):
    provider.replies.append(
        calls(
            ("c1", "find_orders", {}),
            ("c2", "refund", {"number": "A1", "amount": 40}),
            ("c3", "refund", {"number": "A2", "amount": 900}),
            ("c4", "refund", {"number": "ZZ", "amount": 1}),
            ("c5", "notes_add", {"text": "angry"}),
            ("c6", "notes_forget", {}),
        )
    )
    async with serve(**SETTINGS) as server:
        server.headers = KEY
        page = Page(server)
        reply = await page.send("I want my money back", agent="support", language="French")
    first = provider.requests[0]
    assert first["messages"][0]["content"] == "You help ada with orders. Answer in French."
    assert first["temperature"] == 0
    names = {each["function"]["name"] for each in first["tools"]}
    assert {"find_orders", "refund", "pick_date", "notes_add", "notes_forget"} <= names
    outputs = [page.part(call)["output"] for call in ("c1", "c2", "c5")]
    assert outputs == [{"A1": 40, "A2": 900}, "refunded 40", {"notes": 1}]
    assert page.part("c4")["errorText"] == "There is no order ZZ."
    assert [page.part(call)["state"] for call in ("c3", "c6")] == ["approval-requested"] * 2
    transient = [frame for frame in reply.frames if frame.get("transient")]
    assert any("refunding 40 for A1" in json.dumps(frame) for frame in transient)
    told = [part for part in page.last["parts"] if part["type"] == "data-refund"]
    assert told == [{"type": "data-refund", "id": "A1", "data": {"number": "A1", "amount": 40}}]

    # The server of the notes has ended with the replica, and is started again for the approved call.
    provider.replies.append(fake.answer("All done."))
    async with serve(**SETTINGS) as server:
        server.headers = KEY
        page = page.copy(server)
        await page.decide("c3", True).decide("c6", True).post()
    assert [page.part("c3")["output"], page.part("c6")["output"]] == ["refunded 900", "forgotten"]
    assert page.text == "All done."


async def test_a_sub_agents_output_is_the_value_of_its_parents_call(provider, serve):
    provider.replies += [
        calls(("c1", "ask_judge", {"topic": "It came broken."})),
        calls(("o1", "final_result", {"fault": "ours", "owed": -1})),
        calls(("o2", "final_result", {"fault": "ours", "owed": 40})),
        fake.answer("We owe you 40."),
    ]
    async with serve(**SETTINGS) as server:
        server.headers = KEY
        page = Page(server)
        await page.send("It came broken.", agent="support")
    assert page.part("c1")["output"] == {"fault": "ours", "owed": 40}
    assert page.text == "We owe you 40."
    _, first, second, last = provider.requests
    assert [each["function"]["name"] for each in first["tools"]] == ["final_result"]
    assert first["tool_choice"] == "required", "a text is not the output"
    assert "greater than or equal to 0" in told(second)["o1"]
    assert json.loads(told(last)["c1"]) == {"fault": "ours", "owed": 40}
