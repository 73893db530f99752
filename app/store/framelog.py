"""The frame log in motion: local readers are fed from memory, the log is written in batches, a doorbell wakes the other replicas.

``FrameLog`` is the port; Postgres is behind it (``frame`` rows, ``LISTEN``/``NOTIFY`` on connections of its own). One transaction a
tick carries the frames of all local runs and one notification naming them. A lost notification costs latency only: readers poll.

Memory is bounded: a feed keeps the frames of the running step and of the last committed one; a reader that falls behind that reads
the log. After a lost connection every frame a feed keeps is written again (``on conflict do nothing``).
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from math import inf
from uuid import UUID

import asyncpg

from app.clock import monotonic
from app.log import Outage, get_logger
from app.store.engine import connect
from app.store.frames import INSERT, Frame

_CHANNEL = "agent_server"
_NAMES_PER_BELL = 200  # a payload stays below Postgres's 8,000 bytes
_BATCH_CHARS = 4_000_000  # in one transaction: what an outage has heaped up is written in bites
_FRAME_CHARS = 100  # what a frame costs besides its data
_STOP_S = 2.0
_RETRY_WRITE_S = 0.25
_RETRY_LISTEN_S = 0.5
_PROBE_S = 15.0  # a doorbell whose line is cut without a word is noticed within this
# One round trip a tick: the batch and its bells are one statement, and so one transaction.
_BATCH = f"with batch as ({INSERT}) select count(pg_notify($5, bell)) from unnest($6::text[]) as bell"

log = get_logger(__name__)


class Feed:
    """The frames of one run that is owned here. Written by its owner, read by any number of local readers."""

    def __init__(self, frames_log: "FrameLog", run_id: UUID, epoch: int, seq: int) -> None:
        self.run_id = run_id
        self.epoch = epoch
        self.last_seq = seq
        self._log = frames_log
        self._frames: list[Frame] = []
        self._first = seq + 1  # the lowest seq that is kept
        self._written = seq
        self._committed = seq

    def publish(self, frames: Sequence[Frame]) -> None:
        """Hands frames to every reader at once, and to the log with the next tick."""
        if not frames:
            return
        self._frames.extend(frames)
        self.last_seq = frames[-1].seq
        self._log.ring_run(self.run_id, local=True)

    def unwritten(self, chars: float = inf) -> list[Frame]:
        """The frames that the log does not hold; at most ``chars`` of them, but one at least."""
        frames = self.since(self._written) or []
        for count, frame in enumerate(frames):
            chars -= len(frame.data) + _FRAME_CHARS
            if chars < 0:
                return frames[: max(count, 1)]
        return frames

    def since(self, seq: int) -> list[Frame] | None:
        """The kept frames after ``seq``; ``None`` when some of them are not kept any more."""
        if seq + 1 < self._first:
            return None
        return self._frames[seq + 1 - self._first :]

    @property
    def committed(self) -> int:
        return self._committed

    def commit(self, seq: int) -> None:
        """A step up to ``seq`` is committed: forget the one before it."""
        keep_from = self._committed + 1
        if keep_from > self._first:
            del self._frames[: keep_from - self._first]
            self._first = keep_from
            self._written = max(self._written, self._first - 1)
        self._committed = seq

    def mark_written(self, seq: int) -> None:
        self._written = max(self._written, seq)

    def forget_written(self) -> None:
        """The log's connection was lost, and perhaps the last batches with it."""
        self._written = self._first - 1


class Reader:
    """Wakes one reader of one run. ``rung_at``: when it was last rung, on the monotonic clock."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.rung_at = monotonic()

    def wake(self) -> None:
        self.rung_at = monotonic()
        self._event.set()

    async def wait(self, seconds: float) -> None:
        """Returns when the run has news, or after ``seconds``."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        self._event.clear()


