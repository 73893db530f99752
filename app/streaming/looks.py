"""One look at the log for all readers of a run here: a bell rings for hundreds of them at the same moment.

A look serves every reader that stands at the same frame and was rung before it began; who only polls is served by one of the last half
of ``POLL_S``. So the cost of a run's readers on a replica is that of one.
"""

import asyncio
from dataclasses import dataclass
from uuid import UUID

from app.clock import monotonic
from app.sessions.view import Views
from app.store.frames import Slice

POLL_S = 1.0


@dataclass(frozen=True, slots=True)
class _Look:
    seq: int
    began: float
    found: asyncio.Task[Slice | None]


class Looks:
    def __init__(self, views: Views) -> None:
        self._views = views
        self._last: dict[UUID, _Look] = {}

    async def after(self, run_id: UUID, seq: int, *, rung_at: float) -> Slice | None:
        """The run and its frames after ``seq``, not older than ``rung_at`` (monotonic). Raises what reading raises."""
        last = self._last.get(run_id)
        if (
            last is None
            or last.seq != seq
            or last.began < max(rung_at, monotonic() - POLL_S / 2)
            or _failed(last)
        ):
            found = asyncio.create_task(self._views.frames_after(run_id, seq))
            found.add_done_callback(_failed_task)
            last = self._last[run_id] = _Look(seq, monotonic(), found)
        return await asyncio.shield(last.found)

    def forget(self, run_id: UUID) -> None:
        """The last reader of the run has left."""
        self._last.pop(run_id, None)


def _failed(look: _Look) -> bool:
    return look.found.done() and _failed_task(look.found)


def _failed_task(task: asyncio.Task[Slice | None]) -> bool:
    """Also takes note of the error, since everybody who waited for it may have left."""
    return task.cancelled() or task.exception() is not None
