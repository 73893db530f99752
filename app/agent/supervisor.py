"""The task group of a replica: every run it owns is a task here, and never in a request.

Lease discipline: leases are renewed every third of their length, all in one statement; a run that is not renewed any more, or whose
lease may have ended by this replica's own monotonic clock, is cancelled at once. Whatever it still writes is refused by its epoch.

Drain: no new runs; every tree hands itself over at its next commit; after ``drain_s`` the rest is cancelled. Each lease is given
back, which costs the run no attempt, and the other replicas are rung.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from app.agent.deps import Deps, HandedOver
from app.agent.loop import TreeDriver
from app.domain.run_state import RunState
from app.errors import Code
from app.log import Outage, bound, cause_chain, get_logger
from app.sessions.runs import Tree
from app.store.faults import Fault, LeaseLost, classify

log = get_logger(__name__)

CLAIM_EVERY_S = 1.0
LAST_WORDS_S = 3.0
"""At a shutdown, for what is cancelled to end and for leases to be given back; a database that is away must not hold it up."""


@dataclass(slots=True)
class Owned:
    """A run of this replica. ``held_until`` is on the monotonic clock: the lease has certainly not ended before it."""

    epoch: int
    task: asyncio.Task[None]
    held_until: float
    driver: TreeDriver | None = None
    tree: Tree | None = None
    lost: bool = False

    def abandon(self) -> None:
        """Cancels the task. A commit of it that meets a fault is not tried again: it must end."""
        if self.tree is not None:
            self.tree.abandoned = True
        self.task.cancel()


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run left this replica, for the canonical line and the metrics."""

    run_id: UUID
    state: RunState | None
    """``None``: it goes on elsewhere."""
    seconds: float
    tree: Tree


