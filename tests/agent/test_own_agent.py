"""A plain pydantic-ai Agent behind our ports: what keeps working, what its tools become, what is refused."""

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    ApprovalRequired,
    CallDeferred,
    ModelRetry,
    NativeOutput,
    RunContext,
    TextOutput,
    ToolFailed,
    ToolReturn,
)
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import ExternalToolset, FunctionToolset

from app.agent.context import RequestContext, ToolContext
from app.agent.declaration import Agent as OurAgent
from app.agent.declaration import RegistryError
from app.agent.model import (
    ModelEvent,
    ModelFailure,
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    TextDelta,
    ToolInputDelta,
    Usage,
)
from app.agent.own import Own, own
from app.agent.pydantic_ai_agent import served
from app.agent.scripted import ScriptedModel
from app.agent.tools import Asks, InvalidInput, Kind, ToolResult, run_tool
from app.domain.call_state import Outcome
from app.domain.history import Entry, assistant_entry, tool_entry, user_entry
from app.errors import Code
from tests.inprocess.fixtures import logs

__all__ = ["logs"]  # a fixture

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("logs")]

HERE = RequestContext("ada", "chat", "run", {"tone": "dry"})
CALL = ToolContext("ada", "chat", "run", {"tone": "dry"}, "c1", Path("unused"))
HI = user_entry([{"type": "text", "text": "hi"}])


