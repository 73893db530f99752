"""Replay what is stored, then follow the run until it suspends or settles.

The reader subscribes first, then reads, then follows: memory when the run's owner is here, else the log by doorbell and a slow poll.
A frame is followed only in unbroken ``seq``. A reader that cannot close a gap, or that has sent frames of a step which a newer epoch
has undone, destroys its stream (``StreamDestroyed``): its client is then in ``error`` and its next GET replays the truth.
"""

from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

from app.clock import monotonic
from app.domain import frames
from app.domain.frames import ENDINGS, Chunk
from app.domain.run_state import RunState
from app.errors import Code, ServiceError
from app.log import cause_chain, get_logger
from app.sessions.closing import ending
from app.sessions.plans import Attach, Mode
from app.sessions.view import RunView, Views
from app.store.faults import Fault, classify
from app.store.framelog import FrameLog, Reader
from app.store.frames import Frame, Slice
from app.streaming.encode import Encoder
from app.streaming.looks import POLL_S, Looks
from app.streaming.replay import is_call, replay, replay_part, result_of, steps_after

GAP_S = 5.0

log = get_logger(__name__)


class StreamDestroyed(Exception):
    """The stream cannot go on truthfully: its connection is destroyed, without a clean end. ``str()`` says why, for the log."""


@dataclass(slots=True)
class _Cursor:
    """``seq``: the last frame sent or covered by the replay. ``safe``: the last one known to be committed under ``epoch``."""

    run_id: UUID
    seq: int
    safe: int
    epoch: int

    def under(self, found: Slice) -> None:
        """The run has the owner that this look found. Raises ``StreamDestroyed`` when a frame of an undone step was sent: one that
        was not committed under the epoch it was sent of. An owner that hands over commits first, and what it committed stands."""
        if found.epoch != self.epoch:
            if self.seq > self.safe and found.cursor_epoch != self.epoch:
                raise StreamDestroyed("a newer owner has undone what was sent")
            self.epoch, self.safe = found.epoch, self.seq

    def take(self, news: Sequence[Frame], committed: int) -> Sequence[Frame]:
        self.safe = max(self.safe, committed)
        for frame in news:
            if self.safe == frame.seq - 1 and frame.chunk.get("transient"):
                self.safe = frame.seq  # it is in no message, so no newer owner can undo it
            self.seq = frame.seq
        return news