class Supervisor:
    """``wake`` is what the use cases call after the commit that claimed a run for this replica."""

    def __init__(
        self,
        deps: Deps,
        *,
        max_running: int,
        drain_s: float,
        sweep: Callable[[], Awaitable[None]],
        on_end: Callable[[RunEnd], None] = lambda _: None,
    ) -> None:
        self._deps = deps
        self._max_running = max_running
        self._drain_s = drain_s
        self._sweep = sweep
        self._on_end = on_end
        self._owned: dict[UUID, Owned] = {}
        self._background: list[asyncio.Task[None]] = []
        self._odd_jobs: set[asyncio.Task[None]] = set()
        self._claim_now = asyncio.Event()
        self.draining = False

    @property
    def running(self) -> int:
        return len(self._owned)

    def has_room(self) -> bool:
        """Whether this replica may own one more run."""
        return not self.draining and len(self._owned) < self._max_running

    async def start(self) -> None:
        self._deps.log.on_run_bell = self._on_bell
        self._background = [
            asyncio.create_task(self._forever("heartbeat", self._heartbeat, self._deps.leases.seconds / 3)),
            asyncio.create_task(self._claim_forever(), name="claim"),
            asyncio.create_task(self._forever("sweep", self._sweep, 1.0)),
        ]

    async def stop(self) -> None:
        """Drains; see the module."""
        self.draining = True
        for task in self._background[1:]:
            task.cancel()
        for owned in self._owned.values():
            if owned.driver is not None:
                owned.driver.drain()
        tasks = [owned.task for owned in self._owned.values()]
        if tasks:
            log.info("drain.started", runs=len(tasks))
            await asyncio.wait(tasks, timeout=self._drain_s)
            for owned in list(self._owned.values()):
                owned.abandon()
            await asyncio.wait(tasks, timeout=LAST_WORDS_S)
        if self._odd_jobs:  # leases are being given back
            await asyncio.wait(self._odd_jobs, timeout=LAST_WORDS_S)
        for task in [*self._background, *self._odd_jobs]:
            task.cancel()
        await asyncio.gather(*self._background, *self._odd_jobs, return_exceptions=True)

    def wake(self, run_id: UUID, epoch: int) -> None:
        """This replica's lease holds the run since a commit just now: drive it, or give it back when there is no room."""
        if self.has_room():
            self._spawn(run_id, epoch)
        else:
            self._odd_job(self._give_back(run_id, epoch))

    def adopt(self, run_id: UUID) -> None:
        """A commit's reply was lost: if it did claim the run for this replica, drive it."""

        async def look() -> None:
            with suppress(Exception):
                epoch = await self._deps.leases.held_epoch(run_id)
                if epoch is not None and run_id not in self._owned:
                    self.wake(run_id, epoch)

        self._odd_job(look())

    def announce(self, run_id: UUID) -> None:
        """A run waits unclaimed: whoever has room may take it."""
        self._deps.log.ring_owner(run_id)
        self._claim_now.set()

    def _spawn(self, run_id: UUID, epoch: int) -> None:
        known = self._owned.get(run_id)
        if known is not None and known.epoch >= epoch:
            return
        if known is not None:
            known.lost = True
            known.abandon()
        task = asyncio.create_task(self._own(run_id, epoch), name=f"run {run_id}")
        self._owned[run_id] = Owned(epoch, task, time.monotonic() + self._deps.leases.seconds)

    async def _own(self, run_id: UUID, epoch: int) -> None:
        with bound(run_id=str(run_id)):
            await self._drive(run_id, epoch, self._owned[run_id])

    async def _drive(self, run_id: UUID, epoch: int, owned: Owned) -> None:
        began = time.monotonic()
        tree: Tree | None = None
        state: RunState | None = None
        try:
            tree = await self._load(run_id, epoch)
            owned.tree, owned.driver = tree, TreeDriver(self._deps, tree)
            if self.draining:
                owned.driver.drain()
            chat_id = tree.session.chat_id
            with bound(session=chat_id), self._deps.observe.run(run_id, tree.root.agent, chat_id):
                state = await owned.driver.drive()
        except LeaseLost as error:
            self._deps.observe.metrics.leases_lost.inc()
            log.warning("run.lease_lost", run_id=str(run_id), epoch=epoch, causes=cause_chain(error))
        except HandedOver:
            await self._give_back(run_id, epoch)
        except asyncio.CancelledError:
            if not owned.lost:
                await self._give_back(run_id, epoch)
        except Exception as error:
            log.error(
                "run.abandoned",
                run_id=str(run_id),
                code=str(Code.FRAMEWORK_INTERNAL_ERROR),
                causes=cause_chain(error),
            )
            with suppress(Exception):
                await self._deps.leases.give_up(run_id, epoch)
        finally:
            if self._owned.get(run_id) is owned:
                del self._owned[run_id]
            self._deps.log.ring_run(run_id)
            self._claim_now.set()
        if tree is not None:
            self._on_end(RunEnd(run_id, state, time.monotonic() - began, tree))

    async def _load(self, run_id: UUID, epoch: int) -> Tree:
        delay = 0.05
        while True:
            try:
                return await self._deps.runs.load(run_id, epoch)
            except Exception as error:
                if classify(error) is not Fault.TRANSIENT:
                    raise
                log.warning("run.load_retried", run_id=str(run_id), causes=cause_chain(error))
            await asyncio.sleep(delay)
            delay = min(delay * 2, 1.0)

    async def _give_back(self, run_id: UUID, epoch: int) -> None:
        try:
            await self._deps.leases.release(run_id, epoch)
            self._deps.log.ring_owner(run_id)
        except Exception as error:  # the lease lapses by itself
            log.warning("run.release_failed", run_id=str(run_id), causes=cause_chain(error))

    # leases

    async def _heartbeat(self) -> None:
        held = {run_id: owned.epoch for run_id, owned in self._owned.items()}
        if held:
            await self._renew(held)

    async def _renew(self, held: dict[UUID, int]) -> None:
        """Renews these leases, and looks whether a stop is recorded for one of their runs."""
        asked = time.monotonic()
        try:
            async with asyncio.timeout(self._deps.leases.seconds / 3):
                renewed = await self._deps.leases.renew(held)
        except Exception as error:
            log.warning("lease.renewal_failed", runs=len(held), causes=cause_chain(error))
            renewed = None
        for run_id, epoch in held.items():
            owned = self._owned.get(run_id)
            if owned is None or owned.epoch != epoch:
                continue
            if renewed is None:
                if time.monotonic() > owned.held_until:
                    self._lose(run_id, owned)
            elif run_id in renewed:
                owned.held_until = asked + self._deps.leases.seconds
                if renewed[run_id] and owned.driver is not None:
                    owned.driver.stop()
            elif not owned.task.done():
                self._odd_job(self._confirm_lost(run_id, owned))

    async def _confirm_lost(self, run_id: UUID, owned: Owned) -> None:
        """Not renewed: it may just have suspended or settled, and its task is about to end by itself."""
        await asyncio.wait({owned.task}, timeout=0.5)
        if not owned.task.done():
            self._lose(run_id, owned)

    def _lose(self, run_id: UUID, owned: Owned) -> None:
        self._deps.observe.metrics.leases_lost.inc()
        log.warning("run.lease_lost", run_id=str(run_id), epoch=owned.epoch)
        owned.lost = True
        owned.abandon()

    def _on_bell(self, run_id: UUID) -> None:
        owned = self._owned.get(run_id)
        if owned is None:
            self._claim_now.set()
        else:
            self._odd_job(self._renew({run_id: owned.epoch}))

    # runs that nobody holds

    async def _claim_forever(self) -> None:
        outage = Outage(log, "claim.failed", "claim.resumed")
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLAIM_EVERY_S):
                    await self._claim_now.wait()
            self._claim_now.clear()
            if not self.has_room():
                continue
            try:
                async for run_id, epoch in self._deps.leases.claim_next(self._max_running - len(self._owned)):
                    self.wake(run_id, epoch)
                outage.over()
            except Exception as error:
                outage.failed(error)
                await asyncio.sleep(CLAIM_EVERY_S)

    async def _forever(self, name: str, job: Callable[[], Awaitable[None]], every_s: float) -> None:
        outage = Outage(log.bind(job=name), "background.failed", "background.resumed")
        while True:
            await asyncio.sleep(every_s)
            try:
                await job()
                outage.over()
            except Exception as error:
                outage.failed(error)

    def _odd_job(self, job: Awaitable[None]) -> None:
        task = asyncio.ensure_future(job)
        self._odd_jobs.add(task)
        task.add_done_callback(self._odd_jobs.discard)
