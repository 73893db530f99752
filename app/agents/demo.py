"""``demo``: an agent without a model behind it, so that a first look needs no key.

Its "model" is a list of rules: the first one whose words are in the user's message decides which tools are
called; what the tools gave is then told in plain sentences. It says openly that it is only rules.
Deterministic, and a pure function of the history, so that a run goes on the same wherever it is taken over.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any

from app.agent.model import ModelEvent, ModelRequest, ModelResponse, TextDelta, ToolInputDelta, Usage
from app.agent.present_turn import PresentTurn, present_turn
from app.agent.registry import Agent, Limits
from app.agents.tellings import tell
from app.agents.tools import RESEARCHER_TOOLS, assistant_tools

NAME, RESEARCHER = "demo", "researcher"

INTRODUCTION = """\
I am the built-in demo: a few rules, not a language model. Configure a model to talk to a real one. Try:

- “What is the weather in Oslo and Rome?” (tools on the server, two at once)
- “Where am I?” (a tool in your browser)
- “Let me pick a colour” (your choice is the tool's result)
- “Send an email to ada@example.com” (waits for your approval)
- “Research tea” (a sub-agent, which asks you too)
- “Be slow” or “Fail” (a tool that takes its time, and one that breaks)"""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the rules say next: a text, and the tools to call as ``(tool, input)``."""

    text: str
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()


Rules = Callable[[PresentTurn], Reply]


class RuleModel:
    """A model made of rules. Text leaves word by word, ``delay_s`` apart."""

    def __init__(self, rules: Rules, *, delay_s: float = 0.02) -> None:
        self._rules = rules
        self._delay_s = delay_s

    async def step(self, request: ModelRequest) -> AsyncGenerator[ModelEvent | ModelResponse, None]:
        turn = present_turn(request.history)
        reply = self._rules(turn)
        parts: list[dict[str, Any]] = [{"type": "text", "text": reply.text}]
        words = re.findall(r"\s*\S+|\s+$", reply.text) or [reply.text]
        for index, word in enumerate(words):
            if index:
                await asyncio.sleep(self._delay_s)
            yield TextDelta(0, word)
        for number, (tool, given) in enumerate(reply.calls):
            call_id = f"call_{turn.step}_{number}"
            yield ToolInputDelta(len(parts), json.dumps(given, ensure_ascii=False), call_id, tool)
            parts.append({"type": "call", "id": call_id, "tool": tool, "input": given})
        yield ModelResponse(parts, Usage(len(request.history), len(words) + len(reply.calls)))


# --- the rules of the demo
# ---------------------------------------------------------------------------------------


def _weather(text: str) -> Reply:
    named = re.search(r"\b(?:in|for|of|at)\s+(.+)", text, re.IGNORECASE)
    places = re.split(r"\s*(?:,|\band\b|\bor\b|&)\s*", named.group(1)) if named else []
    cities = [city for place in places if (city := re.sub(r"[?!.\s]+$", "", place).strip())][:5] or ["Oslo"]
    said = " and ".join(cities)
    return Reply(
        f"I will look up the weather in {said}.", tuple(("get_weather", {"city": city}) for city in cities)
    )


def _email(text: str) -> Reply:
    address = re.search(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", text)
    mail = {
        "to": address.group() if address else "ada@example.com",
        "subject": "Hello from the demo",
        "body": "This mail was written by a few rules and approved by a human.",
    }
    return Reply(
        f"I have written a mail to {mail['to']}. It leaves only if you approve it.", (("send_email", mail),)
    )


def _research(text: str) -> Reply:
    topic = re.sub(
        r"[?!.\s]+$", "", re.split(r"\bresearch\b", text, maxsplit=1, flags=re.IGNORECASE)[1]
    ).strip()
    topic = topic or "streams"
    return Reply(f"I will have the researcher look into {topic}.", (("research", {"topic": topic}),))


def _fail(text: str) -> Reply:
    kind = next((kind for kind in ("private", "timeout") if kind in text.casefold()), "public")
    return Reply("I will call a tool that fails.", (("fail", {"kind": kind}),))


def _slow(text: str) -> Reply:
    number = re.search(r"\d+", text)
    ms = min(int(number.group()[:7]), 60_000) if number else 2000
    return Reply(f"I will take {ms} ms for this.", (("slow", {"ms": ms}),))


def _pick(_: str) -> Reply:
    choice = {"question": "Which colour do you like best?", "options": ["red", "green", "blue"]}
    return Reply("It is your choice.", (("pick_option", choice),))


def _location(_: str) -> Reply:
    return Reply("I will ask your browser.", (("get_location", {}),))


RULES: tuple[tuple[str, Callable[[str], Reply]], ...] = (
    (r"\bresearch\b", _research),
    (r"\be-?mails?\b|\bmail\b", _email),
    (r"\bweather\b", _weather),
    (r"\bwhere am i\b|\blocation\b", _location),
    (r"\bpick\b|\bchoose\b|\bchoice\b", _pick),
    (r"\bfail(?:s|ure)?\b|\bbreak\b", _fail),
    (r"\bslow(?:ly)?\b|\bwait\b", _slow),
)
"""The words that call for a rule, the first match first."""


MAX_TEXT = 2000
"""Characters of a message that the rules look at: some of their patterns need the square of it."""


def demo_rules(turn: PresentTurn) -> Reply:
    """What the demo says next."""
    if turn.step:
        return Reply(" ".join(tell(result) for result in turn.newest) or INTRODUCTION)
    text = turn.text[:MAX_TEXT]
    for words, rule in RULES:
        if re.search(words, text, re.IGNORECASE):
            return rule(text)
    return Reply(INTRODUCTION)


def researcher_rules(turn: PresentTurn) -> Reply:
    """The researcher: search and ask at once, publish, then sum up."""
    topic = turn.text[:200] or "streams"
    if turn.step == 0:
        question = {"question": f"What should I look at, about {topic}?"}
        return Reply("I will search the notes.", (("search_notes", {"query": topic}), ("ask_user", question)))
    if turn.step == 1:
        return Reply("I have something to publish.", (("publish_note", {"title": f"On {topic}"}),))
    return Reply(f"About {topic}: " + " ".join(tell(result) for result in turn.results))


def agents(limits: Limits, *, delay_s: float = 0.02) -> list[Agent]:
    """The demo and its researcher."""
    return [
        Agent(NAME, "", RuleModel(demo_rules, delay_s=delay_s), assistant_tools(RESEARCHER), limits),
        Agent(RESEARCHER, "", RuleModel(researcher_rules, delay_s=delay_s), RESEARCHER_TOOLS, limits),
    ]
