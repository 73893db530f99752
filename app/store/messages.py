"""Message rows: what the user sees. A cut message is out of every view but stays as a row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from app.store import runs
from app.store.faults import CorruptRow
from app.store.schema import message, run
from app.store.transaction import Tx


@dataclass(frozen=True, slots=True)
class Message:
    position: int
    id: str
    role: str
    run_id: UUID | None
    parts: list[dict[str, Any]]
    metadata: dict[str, Any] | None


_COLUMNS = [message.c[field.name] for field in fields(Message)]


def _read(row: Any) -> Message:
    found = Message(*row)
    if not isinstance(found.parts, list) or not all(isinstance(p, dict) and "type" in p for p in found.parts):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise CorruptRow(f"message at position {found.position}")
    return found


async def insert(
    tx: Tx,
    session_id: UUID,
    position: int,
    *,
    message_id: str,
    role: str,
    run_id: UUID,
    parts: Sequence[Any],
    metadata: Mapping[str, Any] | None = None,
) -> None:
    await tx.execute(
        sa.insert(message).values(
            session_id=session_id,
            position=position,
            id=message_id,
            role=role,
            run_id=run_id,
            parts=list(parts),
            metadata=metadata,
        )
    )


async def get(tx: Tx, session_id: UUID, message_id: str) -> Message | None:
    """The uncut message of this id."""
    query = sa.select(*_COLUMNS).where(
        message.c.session_id == session_id, message.c.id == message_id, message.c.cut_at.is_(None)
    )
    row = (await tx.execute(query)).one_or_none()
    return _read(row) if row else None


async def of_run(tx: Tx, run_id: UUID) -> Message | None:
    """The assistant message a root run writes, cut or not."""
    query = sa.select(*_COLUMNS).where(message.c.run_id == run_id, message.c.role == "assistant")
    row = (await tx.execute(query)).one_or_none()
    return _read(row) if row else None


async def runs_of(tx: Tx, session_id: UUID, message_ids: Sequence[str]) -> dict[str, UUID]:
    """Assistant message id → the root run that wrote it, cut messages included (an uncut one wins)."""
    query = (
        sa.select(message.c.id, message.c.run_id)
        .where(
            message.c.session_id == session_id, message.c.id.in_(message_ids), message.c.role == "assistant"
        )
        .order_by(message.c.cut_at.desc().nulls_last())
    )
    return {row.id: row.run_id for row in await tx.execute(query)}


async def page(tx: Tx, session_id: UUID, *, before: int | None, limit: int | None) -> list[Message]:
    """The session's uncut messages in order; the last ``limit`` of those before position ``before``."""
    query = sa.select(*_COLUMNS).where(message.c.session_id == session_id, message.c.cut_at.is_(None))
    if before is not None:
        query = query.where(message.c.position < before)
    rows = await tx.execute(query.order_by(message.c.position.desc()).limit(limit))
    return [_read(row) for row in rows][::-1]


async def write(tx: Tx, run_id: UUID, parts: Sequence[Any], metadata: Mapping[str, Any] | None) -> None:
    """Writes the assistant message of a run. Only its owner, under its epoch, or the transaction that settles it may."""
    await tx.execute(
        sa.update(message)
        .where(message.c.run_id == run_id, message.c.role == "assistant")
        .values(parts=list(parts), metadata=metadata or None)
    )


async def begin_again(tx: Tx, session_id: UUID, position: int, *, run_id: UUID, parts: Sequence[Any]) -> None:
    """A user message begins another run, with the parts it has now."""
    await tx.execute(
        sa.update(message)
        .where(message.c.session_id == session_id, message.c.position == position)
        .values(run_id=run_id, parts=list(parts))
    )


async def cut_after(tx: Tx, session_id: UUID, position: int) -> None:
    """Takes everything after ``position`` out of every view."""
    await tx.execute(
        sa.update(message)
        .where(message.c.session_id == session_id, message.c.position > position, message.c.cut_at.is_(None))
        .values(cut_at=sa.func.now())
    )


async def with_run(tx: Tx, run_id: UUID) -> tuple[Message, runs.Run] | None:
    """The assistant message of a root run and the run's row, in one statement: the message and its watermark belong together."""
    query = (
        sa.select(*_COLUMNS, *runs.COLUMNS)
        .select_from(message.join(run, run.c.id == message.c.run_id))
        .where(message.c.run_id == run_id, message.c.role == "assistant")
    )
    row = (await tx.execute(query)).one_or_none()
    return (_read(row[: len(_COLUMNS)]), runs.read(row[len(_COLUMNS) :])) if row else None


async def size(tx: Tx, run_id: UUID) -> int:
    """The bytes of a root run's stored message."""
    query = sa.select(sa.func.octet_length(sa.cast(message.c.parts, sa.Text))).where(
        message.c.run_id == run_id, message.c.role == "assistant"
    )
    return int((await tx.execute(query)).scalar_one_or_none() or 0)
