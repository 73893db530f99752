"""The registry and the built-in agents: what is served, and that a bad declaration is one clear line."""

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from app.agent.context import RequestContext
from app.agent.model import ModelRequest, ModelResponse
from app.agent.models import model
from app.agent.own import own
from app.agent.registry import Agent, Limits, Registry, RegistryError
from app.agent.scripted import ScriptedModel
from app.agent.tools import Kind, ToolContext, run_tool, subagent, tool
from app.agents import demo
from app.agents.built_in import built_in
from app.domain.call_state import Outcome
from app.domain.history import Entry, assistant_entry, tool_entry, user_entry

pytestmark = pytest.mark.anyio


class Silent:
    async def step(self, request):
        yield ModelResponse([])


@tool
def echo(text: str) -> str:
    return text


def agent(name: str = "a", **fields: Any) -> Agent:
    return Agent(**{"name": name, "instructions": "", "model": Silent(), **fields})


# --- declarations


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"name": "no spaces"}, "name"),
        ({"model": object()}, "no step"),
        ({"tools": (echo, echo)}, "two tools are called echo"),
        ({"tools": (print,)}, "not a Tool"),
        ({"toolsets": (print,)}, "not a toolset"),
    ],
)
def test_a_bad_agent_is_refused_in_one_line(fields, why):
    with pytest.raises(RegistryError, match=why) as caught:
        agent(**fields)
    assert "\n" not in str(caught.value)


HERE = RequestContext("ada", "chat", "run", {"lang": "fr"})


async def test_instructions_may_depend_on_the_request():
    async def later(context):
        return f"for {context.owner}"

    for instructions, expected in (
        ("plain", "plain"),
        (lambda c: f"in {c.request['lang']}", "in fr"),
        (later, "for ada"),
    ):
        assert (await agent(instructions=instructions).for_step(HERE)).instructions == expected


def test_tools_are_found_by_name():
    made = agent(tools=[echo])
    assert made.tools == (echo,)
    assert made.tool("echo") is echo
    assert made.tool("nope") is None


def test_a_registry_refuses_what_it_cannot_serve():
    for agents, why in [
        ([], "no agent"),
        ([agent(), agent()], "two agents are called a"),
        ([agent(tools=[subagent("r", "", "nobody")])], "needs an agent called nobody"),
    ]:
        with pytest.raises(RegistryError, match=why):
            Registry(agents)


# --- AGENT_SERVER_AGENTS


@pytest.fixture
def module(monkeypatch):
    made = ModuleType("users_agents")
    monkeypatch.setitem(sys.modules, "users_agents", made)
    return made


def load(spec: str | None, **options: Any) -> Registry:
    return Registry.load(spec, built_in=lambda: built_in(None), **options)


def test_the_users_agents_replace_the_built_in_ones(module):
    module.agents = {"first": agent("x"), "second": agent("second")}
    registry = load("users_agents:agents")
    assert registry.names == ("first", "second")
    assert registry.default == "first"
    assert registry.get("first") is not None
    assert registry.get("demo") is None
    module.listed = [agent("one")]
    assert load("users_agents:listed").names == ("one",)
    module.alone = agent("solo")
    assert load("users_agents:alone").names == ("solo",)


def test_an_agent_may_leave_its_model_to_the_deployment(module):
    module.agents = [agent("a", model=model(temperature=0))]
    with pytest.raises(RegistryError, match="AGENT_SERVER_MODEL is not set"):
        load("users_agents:agents")
    loaded = load("users_agents:agents", model="test").get("a")
    assert type(loaded and loaded.model).__name__ == "PydanticAiModel"
    assert load("users_agents:agents", scripted=True).names == ("a",)
    with pytest.raises(RegistryError, match="model nonsense") as refused:
        model("nonsense")
    assert "\n" not in str(refused.value)


def test_plain_agents_of_the_library_are_taken_as_they_are(module):
    from pydantic_ai import Agent as LibraryAgent

    module.alone = LibraryAgent("test", name="named")
    module.agents = {
        "first": LibraryAgent("test"),
        "second": agent("second"),
        "third": own(LibraryAgent("test")),
    }
    assert load("users_agents:alone").names == ("named",)
    assert load("users_agents:agents").names == ("first", "second", "third")
    module.bad = [LibraryAgent("test")]
    with pytest.raises(RegistryError, match="needs a name"):
        load("users_agents:bad")


