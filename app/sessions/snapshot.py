"""What a reload shows, the list of chats, and deletion.

While a run is running the snapshot ends at its user message: history cut there, then a full replay of the live message, is the one
shape that renders right in every client version. Such a snapshot leaves a mark (``cut_run``), which only a whole one clears.
"""

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from app.domain.call_state import ANSWERABLE, CallState
from app.domain.run_state import LIVE, RunState
from app.domain.ui_message import rendered
from app.errors import Code, ServiceError
from app.sessions.plans import Attach
from app.sessions.stop import stop_in
from app.sessions.view import answered_parts
from app.store import calls, messages, runs, sessions
from app.store.calls import Call
from app.store.messages import Message
from app.store.runs import Run
from app.store.sessions import Session
from app.store.transaction import Store

PAGE = 50
MAX_PAGE = 500


class Snapshots:
    def __init__(self, store: Store, *, ring: Callable[[UUID], None]) -> None:
        self._store = store
        self._ring = ring

    async def read(
        self, owner: str, chat_id: str, *, limit: int | None = None, before: str | None = None
    ) -> dict[str, Any]:
        """The snapshot, as the wire spells it. ``before``: a message id, older messages than it. Raises
        ``state_session_not_found``, and ``validation_error`` for an unknown ``before``."""
        async with self._store.transaction() as tx:
            session = await sessions.lock(tx, owner, chat_id)
            if session is None:
                raise ServiceError(Code.STATE_SESSION_NOT_FOUND)
            run = await runs.current(tx, session.id)
            older_than = await messages.get(tx, session.id, before) if before is not None else None
            if before is not None and older_than is None:
                raise ServiceError(Code.VALIDATION_ERROR, "an unknown message to page before")
            position = older_than.position if older_than is not None else None
            page = await messages.page(tx, session.id, before=position, limit=limit)
            live = run is not None and run.state is RunState.RUNNING
            tree = await calls.of_tree(tx, run.id) if run is not None and run.state in LIVE else []
            if before is None:
                await self._mark(tx, session, run if live else None)
        shown = [
            m for m in page if not (live and run is not None and m.run_id == run.id and m.role == "assistant")
        ]
        return _snapshot(session, run, shown, tree, live=live)

    async def _mark(self, tx: Any, session: Session, left_out: Run | None) -> None:
        wanted = left_out.id if left_out is not None else None
        if session.cut_run != wanted:
            await sessions.mark_cut(tx, session.id, wanted)

    async def resume(self, owner: str, chat_id: str) -> Attach | None:
        """What ``GET …/stream`` replays: the running run, or the last one while a client may hold less of it; ``None`` is 204."""
        async with self._store.transaction() as tx:
            session = await sessions.get(tx, owner, chat_id)
            run = await runs.current(tx, session.id) if session is not None else None
        if session is None or run is None:
            return None
        if run.state is RunState.RUNNING or session.cut_run == run.id:
            return Attach(run.id, run.message or "")
        return None

    async def chats(self, owner: str, *, limit: int, cursor: str | None) -> dict[str, Any]:
        """``{chats: [{id, agent, createdAt, updatedAt}], nextCursor?}``, the newest change first."""
        async with self._store.transaction() as tx:
            page = await sessions.page(tx, owner, before=_read_cursor(cursor), limit=limit + 1)
        result: dict[str, Any] = {
            "chats": [
                {
                    "id": s.chat_id,
                    "agent": s.agent,
                    "createdAt": _time(s.created_at),
                    "updatedAt": _time(s.updated_at),
                }
                for s in page[:limit]
            ]
        }
        if len(page) > limit:
            result["nextCursor"] = _cursor(page[limit - 1])
        return result

    async def delete(self, owner: str, chat_id: str) -> None:
        """Deletes the session and all its rows; a live run is stopped first. Raises ``state_session_not_found``."""
        stopped: UUID | None = None
        async with self._store.transaction() as tx:
            session = await sessions.lock(tx, owner, chat_id)
            if session is None:
                raise ServiceError(Code.STATE_SESSION_NOT_FOUND)
            run = await runs.current(tx, session.id)
            if run is not None and run.state in LIVE:
                await stop_in(tx, run)
                stopped = run.id
            await sessions.delete(tx, session.id)
        if stopped is not None:
            self._ring(stopped)


def _snapshot(
    session: Session, run: Run | None, page: list[Message], tree: list[Call], *, live: bool
) -> dict[str, Any]:
    answered = answered_parts(tree)
    shown: list[dict[str, Any]] = []
    for message in page:
        parts = rendered(message.parts, answered) if message.role == "assistant" else message.parts
        if not parts:
            continue
        item: dict[str, Any] = {"id": message.id, "role": message.role, "parts": parts}
        if message.metadata:
            item["metadata"] = message.metadata
        shown.append(item)
    status = str(run.state) if run is not None and run.state in LIVE else "idle"
    return {
        "id": session.chat_id,
        "messages": shown,
        "status": status,
        "live": live,
        "run": {"id": str(run.id), "status": str(run.state), "usage": run.usage} if run is not None else None,
        "pending": [
            _pending(call) for call in tree if call.state is CallState.PENDING and call.kind in ANSWERABLE
        ],
        "createdAt": _time(session.created_at),
        "updatedAt": _time(session.updated_at),
    }


def _pending(call: Call) -> dict[str, Any]:
    item: dict[str, Any] = {
        "toolCallId": call.call_id,
        "kind": str(call.kind),
        "toolName": call.tool,
        "input": call.input,
    }
    if call.approval_id is not None:
        item["approvalId"] = call.approval_id
    if call.deadline_at is not None:
        item["expiresAt"] = _time(call.deadline_at)
    return item


def _time(value: datetime) -> str:
    return value.isoformat().replace("+00:00", "Z")


def _cursor(session: Session) -> str:
    return base64.urlsafe_b64encode(f"{session.updated_at.isoformat()} {session.id}".encode()).decode()


def _read_cursor(cursor: str | None) -> tuple[datetime, UUID] | None:
    if cursor is None:
        return None
    try:
        at, _, session_id = base64.urlsafe_b64decode(cursor.encode()).decode().partition(" ")
        moment = datetime.fromisoformat(at)
        if moment.tzinfo is None:
            raise ValueError("a naive time")
        return moment.astimezone(UTC), UUID(session_id)
    except (ValueError, OverflowError) as error:
        raise ServiceError(Code.VALIDATION_ERROR, "a malformed cursor") from error
