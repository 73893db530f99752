"""What a step costs the processor: our loop on ``direct``, a registered ``pydantic_ai.Agent``, and the library's own loop.

One turn is STEPS model requests: each but the last calls one tool. The model is a function, so nothing waits and
nothing is sent; what is left is the machinery. Ours is measured without its database (the same for both rows): the
model step, its plan and the tool, as the step loop does them. Ratios of one run on one machine travel; milliseconds
do not.
"""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from pydantic_ai import Agent as LibraryAgent
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from app.agent.context import RequestContext, ToolContext
from app.agent.declaration import Agent
from app.agent.model import ModelRequest, ModelResponse
from app.agent.own import own
from app.agent.pydantic_ai_agent import served
from app.agent.pydantic_ai_model import PydanticAiModel
from app.agent.tools import run_tool, tool
from app.domain.history import Entry, assistant_entry, tool_entry, user_entry

STEPS, TURNS, ROUNDS = 6, 20, 5
WORDS = ["word "] * 20


async def speak(messages: list[ModelMessage], _: AgentInfo) -> AsyncIterator[Any]:
    for word in WORDS:
        yield word
    step = sum(message.kind == "response" for message in messages)
    if step < STEPS - 1:
        yield {1: DeltaToolCall(name="look", json_args='{"at": 1}', tool_call_id=f"c{step}")}


async def look(at: int) -> int:
    """Looks."""
    return at


async def our_turn(agent: Agent) -> None:
    """A turn as the step loop takes it, its commits left out."""
    here = RequestContext("ada", "chat", "run", {})
    history: list[Entry] = [user_entry([{"type": "text", "text": "hi"}])]
    while True:
        step = await agent.for_step(here)
        request = ModelRequest(step.instructions, history, [each.spec for each in step.tools], step.settings)
        *_, response = [event async for event in step.model.step(request)]
        assert isinstance(response, ModelResponse)
        history.append(assistant_entry(response.parts, response.provider))
        calls = [part for part in response.parts if part["type"] == "call"]
        if not calls:
            return
        results: list[dict[str, Any]] = []
        for call in calls:
            found = step.tool(call["tool"])
            assert found is not None
            given = found.check(call["input"])
            found.kind_for(given)
            runs = agent.tool(call["tool"])
            assert runs is not None
            context = ToolContext("ada", "chat", "run", {}, call["id"], Path("unused"), history=history)
            ran = await run_tool(runs, context, given)
            results.append(
                {"id": call["id"], "tool": call["tool"], "outcome": str(ran.outcome), "value": ran.value}
            )
        history.append(tool_entry(results))


async def measure(turn: Callable[[], Awaitable[None]]) -> float:
    """Milliseconds of processor time for a step: the median of the rounds."""
    await turn()
    rounds: list[float] = []
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(TURNS):
            await turn()
        rounds.append((time.process_time() - began) * 1000 / TURNS / STEPS)
    return statistics.median(rounds)


async def main() -> None:
    model = FunctionModel(stream_function=speak)
    library = LibraryAgent(model, instructions="Be brief.", tools=[look])
    declared = Agent("declared", "Be brief.", PydanticAiModel(model), [tool(look)])
    registered = served(own(library), "registered", None)

    async def its_own() -> None:
        async with library.run_stream_events("hi") as events:
            async for _ in events:
                pass

    rows = [
        ("our loop, a declared agent", await measure(lambda: our_turn(declared))),
        ("our loop, a registered pydantic_ai.Agent", await measure(lambda: our_turn(registered))),
        ("pydantic_ai.Agent's own loop", await measure(its_own)),
    ]
    print(f"{'processor time of a step':45}{'ms':>8}{'ratio':>8}")
    for name, milliseconds in rows:
        print(f"{name:45}{milliseconds:8.2f}{milliseconds / rows[0][1]:8.1f}")


if __name__ == "__main__":
    asyncio.run(main())