async def test_what_an_agent_holds_open_is_closed_once(module):
    class Held(Silent):
        closed = 0

        def may_have(self, name):
            return False

        async def aclose(self):
            self.closed += 1

    shared, servers = Held(), Held()
    module.agents = [agent(name, model=shared, toolsets=[servers]) for name in ("a", "b")]
    await load("users_agents:agents").aclose()
    assert (shared.closed, servers.closed) == (1, 1)


def test_a_bad_spec_is_one_clear_line(module):
    module.number, module.mixed, module.text = 3, [agent(), 3], "agents"
    module.__getattr__ = lambda name: (
        1 / 0 if name == "broken" else (_ for _ in ()).throw(AttributeError(name))
    )
    for spec, why in [
        ("users_agents", "module:attribute"),
        (":x", "module:attribute"),
        ("no_such_module:x", "No module named"),
        ("users_agents:missing", "AttributeError"),
        ("users_agents:broken", "ZeroDivisionError"),
        ("users_agents:number", "int is not a mapping or list of agents"),
        ("users_agents:text", "str is not a mapping or list of agents"),
        ("users_agents:mixed", "int is not an Agent"),
    ]:
        with pytest.raises(RegistryError, match=why) as caught:
            load(spec)
        assert "\n" not in str(caught.value)


def test_scripted_wraps_every_model():
    registry = load(None, scripted=True)
    for name in registry.names:
        found = registry.get(name)
        assert found is not None
        assert isinstance(found.model, ScriptedModel)


async def test_closing_closes_each_model_once():
    class Connected(Silent):
        closed = 0

        async def aclose(self):
            self.closed += 1

    shared = Connected()
    await Registry([agent("a", model=shared), agent("b", model=shared), agent("c")]).aclose()
    assert shared.closed == 1


# --- the built-in agents


