"""What the user sees: the stored assistant message is the fold of the very frames that were emitted.

``MessageFold`` applies frames to parts exactly as the stock client does, so a reload shows what was live. What no frame can say
(the state of a call between its answer and its drain, a call that the server closed) has a method of its own.
``rendered`` is the snapshot's view of stored parts.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.domain.frames import Chunk

Part = dict[str, Any]

_STREAMED = {"text": "text", "reasoning": "reasoning"}


class MessageFold:
    """The parts of one assistant message, growing with its frames. ``parts`` may be stored as it is at any commit."""

    def __init__(self, parts: Sequence[Part] = (), metadata: Mapping[str, Any] | None = None) -> None:
        self.parts: list[Part] = [dict(part) for part in parts]
        self.metadata: dict[str, Any] = dict(metadata or {})
        self._open: dict[tuple[str, str], Part] = {}
        self._shown = _by_identity(self.parts)

    def apply(self, chunk: Chunk) -> None:
        """Folds one frame in. Raises ``LookupError`` for a frame whose part does not exist: an emitter's bug."""
        kind: str = chunk["type"]
        stem, _, verb = kind.rpartition("-")
        if stem in _STREAMED:
            self._streamed(stem, verb, chunk)
        elif kind == "start-step":
            self.parts.append({"type": "step-start"})
            self._open.clear()
        elif kind == "finish-step":
            self._open.clear()
        elif kind.startswith("tool-"):
            self._tool(kind, chunk)
        elif kind == "file":
            self.parts.append({key: chunk[key] for key in ("type", "mediaType", "url")})
        elif kind.startswith("source-"):
            self._append(dict(chunk))
        elif kind.startswith("data-"):
            self._data(chunk)
        elif kind == "message-metadata":
            self.metadata.update(chunk["messageMetadata"])

    def _streamed(self, stem: str, verb: str, chunk: Chunk) -> None:
        key = (stem, chunk["id"])
        if verb == "start":
            part: Part = {"type": stem, "text": "", "state": "streaming"}
            self.parts.append(part)
            self._open[key] = part
        elif verb == "delta":
            self._open[key]["text"] += chunk["delta"]
        else:
            part = self._open.pop(key)
            part["state"] = "done"
        if metadata := chunk.get("providerMetadata"):
            (self._open.get(key) or part)["providerMetadata"] = metadata  # pyright: ignore[reportPossiblyUnboundVariable]

    def _tool(self, kind: str, chunk: Chunk) -> None:
        call_id: str = chunk["toolCallId"]
        part = self.call(call_id)
        if kind in ("tool-input-start", "tool-input-available"):
            if part is None:
                part = Part(type=f"tool-{chunk['toolName']}", toolCallId=call_id)
                self.parts.append(part)
            if kind == "tool-input-start":
                part["state"] = "input-streaming"
            else:
                part.update(state="input-available", input=chunk["input"])
                if chunk.get("providerExecuted"):
                    part["providerExecuted"] = True
            return
        if part is None:
            raise LookupError(f"{kind} for a call that the message does not hold")
        match kind:
            case "tool-approval-request":
                part.update(state="approval-requested", approval={"id": chunk["approvalId"]})
            case "tool-output-available":
                part.update(state="output-available", output=chunk["output"])
            case "tool-output-error":
                part.update(state="output-error", errorText=chunk["errorText"])
            case "tool-output-denied":
                part["state"] = "output-denied"
            case _:  # an input delta is the client's preview only
                return
        flag = chunk.get("providerExecuted")
        if flag is True:
            part["providerExecuted"] = True
        elif flag is False:
            part.pop("providerExecuted", None)

    def _data(self, chunk: Chunk) -> None:
        if chunk.get("transient"):
            return
        part = {key: value for key, value in chunk.items() if key != "transient"}
        known = self.shown_by(chunk)
        if known is None:
            self._append(part)
        else:
            known.update(part)

    def _append(self, part: Part) -> None:
        self.parts.append(part)
        if (key := identity(part)) is not None:
            self._shown.setdefault(key, part)

    def call(self, call_id: str) -> Part | None:
        """The tool part of a call, or ``None``."""
        return next((part for part in self.parts if part.get("toolCallId") == call_id), None)

    def shown_by(self, chunk: Chunk) -> Part | None:
        """The part that a data or source chunk has written before, under the same id."""
        key = identity(chunk)
        return self._shown.get(key) if key is not None else None

    @property
    def ends_in_empty_step(self) -> bool:
        return bool(self.parts) and self.parts[-1]["type"] == "step-start"

    def respond(self, call_id: str, approval: Mapping[str, Any]) -> None:
        """Writes an approval's decision: ``{"approved", "reason"?}``. No chunk can say this to a client."""
        part = self.call(call_id)
        if part is not None and "approval" in part:
            part["state"] = "approval-responded"
            part["approval"] = {**part["approval"], **approval}

    def close(self, call_id: str, text: str) -> None:
        """The server gave the call its result: an error, flagged, and without an approval (with one it fails validation)."""
        part = self.call(call_id)
        if part is not None:
            part.pop("approval", None)
            part.pop("output", None)
            part.setdefault("input", {})
            part.update(state="output-error", errorText=text, providerExecuted=True)

    def trim(self) -> None:
        """Takes back a last step that nothing was said in: the run ended before its continuation began."""
        while self.parts and self.parts[-1]["type"] == "step-start":
            self.parts.pop()

    def copy(self) -> tuple[list[Part], dict[str, Any]]:
        """The parts and the metadata as they are, to go back to with ``restore``."""
        return [dict(part) for part in self.parts], dict(self.metadata)

    def restore(self, copy: tuple[Sequence[Part], Mapping[str, Any]]) -> None:
        """Goes back to a ``copy``; nothing was streamed since."""
        parts, metadata = copy
        self.metadata = dict(metadata)
        open_at = {
            key: next(i for i, p in enumerate(self.parts) if p is part) for key, part in self._open.items()
        }
        self.parts[:] = parts
        self._open = {key: self.parts[index] for key, index in open_at.items()}
        self._shown = _by_identity(self.parts)

    def stored(self) -> list[Part]:
        """A copy of the parts fit to be stored: nothing in it is still open."""
        return list(_settled(self.parts))


