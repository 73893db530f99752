"""History rows: what the model is sent, in order. A root reads the whole session's; a child only its own."""

from collections.abc import Sequence
from uuid import UUID

import sqlalchemy as sa

from app.domain.history import VERSION, Entry
from app.store import sessions
from app.store.faults import CorruptRow
from app.store.schema import history
from app.store.transaction import Tx


async def append(
    tx: Tx, session_id: UUID, run_id: UUID, step: int, entries: Sequence[Entry], *, child: bool
) -> None:
    """Appends entries at the end of the session's order."""
    if not entries:
        return
    first = await sessions.take_positions(tx, session_id, len(entries))
    rows = [
        {
            "session_id": session_id,
            "position": first + index,
            "run_id": run_id,
            "child": child,
            "step": step,
            "role": entry["role"],
            "body": entry,
        }
        for index, entry in enumerate(entries)
    ]
    await tx.execute(sa.insert(history), rows)


def _read(rows: Sequence[Entry]) -> list[Entry]:
    for entry in rows:
        if not isinstance(entry, dict) or entry.get("v") != VERSION or "role" not in entry:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise CorruptRow("a history entry of an unknown version")
    return list(rows)


async def of_session(tx: Tx, session_id: UUID) -> list[Entry]:
    """What a root run's model is sent."""
    query = sa.select(history.c.body).where(
        history.c.session_id == session_id, history.c.cut_at.is_(None), ~history.c.child
    )
    return _read(list((await tx.execute(query.order_by(history.c.position))).scalars()))


async def last_of_session(tx: Tx, session_id: UUID) -> Entry | None:
    """The newest entry a root run's model is sent."""
    query = sa.select(history.c.body).where(
        history.c.session_id == session_id, history.c.cut_at.is_(None), ~history.c.child
    )
    row = (await tx.execute(query.order_by(history.c.position.desc()).limit(1))).scalar_one_or_none()
    return _read([row])[0] if row is not None else None


async def of_child(tx: Tx, run_id: UUID) -> list[Entry]:
    query = sa.select(history.c.body).where(history.c.run_id == run_id).order_by(history.c.position)
    return _read(list((await tx.execute(query)).scalars()))


async def cut_after(tx: Tx, session_id: UUID, position: int) -> None:
    """Takes everything after ``position`` out of what a model is sent."""
    await tx.execute(
        sa.update(history)
        .where(history.c.session_id == session_id, history.c.position > position, history.c.cut_at.is_(None))
        .values(cut_at=sa.func.now())
    )
