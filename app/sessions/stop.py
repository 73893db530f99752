"""Stopping the live run: one transaction records it and closes every call that waits or has not begun.

From that commit on its answers are ``run_stopped``, no tool begins and no takeover goes on with it. A run that is suspended or that
nobody holds is settled right here; a running one is settled by its owner, which is rung.
"""

import asyncio
from collections.abc import Callable
from uuid import UUID

from app.domain.call_state import CallKind, CallState, CloseCode
from app.domain.results import closed
from app.domain.run_state import LIVE, RunState
from app.errors import Code, ServiceError
from app.sessions.closing import give_results, settle_without_owner
from app.store import calls, runs, sessions
from app.store.calls import Call
from app.store.runs import Run
from app.store.transaction import Store, Tx

_WAITS_S = (0.03, 0.07, 0.15, 0.25, 0.5, 1.0)


class Stop:
    def __init__(self, store: Store, *, ring: Callable[[UUID], None]) -> None:
        self._store = store
        self._ring = ring

    async def stop(self, owner: str, chat_id: str, run_id: UUID | None) -> dict[str, str]:
        """``{runId, status}`` when the live run is (being) stopped, else ``{status}``. Idempotent. ``run_id``: only this run.

        Raises ``state_session_not_found``."""
        async with self._store.transaction() as tx:
            session = await sessions.lock(tx, owner, chat_id)
            if session is None:
                raise ServiceError(Code.STATE_SESSION_NOT_FOUND)
            run = await runs.current(tx, session.id)
            if run is None or run.state not in LIVE:
                return {"status": "idle"}
            if run_id is not None and run.id != run_id:
                return {"status": str(run.state)}
            state = await stop_in(tx, run)
        if state in LIVE:
            state = await self.settled(run.id, force=False)
        return {"runId": str(run.id), "status": str(state)}

    async def settled(self, run_id: UUID, *, force: bool = True) -> RunState:
        """Waits a moment for the owner of a run whose stop is recorded. ``force``: an owner that does not come is not waited for
        any longer, the run is settled without it."""
        for wait_s in _WAITS_S:
            self._ring(run_id)
            await asyncio.sleep(wait_s)
            async with self._store.transaction() as tx:
                run = await runs.get(tx, run_id)
            if run is None or run.state not in LIVE:
                return run.state if run is not None else RunState.STOPPED
        if not force:
            return RunState.RUNNING
        async with self._store.transaction() as tx:
            run = await runs.get(tx, run_id)
            if run is None or await sessions.lock_by_id(tx, run.session_id) is None:
                return RunState.STOPPED
            locked = await runs.lock(tx, run_id)
            if locked is not None and locked.state in LIVE:
                await settle_without_owner(tx, locked, RunState.STOPPED, CloseCode.RUN_STOPPED)
        self._ring(run_id)
        return RunState.STOPPED


async def stop_in(tx: Tx, run: Run) -> RunState:
    """Records the stop of a live run under the session's lock. Returns its state then."""
    await runs.request_stop(tx, run.id)
    locked = await runs.lock(tx, run.id)
    if locked is None:
        raise RuntimeError("the live run is gone under the session's lock")
    if locked.state is RunState.SUSPENDED or locked.unclaimed or locked.lapsed:
        await settle_without_owner(tx, locked, RunState.STOPPED, CloseCode.RUN_STOPPED)
        return RunState.STOPPED
    waiting = [call for call in await calls.of_tree(tx, run.id) if _has_not_begun(call)]
    await give_results(tx, run.session_id, [(call, closed(CloseCode.RUN_STOPPED)) for call in waiting])
    return locked.state


def _has_not_begun(call: Call) -> bool:
    approved = call.kind is CallKind.APPROVAL and bool(call.answer and call.answer.get("approved"))
    return call.state in (CallState.PENDING, CallState.READY) or (
        call.state is CallState.ANSWERED and approved
    )
