"""Any order of what people do to one chat, in two tabs, against ``chat_model``; the server is the real one, crashes included.

400 examples of up to 25 steps; ``MACHINE_EXAMPLES`` and ``MACHINE_STEPS`` make it longer. ``MACHINE_RANDOM=1`` draws other ones each
time, and shrinks what fails.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.inprocess.agents import forget, gates
from tests.inprocess.asgi import Reply
from tests.inprocess.chat import Page, call, calls, mail, script
from tests.inprocess.fixtures import Serve
from tests.inprocess.server import Server
from tests.sessions.chat_model import Batch, Chat

EXAMPLES = int(os.environ.get("MACHINE_EXAMPLES", "400"))
STEPS = int(os.environ.get("MACHINE_STEPS", "25"))
RANDOM = "MACHINE_RANDOM" in os.environ

KINDS = st.lists(st.sampled_from(["client", "approval"]), min_size=1, max_size=3)
TURNS = st.lists(KINDS, max_size=2)
TABS = st.sampled_from([0, 1])
INDEX = st.integers(0, 9)


class People(RuleBasedStateMachine):
    server: Server
    runner: asyncio.Runner
    examples = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).examples += 1
        self.chat_id = f"chat-{self.examples}"
        self.model = Chat()
        self.tabs = [Page(self.server, self.chat_id), Page(self.server, self.chat_id)]
        self.said = 0

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    def batches(self, shape: list[list[str]]) -> list[Batch]:
        self.said += 1
        return [
            [(f"m{self.said}b{b}c{c}", kind) for c, kind in enumerate(kinds)] for b, kinds in enumerate(shape)
        ]

    def text(self, batches: list[Batch], *, first: list[dict[str, Any]] | None = None) -> str:
        steps = [
            calls(*(mail(i) if kind == "approval" else call("get_location", i) for i, kind in b))
            for b in batches
        ]
        return script(*(first or []), *steps, {"text": f"end {self.said}"})

    def filled_in(self, tab: Page) -> dict[str, dict[str, Any]]:
        """The answers that the tab's last assistant message holds."""
        message = next((m for m in reversed(tab.messages) if m["role"] == "assistant"), None)
        found: dict[str, dict[str, Any]] = {}
        for part in message["parts"] if message else []:
            match part.get("state"):
                case "output-available" | "output-error" if not part.get("providerExecuted"):
                    key = "output" if part["state"] == "output-available" else "errorText"
                    found[part["toolCallId"]] = {key: part[key]}
                case "approval-responded":
                    found[part["toolCallId"]] = {"approved": part["approval"]["approved"]}
                case _:
                    pass
        return found

    @rule(tab=TABS, shape=TURNS)
    def send(self, tab: int, shape: list[list[str]]) -> None:
        page, batches = self.tabs[tab], self.batches(shape)
        answers = self.filled_in(page)
        reply = self.run(page.send(self.text(batches), f"u{self.said}"))
        assert reply.status == 200, reply.error
        self.model.abandon(answers)
        self.model.begin(f"u{self.said}", batches)

    @rule(tab=TABS, which=INDEX, how=st.sampled_from(["yes", "no", "error", "value"]))
    def fill_in(self, tab: int, which: int, how: str) -> None:
        page = self.tabs[tab]
        waits = {"input-available", "approval-requested"}
        parts = [p for m in page.messages for p in m["parts"] if p.get("state") in waits]
        if not parts:
            return
        part = parts[which % len(parts)]
        if part["state"] == "approval-requested":
            page.decide(part["toolCallId"], how in ("yes", "value"))
        elif how in ("error", "no"):
            page.error(part["toolCallId"], how)
        else:
            page.output(part["toolCallId"], {"tab": tab})

    @rule(tab=TABS)
    def post(self, tab: int) -> None:
        page = self.tabs[tab]
        if not page.messages or page.last["role"] != "assistant":
            return
        answers = self.filled_in(page)
        reply: Reply = self.run(page.post())
        if reply.status == 429:
            return  # the same harmless answer again and again
        expected = self.model.submit(answers) if answers else (200, None)
        assert (reply.status, (reply.error or {}).get("cause")) == expected, reply.error

    @rule(tab=TABS)
    def reload(self, tab: int) -> None:
        if self.model.turns:
            self.run(self.tabs[tab].reload())

    @rule(tab=TABS)
    def resend(self, tab: int) -> None:
        """The request of the newest user message again: never a second turn."""
        page = self.tabs[tab]
        user = next((m for m in reversed(page.messages) if m["role"] == "user"), None)
        if user is None or self.model.turn_of(user["id"]) is None:
            return
        seen = Page(self.server, self.chat_id, [*page.messages[: page.messages.index(user) + 1]])
        assert self.run(seen.post()).status == 200

    @rule(which=INDEX)
    def answer_elsewhere(self, which: int) -> None:
        pending = sorted(self.model.pending)
        if not pending:
            return
        chosen = pending[which % len(pending)]
        found = self.run(self.server.snapshot(self.chat_id))["pending"]
        asked = next(p for p in found if p["toolCallId"] == chosen)
        if "approvalId" in asked:
            answer: dict[str, Any] = {"approvalId": asked["approvalId"], "approved": True}
            self.model.submit({chosen: {"approved": True}})
        else:
            answer = {"output": "elsewhere"}
            self.model.submit({chosen: answer})
        reply = self.run(self.server.answers(self.chat_id, {"toolCallId": chosen, **answer}))
        assert reply.status == 200
        assert self.run(reply.json())["outcomes"][0]["outcome"] == "stored"

    @rule(tab=TABS, which=INDEX, shape=TURNS)
    def edit(self, tab: int, which: int, shape: list[list[str]]) -> None:
        self._rewind(tab, which, self.batches(shape))

    @rule(tab=TABS, which=INDEX)
    def regenerate(self, tab: int, which: int) -> None:
        self._rewind(tab, which, None)

    def _rewind(self, tab: int, which: int, batches: list[Batch] | None) -> None:
        page = self.tabs[tab]
        users = [m for m in page.messages if m["role"] == "user" and self.model.turn_of(m["id"]) is not None]
        if not users:
            return
        user = users[which % len(users)]
        del page.messages[page.messages.index(user) :]
        if batches is None:
            reply = self.run(_again(page, user))
        else:
            reply = self.run(page.send(self.text(batches), user["id"], messageId=user["id"]))
        assert reply.status == 200, reply.error
        self.model.rewind(user["id"], batches)

    @rule()
    def stop(self) -> None:
        if self.model.turns:
            self.run(self.server.stop(self.chat_id))
            self.model.stop()

    @rule(tab=TABS, shape=TURNS)
    def crash_in_a_tool(self, tab: int, shape: list[list[str]]) -> None:
        page, batches = self.tabs[tab], self.batches(shape)
        answers, gate = self.filled_in(page), f"gate{self.chat_id.replace('-', '')}n{self.said}"
        held = [calls(call("hold", f"h{self.said}", gate=gate))]
        page.say(self.text(batches, first=held), f"u{self.said}")
        self.run(self._crash(page, gate))
        self.model.abandon(answers)
        self.model.begin(f"u{self.said}", batches)
        part = page.part(f"h{self.said}")
        assert part["errorText"].startswith("Interrupted"), "a started tool is not run again"

    async def _crash(self, page: Page, gate: str) -> None:
        lost = await page.open()
        assert lost.status == 200
        await gates[gate].reached.wait()
        await self.server.crash()
        gates[gate].open()  # a regeneration of this turn is not held
        self.server.running.supervisor._claim_now.set()  # the takeover need not wait for its poll
        await lost.rest()
        await self.server.quiet(self.chat_id)
        await page.reload()

    @invariant()
    def it_is_as_the_model_says(self) -> None:
        if not self.model.turns:
            return
        snapshot = self.run(self.server.quiet(self.chat_id))
        assert snapshot["status"] == ("suspended" if self.model.live else "idle")
        assert {p["toolCallId"] for p in snapshot["pending"]} == self.model.pending
        users = [m["id"] for m in snapshot["messages"] if m["role"] == "user"]
        assert users == [turn.user_id for turn in self.model.turns]
        assert [m["role"] for m in snapshot["messages"]] == ["user", "assistant"] * len(users)
        sent = Counter(m["callId"] for m in self.server.sent_mail() if m["sessionId"] == self.chat_id)
        assert sent == Counter(self.model.executed), "each approved tool ran once, and no other one"
        waits = {"input-available", "approval-requested"}
        open_parts = {
            p["toolCallId"] for m in snapshot["messages"] for p in m["parts"] if p.get("state") in waits
        }
        assert open_parts == self.model.pending, "what is open is what can be answered"


async def _again(page: Page, user: dict[str, Any]) -> Reply:
    page.messages.append(user)
    return await page.post(trigger="regenerate-message")


@pytest.fixture
def people(serve: Serve) -> Iterator[type[People]]:
    forget()
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        server = runner.run(stack.enter_async_context(serve()))
        yield type("Somebody", (People,), {"server": server, "runner": runner, "TestCase": People.TestCase})
        runner.run(stack.aclose())


@pytest.mark.timeout(int(os.environ.get("MACHINE_TIMEOUT", "600")))
def test_any_order_of_what_people_do_ends_as_the_model_says(people: type[People]):
    run_state_machine_as_test(
        people,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            derandomize=not RANDOM,
            suppress_health_check=[
                HealthCheck.too_slow,
                HealthCheck.data_too_large,
                HealthCheck.filter_too_much,
            ],
            phases=[Phase.generate, Phase.shrink] if RANDOM else [Phase.generate],
        ),
    )
