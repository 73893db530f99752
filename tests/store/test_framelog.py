"""The frame log in motion: local readers at once, the log with the next tick, other replicas by the bell; and after every outage."""

import asyncio
from collections.abc import AsyncIterator, Callable
from uuid import UUID, uuid4

import asyncpg
import pytest

from app.store import framelog, frames
from app.store.engine import connect
from app.store.framelog import Feed, FrameLog
from app.store.frames import Frame
from app.store.transaction import Store
from tests.inprocess.server import Logs
from tests.store.make import a_tree, until

PATIENCE_S = 15.0  # a reader that is not woken by then is not woken at all


class Replica:
    """A frame log, and what it was told."""

    def __init__(self, url: str, name: str) -> None:
        self.log = FrameLog(url, replica=name, tick_s=0.005)
        self.rung: list[UUID] = []
        self.batches: list[int] = []
        self._news = asyncio.Event()
        self.log.on_run_bell = self._note(self.rung)
        self.log.on_batch = lambda _seconds, count: self._note(self.batches)(count)

    def _note(self, where: list) -> Callable[[object], None]:
        def note(what: object) -> None:
            where.append(what)
            self._news.set()

        return note

    async def sees(self, true: Callable[[], object]) -> None:
        while not true():
            self._news.clear()
            await self._news.wait()


@pytest.fixture
async def here(database_url: str) -> AsyncIterator[Replica]:
    replica = Replica(database_url, "here")
    await replica.log.start()
    await until(lambda: listens(replica))
    yield replica
    await replica.log.stop()


@pytest.fixture
async def there(database_url: str) -> AsyncIterator[Replica]:
    replica = Replica(database_url, "there")
    await replica.log.start()
    await until(lambda: listens(replica))
    yield replica
    await replica.log.stop()


async def listens(replica: Replica) -> bool:
    return replica.log.listening


def text(seq: int, epoch: int = 1, said: str = "x") -> Frame:
    return Frame.of(seq, epoch, {"type": "text-delta", "id": "t", "delta": said})


async def logged(bare: asyncpg.Connection, run_id: UUID) -> list[int]:
    return [
        row[0] for row in await bare.fetch("select seq from frame where run_id = $1 order by seq", run_id)
    ]


async def holds(bare: asyncpg.Connection, run_id: UUID, seqs: list[int]) -> bool:
    return await logged(bare, run_id) == seqs


async def kill(bare: asyncpg.Connection, which: str) -> None:
    """Kills one of the log's connections, and waits until it is dead."""
    name = f"agent-server {which}"
    mine = "from pg_stat_activity where datname = current_database() and application_name = $1"
    pids = [row[0] for row in await bare.fetch(f"select pid, pg_terminate_backend(pid) {mine}", name)]
    assert pids
    await until(lambda: bare.fetchval(f"select count(*) = 0 {mine} and pid = any($2::int[])", name, pids))


# memory


def test_a_feed_keeps_the_running_step_and_the_last_committed_one():
    feed = Feed(FrameLog("", replica="here", tick_s=1), uuid4(), 1, 10)
    feed.publish([text(11), text(12)])
    feed.commit(12)
    feed.publish([text(13)])
    assert [f.seq for f in feed.since(10) or []] == [11, 12, 13]
    feed.commit(13)
    feed.publish([text(14)])
    assert feed.since(11) is None  # a reader that far behind reads the log
    assert [f.seq for f in feed.since(12) or []] == [13, 14]
    assert feed.since(14) == []
    assert (feed.last_seq, feed.committed) == (14, 13)


def test_what_is_not_written_yet_is_never_more_than_what_is_kept():
    feed = Feed(FrameLog("", replica="here", tick_s=1), uuid4(), 1, 0)
    feed.publish([text(1), text(2)])
    assert [f.seq for f in feed.unwritten()] == [1, 2]
    feed.mark_written(1)
    feed.mark_written(0)
    assert [f.seq for f in feed.unwritten()] == [2]
    feed.commit(2)
    feed.publish([text(3)])
    feed.commit(3)
    assert [f.seq for f in feed.unwritten()] == [3]
    feed.forget_written()
    assert [f.seq for f in feed.unwritten()] == [3]


def test_a_bite_is_one_frame_at_least():
    feed = Feed(FrameLog("", replica="here", tick_s=1), uuid4(), 1, 0)
    feed.publish([text(1, said="x" * 1000), text(2), text(3)])
    assert [f.seq for f in feed.unwritten(1)] == [1]
    assert [f.seq for f in feed.unwritten(1300)] == [1, 2]


