"""Session rows: the lock that every decision is made under, and positions in a session's order."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from app.domain.run_state import LIVE
from app.store.statements import one_of
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


_SELECT = f"select {', '.join(field.name for field in fields(Session))} from session "

# One chat of one owner, by the client's name for it.
_GET = _SELECT + "where owner = $1 and chat_id = $2"
_LOCK = _GET + " for update"
_LOCK_BY_ID = _SELECT + "where id = $1 for update"

# Created by whoever is first; the others meet the row.
_CREATE = """
    insert into session (id, owner, chat_id, agent) values ($1, $2, $3, $4)
    on conflict do nothing returning true
"""

# The next positions of the session's order are taken, which counts as a change of it.
_TAKE_POSITIONS = """
    update session set next_position = next_position + $2, updated_at = now() where id = $1
    returning next_position - $2
"""

_TOUCH = "update session set updated_at = now() where id = $1"

_MARK_CUT = "update session set cut_run = $2 where id = $1"

# Frames have no foreign key, for the sake of the log's speed.
_DELETE_FRAMES = "delete from frame using run where run.session_id = $1 and frame.run_id = run.id"
_DELETE = "delete from session where id = $1"

# A page of the owner's list, from the newest change on, or from strictly after the last one seen.
_NEWEST = _SELECT + "where owner = $1 order by updated_at desc, id desc limit $2"
_OLDER = (
    _SELECT
    + """
    where owner = $1 and (updated_at, id) < ($3, $4)
    order by updated_at desc, id desc limit $2
"""
)

# Candidates for expiry; each is looked at again under its lock.
_IDLE_SINCE = """
    select id from session where updated_at < now() - make_interval(secs => $1) order by updated_at limit $2
"""
# Two transactions of one owner that count what it has do so one after the other. The second statement's snapshot is taken under
# the lock, so it sees what the first one committed.
_LOCK_OWNER = "select pg_advisory_xact_lock(hashtextextended($1, 0))"
# Stops counting at the limit: what it costs is bounded by the limit, not by what the owner has.
_OVER = "select exists(select from session where owner = $1 offset $2)"
_LIVE_OF_OWNER = f"""
    select count(*) from run join session on session.id = run.session_id
    where session.owner = $1 and run.parent_run is null and run.state in ({one_of(LIVE)})
"""

_IS_IDLE = "select updated_at < now() - make_interval(secs => $2) from session where id = $1"


def _read(row: Iterable[Any] | None) -> Session | None:
    return Session(*row) if row is not None else None


async def lock(tx: Tx, owner: str, chat_id: str) -> Session | None:
    """The session, locked until the transaction ends. The first lock of every transaction that decides."""
    return _read(await tx.fetchrow(_LOCK, owner, chat_id))


async def lock_by_id(tx: Tx, session_id: UUID) -> Session | None:
    return _read(await tx.fetchrow(_LOCK_BY_ID, session_id))


async def get(tx: Tx, owner: str, chat_id: str) -> Session | None:
    """The session, not locked: for reads."""
    return _read(await tx.fetchrow(_GET, owner, chat_id))


async def create(tx: Tx, session_id: UUID, owner: str, chat_id: str, agent: str) -> bool:
    """Creates the session; ``False`` when somebody else was first. Lock it afterwards either way."""
    return await tx.fetchval(_CREATE, session_id, owner, chat_id, agent) is True


async def take_positions(tx: Tx, session_id: UUID, count: int) -> int:
    """Reserves ``count`` consecutive positions of the session's order; returns the first."""
    first = await tx.fetchval(_TAKE_POSITIONS, session_id, count)
    if first is None:
        raise LookupError(f"no session {session_id}")
    return int(first)


async def touch(tx: Tx, session_id: UUID) -> None:
    """Notes that the session has changed now."""
    await tx.execute(_TOUCH, session_id)


async def mark_cut(tx: Tx, session_id: UUID, run_id: UUID | None) -> None:
    """Records that a client may hold less of this run's message than there is; ``None`` clears the mark."""
    await tx.execute(_MARK_CUT, session_id, run_id)


async def delete(tx: Tx, session_id: UUID) -> None:
    """Deletes the session and all its rows. What its owner writes to the log in this very moment, the frames' own sweep finds."""
    await tx.execute(_DELETE_FRAMES, session_id)
    await tx.execute(_DELETE, session_id)


async def page(tx: Tx, owner: str, *, before: tuple[datetime, UUID] | None, limit: int) -> list[Session]:
    """The owner's sessions, the newest change first, strictly older than ``before``."""
    rows = await (
        tx.fetch(_NEWEST, owner, limit) if before is None else tx.fetch(_OLDER, owner, limit, *before)
    )
    return [Session(*row) for row in rows]


async def idle_since(tx: Tx, seconds: float, *, limit: int) -> list[UUID]:
    """Sessions without a change for ``seconds``, oldest first."""
    return [row[0] for row in await tx.fetch(_IDLE_SINCE, seconds, limit)]


async def live_runs_of_owner(tx: Tx, owner: str) -> int:
    """The owner's running and suspended root runs; whoever asks has the owner's lock until the transaction ends."""
    await tx.execute(_LOCK_OWNER, owner)
    return int(await tx.fetchval(_LIVE_OF_OWNER, owner))


async def owner_has_over(tx: Tx, owner: str, limit: int) -> bool:
    """Whether the owner has more than ``limit`` sessions; takes the owner's lock, as ``live_runs_of_owner`` does."""
    await tx.execute(_LOCK_OWNER, owner)
    return await tx.fetchval(_OVER, owner, limit) is True


async def is_idle(tx: Tx, session_id: UUID, seconds: float) -> bool:
    return await tx.fetchval(_IS_IDLE, session_id, seconds) is True
