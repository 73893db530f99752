"""What time does, on every replica, in bounded bites: deadlines, tombstones, idle sessions, the frames of runs that are over.

Replicas may sweep at once: a deadline is answered under the session's lock like any submit, so it happens once.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from uuid import UUID

from app.clock import monotonic
from app.domain.call_state import CallState, CloseCode
from app.domain.results import closed
from app.domain.run_state import LIVE, RunState
from app.log import get_logger
from app.sessions.leases import Leases
from app.sessions.stop import stop_in
from app.store import calls, runs, sessions
from app.store import frames as frame_rows
from app.store.transaction import Store, Tx

log = get_logger(__name__)

BITE = 200
BITES = 100
PURGE_EVERY_S = 30.0
COUNT_EVERY_S = 5.0
FRAMES_KEPT_S = 60.0


@dataclass(frozen=True, slots=True)
class Retention:
    """Seconds: of completed tombstones, and of idle sessions (``None``: for ever)."""

    tombstones_s: float
    sessions_s: float | None


class Sweeper:
    """``sweep`` is called every second or so; purges run at their own, slower pace. ``waiting`` is told how many runs wait for a
    slot, on all replicas."""

    def __init__(
        self,
        store: Store,
        leases: Leases,
        retention: Retention,
        *,
        wake: Callable[[UUID, int], None],
        ring: Callable[[UUID], None],
        waiting: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._leases = leases
        self._retention = retention
        self._wake = wake
        self._ring = ring
        self._waiting = waiting
        self._counted_at = float("-inf")
        self._purged_at = monotonic()

    async def sweep(self) -> None:
        await self.deadlines()
        if monotonic() - self._counted_at >= COUNT_EVERY_S:
            self._counted_at = monotonic()
            async with self._store.transaction() as tx:
                waiting = await runs.waiting(tx)
            self._waiting(waiting)
        if monotonic() - self._purged_at >= PURGE_EVERY_S:
            self._purged_at = monotonic()
            await self.purge()

    async def deadlines(self) -> int:
        """Answers the calls that are past their deadline; whoever completes a batch claims its run. Returns how many."""
        async with self._store.transaction() as tx:
            overdue = await calls.overdue(tx, limit=BITE)
        answered = 0
        for session_id, call_id in overdue:
            claimed: tuple[UUID, int] | None = None
            async with self._store.transaction() as tx:
                if await sessions.lock_by_id(tx, session_id) is None:
                    continue
                call = await calls.get(tx, session_id, call_id)
                if call is None or call.state is not CallState.PENDING:
                    continue
                root = await runs.lock(tx, call.root_run)
                if root is None or root.state not in LIVE or root.stop_requested:
                    continue
                text = {"errorText": closed(CloseCode.TIMEOUT).value}
                await calls.answer(tx, session_id, call_id, text, error_code=CloseCode.TIMEOUT)
                answered += 1
                claimed = await self._leases.claim_complete(tx, root.id)
            log.info("call.timed_out", call_id=call_id, run_id=str(root.id))
            if claimed is not None:
                self._wake(*claimed)
        return answered

    async def purge(self) -> None:
        """Drops what nobody can ask for any more."""
        await self._in_bites(
            lambda tx, limit: calls.purge_tombstones(tx, self._retention.tombstones_s, limit=limit)
        )
        await self._in_bites(lambda tx, limit: frame_rows.purge(tx, FRAMES_KEPT_S, limit=limit))
        if self._retention.sessions_s is None:
            return
        async with self._store.transaction() as tx:
            idle = await sessions.idle_since(tx, self._retention.sessions_s, limit=BITE)
        for session_id in idle:
            await self._expire(session_id, self._retention.sessions_s)

    async def _in_bites(self, drop: Callable[[Tx, int], Awaitable[int]]) -> None:
        """Short transactions until nothing is due, at most ``BITES`` of them: the next sweep goes on."""
        for _ in range(BITES):
            async with self._store.transaction() as tx:
                if await drop(tx, BITE * 10) < BITE * 10:
                    return

    async def _expire(self, session_id: UUID, after_s: float) -> None:
        async with self._store.transaction() as tx:
            if await sessions.lock_by_id(tx, session_id) is None or not await sessions.is_idle(
                tx, session_id, after_s
            ):
                return
            run = await runs.current(tx, session_id)
            if run is not None and run.state is RunState.RUNNING:
                return
            if run is not None and run.state in LIVE:
                await stop_in(tx, run)
            await sessions.delete(tx, session_id)
        log.info("session.expired", session=str(session_id))