async def test_local_readers_are_woken_before_the_log_is_written():
    log = FrameLog("", replica="here", tick_s=1)
    feed = log.open(uuid4(), 1, 0)
    with log.reader(feed.run_id) as reader, log.reader(uuid4()) as stranger:
        feed.publish([text(1)])
        await reader.wait(PATIENCE_S)
        assert [f.seq for f in feed.since(0) or []] == [1]
        await stranger.wait(0)
    assert log.feed(feed.run_id) is feed
    log.close(feed)
    assert log.feed(feed.run_id) is None


async def test_closing_an_old_feed_leaves_the_new_one_of_the_same_run():
    log = FrameLog("", replica="here", tick_s=1)
    old = log.open(uuid4(), 1, 0)
    new = log.open(old.run_id, 2, 0)
    log.close(old)
    assert log.feed(old.run_id) is new


# two replicas


async def test_frames_reach_the_log_and_wake_a_reader_elsewhere(
    store: Store, here: Replica, there: Replica, bare
):
    _, run = await a_tree(store)
    feed = here.log.open(run.id, 1, 0)
    with there.log.reader(run.id) as reader:
        feed.publish([text(1), text(2, said="a\x00b")])
        await reader.wait(PATIENCE_S)
        async with store.transaction() as tx:
            found = await frames.read_after(tx, run.id, 0)
    assert found is not None
    assert list(found.frames) == [text(1), text(2, said="a\x00b")]
    assert await logged(bare, run.id) == [1, 2]


async def test_an_owner_is_rung_wherever_it_is(here: Replica, there: Replica):
    run_id = uuid4()
    here.log.ring_owner(run_id)
    await there.sees(lambda: there.rung)
    await here.sees(lambda: here.rung)
    assert here.rung == there.rung == [run_id]


async def test_a_run_without_a_feed_is_rung_too(here: Replica, there: Replica):
    run_id = uuid4()
    with there.log.reader(run_id) as elsewhere, here.log.reader(run_id) as local:
        here.log.ring_run(run_id)
        await asyncio.gather(elsewhere.wait(PATIENCE_S), local.wait(PATIENCE_S))
    await here.sees(lambda: here.batches)
    assert here.batches == [0]


async def test_more_bells_in_one_tick_than_one_notification_holds(here: Replica, there: Replica):
    runs = [uuid4() for _ in range(450)]
    for run_id in runs:
        here.log.ring_owner(run_id)
    await there.sees(lambda: len(there.rung) >= len(runs))
    assert sorted(there.rung) == sorted(runs)


async def test_a_stranger_s_ring_is_shrugged_at(here: Replica, bare):
    for payload in ("", "x", "x nonsense", "x o", f"x o{'0' * 31}", "x r  o"):
        await bare.execute("select pg_notify('agent_server', $1)", payload)
    run_id = uuid4()
    await bare.execute("select pg_notify('agent_server', $1)", f"x o{run_id.hex}")
    await here.sees(lambda: here.rung)
    assert here.rung == [run_id]
    assert here.log.listening


async def test_frames_of_a_closed_feed_are_not_written(here: Replica, bare):
    """Its owner has lost the run, or has committed all of them."""
    feed = here.log.open(uuid4(), 1, 0)
    feed.publish([text(1)])
    here.log.close(feed)
    await here.sees(lambda: here.batches)
    assert here.batches == [0]
    assert await logged(bare, feed.run_id) == []


# outages


async def test_after_a_lost_connection_everything_a_feed_keeps_is_written_again(here: Replica, bare):
    feed, quiet = here.log.open(uuid4(), 1, 0), here.log.open(uuid4(), 1, 0)
    feed.publish([text(1), text(2)])
    quiet.publish([text(1)])
    await until(lambda: holds(bare, quiet.run_id, [1]))
    await until(lambda: holds(bare, feed.run_id, [1, 2]))
    await kill(bare, "frames")
    await bare.execute("delete from frame")  # as if the last batches had been lost with the server
    feed.publish([text(3)])
    await until(lambda: holds(bare, feed.run_id, [1, 2, 3]))
    await until(lambda: holds(bare, quiet.run_id, [1]))