def test_the_demo_needs_nothing_and_imports_no_provider():
    code = (
        "import sys; from app.agents.built_in import built_in; built_in(None);"
        "print([name for name in ('pydantic_ai', 'openai', 'anthropic', 'mcp') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_configured_model_makes_the_assistant_the_default(monkeypatch):
    registry = Registry(built_in("test", limits=Limits(max_steps=5)))
    assert registry.names == ("assistant", "assistant-researcher", "demo", "researcher")
    assert registry.default == "assistant"
    found = registry.get("assistant")
    assert found is not None
    assert found.limits.max_steps == 5
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(RegistryError, match="AGENT_SERVER_MODEL=openai:x"):
        built_in("openai:x")


def test_the_built_in_tools_are_of_every_kind():
    registry = load(None)
    kinds = {
        declared.name: declared.kind_for({})
        for name in ("demo", "researcher")
        for declared in (registry.get(name) or agent()).tools
    }
    assert kinds == {
        "get_weather": Kind.SERVER,
        "slow": Kind.SERVER,
        "fail": Kind.SERVER,
        "get_location": Kind.CLIENT,
        "pick_option": Kind.CLIENT,
        "send_email": Kind.APPROVAL,
        "research": Kind.SUBAGENT,
        "search_notes": Kind.SERVER,
        "ask_user": Kind.CLIENT,
        "publish_note": Kind.APPROVAL,
    }


async def call(name: str, given: dict[str, Any], outbox: Path = Path("unused")) -> Any:
    made = next(t for one in demo.agents(Limits()) for t in one.tools if t.name == name)
    context = ToolContext("ada", "chat-1", "run-1", {}, "call-1", outbox)
    return await run_tool(made, context, made.check(given))


async def test_the_weather_of_a_city_does_not_change():
    first = await call("get_weather", {"city": "Oslo"})
    assert first.outcome is Outcome.OK
    assert first == await call("get_weather", {"city": "Oslo"})
    assert first.value != (await call("get_weather", {"city": "Rome"})).value


async def test_fail_fails_in_each_way():
    assert (await call("fail", {"kind": "public"})).error_code == "tool_error"
    private = await call("fail", {"kind": "private"})
    assert private.error_text == "The tool failed."
    assert (await call("fail", {"kind": "timeout"})).error_code == "tool_timeout"


async def test_slow_waits():
    assert (await call("slow", {"ms": 1})).value == {"waitedMs": 1}


async def test_mail_and_notes_are_one_line_each_in_the_outbox(tmp_path):
    outbox = tmp_path / "new" / "folder" / "outbox.jsonl"
    mail = {"to": "bob@example.com", "subject": "Hi", "body": "two\nlines"}
    assert (await call("send_email", mail, outbox)).value["sent"] is True
    assert (await call("publish_note", {"title": "Tea"}, outbox)).value["published"] is True
    lines = [json.loads(line) for line in outbox.read_text().splitlines()]
    where = {"callId": "call-1", "runId": "run-1", "sessionId": "chat-1", "owner": "ada"}
    assert lines == [{"kind": "email", **where, **mail}, {"kind": "note", **where, "title": "Tea"}]


async def test_a_mail_that_cannot_be_written_is_a_failed_tool(tmp_path):
    mail = {"to": "b", "subject": "", "body": ""}
    assert (await call("send_email", mail, tmp_path)).error_code == "tool_failed"


# --- the demo's rules


async def reply(*history: Entry, name: str = "demo") -> ModelResponse:
    made = next(one for one in demo.agents(Limits(), delay_s=0) if one.name == name)
    *events, response = [event async for event in made.model.step(ModelRequest("", history))]
    assert isinstance(response, ModelResponse)
    text = "".join(getattr(event, "text", "") for event in events if type(event).__name__ == "TextDelta")
    assert text == response.parts[0]["text"], "the pieces make the whole"
    for part in response.parts[1:]:
        declared = made.tool(part["tool"])
        assert declared is not None
        assert declared.check(part["input"]) == part["input"]
    return response


def says(text: str) -> Entry:
    return user_entry([{"type": "text", "text": text}])


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("What's the weather in Oslo and New York?", [("get_weather", "Oslo"), ("get_weather", "New York")]),
        ("weather", [("get_weather", "Oslo")]),
        ("Where am I?", [("get_location", None)]),
        ("let me pick a colour", [("pick_option", None)]),
        ("Send an email to bob@example.com", [("send_email", "bob@example.com")]),
        ("research the weather in Oslo", [("research", "the weather in Oslo")]),
        ("fail", [("fail", "public")]),
        ("fail with a timeout", [("fail", "timeout")]),
        ("be slow, 99999999999999 ms", [("slow", 60_000)]),
        ("hello", []),
        ("help", []),
        ("", []),
    ],
)
async def test_the_words_of_the_message_decide(text, calls):
    parts = (await reply(says(text))).parts
    made = [(part["tool"], next(iter(part["input"].values()), None)) for part in parts[1:]]
    for (name, value), (wanted, first) in zip(made, calls, strict=True):
        assert name == wanted
        assert first is None or value == first
    if not calls:
        assert "not a language model" in parts[0]["text"]


@pytest.mark.parametrize("name", ["get_weather", "get_location", "pick_option", "send_email", "research"])
@pytest.mark.parametrize("outcome", list(Outcome))
async def test_every_result_is_told_in_words(name, outcome):
    values: list[Any] = [None, "text", 3, [], {}, {"city": {}}, {"x": "{y}"}, "{0}"]
    for value in values if outcome is Outcome.OK else ["why", "", "{0.x}"]:
        made = assistant_entry([{"type": "call", "id": "c", "tool": name, "input": {}}])
        result = tool_entry([{"id": "c", "tool": name, "outcome": outcome.value, "value": value}])
        response = await reply(says("go"), made, result)
        assert len(response.parts) == 1
        assert response.parts[0]["text"].strip()


async def test_the_researcher_searches_asks_publishes_and_sums_up():
    first = await reply(says("tea"), name="researcher")
    assert [part.get("tool") for part in first.parts] == [None, "search_notes", "ask_user"]
    results = tool_entry(
        [
            {"id": "call_0_0", "tool": "search_notes", "outcome": "ok", "value": []},
            {"id": "call_0_1", "tool": "ask_user", "outcome": "ok", "value": "green"},
        ]
    )
    history = [says("tea"), assistant_entry(first.parts), results]
    second = await reply(*history, name="researcher")
    assert second.parts[1]["tool"] == "publish_note"
    denied = tool_entry([{"id": "call_1_0", "tool": "publish_note", "outcome": "denied", "value": "not yet"}])
    third = await reply(*history, assistant_entry(second.parts), denied, name="researcher")
    assert "green" in third.parts[0]["text"]
    assert "not yet" in third.parts[0]["text"]
