"""What a client does: sends, reads frames as they come, leaves in the middle, resumes, answers what it is asked."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx2
import orjson

from tests.acceptance.scripts import LOCATION

Chunk = dict[str, Any]


@dataclass
class Reading:
    """One response. ``whole``: ``[DONE]`` came; ``broken``: the connection ended without it."""

    status: int = 0
    frames: list[Chunk] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    """When each frame came, on the monotonic clock."""
    whole: bool = False
    broken: bool = False
    body: dict[str, Any] | None = None
    """What is no stream: an error, or nothing."""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def kinds(self) -> list[str]:
        return [frame["type"] for frame in self.frames]

    @property
    def text(self) -> str:
        return "".join(f["delta"] for f in self.frames if f["type"] == "text-delta")

    @property
    def ending(self) -> str | None:
        return self.frames[-1]["type"] if self.whole and self.frames else None


class Live:
    """A response that is being read. ``reading`` holds what came so far."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self._lines = response.aiter_lines()
        self.reading = Reading(response.status_code, headers=response.headers)

    async def next(self) -> Chunk | None:
        """The next frame; ``None`` at the end, of whatever kind it is."""
        try:
            async for line in self._lines:
                if line == "data: [DONE]":
                    self.reading.whole = True
                elif line.startswith("data: "):
                    self.reading.frames.append(orjson.loads(line[6:]))
                    self.reading.at.append(time.monotonic())
                    return self.reading.frames[-1]
        except httpx2.TransportError:
            pass
        self.reading.broken = not self.reading.whole
        return None

    async def until(self, kind: str) -> Chunk:
        """Reads up to the next frame of this kind."""
        while (frame := await self.next()) is not None:
            if frame["type"] == kind:
                return frame
        raise AssertionError(f"no {kind} in {self.reading.kinds}")

    async def rest(self) -> Reading:
        while await self.next() is not None:
            pass
        return self.reading


class Chat:
    """One chat. ``base`` is the address that its requests go to; assign it to be somebody who reaches another replica."""

    def __init__(self, client: httpx2.AsyncClient, base: str, chat_id: str | None = None) -> None:
        self.client = client
        self.base = base
        self.id = chat_id or f"chat-{uuid4().hex[:12]}"

    @asynccontextmanager
    async def opened(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> AsyncIterator[Live]:
        """A request whose response is read piece by piece; leaving the block closes the connection."""
        content = orjson.dumps(body) if body is not None else None
        request = self.client.build_request(
            method, self.base + path, content=content, headers={"content-type": "application/json"}
        )
        try:
            response = await self.client.send(request, stream=True)
        except httpx2.TransportError:
            broken = Live(httpx2.Response(0, request=request, content=b""))
            broken.reading.broken = True
            yield broken
            return
        live = Live(response)
        try:
            if response.status_code != 200 or "event-stream" not in response.headers["content-type"]:
                read = await response.aread()
                live.reading.body = orjson.loads(read) if read[:1] == b"{" else {}
                live.reading.whole = True
            yield live
        finally:
            await response.aclose()

    async def _read(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Reading:
        async with self.opened(method, path, body) as live:
            return live.reading if live.reading.whole else await live.rest()

    @staticmethod
    def message(text: str, message_id: str | None = None) -> dict[str, Any]:
        return {
            "id": message_id or uuid4().hex,
            "role": "user",
            "parts": [{"type": "text", "text": text}],
        }

    def body(self, message: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        return {"id": self.id, "messages": [message], "trigger": "submit-message", **more}

    async def send(self, text: str, message_id: str | None = None) -> Reading:
        """Sends a user message and reads its turn to the end."""
        return await self._read("POST", "/chat", self.body(self.message(text, message_id)))

    def sending(self, text: str, message_id: str | None = None) -> Any:
        """Sends a user message; its turn is read piece by piece."""
        return self.opened("POST", "/chat", self.body(self.message(text, message_id)))

    def resuming(self) -> Any:
        return self.opened("GET", f"/chat/{self.id}/stream")

    async def resume(self) -> Reading:
        return await self._read("GET", f"/chat/{self.id}/stream")

    async def snapshot(self) -> dict[str, Any]:
        answer = await self.client.get(f"{self.base}/chat/{self.id}")
        assert answer.status_code == 200, answer.text
        return orjson.loads(answer.content)

    async def stop(self, **body: Any) -> dict[str, Any]:
        answer = await self.client.post(f"{self.base}/chat/{self.id}/stop", json=body)
        assert answer.status_code == 200, answer.text
        return orjson.loads(answer.content)

    async def answer(self) -> Reading:
        """Answers everything that is asked, as a stock client does: the whole last message with its parts filled in."""
        last = (await self.snapshot())["messages"][-1]
        return await self._read("POST", "/chat", self.body(answered(last)))

    async def elsewhere(self, call_id: str, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Answers one call through the server's own route. Returns its outcome."""
        body = {"answers": [{"toolCallId": call_id, **answer}]}
        response = await self.client.post(f"{self.base}/chat/{self.id}/answers", json=body)
        assert response.status_code == 200, response.text
        [outcome] = orjson.loads(response.content)["outcomes"]
        return outcome


def answered(message: Mapping[str, Any], output: Any = LOCATION) -> dict[str, Any]:
    """An assistant message in which every open call has an answer: ``output``, a yes."""
    parts: list[dict[str, Any]] = []
    for part in message["parts"]:
        if part.get("state") == "input-available":
            part = {**part, "state": "output-available", "output": output}
        elif part.get("state") == "approval-requested":
            part = {
                **part,
                "state": "approval-responded",
                "approval": {"id": part["approval"]["id"], "approved": True},
            }
        parts.append(part)
    return {**message, "parts": parts}


def work_s(seconds: float) -> float:
    """How long that much work may take here and now: on a machine that does other things too, longer."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


async def until(condition: Any, within_s: float, what: str) -> float:
    """Waits for an async condition of other processes. Returns the seconds it took."""
    began, within_s = time.monotonic(), work_s(within_s)
    while True:
        if await condition():
            return time.monotonic() - began
        assert time.monotonic() - began < within_s, f"not within {within_s} s: {what}"
        await asyncio.sleep(0.03)