class FrameLog:
    """``open`` and ``close`` bracket the feeds of owned runs; ``reader`` is for anybody who follows a run."""

    def __init__(self, dsn: str, *, replica: str, tick_s: float, listen_dsn: str | None = None) -> None:
        self._dsn = dsn
        self._listen_dsn = listen_dsn or dsn
        self._replica = replica
        self._tick_s = tick_s
        self._feeds: dict[UUID, Feed] = {}
        self._readers: defaultdict[UUID, set[Reader]] = defaultdict(set)
        self._dirty: set[UUID] = set()
        self._bells: set[str] = set()
        self._due = asyncio.Event()
        self._stopping = False
        self._tasks: list[asyncio.Task[None]] = []
        self.on_run_bell: Callable[[UUID], None] = lambda _run_id: None
        self.on_batch: Callable[[float, int], None] = lambda _seconds, _frames: None
        self.listening = False

    async def start(self) -> None:
        self._tasks = [
            asyncio.create_task(self._write(), name="frame-writer"),
            asyncio.create_task(self._listen(), name="doorbell"),
        ]

    async def stop(self) -> None:
        """Writes what is left, then closes both connections. A database that is away is not waited for."""
        self._stopping = True
        self._due.set()
        if self._tasks:
            await asyncio.wait(self._tasks[:1], timeout=_STOP_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # owners

    def open(self, run_id: UUID, epoch: int, seq: int) -> Feed:
        feed = Feed(self, run_id, epoch, seq)
        self._feeds[run_id] = feed
        return feed

    def close(self, feed: Feed) -> None:
        """The owner is done with the run, or has lost it; readers go on from the log."""
        if self._feeds.get(feed.run_id) is feed:
            del self._feeds[feed.run_id]
        self._wake(feed.run_id)

    def ring_run(self, run_id: UUID, *, local: bool = False) -> None:
        """Tells every reader of the run, here now and elsewhere with the next tick. ``local``: its owner is here."""
        self._wake(run_id)
        self._dirty.add(run_id)
        self._due.set()

    def ring_owner(self, run_id: UUID) -> None:
        """Tells the run's owner, wherever it is, to look at the run's row (a stop, or a run to claim)."""
        self._bells.add(run_id.hex)
        self._due.set()

    # readers

    def feed(self, run_id: UUID) -> Feed | None:
        """The run's feed when its owner is here."""
        return self._feeds.get(run_id)

    @contextmanager
    def reader(self, run_id: UUID) -> Generator[Reader]:
        reader = Reader()
        self._readers[run_id].add(reader)
        try:
            yield reader
        finally:
            self._readers[run_id].discard(reader)
            if not self._readers[run_id]:
                del self._readers[run_id]

    def is_read(self, run_id: UUID) -> bool:
        """Whether anybody follows the run on this replica."""
        return run_id in self._readers

    def wake_all(self) -> None:
        for run_id in list(self._readers):
            self._wake(run_id)

    def _wake(self, run_id: UUID) -> None:
        for reader in self._readers.get(run_id, ()):
            reader.wake()

    # the two connections

    async def _write(self) -> None:
        connection: asyncpg.Connection | None = None
        outage = Outage(log, "frames.write_failed", "frames.write_resumed")
        try:
            while self._dirty or self._bells or not self._stopping:
                await self._due.wait()
                await asyncio.sleep(self._tick_s)
                self._due.clear()
                dirty, self._dirty = self._dirty, set()
                bells, self._bells = self._bells, set()
                try:
                    if connection is None or connection.is_closed():
                        connection = await connect(
                            self._dsn, application_name="agent-server frames", synchronous_commit="off"
                        )
                        for feed in self._feeds.values():
                            feed.forget_written()
                        dirty |= set(self._feeds)
                    await self._write_batch(connection, dirty, bells)
                    outage.over()
                except Exception as error:
                    outage.failed(error)
                    self._dirty |= dirty
                    self._bells |= bells
                    self._due.set()
                    if connection is not None:
                        connection.terminate()
                        connection = None
                    await asyncio.sleep(_RETRY_WRITE_S)
        finally:
            if connection is not None:
                connection.terminate()

    async def _write_batch(self, connection: asyncpg.Connection, dirty: set[UUID], bells: set[str]) -> None:
        batches: list[tuple[Feed, list[Frame]]] = []
        room = _BATCH_CHARS
        for feed in [self._feeds[run_id] for run_id in dirty if run_id in self._feeds]:
            frames = feed.unwritten(room) if room > 0 else []
            room -= sum(len(frame.data) + _FRAME_CHARS for frame in frames)
            batches.append((feed, frames))
        rows = [(feed.run_id, f.seq, f.epoch, f.data) for feed, frames in batches for f in frames]
        began = monotonic()
        names = [f"r{run_id.hex}" for run_id in dirty] + [f"o{bell}" for bell in bells]
        payloads = [
            f"{self._replica} " + " ".join(names[first : first + _NAMES_PER_BELL])
            for first in range(0, len(names), _NAMES_PER_BELL)
        ]
        columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
        await connection.execute(_BATCH, *columns, _CHANNEL, payloads)
        for feed, frames in batches:
            if frames:
                feed.mark_written(frames[-1].seq)
            if feed.unwritten():
                self._dirty.add(feed.run_id)
                self._due.set()
        self.on_batch(monotonic() - began, len(rows))

    async def _listen(self) -> None:
        outage = Outage(log, "doorbell.lost", "doorbell.restored")
        while True:
            try:
                await self._listen_once(outage)
            except Exception as error:
                outage.failed(error)
            await asyncio.sleep(_RETRY_LISTEN_S)

    async def _listen_once(self, outage: Outage) -> None:
        """Listens until the connection is lost. Raises what connecting raises, and when it does not answer any more."""
        connection = await connect(self._listen_dsn, application_name="agent-server doorbell")
        gone = asyncio.Event()
        try:
            connection.add_termination_listener(lambda _: gone.set())
            await connection.add_listener(_CHANNEL, self._rung)
            self.listening = True
            outage.over()
            self.wake_all()  # whatever rang while nobody listened
            while not gone.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(_PROBE_S):
                        await gone.wait()
                if not gone.is_set():
                    await connection.execute("select 1", timeout=5)
        finally:
            self.listening = False
            connection.terminate()

    def _rung(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        sender, *names = str(payload).split(" ")
        for name in names:
            try:
                kind, run_id = name[0], UUID(name[1:])
            except (IndexError, ValueError):  # the channel is anybody's who may use the database
                log.debug("doorbell.unknown_ring", size=len(name))
                continue
            if kind == "o":
                self.on_run_bell(run_id)
            elif sender != self._replica:
                self._wake(run_id)
