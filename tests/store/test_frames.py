"""Frame rows: a reader sees the valid ones, in unbroken order; what a paused owner wrote too late is nobody's."""

import asyncio
from uuid import UUID, uuid4

import pytest

from app.domain.run_state import RunState
from app.store import frames, runs
from app.store.faults import CorruptRow
from app.store.frames import Frame
from app.store.transaction import Store, Tx
from tests.store.make import a_session, a_tree


def text(seq: int, epoch: int, said: str = "x") -> Frame:
    return Frame.of(seq, epoch, {"type": "text-delta", "id": "t", "delta": said})


async def put(tx: Tx, run_id: UUID, *written: Frame) -> None:
    await frames.insert_committed(tx, run_id, written)


async def seen(tx: Tx, run_id: UUID, after: int = 0, limit: int = 2_000) -> list[tuple[int, int]]:
    """(seq, epoch) of the frames a reader at this cursor gets."""
    found = await frames.read_after(tx, run_id, after, limit=limit)
    assert found is not None
    return [(frame.seq, frame.epoch) for frame in found.frames]


async def test_a_slice_is_the_run_and_its_frames_from_the_cursor_on(store: Store):
    _, run = await a_tree(store)
    async with store.transaction() as tx:
        await put(tx, run.id, *(text(n, 1, f"é\x00{n}") for n in range(1, 6)))
        await runs.advance(tx, run.id, frame_seq=2, step_open=True)
        found = await frames.read_after(tx, run.id, 3)
        assert found is not None
        assert (found.state, found.epoch, found.watermark) == (RunState.RUNNING, 1, 2)
        assert list(found.frames) == [text(4, 1, "é\x004"), text(5, 1, "é\x005")]
        assert await seen(tx, run.id, 5) == []
        assert await frames.read_after(tx, uuid4(), 0) is None


async def test_a_run_without_frames_is_still_told(store: Store):
    _, run = await a_tree(store)
    async with store.transaction() as tx:
        await runs.settle(tx, [run.id], RunState.SUPERSEDED)
        found = await frames.read_after(tx, run.id, 0)
        assert found is not None
        assert (found.state, list(found.frames)) == (RunState.SUPERSEDED, [])


async def test_nothing_after_a_gap_is_shown(store: Store):
    _, run = await a_tree(store)
    async with store.transaction() as tx:
        await put(tx, run.id, text(1, 1), text(2, 1), text(4, 1))
        assert await seen(tx, run.id) == [(1, 1), (2, 1)]
        assert await seen(tx, run.id, 2) == []
        await put(tx, run.id, text(3, 1))
        assert await seen(tx, run.id) == [(1, 1), (2, 1), (3, 1), (4, 1)]


async def test_a_slice_is_bounded_and_the_next_goes_on(store: Store):
    _, run = await a_tree(store)
    async with store.transaction() as tx:
        await put(tx, run.id, *(text(n, 1) for n in range(1, 8)))
        assert await seen(tx, run.id, 0, limit=3) == [(1, 1), (2, 1), (3, 1)]
        assert await seen(tx, run.id, 3, limit=3) == [(4, 1), (5, 1), (6, 1)]


async def test_uncommitted_frames_of_an_older_epoch_are_invisible(store: Store):
    """The owner was paused, lost its lease, woke, and wrote what it had."""
    _, run = await a_tree(store)
    async with store.transaction() as tx:
        await put(tx, run.id, text(1, 1), text(2, 1))
        await runs.advance(tx, run.id, frame_seq=2, step_open=True)
        await put(tx, run.id, text(3, 1), text(4, 1))
        assert await seen(tx, run.id) == [(1, 1), (2, 1), (3, 1), (4, 1)]
        await runs.raise_epoch(tx, run.id)
        assert await seen(tx, run.id) == [
            (1, 1),
            (2, 1),
        ]  # committed frames keep the epoch they were written under


async def test_of_one_number_the_newer_epoch_s_frame_is_the_one(store: Store):
    _, run = await a_tree(store)
    async with store.transaction() as tx:
        await put(tx, run.id, text(1, 1, "old"), text(2, 1, "old"), text(3, 1, "old"))
        await runs.raise_epoch(tx, run.id)
        await put(tx, run.id, text(1, 2, "new"), text(2, 2, "new"))
        assert await seen(tx, run.id) == [(1, 2), (2, 2)]
        await runs.advance(tx, run.id, frame_seq=2, step_open=True)
        await runs.raise_epoch(tx, run.id)
        assert await seen(tx, run.id) == [(1, 2), (2, 2)]
        await put(tx, run.id, text(1, 1, "later still"))
        found = await frames.read_after(tx, run.id, 0)
        assert found is not None
        assert [frame.chunk["delta"] for frame in found.frames] == ["new", "new"]


