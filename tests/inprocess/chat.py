"""What a stock client does with one chat: posts its messages, folds what it is sent, fills answers in."""

import json
from collections.abc import Mapping
from typing import Any

from tests.inprocess.asgi import Reply
from tests.inprocess.server import Server


def script(*steps: Mapping[str, Any]) -> str:
    """A user message that drives the model: one step for each of its requests."""
    return "script:" + json.dumps(list(steps))


def call(tool: str, call_id: str | None = None, /, **given: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"tool": tool, "input": given}
    return found if call_id is None else {**found, "id": call_id}


def calls(*made: Mapping[str, Any], text: str = "") -> dict[str, Any]:
    """A step that makes these calls."""
    return {"calls": list(made), **({"text": text} if text else {})}


def mail(call_id: str, to: str = "ada@example.com") -> dict[str, Any]:
    """A call that waits for an approval; one line in the outbox says that it ran."""
    return call("send_email", call_id, to=to, subject="s", body="b")


class Page:
    """One tab. ``messages`` is what it would render; ``send`` and ``post`` are what it would do."""

    def __init__(
        self, server: Server, chat_id: str = "chat", messages: list[dict[str, Any]] | None = None
    ) -> None:
        self.server = server
        self.chat_id = chat_id
        self.messages: list[dict[str, Any]] = messages or []

    # what is shown

    @property
    def last(self) -> dict[str, Any]:
        return self.messages[-1]

    def part(self, call_id: str) -> dict[str, Any]:
        return next(p for m in self.messages for p in m["parts"] if p.get("toolCallId") == call_id)

    @property
    def text(self) -> str:
        """The text of the last message."""
        return "".join(part["text"] for part in self.last["parts"] if part["type"] == "text")

    def copy(self, server: Server | None = None) -> "Page":
        """A second tab that shows the same."""
        return Page(server or self.server, self.chat_id, json.loads(json.dumps(self.messages)))

    async def reload(self) -> dict[str, Any]:
        """What a reload shows; a live run is resumed to its end."""
        snapshot = await self.server.snapshot(self.chat_id)
        self.messages = snapshot["messages"]
        if snapshot["live"]:
            await self.take(await self.server.resume(self.chat_id))
        return snapshot

    # what is filled in

    def output(self, call_id: str, value: Any) -> "Page":
        self.part(call_id).update(state="output-available", output=value)
        return self

    def error(self, call_id: str, text: str) -> "Page":
        self.part(call_id).update(state="output-error", errorText=text)
        return self

    def decide(self, call_id: str, approved: Any, reason: str | None = None) -> "Page":
        part = self.part(call_id)
        approval = {"id": part["approval"]["id"], "approved": approved}
        part.update(state="approval-responded", approval=approval | ({"reason": reason} if reason else {}))
        return self

    # what is sent

    def body(self, **keys: Any) -> dict[str, Any]:
        return {"id": self.chat_id, "messages": self.messages, "trigger": "submit-message", **keys}

    async def open(self, **keys: Any) -> Reply:
        """Posts what is shown; the answer is not read yet."""
        return await self.server.ask("POST", "/chat", self.body(**keys))

    async def post(self, **keys: Any) -> Reply:
        """Posts what is shown and takes the whole answer in."""
        return await self.take(await self.open(**keys))

    def say(self, text: str, message_id: str | None = None) -> "Page":
        message_id = message_id or f"u{len(self.messages)}"
        self.messages.append({"id": message_id, "role": "user", "parts": [{"type": "text", "text": text}]})
        return self

    async def send(self, text: str, message_id: str | None = None, **keys: Any) -> Reply:
        return await self.say(text, message_id).post(**keys)

    async def play(self, *steps: Mapping[str, Any], message_id: str | None = None) -> Reply:
        """A turn of scripted steps, to its end or its suspension."""
        reply = await self.send(script(*steps), message_id)
        assert reply.status == 200, reply.error
        return reply

    async def take(self, reply: Reply) -> Reply:
        """Reads an answer to its end and shows it. ``reply.error`` is the body of a refusal."""
        reply.error = None
        if reply.is_stream:
            await reply.rest()
            self.show(reply.frames)
        elif reply.status != 204:
            reply.error = await reply.json()
        return reply

    def show(self, frames: list[dict[str, Any]]) -> None:
        for frame in frames:
            _fold(self.messages, frame)


