"""Message rows: what the user sees. A cut message is out of every view but stays as a row."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any
from uuid import UUID

from app.store import runs
from app.store.faults import CorruptRow
from app.store.statements import holdable
from app.store.transaction import Tx


@dataclass(frozen=True, slots=True)
class Message:
    position: int
    id: str
    role: str
    run_id: UUID | None
    parts: list[dict[str, Any]]
    metadata: dict[str, Any] | None


_NAMES = [field.name for field in fields(Message)]
_COLUMNS = ", ".join(f"message.{name}" for name in _NAMES)
_SELECT = f"select {_COLUMNS} from message "

_INSERT = """
    insert into message (session_id, position, id, role, run_id, parts, metadata)
    values ($1, $2, $3, $4, $5, $6, $7)
"""

# A cut message's id is free again, so at most one row of an id is uncut.
_GET = _SELECT + "where session_id = $1 and id = $2 and cut_at is null"

_OF_RUN = _SELECT + "where run_id = $1 and role = 'assistant'"

# Which root run wrote each of these messages; the uncut one of an id comes last, so that it wins.
_RUNS_OF = """
    select id, run_id from message where session_id = $1 and id = any($2::text[]) and role = 'assistant'
    order by cut_at desc nulls last
"""

# The newest of a session's messages, read backwards from a position.
_PAGE = (
    _SELECT
    + """
    where session_id = $1 and cut_at is null and ($2::bigint is null or position < $2)
    order by position desc limit $3
"""
)

# The one assistant message of a run is written whole with each commit that changes it.
_WRITE = "update message set parts = $2, metadata = $3 where run_id = $1 and role = 'assistant'"

_BEGIN_AGAIN = "update message set run_id = $3, parts = $4 where session_id = $1 and position = $2"

# A rewind: what came after leaves every view, and stays as rows.
_CUT_AFTER = """
    update message set cut_at = now() where session_id = $1 and position > $2 and cut_at is null
"""

# The message and the watermark on the run's row belong together: one statement, one snapshot.
_WITH_RUN = f"""
    select {_COLUMNS}, {runs.COLUMNS} from message join run on run.id = message.run_id
    where message.run_id = $1 and message.role = 'assistant'
"""

_SIZE = "select octet_length(parts::text) from message where run_id = $1 and role = 'assistant'"


def _read(row: Iterable[Any]) -> Message:
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
    await tx.execute(_INSERT, session_id, position, message_id, role, run_id, list(parts), metadata)


async def get(tx: Tx, session_id: UUID, message_id: str) -> Message | None:
    """The uncut message of this id."""
    row = await tx.fetchrow(_GET, session_id, message_id) if holdable([message_id]) else None
    return _read(row) if row is not None else None


async def of_run(tx: Tx, run_id: UUID) -> Message | None:
    """The assistant message a root run writes, cut or not."""
    row = await tx.fetchrow(_OF_RUN, run_id)
    return _read(row) if row is not None else None


async def runs_of(tx: Tx, session_id: UUID, message_ids: Sequence[str]) -> dict[str, UUID]:
    """Assistant message id → the root run that wrote it, cut messages included (an uncut one wins)."""
    if not message_ids:
        return {}
    return {row[0]: row[1] for row in await tx.fetch(_RUNS_OF, session_id, holdable(message_ids))}


async def page(tx: Tx, session_id: UUID, *, before: int | None, limit: int | None) -> list[Message]:
    """The session's uncut messages in order; the last ``limit`` of those before position ``before``."""
    return [_read(row) for row in await tx.fetch(_PAGE, session_id, before, limit)][::-1]


async def write(tx: Tx, run_id: UUID, parts: Sequence[Any], metadata: Mapping[str, Any] | None) -> None:
    """Writes the assistant message of a run. Only its owner, under its epoch, or the transaction that settles it may."""
    await tx.execute(_WRITE, run_id, list(parts), metadata or None)


async def begin_again(tx: Tx, session_id: UUID, position: int, *, run_id: UUID, parts: Sequence[Any]) -> None:
    """A user message begins another run, with the parts it has now."""
    await tx.execute(_BEGIN_AGAIN, session_id, position, run_id, list(parts))


async def cut_after(tx: Tx, session_id: UUID, position: int) -> None:
    """Takes everything after ``position`` out of every view."""
    await tx.execute(_CUT_AFTER, session_id, position)


async def with_run(tx: Tx, run_id: UUID) -> tuple[Message, runs.Run] | None:
    """The assistant message of a root run and the run's row, in one statement: the message and its watermark belong together."""
    row = await tx.fetchrow(_WITH_RUN, run_id)
    return (_read(row[: len(_NAMES)]), runs.read(row[len(_NAMES) :])) if row is not None else None


async def size(tx: Tx, run_id: UUID) -> int:
    """The bytes of a root run's stored message."""
    return int(await tx.fetchval(_SIZE, run_id) or 0)