class Tail:
    """Opens streams of runs. One object serves a replica."""

    def __init__(self, views: Views, frame_log: FrameLog) -> None:
        self._views = views
        self._looks = Looks(views)
        self._log = frame_log
        self._closing = False

    def close(self) -> None:
        """The server goes down: every stream that follows a run is destroyed, so that its client resumes elsewhere."""
        self._closing = True
        self._log.wake_all()

    async def open(self, attach: Attach) -> AsyncGenerator[list[Chunk] | None, None]:
        """A stream whose frames are readable: raises ``transport_stream_drop`` before the first byte when they are not.

        The generator yields lists of chunks; ``None`` when there was nothing for a while. It ends after an ending chunk, and raises
        ``StreamDestroyed``."""
        stream = self._stream(attach)
        try:
            first = await anext(stream)
        except Exception as error:
            raise ServiceError(Code.TRANSPORT_STREAM_DROP, committed=True) from error
        return _after(first, stream)

    async def was_cut(self, run_id: UUID) -> None:
        """A stream of this run ended before its last frame was written: its client may hold less than there is."""
        try:
            await self._views.mark_cut(run_id)
        except Exception as error:
            log.warning("stream.cut_not_marked", run_id=str(run_id), causes=cause_chain(error))

    async def _stream(self, attach: Attach) -> AsyncGenerator[list[Chunk] | None, None]:
        with self._reader(attach.run_id) as reader:
            view = await self._views.look(attach.run_id)
            if view is None:
                raise LookupError("the run has no message")
            aside = [frames.resume_rejected(call_id, reason) for call_id, reason in attach.rejected]
            aside += _unseen(view, attach)
            parts = {part["toolCallId"]: part for part in view.parts if is_call(part)}
            encoder = Encoder(
                attach.continued or view.message_id,
                continued=attach.continued is not None,
                held=attach.held.calls,
                shown=attach.held.shown,
                aside=aside,
                part_of=parts.get,
            )
            sent = list(encoder.start(view.metadata))
            for chunk in _stored(view, attach):
                sent += encoder.feed(chunk)
            if view.state is not RunState.RUNNING:
                yield [*sent, *encoder.feed(ending(view.state, view.error_code))]
                return
            yield sent
            async for news in self._follow(reader, view):
                if news is None:
                    yield None
                    continue
                out: list[Chunk] = []
                for chunk in news:
                    out += encoder.feed(chunk)
                yield out
                if encoder.ended:
                    return

    @contextmanager
    def _reader(self, run_id: UUID) -> Generator[Reader]:
        try:
            with self._log.reader(run_id) as reader:
                yield reader
        finally:
            if not self._log.is_read(run_id):
                self._looks.forget(run_id)

    async def _follow(self, reader: Reader, view: RunView) -> AsyncGenerator[list[Chunk] | None, None]:
        cursor = _Cursor(view.run_id, view.watermark, view.watermark, view.epoch)
        gap_s = 0.0
        while True:
            if self._closing:
                raise StreamDestroyed("the server is shutting down")
            news = self._remembered(cursor)
            if news is None:
                news, gap = await self._logged(cursor, reader.rung_at)
                gap_s = gap_s if gap else 0.0
            else:
                gap_s = 0.0
            if news:
                yield [frame.chunk for frame in news]
                if news[-1].chunk["type"] in ENDINGS:
                    return
                continue
            before = monotonic()
            await reader.wait(POLL_S)
            gap_s += monotonic() - before
            if (
                gap_s > GAP_S
                and self._log.feed(cursor.run_id) is None
                and (await self._logged(cursor, monotonic()))[1]
            ):
                raise StreamDestroyed("frames are missing from the log")
            yield None

    def _remembered(self, cursor: _Cursor) -> Sequence[Frame] | None:
        """The new frames from memory; ``None`` when the owner is not here, or the reader has fallen behind what is kept.

        A feed of an older epoch has not noticed yet that it is none any more; what a newer one has undone, the log tells."""
        feed = self._log.feed(cursor.run_id)
        if feed is None or feed.epoch != cursor.epoch:
            return None
        news = feed.since(cursor.seq)
        return None if news is None else cursor.take(news, feed.committed)

    async def _logged(self, cursor: _Cursor, rung_at: float) -> tuple[Sequence[Frame], bool]:
        """The new frames from the log, and whether some that are known to exist are missing from it."""
        try:
            found = await self._looks.after(cursor.run_id, cursor.seq, rung_at=rung_at)
        except Exception as error:
            if classify(error) is not Fault.TRANSIENT:
                raise StreamDestroyed("the log cannot be read") from error
            return (), False  # the database is away: the stream is kept alive and tried again
        if found is None or found.state is RunState.SUPERSEDED:
            raise StreamDestroyed("the run has given way to a newer one")
        cursor.under(found)
        news = cursor.take(found.frames, found.watermark)
        return news, not news and (found.watermark > cursor.seq or found.state is not RunState.RUNNING)


def _unseen(view: RunView, attach: Attach) -> Iterator[Chunk]:
    """The batch's step may hold results that this client has missed, while the run's next step is still to come: they ride in it."""
    first, following = steps_after(view.parts, attach.batch)
    if attach.mode is Mode.AFTER_BATCH and following == len(view.parts):
        yield from _missed(view, attach, first, following)


def _stored(view: RunView, attach: Attach) -> Iterator[Chunk]:
    """What the attach shows of the message as it is stored."""
    if attach.mode is Mode.FULL:
        yield from replay(view)
        return
    first, following = steps_after(view.parts, attach.batch)
    if attach.mode is Mode.AFTER_BATCH and following == len(view.parts):
        return  # the batch goes on with the frames after the watermark
    yield frames.START_STEP
    yield from _missed(view, attach, first, following)
    rest = replay(view, following)
    if attach.mode is Mode.AFTER_BATCH:
        next(rest)  # its own first start-step leads the results
    yield from rest


def _missed(view: RunView, attach: Attach, first: int, following: int) -> Iterator[Chunk]:
    """What this client may lack of the steps that it shows: results of the batch's step (``first`` to ``following``), and data and
    sources, which any step may have been given since."""
    for index, part in enumerate(view.parts[:following]):
        if is_call(part):
            if index < first:
                continue
            call_id, goes_on = part["toolCallId"], attach.mode is Mode.DEFERRED
            if call_id in attach.held.calls:
                yield from result_of(part, replayed=False)
                if goes_on and part["state"] == "approval-requested" and call_id not in attach.held.asked:
                    yield frames.tool_approval_request(call_id, part["approval"]["id"])
            elif goes_on:
                yield from replay_part(view, part, f"r{index}")
        elif attach.held.lacks(part):
            yield from replay_part(view, part, f"r{index}")


async def _after(
    first: list[Chunk] | None, stream: AsyncGenerator[list[Chunk] | None, None]
) -> AsyncGenerator[list[Chunk] | None, None]:
    try:
        yield first
        async for each in stream:
            yield each
    finally:
        await stream.aclose()
