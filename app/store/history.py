"""History rows: what the model is sent, in order. A root reads the whole session's; a child only its own."""

from collections.abc import Sequence
from uuid import UUID

from app.domain.history import Entry, is_readable
from app.store.engine import dumps
from app.store.faults import CorruptRow
from app.store.transaction import Tx

# The session's next positions are taken and the entries put there, in their order. Bodies travel as text: an array of JSON arrays
# would be read as an array of two dimensions.
_APPEND = """
    with taken as (
        update session set next_position = next_position + cardinality($5::text[]), updated_at = now()
        where id = $1 returning next_position - cardinality($5::text[]) as first
    )
    insert into history (session_id, position, run_id, child, step, role, body)
    select $1, taken.first + entry.number - 1, $2::uuid, $3::boolean, $4::int, entry.role, entry.body::json
    from taken, unnest($5::text[], $6::text[]) with ordinality as entry (role, body, number)
    returning true
"""

# What a root's model is sent: the uncut entries of the session, but those of child runs.
_OF_SESSION = """
    select body from history where session_id = $1 and cut_at is null and not child order by position
"""
_LAST_OF_SESSION = _OF_SESSION + "desc limit 1"

_OF_CHILD = "select body from history where run_id = $1 order by position"

# A rewind: what came after leaves the model's sight, and stays as rows.
_CUT_AFTER = """
    update history set cut_at = now() where session_id = $1 and position > $2 and cut_at is null
"""


async def append(
    tx: Tx, session_id: UUID, run_id: UUID, step: int, entries: Sequence[Entry], *, child: bool
) -> None:
    """Appends entries at the end of the session's order. Raises ``LookupError`` when there is no such session."""
    if not entries:
        return
    roles, bodies = [entry["role"] for entry in entries], [dumps(entry) for entry in entries]
    if await tx.fetchval(_APPEND, session_id, run_id, child, step, roles, bodies) is None:
        raise LookupError(f"no session {session_id}")


def _read(body: Entry) -> Entry:
    if not is_readable(body):
        raise CorruptRow("a history entry of an unknown version or kind")
    return body


async def of_session(tx: Tx, session_id: UUID) -> list[Entry]:
    """What a root run's model is sent."""
    return [_read(row[0]) for row in await tx.fetch(_OF_SESSION, session_id)]


async def last_of_session(tx: Tx, session_id: UUID) -> Entry | None:
    """The newest entry a root run's model is sent."""
    row = await tx.fetchrow(_LAST_OF_SESSION, session_id)
    return _read(row[0]) if row is not None else None


async def of_child(tx: Tx, run_id: UUID) -> list[Entry]:
    return [_read(row[0]) for row in await tx.fetch(_OF_CHILD, run_id)]


async def cut_after(tx: Tx, session_id: UUID, position: int) -> None:
    """Takes everything after ``position`` out of what a model is sent."""
    await tx.execute(_CUT_AFTER, session_id, position)
