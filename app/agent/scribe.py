"""What a running tree says: frames to its readers, folded into the message at the same moment.

``say`` shows at once and stores with the next commit. What must not be seen before it is stored (a pending call, a result, an
ending) goes through ``commit``: written into a ``Draft``, committed, then shown; a draft that is not committed was never said. Commits
of a tree are one after the other, and while one is on its way ``say`` waits in a backlog: ``seq`` is contiguous, and no frame
overtakes another.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import orjson

from app.agent.room import Room
from app.agent.tasks import unbroken
from app.domain import frames
from app.domain.frames import Chunk
from app.domain.results import Result, fold_result, shown
from app.domain.ui_message import MessageFold
from app.sessions.closing import is_shown
from app.sessions.runs import Message
from app.store.calls import Call
from app.store.framelog import Feed
from app.store.frames import Frame

T = TypeVar("T")


class MessageTooLarge(Exception):
    """The message would be over the store's limit."""


class Draft:
    """What one commit adds to the message. ``frames`` are numbered but not shown yet."""

    def __init__(self, fold: MessageFold, *, run_id: Any, seq: int, epoch: int, in_step: bool) -> None:
        self.frames: list[Frame] = []
        self.in_step = in_step
        self.fold = fold
        self._run_id = run_id
        self._seq = seq
        self._epoch = epoch

    def say(self, *chunks: Chunk) -> None:
        for chunk in chunks:
            self.fold.apply(chunk)
            self._number(chunk)

    def show(self, chunk: Chunk) -> None:
        """What a tool shows, inside a step. A source that the message holds already is not said again."""
        if chunk["type"].startswith("source-") and self.fold.shown_by(chunk) is not None:
            return
        if not chunk.get("transient"):
            self.ensure_step()
        self.say(chunk)

    def result(self, call: Call, result: Result) -> None:
        """Shows a call's result, when the message shows the call at all."""
        if is_shown(self.fold, call, self._run_id):
            self.ensure_step()
            chunks = shown(call.kind, call.call_id, call.tool, call.input, result)
            fold_result(self.fold, call.call_id, chunks, call.answer, result)
            for chunk in chunks:
                self._number(chunk)

    def asks(self, call: Call, approval_id: str | None) -> None:
        """Shows a call that had begun and waits for a person now. A child's was not shown until then."""
        if self.fold.call(call.call_id) is None:
            self.ensure_step()
            self.say(frames.tool_input_available(call.call_id, call.tool, call.input))
        if approval_id is not None:
            self.ensure_step()
            self.say(frames.tool_approval_request(call.call_id, approval_id))

    def open_step(self) -> None:
        """From here on a step is open and empty."""
        if self.in_step and not self.fold.ends_in_empty_step:
            self.say(frames.FINISH_STEP)
        self.ensure_step()

    def ensure_step(self) -> None:
        """From here on a step is open."""
        if not self.in_step:
            self.say(frames.START_STEP)

    def close_step(self) -> None:
        if self.in_step:
            self.say(frames.FINISH_STEP)

    def _number(self, chunk: Chunk) -> None:
        kind: str = chunk["type"]
        if kind in ("start-step", "finish-step"):
            self.in_step = kind == "start-step"
        self.frames.append(Frame.of(self._seq + len(self.frames) + 1, self._epoch, chunk))


class Scribe:
    """The one writer of a tree's message and frames. ``max_bytes``: of the message at a commit, of which its tools show half at the
    most; ``max_parts``: that its tools show."""

    def __init__(
        self, feed: Feed, fold: MessageFold, *, in_step: bool, max_bytes: int, max_parts: int
    ) -> None:
        self.fold = fold
        self._feed = feed
        self._in_step = in_step
        self._max_bytes = max_bytes
        self._room = Room(fold.parts, max_parts=max_parts, max_bytes=max_bytes // 2)
        self._committed = fold.stored(), dict(fold.metadata)
        self._lock = asyncio.Lock()
        self._drafting = False
        self._backlog: list[Callable[[Draft], None]] = []

    def say(self, *chunks: Chunk) -> None:
        """Shows frames at once."""
        self.write(lambda draft: draft.say(*chunks))

    def show(self, chunk: Chunk) -> None:
        """Shows at once what a tool shows. Raises ``ToolError`` when the message has no room for it."""
        self._room.take(chunk)
        self.write(lambda draft: draft.show(chunk))

    def write(self, write: Callable[[Draft], None]) -> None:
        """Shows at once what ``write`` puts into a draft."""
        if self._drafting:
            self._backlog.append(write)
            return
        draft = self._draft()
        write(draft)
        self._show(draft)

    async def commit(
        self,
        write: Callable[[Draft], None],
        commit: Callable[[Message], Awaitable[T]],
        *,
        bounded: bool = True,
    ) -> T:
        """Writes, commits and shows, as one: a cancellation waits until the commit is decided.

        A commit that answers ``False`` or raises has written nothing. Raises ``MessageTooLarge`` before committing, unless it is
        not ``bounded``: a tree must always be able to end."""
        return await unbroken(self._commit(write, commit, bounded=bounded))

    async def exclusively(self, commit: Awaitable[T]) -> T:
        """A commit that shows nothing, in its turn."""

        async def whole() -> T:
            async with self._lock:
                return await commit

        return await unbroken(whole())

    async def _commit(
        self, write: Callable[[Draft], None], commit: Callable[[Message], Awaitable[T]], *, bounded: bool
    ) -> T:
        async with self._lock:
            before, draft = self.fold.copy(), self._draft()
            self._drafting = True
            outcome: T | None = None
            committed = False
            try:
                write(draft)
                stored = self.fold.stored()
                if bounded and len(orjson.dumps(stored)) > self._max_bytes:
                    raise MessageTooLarge
                unwritten = [*self._feed.unwritten(), *draft.frames]
                last = draft.frames[-1].seq if draft.frames else self._feed.last_seq
                outcome = await commit(Message(stored, self.fold.metadata, unwritten, last, draft.in_step))
                committed = outcome is not False
            finally:
                self._drafting = False
                if committed:
                    self._committed = stored, dict(self.fold.metadata)  # pyright: ignore[reportPossiblyUnboundVariable]
                    self._show(draft)
                    self._feed.mark_written(self._feed.last_seq)
                    self._feed.commit(self._feed.last_seq)
                else:
                    self.fold.restore(before)
                backlog, self._backlog = self._backlog, []
                for waiting in backlog:
                    self.write(waiting)
            return outcome

    def rewind(self) -> None:
        """Goes back to the message as it was last committed."""
        self.fold.restore(self._committed)

    def _draft(self) -> Draft:
        feed = self._feed
        return Draft(
            self.fold,
            run_id=feed.run_id,
            seq=feed.last_seq,
            epoch=feed.epoch,
            in_step=self._in_step,
        )

    def _show(self, draft: Draft) -> None:
        self._in_step = draft.in_step
        self._feed.publish(draft.frames)
