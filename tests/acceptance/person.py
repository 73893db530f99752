"""Somebody who uses one chat whatever happens: sends, loses the connection, reloads, answers, clicks twice, stops.

A person trusts what a reload shows and nothing else: that is enough to bring every turn to its end.
"""

import asyncio
import random
import time
from collections import Counter
from typing import Any
from uuid import uuid4

import httpx2
import orjson

from tests.acceptance.scripts import (
    call,
    calls,
    email,
    location,
    noting,
    publishing,
    question,
    research,
    script,
    slowly,
    text,
)
from tests.acceptance.talk import Chat, Live, answered

STUCK_S = 90.0
# what a proxy says by itself when the replica it had chosen is gone
OF_THE_PROXY = {0, 502, 504}


class StuckError(AssertionError):
    """A turn that does not come to its end."""


class Person:
    """``seed`` decides everything that is decided here. ``answers`` counts what the server said, ``faults`` what it must not say."""

    def __init__(self, client: httpx2.AsyncClient, base: str, seed: str) -> None:
        self.chat = Chat(client, base)
        self.turns = 0
        self.answers: Counter[str] = Counter()
        self.faults: list[str] = []
        self._random = random.Random(seed)

    async def live(self, until: float) -> None:
        """Takes turns until then; the one that is begun is brought to its end."""
        await asyncio.sleep(self._random.random())
        while time.monotonic() < until:
            await self.turn(self._script())
            await asyncio.sleep(self._random.random())

    async def turn(self, said: str) -> dict[str, Any]:
        """One turn, from its message to its end. Returns the snapshot at its end."""
        message = self.chat.message(said, uuid4().hex)
        began = time.monotonic()
        while time.monotonic() - began < STUCK_S:
            shown = await self._reload()
            if shown is not None and message["id"] not in [m["id"] for m in shown["messages"]]:
                await self._post(self.chat.body(message))
            elif shown is not None and shown["live"]:
                await self._wait_or_stop()
            elif shown is not None and shown["status"] == "suspended":
                await self._answer(shown)
            elif shown is not None:
                self.turns += 1
                return shown
        raise StuckError(f"{self.chat.id} does not come to an end: {await self._reload()}")

    def _script(self) -> str:
        n, chance = self.turns, self._random.random
        third = research(f"{n}d", calls(publishing(f"{n}p"), question(f"{n}v")), text("Deep."), tool="deeper")
        searching = calls(call("search_notes", f"{n}q", query="tea"), question(f"{n}u"))
        some = [
            [noting(f"{n}n"), location(f"{n}l")],
            [email(f"{n}e"), location(f"{n}l"), noting(f"{n}n")],
            [call("slow", f"{n}s", ms=300), noting(f"{n}n")],
            [research(f"{n}r", searching, text("Tea.")), email(f"{n}e")],
            [research(f"{n}r", calls(noting(f"{n}n"), third), searching), location(f"{n}l")],
            [
                research(f"{n}r", calls(third)),
                research(f"{n}x", calls(noting(f"{n}n")), text("I", error="context")),
            ],
            [email(f"{n}e"), email(f"{n}f")],
        ]
        made = self._random.choice(some)
        return script(
            slowly("Let me see what can be done about it.", chance(), 10) | calls(*made),
            slowly("So that is that, and here is what I make of it.", chance(), 10),
        )

    async def _reload(self) -> dict[str, Any] | None:
        """The snapshot; ``None`` when it cannot be had right now."""
        try:
            answer = await self.chat.client.get(f"{self.chat.base}/chat/{self.chat.id}")
        except httpx2.TransportError:
            await asyncio.sleep(0.2)
            return None
        if answer.status_code == 200:
            return orjson.loads(answer.content)
        self._note(answer.status_code, answer.content)
        if answer.status_code == 404:
            return {"messages": [], "live": False, "status": "idle"}
        await asyncio.sleep(0.2)
        return None

    async def _post(self, body: dict[str, Any]) -> None:
        """Sometimes twice at once, sometimes the connection is lost on the way."""
        if self._random.random() < 0.2:
            await asyncio.gather(self._request("POST", "/chat", body), self._request("POST", "/chat", body))
        else:
            await self._request("POST", "/chat", body)

    async def _wait_or_stop(self) -> None:
        if self._random.random() < 0.1:
            await self._request("POST", f"/chat/{self.chat.id}/stop", {})
        else:
            await self._request("GET", f"/chat/{self.chat.id}/stream", None)

    async def _answer(self, shown: dict[str, Any]) -> None:
        """All at once as a stock client, or one of them from elsewhere."""
        output = {"value": self._random.randrange(10**9)}
        if self._random.random() < 0.3:
            asked = self._random.choice(shown["pending"])
            one: dict[str, Any] = {"toolCallId": asked["toolCallId"], "output": output}
            if asked["kind"] == "approval":
                one = {
                    "toolCallId": asked["toolCallId"],
                    "approvalId": asked["approvalId"],
                    "approved": self._random.random() < 0.8,
                }
            await self._request("POST", f"/chat/{self.chat.id}/answers", {"answers": [one]})
        else:
            await self._post(self.chat.body(answered(shown["messages"][-1], output)))

    async def _request(self, method: str, path: str, body: dict[str, Any] | None) -> None:
        frames = self._random.randrange(1, 30) if self._random.random() < 0.25 else 10**9
        async with self.chat.opened(method, path, body) as live:
            await self._read(live, frames)
        if live.reading.body is not None and live.reading.status not in (200, 204):
            self._note(live.reading.status, orjson.dumps(live.reading.body))
            await asyncio.sleep(0.1)
        elif live.reading.status == 0:
            self.answers["no connection"] += 1
            await asyncio.sleep(0.1)
        else:
            self.answers[f"{live.reading.status} {live.reading.ending or 'cut'}"] += 1

    @staticmethod
    async def _read(live: Live, frames: int) -> None:
        while not live.reading.whole and len(live.reading.frames) < frames:
            if await live.next() is None:
                return

    def _note(self, status: int, body: bytes) -> None:
        try:
            code = orjson.loads(body)["code"]
        except (orjson.JSONDecodeError, KeyError):
            code = None
            if status not in OF_THE_PROXY:
                self.faults.append(f"{status} without a code: {body[:200]!r}")
        self.answers[f"{status} {code}"] += 1
