"""Frame rows: the log of the running step, written in batches, read by cursor.

A frame is valid for a reader when it is of the run's current epoch, or at or below the watermark (then the highest epoch of its
``seq`` is the committed one). So a paused owner that wakes late may write what it likes: no reader sees it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import orjson
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from app.domain.frames import Chunk
from app.domain.run_state import RunState
from app.store.schema import frame, run
from app.store.transaction import Tx


@dataclass(frozen=True, slots=True)
class Frame:
    """One UI message chunk of a run. ``data`` is its JSON, encoded once and shared by all readers."""

    seq: int
    epoch: int
    chunk: Chunk
    data: str

    @classmethod
    def of(cls, seq: int, epoch: int, chunk: Chunk) -> "Frame":
        return cls(seq, epoch, chunk, orjson.dumps(chunk).decode())


@dataclass(frozen=True, slots=True)
class Slice:
    """What one look at the log gave: the run as it stood, and the valid frames after the cursor, contiguous from it."""

    state: RunState
    epoch: int
    watermark: int
    frames: Sequence[Frame]


async def insert_committed(tx: Tx, run_id: UUID, frames: Sequence[Frame]) -> None:
    """Writes frames in the transaction that commits them, so that a reader of the log never meets a gap before them."""
    if frames:
        rows = [{"run_id": run_id, "seq": f.seq, "epoch": f.epoch, "data": f.data} for f in frames]
        await tx.execute(insert(frame).on_conflict_do_nothing(), rows)


async def read_after(tx: Tx, run_id: UUID, seq: int, *, limit: int = 2_000) -> Slice | None:
    """The run and its frames after ``seq`` in one statement; ``None`` when there is no such run."""
    query = (
        sa.select(
            run.c.state,
            run.c.epoch,
            run.c.frame_seq,
            frame.c.seq,
            frame.c.epoch.label("frame_epoch"),
            frame.c.data,
        )
        .select_from(run.outerjoin(frame, sa.and_(frame.c.run_id == run.c.id, frame.c.seq > seq)))
        .where(run.c.id == run_id)
        .order_by(frame.c.seq, frame.c.epoch.desc())
        .limit(limit)
    )
    rows = (await tx.execute(query)).all()
    if not rows:
        return None
    head = rows[0]
    frames: list[Frame] = []
    expected = seq + 1
    for row in rows:
        if row.seq is None or row.seq < expected:
            continue  # no frame at all, or an older epoch's of the same number
        if row.seq > expected or not (row.frame_epoch == head.epoch or row.seq <= head.frame_seq):
            break
        frames.append(Frame(row.seq, row.frame_epoch, orjson.loads(row.data), row.data))
        expected += 1
    return Slice(RunState(head.state), head.epoch, head.frame_seq, frames)


async def discard_after(tx: Tx, run_id: UUID, seq: int) -> None:
    """A takeover: what the last owner wrote of its uncommitted step is nothing any more."""
    await tx.execute(sa.delete(frame).where(frame.c.run_id == run_id, frame.c.seq > seq))


async def trim(tx: Tx, run_id: UUID) -> None:
    """Drops the frames of committed steps that every reader has had time to finish (the generation before the last)."""
    upto = sa.select(run.c.trim_seq).where(run.c.id == run_id).scalar_subquery()
    await tx.execute(sa.delete(frame).where(frame.c.run_id == run_id, frame.c.seq <= upto))


async def purge(tx: Tx, older_than_s: float, *, limit: int) -> int:
    """Drops the frames of runs that were settled or suspended for ``older_than_s``, and of runs that are gone."""
    running = sa.exists().where(run.c.id == frame.c.run_id, run.c.state == RunState.RUNNING)
    recent = sa.exists().where(
        run.c.id == frame.c.run_id,
        run.c.trim_at > sa.func.now() - sa.func.make_interval(0, 0, 0, 0, 0, 0, older_than_s),
    )
    due = (
        sa.select(frame.c.run_id, frame.c.seq, frame.c.epoch).where(~running, ~recent).limit(limit).subquery()
    )
    key = sa.tuple_(frame.c.run_id, frame.c.seq, frame.c.epoch)
    return (await tx.execute(sa.delete(frame).where(key.in_(sa.select(due))))).rowcount