def refusal(reply: Reply) -> tuple[int, str, str | None]:
    """(status, code, cause) of a refused request."""
    assert reply.error is not None, f"{reply.status}: {reply.types}"
    assert set(reply.error) <= {"error", "code", "cause", "toolCallIds"}
    return reply.status, reply.error["code"], reply.error.get("cause")


def is_harmless(reply: Reply) -> bool:
    """Whether the answer is a step that ends the client's own, holds no tool part and says nothing."""
    core = [kind for kind in reply.types if not kind.startswith("data-")]
    return (
        reply.status == 200
        and core == ["start", "start-step", "start", "finish-step", "finish"]
        and reply.done
    )


def continues(reply: Reply, message_id: str) -> bool:
    """Whether the answer is the run's content, appended to this message."""
    writing = {"type": "start", "messageId": message_id}
    prefix = [writing, {"type": "start-step"}, writing]
    return reply.status == 200 and reply.done and reply.frames[:3] == prefix and not is_harmless(reply)


def _fold(messages: list[dict[str, Any]], frame: dict[str, Any]) -> None:
    kind = frame["type"]
    if kind in ("start", "message-metadata"):
        _fold_message(messages, frame)
        return
    parts = messages[-1]["parts"]
    if kind == "start-step":
        parts.append({"type": "step-start"})
    elif kind in ("text-start", "reasoning-start"):
        parts.append({"type": kind.split("-")[0], "text": "", "state": "streaming", "_id": frame["id"]})
    elif kind in ("text-delta", "reasoning-delta"):
        _streamed(parts, frame["id"])["text"] += frame["delta"]
    elif kind in ("text-end", "reasoning-end"):
        part = _streamed(parts, frame["id"])
        part["state"] = "done"
        part.pop("_id")
    elif kind.startswith("tool-"):
        _fold_call(parts, frame)
    elif kind.startswith("data-") and not frame.get("transient"):
        known = [p for p in parts if "id" in frame and (p["type"], p.get("id")) == (kind, frame["id"])]
        if known:
            known[0]["data"] = frame["data"]
        else:
            parts.append(dict(frame))
    elif kind.startswith("source-"):
        parts.append(dict(frame))


def _fold_message(messages: list[dict[str, Any]], frame: dict[str, Any]) -> None:
    if frame["type"] == "start":
        if messages[-1]["role"] != "assistant":
            messages.append({"id": frame["messageId"], "role": "assistant", "parts": []})
        messages[-1]["id"] = frame["messageId"]
    if "messageMetadata" in frame:
        messages[-1].setdefault("metadata", {}).update(frame["messageMetadata"])


def _streamed(parts: list[dict[str, Any]], part_id: str) -> dict[str, Any]:
    return next(part for part in reversed(parts) if part.get("_id") == part_id)


def _fold_call(parts: list[dict[str, Any]], frame: dict[str, Any]) -> None:
    kind, call_id = frame["type"], frame["toolCallId"]
    start = max((i for i, part in enumerate(parts) if part["type"] == "step-start"), default=0)
    of_step = kind.startswith("tool-input") and [p for p in parts[start:] if p.get("toolCallId") == call_id]
    anywhere = [part for part in parts if part.get("toolCallId") == call_id]
    found = of_step if kind.startswith("tool-input") else anywhere
    if not found:
        assert kind.startswith("tool-input"), f"{kind} for a call that is not shown"
        assert not anywhere, f"{kind} of a call of an earlier step"
        parts.append({"type": f"tool-{frame['toolName']}", "toolCallId": call_id, "state": "input-streaming"})
        found = [parts[-1]]
    part = found[-1]
    match kind:
        case "tool-input-available":
            part.update(state="input-available", input=frame["input"])
        case "tool-approval-request":
            part.update(state="approval-requested", approval={"id": frame["approvalId"]})
        case "tool-output-available":
            part.update(state="output-available", output=frame["output"])
        case "tool-output-error":
            part.update(state="output-error", errorText=frame["errorText"])
        case "tool-output-denied":
            part["state"] = "output-denied"
    if frame.get("providerExecuted") is not None:
        part["providerExecuted"] = frame["providerExecuted"]