class Script:
    """A model that says one thing for each request, and keeps what it was sent."""

    def __init__(self, *says: Sequence[Any]) -> None:
        self._says = list(says)
        self.sent: list[tuple[list[ModelMessage], AgentInfo]] = []
        self.model = FunctionModel(stream_function=self._speak)

    async def _speak(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        self.sent.append((messages, info))
        for each in self._says.pop(0):
            yield each

    @property
    def texts(self) -> list[str]:
        """Every text of the newest request."""
        parts: list[Any] = [part for message in self.sent[-1][0] for part in message.parts]
        return [str(part.content) for part in parts if hasattr(part, "content")]


def call(name: str, call_id: str = "c1", index: int = 0, /, **given: Any) -> dict[int, DeltaToolCall]:
    return {index: DeltaToolCall(name=name, json_args=json.dumps(given), tool_call_id=call_id)}


def serve(agent: Any, **more: Any) -> OurAgent:
    return served(agent if isinstance(agent, Own) else own(agent, **more), "a", None)


async def ask(agent: OurAgent, *history: Entry) -> tuple[list[ModelEvent], ModelResponse, Any]:
    step = await agent.for_step(HERE)
    *events, response = [event async for event in step.model.step(ModelRequest("", history or (HI,)))]
    assert isinstance(response, ModelResponse)
    return [event for event in events if not isinstance(event, ModelResponse)], response, step


async def run(agent: OurAgent, name: str, context: ToolContext = CALL, /, **given: Any) -> ToolResult:
    tool = agent.tool(name)
    assert tool is not None
    return await run_tool(tool, context, given)


def text_of(response: ModelResponse) -> str:
    return "".join(part["text"] for part in response.parts if part["type"] == "text")


# --- what the model is sent


async def test_instructions_prompts_settings_and_history_processors_apply_to_every_step():
    script = Script(["one"], ["two"])
    agent = Agent(
        script.model,
        deps_type=str,
        instructions="Static.",
        system_prompt="System.",
        model_settings={"temperature": 0.5},
        capabilities=[ProcessHistory(lambda messages: [messages[0], *messages[-1:]])],
    )

    @agent.instructions
    def dynamic(ctx: RunContext[str]) -> str:
        return f"For {ctx.deps}."

    ours = serve(agent, deps=lambda context: f"{context.owner} {context.request['tone']}")
    _, first, _ = await ask(ours)
    again = [HI, assistant_entry(first.parts), user_entry([{"type": "text", "text": "again"}])]
    await ask(ours, *again)
    for messages, info in script.sent:
        assert (info.instructions or "").split() == ["Static.", "For", "ada", "dry."]
        assert (info.model_settings or {}).get("temperature") == 0.5
        assert messages[0].parts[0].part_kind == "system-prompt"
    assert script.texts == ["System.", "['hi']", "['again']"], "the processor has left the answer out"


async def test_what_it_says_leaves_as_it_comes():
    ours = serve(Agent(Script([{0: DeltaThinkingPart(content="hm")}, "He", "llo"]).model))
    events, response, _ = await ask(ours)
    assert events == [ReasoningDelta(0, "hm"), TextDelta(1, "He"), TextDelta(1, "llo")]
    assert [part["type"] for part in response.parts] == ["reasoning", "text"]
    assert response.usage != Usage()


async def test_the_run_is_left_before_a_tool_begins():
    ran: list[str] = []
    agent = Agent(Script(["Wait.", call("look", "c1", 1)]).model)
    agent.tool_plain(name="look")(lambda: ran.append("x"))
    events, response, _ = await ask(serve(agent))
    assert events == [TextDelta(0, "Wait."), ToolInputDelta(1, "{}", "c1", "look")]
    assert response.parts[1] == {"type": "call", "id": "c1", "tool": "look", "input": {}}
    assert ran == []


# --- what its tools become


def bank() -> Agent[Any, Any]:
    script = Script(
        [
            call("read", "c1", 0),
            call("close", "c2", 1),
            call("pay", "c3", 2, amount=500),
            call("pay", "c4", 3, amount=5),
            call("locate", "c5", 4),
            call("nope", "c6", 5),
            call("read", "c7", 6, extra=1),
        ]
    )
    gated = FunctionToolset[Any]()

    @gated.tool_plain
    def pay(amount: int) -> str:
        return f"paid {amount}"

    where = ToolDefinition(name="locate", parameters_json_schema={"type": "object", "properties": {}})
    agent = Agent(
        script.model,
        toolsets=[
            gated.approval_required(lambda ctx, tool, given: given["amount"] > 100),
            ExternalToolset([where]),
        ],
    )

    @agent.tool_plain
    def read() -> int:
        return 7

    @agent.tool_plain(requires_approval=True)
    def close() -> str:
        return "closed"

    return agent


async def test_tools_are_of_our_kinds_by_what_the_agent_says_of_their_arguments():
    _, response, step = await ask(serve(bank()))
    kinds: dict[str, Any] = {}
    for part in response.parts:
        tool = step.tool(part["tool"])
        try:
            kinds[part["id"]] = tool and tool.kind_for(tool.check(part["input"]))
        except InvalidInput as error:
            kinds[part["id"]] = str(error)
    assert kinds == {
        "c1": Kind.SERVER,
        "c2": Kind.APPROVAL,
        "c3": Kind.APPROVAL,
        "c4": Kind.SERVER,
        "c5": Kind.CLIENT,
        "c6": None,
        "c7": "extra: Extra inputs are not permitted",
    }


async def test_a_stored_call_runs_in_a_process_that_never_asked_the_model():
    ours = serve(bank())
    assert (await run(ours, "read")).value == 7
    assert (await run(ours, "pay", amount=5)).value == "paid 5"
    approved = replace(CALL, approved=True)
    assert (await run(ours, "pay", approved, amount=500)).value == "paid 500"
    assert (await run(ours, "close", approved)).value == "closed"


async def test_what_a_tool_raises_is_a_failed_result():
    agent = Agent(TestModel())

    @agent.tool_plain
    def fails(how: str) -> None:
        raise {
            "retry": ModelRetry("again, please"),
            "failed": ToolFailed("no such order"),
            "bug": RuntimeError("secret"),
        }[how]

    ours = serve(agent)
    texts = {how: (await run(ours, "fails", how=how)).value for how in ("retry", "failed", "bug")}
    assert texts["retry"] == "again, please"
    assert texts["failed"] == "no such order"
    assert texts["bug"] == "The tool failed."
    refused = await run(ours, "fails", how=1)
    assert (refused.outcome, refused.error_code) == (Outcome.ERROR, "tool_invalid_input")
    assert (await run(ours, "invented")).outcome is Outcome.ERROR


async def test_a_tool_may_ask_while_it_runs():
    agent = Agent(TestModel())

    @agent.tool
    def pay(ctx: RunContext, amount: int) -> str:
        if amount > 100 and not ctx.tool_call_approved:
            raise ApprovalRequired(metadata={"amount": amount})
        return f"paid {amount}"

    @agent.tool_plain
    def transfer() -> str:
        raise CallDeferred(metadata={"task": 1})

    def careful(ctx: RunContext) -> None:
        raise CallDeferred

    agent.tool_plain(name="judged", args_validator=careful)(lambda: "never")
    ours = serve(agent)
    assert (await run(ours, "pay", amount=5)).value == "paid 5"
    for name, given, kind in (
        ("pay", {"amount": 500}, Kind.APPROVAL),
        ("transfer", {}, Kind.CLIENT),
        ("judged", {}, Kind.CLIENT),
    ):
        with pytest.raises(Asks) as asking:
            await run(ours, name, **given)
        assert asking.value.kind is kind
    assert (await run(ours, "pay", replace(CALL, approved=True), amount=500)).value == "paid 500"


async def test_a_tool_sees_its_dependencies_its_call_and_the_conversation():
    agent = Agent(TestModel(), deps_type=str)

    @agent.tool
    async def look(ctx: RunContext[str], at: str) -> ToolReturn[Any]:
        asked = [
            part.content
            for message in ctx.messages
            for part in message.parts
            if part.part_kind == "user-prompt"
        ]
        return ToolReturn({"deps": ctx.deps, "call": ctx.tool_call_id, "asked": asked, "at": at})

    async def deps(context: RequestContext) -> str:
        return context.owner

    made = {"type": "call", "id": "c1", "tool": "look", "input": {"at": "x"}}
    ran = await run(
        serve(agent, deps=deps), "look", replace(CALL, history=[HI, assistant_entry([made])]), at="x"
    )
    assert ran.value == {"deps": "ada", "call": "c1", "asked": [["hi"]], "at": "x"}


async def test_timeouts_and_repeats_are_declared():
    agent = Agent(TestModel())
    agent.tool_plain(name="quick", timeout=5)(lambda: 1)
    agent.tool_plain(name="other")(lambda: 1)
    ours = serve(agent, timeout_s=9, retry_safe=["other"])
    quick, other = ours.tool("quick"), ours.tool("other")
    assert quick is not None
    assert other is not None
    assert (quick.timeout_s, quick.retry_safe, other.timeout_s, other.retry_safe) == (6, False, 9, True)


# --- how a run ends


class City(BaseModel):
    name: str
    size: int


GOOD, BAD = {"name": "Oslo", "size": 7}, {"name": "Oslo", "size": "big"}


def texts(events: Sequence[ModelEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, TextDelta)]


async def test_a_structured_output_ends_the_run_as_json():
    ours = serve(Agent(Script(["Here.", call("final_result", "c1", 1, **GOOD)]).model, output_type=City))
    events, response, _ = await ask(ours)
    assert [part["type"] for part in response.parts] == ["text", "text"]
    assert json.loads(response.parts[1]["text"]) == GOOD
    assert "".join(texts(events)) == text_of(response)


async def test_an_output_that_is_refused_is_asked_for_again_in_the_same_step():
    script = Script([call("final_result", **BAD)], [call("final_result", "c2", **GOOD)])
    _, response, _ = await ask(serve(Agent(script.model, output_type=City)))
    assert json.loads(text_of(response)) == GOOD
    assert len(script.sent) == 2
    assert response.usage.output_tokens > 5, "both answers are counted"


async def test_an_output_beside_other_calls_is_not_taken_and_nothing_is_dropped():
    agent = Agent(
        Script([call("look", "c1", 0), call("final_result", "c2", 1, **GOOD)]).model, output_type=City
    )
    agent.tool_plain(name="look")(lambda: 1)
    events, response, step = await ask(serve(agent))
    assert [part["tool"] for part in response.parts] == ["look", "final_result"]
    assert [event.tool for event in events if isinstance(event, ToolInputDelta)] == ["look"]
    with pytest.raises(InvalidInput, match="Call it again"):
        step.tool("final_result").check(GOOD)


async def test_text_that_is_judged_is_shown_when_it_is():
    def shout(text: str) -> str:
        if text == "no":
            raise ModelRetry("Say something else.")
        return text.upper()

    script = Script(["no"], ["y", "es"])
    events, response, _ = await ask(serve(Agent(script.model, output_type=TextOutput(shout))))
    assert texts(events) == ["YES"] == [text_of(response)]
    native = Script([json.dumps(GOOD)])
    _, response, _ = await ask(serve(Agent(native.model, output_type=NativeOutput(City))))
    assert json.loads(text_of(response)) == GOOD


async def test_an_output_validator_judges_text_too():
    agent = Agent(Script(["bad"], ["good"]).model)

    @agent.output_validator
    def judge(output: str) -> str:
        if output == "bad":
            raise ModelRetry("Better.")
        return output

    events, response, _ = await ask(serve(agent))
    assert texts(events) == ["good"] == [text_of(response)]


async def test_an_output_that_never_fits_is_a_bad_response():
    script = Script(*[[call("final_result", **BAD)]] * 3)
    with pytest.raises(ModelFailure) as failed:
        await ask(serve(Agent(script.model, output_type=City)))
    assert failed.value.code is Code.PROVIDER_BAD_RESPONSE


async def test_a_bug_of_the_agents_own_code_is_not_the_providers():
    agent = Agent(TestModel())

    @agent.instructions
    def broken() -> str:
        raise LookupError("no tenant")

    with pytest.raises(ModelFailure) as failed:
        await ask(serve(agent))
    assert failed.value.code is Code.FRAMEWORK_INTERNAL_ERROR


async def test_a_step_that_is_left_early_lets_go():
    step = await serve(Agent(Script(["a", "b", "c"]).model)).for_step(HERE)
    events = step.model.step(ModelRequest("", [HI]))
    assert await anext(events) == TextDelta(0, "a")
    await events.aclose()


async def test_a_script_plays_with_the_agents_own_tools():
    ours = serve(bank())
    scripted = replace(ours, model=ScriptedModel(ours.model))
    says = 'script:[{"calls": [{"tool": "close", "input": {}}]}]'
    _, response, step = await ask(scripted, user_entry([{"type": "text", "text": says}]))
    tool = step.tool(response.parts[0]["tool"])
    assert tool.kind_for(tool.check({})) is Kind.APPROVAL


async def test_results_go_on_to_the_next_step():
    script = Script(["done"])
    made = {"type": "call", "id": "c1", "tool": "read", "input": {}}
    result = {"id": "c1", "tool": "read", "outcome": "denied", "value": "no"}
    agent = Agent(script.model)
    agent.tool_plain(name="read")(lambda: 1)
    await ask(serve(agent), HI, assistant_entry([made]), tool_entry([result]))
    assert any("denied" in text for text in script.texts)


# --- what is refused at the start


@dataclass
class Needs:
    what: str


@pytest.mark.parametrize(
    ("agent", "name", "why"),
    [
        (Agent(TestModel()), None, "needs a name"),
        (Agent(), "a", "has no model"),
        (Agent(TestModel(), deps_type=Needs), "a", "dependencies of type Needs"),
        (Agent("nonsense:model", defer_model_check=True), "a", "agent a: "),
        (Agent(TestModel()), "no spaces", "an agent's name"),
    ],
)
def test_what_cannot_be_served_is_one_line(agent, name, why):
    with pytest.raises(RegistryError, match=why) as refused:
        served(own(agent), name, None)
    assert "\n" not in str(refused.value)


def test_a_tools_name_has_to_fit_the_wire():
    agent = Agent(TestModel())
    agent.tool_plain(name="no spaces")(lambda: 1)
    with pytest.raises(RegistryError, match="a tool's name"):
        served(own(agent), "a", None)