async def test_a_reader_is_told_under_which_epoch_its_last_frame_was_committed(store: Store):
    _, run = await a_tree(store)
    async with store.transaction() as tx:

        async def committed(seq: int) -> int | None:
            found = await frames.read_after(tx, run.id, seq)
            assert found is not None
            return found.cursor_epoch

        await put(tx, run.id, *(text(n, 1) for n in range(1, 5)))
        await runs.advance(tx, run.id, frame_seq=2, step_open=True)
        assert [await committed(n) for n in range(5)] == [None, 1, 1, None, None]
        await runs.raise_epoch(tx, run.id)
        await put(tx, run.id, text(3, 2), text(4, 2))
        assert [await committed(n) for n in range(5)] == [None, 1, 1, None, None]
        await runs.advance(tx, run.id, frame_seq=4, step_open=True)
        assert [await committed(n) for n in range(6)] == [None, 1, 1, 2, 2, None]


async def test_a_takeover_discards_what_was_not_committed(store: Store, bare):
    _, run = await a_tree(store)
    _, other = await a_tree(store)
    async with store.transaction() as tx:
        await put(tx, run.id, *(text(n, 1) for n in range(1, 5)))
        await put(tx, other.id, text(9, 1))
        await frames.discard_after(tx, run.id, 2)
    assert [row[0] for row in await bare.fetch("select seq from frame order by seq")] == [1, 2, 9]


async def test_what_the_log_has_stays_as_it_is(store: Store):
    _, run = await a_tree(store)
    async with store.transaction() as tx:
        await put(tx, run.id, text(1, 1, "first"))
        await put(tx, run.id, text(1, 1, "again"), text(2, 1))
        await put(tx, run.id)
        found = await frames.read_after(tx, run.id, 0)
        assert found is not None
        assert [frame.chunk["delta"] for frame in found.frames] == ["first", "x"]


async def test_the_same_frames_written_twice_at_once_are_there_once(store: Store, bare):
    """The log's writer and the commit may both write them."""
    _, run = await a_tree(store)

    async def write() -> None:
        async with store.transaction() as tx:
            await put(tx, run.id, *(text(n, 1) for n in range(1, 50)))

    await asyncio.gather(*(write() for _ in range(4)))
    assert await bare.fetchval("select count(*) from frame") == 49


async def test_a_frame_that_cannot_be_read_is_corrupt(store: Store, bare):
    _, run = await a_tree(store)
    await bare.execute("insert into frame (run_id, seq, epoch, data) values ($1, 1, 1, '{')", run.id)
    async with store.transaction() as tx:
        with pytest.raises(CorruptRow):
            await frames.read_after(tx, run.id, 0)


async def test_the_log_of_runs_that_are_over_is_purged(store: Store, bare):
    made = {name: (await a_tree(store))[1] for name in ("running", "fresh", "done", "suspended")}
    async with store.transaction() as tx:
        for run in made.values():
            await put(tx, run.id, text(1, 1), text(2, 1))
            await runs.advance(tx, run.id, frame_seq=2, step_open=False)
        await runs.settle(tx, [made["fresh"].id, made["done"].id], RunState.COMPLETED)
        await runs.suspend_tree(tx, made["suspended"].id)
        await put(tx, uuid4(), text(1, 1))  # its run was deleted
    for name in ("running", "done", "suspended"):
        await bare.execute("update run set trim_at = now() - interval '130 s' where id = $1", made[name].id)
    async with store.transaction() as tx:
        assert await frames.purge(tx, 60, limit=3) == 3
        assert await frames.purge(tx, 60, limit=99) == 2
        assert await frames.purge(tx, 60, limit=99) == 0
    left = {row[0] for row in await bare.fetch("select distinct run_id from frame")}
    assert left == {made["running"].id, made["fresh"].id}


async def test_a_frame_is_kept_its_time_after_the_last_commit_even_when_the_log_did_not_age_with_it(
    store: Store, bare
):
    """The log ages at most once a minute, so its age may be a minute more than that of its youngest frame."""
    _, run = await a_tree(store)
    async with store.transaction() as tx:
        await put(tx, run.id, text(1, 1))
        await runs.advance(tx, run.id, frame_seq=1, step_open=False)
        await runs.settle(tx, [run.id], RunState.COMPLETED)
    await bare.execute("update run set trim_at = now() - interval '119 s'")
    async with store.transaction() as tx:
        assert await frames.purge(tx, 60, limit=9) == 0


async def test_two_replicas_purge_at_once_without_waiting(store: Store, bare):
    async with store.transaction() as tx:
        await a_session(tx)
        await put(tx, uuid4(), *(text(n, 1) for n in range(1, 7)))
    async with bare.transaction():
        assert await frames.purge(bare, 60, limit=4) == 4
        async with store.transaction() as tx:
            assert await frames.purge(tx, 60, limit=9) == 2