def identity(part: Mapping[str, Any]) -> tuple[str, str] | None:
    """What tells a ``data-*`` part or a source from all others of its message: (type, id); ``None`` for one without an id, and for
    every other kind of part. The same for the chunk that writes it."""
    kind: str = part["type"]
    key = "id" if kind.startswith("data-") else "sourceId" if kind.startswith("source-") else ""
    return (kind, part[key]) if isinstance(part.get(key), str) else None


def _by_identity(parts: Sequence[Part]) -> dict[tuple[str, str], Part]:
    """The first part of each identity, as the client finds it: a tool may show thousands."""
    return {key: part for part in reversed(parts) if (key := identity(part)) is not None}


def _settled(parts: Sequence[Part]) -> Iterator[Part]:
    for part in parts:
        if part.get("state") == "input-streaming":
            continue
        yield {**part, "state": "done"} if part["type"] in _STREAMED else dict(part)


def answered_state(kind: str, value: Mapping[str, Any], approval_id: str | None) -> Part:
    """The keys a call's part shows between its answer and its drain, from its row. ``kind``: a ``CallKind``."""
    if kind == "approval":
        return {"state": "approval-responded", "approval": {"id": approval_id, **value}}
    if "errorText" in value:
        return {"state": "output-error", "errorText": value["errorText"]}
    return {"state": "output-available", "output": value["output"]}


def laid_over(part: Part, answered: Mapping[str, Part]) -> Part:
    """A stored part with what its call's row says of it (call id → ``answered_state``). An answer that the server itself gave (a
    deadline's) has no approval any more."""
    shown = answered.get(part.get("toolCallId", ""))
    if shown is None:
        return part
    return {key: value for key, value in {**part, **shown}.items() if key != "approval" or key in shown}


def rendered(parts: Sequence[Part], answered: Mapping[str, Part]) -> list[Part]:
    """Stored parts as a client may be given them."""
    return [laid_over(part, answered) for part in _settled(parts)]
