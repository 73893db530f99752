"""An agent that says what time it is, so that a reader can tell how long a frame took (one clock for all processes here).

A message ``<frames> <per second>`` says that many pieces at that pace; any other message calls ``get_location``, and says ``ok``
to its answer.
"""

import asyncio
import time
from collections.abc import AsyncGenerator

from app.agent.model import ModelEvent, ModelRequest, ModelResponse, TextDelta, ToolInputDelta
from app.agent.present_turn import present_turn
from app.agent.registry import Agent
from app.agents.tools import get_location


class Clock:
    async def step(self, request: ModelRequest) -> AsyncGenerator[ModelEvent | ModelResponse, None]:
        turn = present_turn(request.history)
        first, _, second = turn.text.partition(" ")
        if not first.isdigit():
            if turn.step == 0:
                yield ToolInputDelta(0, "{}", "where", "get_location")
                yield ModelResponse([{"type": "call", "id": "where", "tool": "get_location", "input": {}}])
            else:
                yield TextDelta(0, "ok")
                yield ModelResponse([{"type": "text", "text": "ok"}])
            return
        said: list[str] = []
        began = time.monotonic()
        for n in range(int(first)):
            await asyncio.sleep(max(0.0, began + n / float(second) - time.monotonic()))
            said.append(f"{time.monotonic():.6f} ")
            yield TextDelta(0, said[-1])
        yield ModelResponse([{"type": "text", "text": "".join(said)}])


AGENTS = [Agent(name="clock", instructions="", model=Clock(), tools=(get_location,))]
