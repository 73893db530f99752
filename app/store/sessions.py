"""Session rows: the lock that every decision is made under, and positions in a session's order."""

from dataclasses import dataclass, fields
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from app.store.schema import session
from app.store.transaction import Tx


@dataclass(frozen=True, slots=True)
class Session:
    id: UUID
    owner: str
    chat_id: str
    agent: str
    cut_run: UUID | None
    created_at: datetime
    updated_at: datetime


_COLUMNS = [session.c[field.name] for field in fields(Session)]


async def _one(tx: Tx, condition: sa.ColumnElement[bool], *, lock: bool) -> Session | None:
    query = sa.select(*_COLUMNS).where(condition)
    row = (await tx.execute(query.with_for_update() if lock else query)).one_or_none()
    return Session(*row) if row else None


def _key(owner: str, chat_id: str) -> sa.ColumnElement[bool]:
    return sa.and_(session.c.owner == owner, session.c.chat_id == chat_id)


async def lock(tx: Tx, owner: str, chat_id: str) -> Session | None:
    """The session, locked until the transaction ends. The first lock of every transaction that decides."""
    return await _one(tx, _key(owner, chat_id), lock=True)


async def lock_by_id(tx: Tx, session_id: UUID) -> Session | None:
    return await _one(tx, session.c.id == session_id, lock=True)


async def get(tx: Tx, owner: str, chat_id: str) -> Session | None:
    """The session, not locked: for reads."""
    return await _one(tx, _key(owner, chat_id), lock=False)


async def create(tx: Tx, session_id: UUID, owner: str, chat_id: str, agent: str) -> bool:
    """Creates the session; ``False`` when somebody else was first. Lock it afterwards either way."""
    statement = insert(session).values(id=session_id, owner=owner, chat_id=chat_id, agent=agent)
    result = await tx.execute(statement.on_conflict_do_nothing().returning(session.c.id))
    return result.one_or_none() is not None


async def take_positions(tx: Tx, session_id: UUID, count: int) -> int:
    """Reserves ``count`` consecutive positions of the session's order; returns the first."""
    statement = (
        sa.update(session)
        .where(session.c.id == session_id)
        .values(next_position=session.c.next_position + count, updated_at=sa.func.now())
        .returning(session.c.next_position)
    )
    return int((await tx.execute(statement)).scalar_one()) - count


async def mark_cut(tx: Tx, session_id: UUID, run_id: UUID | None) -> None:
    """Records that a client may hold less of this run's message than there is; ``None`` clears the mark."""
    await tx.execute(sa.update(session).where(session.c.id == session_id).values(cut_run=run_id))


async def delete(tx: Tx, session_id: UUID) -> None:
    """Deletes the session and all its rows but the frames of its runs, which their own sweep finds."""
    await tx.execute(sa.delete(session).where(session.c.id == session_id))


async def page(tx: Tx, owner: str, *, before: tuple[datetime, UUID] | None, limit: int) -> list[Session]:
    """The owner's sessions, the newest change first, strictly older than ``before``."""
    query = sa.select(*_COLUMNS).where(session.c.owner == owner)
    if before is not None:
        query = query.where(sa.tuple_(session.c.updated_at, session.c.id) < before)
    rows = await tx.execute(query.order_by(session.c.updated_at.desc(), session.c.id.desc()).limit(limit))
    return [Session(*row) for row in rows]


async def idle_since(tx: Tx, seconds: float, *, limit: int) -> list[UUID]:
    """Sessions without a change for ``seconds``, oldest first."""
    age = sa.func.now() - sa.func.make_interval(0, 0, 0, 0, 0, 0, seconds)
    query = (
        sa.select(session.c.id).where(session.c.updated_at < age).order_by(session.c.updated_at).limit(limit)
    )
    return list((await tx.execute(query)).scalars())


async def is_idle(tx: Tx, session_id: UUID, seconds: float) -> bool:
    age = sa.func.now() - sa.func.make_interval(0, 0, 0, 0, 0, 0, seconds)
    query = sa.select(sa.func.count()).where(session.c.id == session_id, session.c.updated_at < age)
    return (await tx.execute(query)).scalar_one() == 1