async def test_while_the_database_takes_nobody_frames_are_kept_and_then_written(
    here: Replica, bare, postgres_url
):
    feed = here.log.open(uuid4(), 1, 0)
    feed.publish([text(1)])
    await until(lambda: holds(bare, feed.run_id, [1]))
    name = await bare.fetchval("select current_database()")
    outside = await asyncpg.connect(postgres_url)
    await outside.execute(f'alter database "{name}" with allow_connections false')
    await kill(bare, "frames")
    batches = len(here.batches)
    feed.publish([text(2)])
    with here.log.reader(feed.run_id) as reader:
        feed.publish([text(3)])
        await reader.wait(PATIENCE_S)  # local readers do not notice
    assert len(here.batches) == batches
    await outside.execute(f'alter database "{name}" with allow_connections true')
    await outside.close()
    await until(lambda: holds(bare, feed.run_id, [1, 2, 3]))


async def test_an_outage_is_a_line_when_it_begins_and_one_when_it_is_over(
    here: Replica, bare, postgres_url, monkeypatch: pytest.MonkeyPatch, logs: Logs
):
    refused: dict[str, int] = {"agent-server frames": 0, "agent-server doorbell": 0}

    async def counting(dsn: str, *, application_name: str, **settings: str) -> asyncpg.Connection:
        try:
            return await connect(dsn, application_name=application_name, **settings)
        except asyncpg.PostgresError:
            refused[application_name] += 1
            raise

    async def often() -> bool:
        return min(refused.values()) >= 3

    monkeypatch.setattr(framelog, "connect", counting)
    feed = here.log.open(uuid4(), 1, 0)
    feed.publish([text(1)])
    await until(lambda: holds(bare, feed.run_id, [1]))
    name = await bare.fetchval("select current_database()")
    outside = await asyncpg.connect(postgres_url)
    await outside.execute(f'alter database "{name}" with allow_connections false')
    await kill(bare, "frames")
    await kill(bare, "doorbell")
    feed.publish([text(2)])
    await until(often)
    await outside.execute(f'alter database "{name}" with allow_connections true')
    await outside.close()
    await until(lambda: holds(bare, feed.run_id, [1, 2]))
    await until(lambda: listens(here))
    for began, over in (
        ("frames.write_failed", "frames.write_resumed"),
        ("doorbell.lost", "doorbell.restored"),
    ):
        (lost,), (resumed,) = logs.of(began), logs.of(over)
        assert lost["causes"], "and why"
        assert resumed["tries"] >= 3


async def test_what_an_outage_has_heaped_up_is_written_in_bites(here: Replica, bare):
    feeds = [here.log.open(uuid4(), 1, 0) for _ in range(3)]
    async with bare.transaction():
        await bare.execute("lock table frame in access exclusive mode")
        for feed in feeds:
            feed.publish([text(n, said="x" * 1_500_000) for n in (1, 2)])
    for feed in feeds:
        await until(lambda feed=feed: holds(bare, feed.run_id, [1, 2]))
    await here.sees(lambda: sum(here.batches) >= 6)
    assert sum(here.batches) == 6
    assert max(here.batches) < 6


async def test_a_lost_doorbell_is_hung_up_again_and_its_readers_look(here: Replica, there: Replica, bare):
    run_id = uuid4()
    with there.log.reader(run_id) as reader:
        await bare.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and query like 'LISTEN%'"
        )
        await reader.wait(PATIENCE_S)  # whatever rang while nobody listened
        await until(lambda: listens(there))
        await until(lambda: listens(here))
        here.log.ring_run(run_id)
        await reader.wait(PATIENCE_S)


# the end


async def test_stopping_writes_what_is_left(database_url, bare):
    replica = Replica(database_url, "here")
    await replica.log.start()
    feed = replica.log.open(uuid4(), 1, 0)
    feed.publish([text(1)])
    await replica.log.stop()
    assert await logged(bare, feed.run_id) == [1]
    assert not replica.log.listening


async def test_stopping_with_nothing_to_write(database_url):
    replica = Replica(database_url, "here")
    await replica.log.stop()
    await replica.log.start()
    await replica.log.stop()


async def test_stopping_does_not_wait_for_a_database_that_is_away(database_url, bare):
    replica = Replica(database_url, "here")
    await replica.log.start()
    feed = replica.log.open(uuid4(), 1, 0)
    async with bare.transaction():
        await bare.execute("lock table frame in access exclusive mode")
        feed.publish([text(1)])
        async with asyncio.timeout(10):
            await replica.log.stop()
    assert not replica.log.listening
