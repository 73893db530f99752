"""Who owns a run: claiming, renewing and giving back its lease.

A lease has an owner, an end by the database's clock, and an epoch. Every claim raises the epoch, and every write of an owner carries
it, so what a replica writes that has lost its lease is refused. A run that was given back costs no attempt; one whose lease lapsed is
taken over, at most ``MAX_TAKEOVERS`` times, then it fails.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from uuid import UUID

from app.domain.call_state import CloseCode
from app.domain.run_state import RunState
from app.log import get_logger
from app.sessions.closing import settle_without_owner
from app.store import calls, runs, sessions
from app.store import frames as frame_rows
from app.store.transaction import Store, Tx

MAX_TAKEOVERS = 3

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Claim:
    """``takeover``: which one it is of this run; ``None`` when nobody had held it, or it was given back."""

    run_id: UUID
    epoch: int
    takeover: int | None


class Leases:
    """``owner`` is this replica's name in the leases, ``seconds`` their length."""

    def __init__(
        self, store: Store, *, owner: str, seconds: float, on_takeover: Callable[[], None] = lambda: None
    ) -> None:
        self._store = store
        self.owner = owner
        self.seconds = seconds
        self._on_takeover = on_takeover

    async def claim_complete(self, tx: Tx, root_run: UUID) -> tuple[UUID, int] | None:
        """Claims a suspended tree none of whose calls is pending any more: whoever stored the last answer goes on with it.

        Returns (run, epoch), or ``None`` when there is nothing to claim. Under the session's lock."""
        root = await runs.lock(tx, root_run)
        if root is None or root.state is not RunState.SUSPENDED or await calls.pending(tx, root_run):
            return None
        run = await runs.claim(tx, root_run, owner=self.owner, lease_s=self.seconds, next_batch=True)
        return run.id, run.epoch

    async def claim_next(self, limit: int) -> AsyncGenerator[tuple[UUID, int], None]:
        """Claims runs that nobody holds: new ones, given-back ones, and lapsed ones (a takeover). Yields (run, epoch), each as soon
        as it is claimed: a fault at the next one must not lose it."""
        async with self._store.transaction() as tx:
            waiting = await runs.claimable(tx, limit=limit)
        for session_id, run_id in waiting:
            async with self._store.transaction() as tx:
                claimed = await self.claim_in(tx, session_id, run_id)
            if claimed is not None:
                self.say_claimed(claimed)
                yield run_id, claimed.epoch

    def say_claimed(self, claim: Claim) -> None:
        """To be called when the claim is committed: a takeover is counted and has a line."""
        if claim.takeover is not None:
            self._on_takeover()
            log.warning("run.taken_over", run_id=str(claim.run_id), attempt=claim.takeover, epoch=claim.epoch)

    async def claim_in(self, tx: Tx, session_id: UUID, run_id: UUID) -> Claim | None:
        """Claims one run that nobody holds, under its session's lock; ``None`` when there is nothing (more) to claim."""
        if await sessions.lock_by_id(tx, session_id) is None:
            return None
        run = await runs.lock(tx, run_id)
        if run is None or not (run.lapsed or run.unclaimed):
            return None
        if run.stop_requested:
            await settle_without_owner(tx, run, RunState.STOPPED, CloseCode.RUN_STOPPED)
            return None
        if run.lapsed and run.attempts >= MAX_TAKEOVERS:
            log.error(
                "run.given_up", run_id=str(run.id), code="framework_internal_error", attempts=run.attempts
            )
            await settle_without_owner(
                tx, run, RunState.FAILED, CloseCode.RUN_FAILED, error_code="framework_internal_error"
            )
            return None
        claimed = await runs.claim(tx, run_id, owner=self.owner, lease_s=self.seconds, takeover=run.lapsed)
        await frame_rows.discard_after(tx, run_id, run.frame_seq)
        if run.epoch:
            await sessions.mark_cut(tx, session_id, run_id)
        return Claim(run_id, claimed.epoch, claimed.attempts if run.lapsed else None)

    async def renew(self, held: Mapping[UUID, int]) -> dict[UUID, bool]:
        """Extends the leases of the runs held; see ``store.runs.renew``."""
        async with self._store.transaction() as tx:
            return await runs.renew(tx, self.owner, held, self.seconds)

    async def release(self, run_id: UUID, epoch: int) -> None:
        """Gives a lease back: any replica may go on with the run at once."""
        async with self._store.transaction() as tx:
            await runs.release(tx, run_id, epoch)

    async def give_up(self, run_id: UUID, epoch: int) -> None:
        """The tree cannot be driven (a row of it cannot be read): settles it failed. Raises what that meets."""
        async with self._store.transaction() as tx:
            run = await runs.get(tx, run_id)
            if run is None or await sessions.lock_by_id(tx, run.session_id) is None:
                return
            run = await runs.guard(tx, run_id, epoch)
            await settle_without_owner(
                tx, run, RunState.FAILED, CloseCode.RUN_FAILED, error_code="framework_internal_error"
            )

    async def lapse_all(self) -> None:
        """Whoever held a lease of this database is dead."""
        async with self._store.transaction() as tx:
            await runs.lapse_all(tx)

    async def held_epoch(self, run_id: UUID) -> int | None:
        """The epoch under which this replica's lease holds the run, per its row."""
        async with self._store.transaction() as tx:
            run = await runs.get(tx, run_id)
        mine = run is not None and run.state is RunState.RUNNING and run.lease_owner == self.owner
        return run.epoch if run is not None and mine else None
