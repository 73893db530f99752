"""Frame rows: the log of the running step, written in batches, read by cursor.

A frame is valid for a reader when it is of the run's current epoch, or at or below the watermark (then the highest epoch of its
``seq`` is the committed one). So a paused owner that wakes late may write what it likes: no reader sees it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from app.domain.frames import Chunk
from app.domain.run_state import RunState
from app.store.engine import dumps, loads
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
        return cls(seq, epoch, chunk, dumps(chunk))


@dataclass(frozen=True, slots=True)
class Slice:
    """What one look at the log gave: the run as it stood, and the valid frames after the cursor, contiguous from it.

    ``cursor_epoch``: under which epoch the frame at the cursor was committed; ``None`` when it is not, or not kept any more."""

    state: RunState
    epoch: int
    watermark: int
    frames: Sequence[Frame]
    cursor_epoch: int | None = None


# A batch of frames; what the log has already stays as it is.
INSERT = """
    insert into frame (run_id, seq, epoch, data) select * from unnest($1::uuid[], $2::bigint[], $3::int[], $4::text[])
    on conflict do nothing
"""

# The run and its frames from a cursor on, in one snapshot. Of one seq the newest epoch's comes first.
_READ_AFTER = """
    select run.state, run.epoch, run.frame_seq, frame.seq, frame.epoch, case when frame.seq > $2 then frame.data end
    from run left join frame on frame.run_id = run.id and frame.seq >= $2
    where run.id = $1
    order by frame.seq, frame.epoch desc limit $3 + 1
"""

_DISCARD_AFTER = "delete from frame where run_id = $1 and seq > $2"

# Frames of runs that are gone, or that have not run for a while: the last commit is at most one age after ``trim_at``, else that
# would have moved. Rows that another replica is purging are left to it.
_PURGE = """
    with due as (
        select run_id, seq, epoch from frame
        where not exists (
            select from run where run.id = frame.run_id
            and (run.state = 'running' or run.trim_at > now() - make_interval(secs => 2 * $1))
        )
        limit $2 for update skip locked
    ), gone as (
        delete from frame using due
        where frame.run_id = due.run_id and frame.seq = due.seq and frame.epoch = due.epoch
        returning 1
    )
    select count(*) from gone
"""


async def insert_committed(tx: Tx, run_id: UUID, frames: Sequence[Frame]) -> None:
    """Writes frames in the transaction that commits them, so that a reader of the log never meets a gap before them."""
    if frames:
        await tx.execute(
            INSERT,
            [run_id] * len(frames),
            [frame.seq for frame in frames],
            [frame.epoch for frame in frames],
            [frame.data for frame in frames],
        )


async def read_after(tx: Tx, run_id: UUID, seq: int, *, limit: int = 2_000) -> Slice | None:
    """The run and its frames after ``seq`` in one statement; ``None`` when there is no such run."""
    rows = await tx.fetch(_READ_AFTER, run_id, seq, limit)
    if not rows:
        return None
    state, epoch, watermark, *_ = rows[0]
    frames: list[Frame] = []
    expected, cursor_epoch = seq + 1, None
    for _, _, _, frame_seq, frame_epoch, data in rows:
        if frame_seq is None:
            continue  # no frame at all
        if frame_seq == seq <= watermark and cursor_epoch is None:
            cursor_epoch = frame_epoch
        if frame_seq < expected:
            continue  # the cursor's own, or an older epoch's of the same number
        valid = frame_epoch == epoch or frame_seq <= watermark
        if frame_seq > expected or not valid or len(frames) == limit:
            break
        frames.append(Frame(frame_seq, frame_epoch, loads(data), data))
        expected += 1
    return Slice(RunState(state), epoch, watermark, frames, cursor_epoch)


async def discard_after(tx: Tx, run_id: UUID, seq: int) -> None:
    """A takeover: what the last owner wrote of its uncommitted step is nothing any more."""
    await tx.execute(_DISCARD_AFTER, run_id, seq)


async def purge(tx: Tx, older_than_s: float, *, limit: int) -> int:
    """Drops the frames of runs that were settled or suspended for ``older_than_s``, and of runs that are gone."""
    return int(await tx.fetchval(_PURGE, older_than_s, limit))
