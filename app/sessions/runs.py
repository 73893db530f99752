"""The only door to the state of a running tree, for its owner.

A ``Tree`` is what the owner holds of it: runs, calls, message, all in step with its commits. Every method is one transaction under
the session's lock, guarded by the root's epoch; its frames are written with it, so that they can be shown right after it.

- A transient fault is tried again until the lease is lost: the run pauses, it does not fail.
- A commit whose reply was lost is recognised by the run's ``commits`` counter and counts as done.
- ``LeaseLost``: somebody else owns the tree now; nothing more may be done. ``StopRequested``: nothing was written, settle it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

from app.domain.call_state import CallKind, CallState, CloseCode
from app.domain.history import Entry
from app.domain.results import Result, closed
from app.domain.run_state import RunState
from app.log import cause_chain, get_logger
from app.sessions.checkpoints import Checkpoint, Commit, passes
from app.sessions.closing import give_results, results_entry, unanswered
from app.sessions.tree import Batch, Child, Message, Tree
from app.store import calls, history, messages, runs, sessions
from app.store import frames as frame_rows
from app.store.calls import Call
from app.store.faults import Fault, LeaseLost, classify
from app.store.runs import Run
from app.store.transaction import Store, Tx

__all__ = ["Child", "Message", "Runs", "StopRequested", "Tree"]

T = TypeVar("T")

log = get_logger(__name__)


class StopRequested(Exception):
    """A stop is recorded for the run: the commit that finds it is its settlement."""


class Runs:
    """``checkpoint`` is told each side of every commit."""

    def __init__(self, store: Store, *, checkpoint: Checkpoint = passes) -> None:
        self._store = store
        self._checkpoint = checkpoint

    # reading

    async def load(self, run_id: UUID, epoch: int) -> Tree:
        """The tree as it is committed. Raises ``LeaseLost``, or ``CorruptRow`` when a row cannot be read."""
        self._checkpoint(f"after-{Commit.CLAIM}")
        async with self._store.transaction() as tx:
            tree = await runs.tree(tx, run_id)
            root = next((run for run in tree if run.id == run_id), None)
            if root is None or root.epoch != epoch or root.state is not RunState.RUNNING:
                raise LeaseLost(f"run {run_id} is not running under epoch {epoch}")
            session = await sessions.lock_by_id(tx, root.session_id)
            message = await messages.of_run(tx, run_id)
            if session is None or message is None:
                raise LeaseLost(f"run {run_id} has no session any more")
            return Tree(
                session=session,
                root=root,
                children={run.id: run for run in tree if run.id != run_id},
                calls={call.call_id: call for call in await calls.of_tree(tx, run_id)},
                parts=message.parts,
                metadata=message.metadata or {},
                known_ids=await calls.known_ids(tx, root.session_id),
                epoch=epoch,
                commits=root.commits,
                batch=root.batch,
            )

    async def history(self, tree: Tree, run: Run) -> list[Entry]:
        """The committed entries that the run's next model request begins with; the last response may still lack its results."""

        async def read() -> list[Entry]:
            async with self._store.transaction() as tx:
                if run.parent_run is None:
                    return await history.of_session(tx, run.session_id)
                return await history.of_child(tx, run.id)

        return await self._patiently(tree, read)

    # commits

    async def commit_response(
        self,
        tree: Tree,
        run: Run,
        *,
        entries: Sequence[Entry],
        new_calls: Sequence[Call],
        new_children: Sequence[Child],
        usage: Mapping[str, Any],
        message: Message | None,
        settle: bool,
    ) -> None:
        """A model's response: its history entries, its calls, the child runs these start; ``settle`` completes the run with it.

        ``message`` is ``None`` for a child that showed nothing."""
        step = run.step + 1
        done = [c for c in tree.calls.values() if c.run_id == run.id and not c.drained]

        async def body(tx: Tx) -> None:
            child = run.parent_run is not None
            await history.append(tx, tree.session.id, run.id, step, entries, child=child)
            await calls.insert(tx, tree.session.id, new_calls)
            for new in new_children:
                await runs.insert_child(
                    tx,
                    run_id=new.run_id,
                    session_id=tree.session.id,
                    root_run=tree.root.id,
                    parent_run=run.id,
                    parent_call=new.call_id,
                    agent=new.agent,
                )
                await history.append(tx, tree.session.id, new.run_id, 0, [new.first], child=True)
            await calls.drain(tx, tree.session.id, [c.call_id for c in done])
            await runs.set_step(tx, run.id, step, usage)
            if settle:
                await runs.settle(tx, [run.id], RunState.COMPLETED)

        name = Commit.COMPLETION if settle and run is tree.root else Commit.RESPONSE
        await self._commit(tree, name, body, message)
        for call in done:
            call.drained = True
        tree.calls.update({call.call_id: call for call in new_calls})

    async def begin_calls(self, tree: Tree, begun: Sequence[Call]) -> None:
        """``started`` is committed before a tool begins, and only while no stop is recorded."""

        async def body(tx: Tx) -> None:
            await calls.begin(tx, tree.session.id, [call.call_id for call in begun])

        await self._commit(tree, Commit.BEGIN, body, None)
        for call in begun:
            call.state = CallState.STARTED

    async def ask_call(
        self, tree: Tree, call: Call, kind: CallKind, approval_id: str | None, message: Message
    ) -> None:
        """The tool of a begun call asks: the call waits for a person, as one of ``kind``, unless a stop is recorded."""

        async def body(tx: Tx) -> None:
            await calls.ask(tx, tree.session.id, call.call_id, kind, approval_id)

        await self._commit(tree, Commit.ASK, body, message)
        call.kind, call.state, call.approval_id = kind, CallState.PENDING, approval_id

    async def settle_call(self, tree: Tree, call: Call, result: Result, message: Message | None) -> None:
        """A call's result. Committed even when a stop is recorded: what happened, happened."""

        async def body(tx: Tx) -> None:
            await give_results(tx, tree.session.id, [(call, result)])

        await self._commit(tree, Commit.RESULT, body, message, despite_stop=True)
        _settled(call, result)

    async def settle_child(self, tree: Tree, child: Run, state: RunState, error_code: str | None) -> None:
        """A child run that failed: its open calls are closed with it."""
        results = [(c, closed(CloseCode.RUN_FAILED)) for c in tree.unsettled if c.run_id == child.id]

        async def body(tx: Tx) -> None:
            await give_results(tx, tree.session.id, results)
            await runs.settle(tx, [child.id], state, error_code=error_code)

        await self._commit(tree, Commit.CHILD, body, None, despite_stop=True)
        for call, result in results:
            _settled(call, result)

    async def look(self, tree: Tree) -> tuple[int, dict[str, Call]]:
        """The tree's calls as they are now: answers come in from other transactions. Returns (pending, calls)."""

        async def read() -> dict[str, Call]:
            async with self._store.transaction() as tx:
                return {call.call_id: call for call in await calls.of_tree(tx, tree.root.id)}

        fresh = await self._patiently(tree, read)
        return sum(call.state is CallState.PENDING for call in fresh.values()), fresh

    async def suspend(self, tree: Tree, message: Message) -> bool:
        """The tree waits for its pending calls; ``False``, and nothing written, when none is pending any more."""
        pending = 0

        async def body(tx: Tx) -> None:
            nonlocal pending
            pending = await calls.pending(tx, tree.root.id)
            if pending == 0:
                raise _NothingPendingError
            await calls.start_deadlines(tx, tree.root.id)
            await runs.suspend_tree(tx, tree.root.id)

        try:
            await self._commit(tree, Commit.SUSPENSION, body, message)
        except _NothingPendingError:
            return False
        return True

    async def drain(self, tree: Tree, batch: Batch, message: Message) -> None:
        """The tree goes on with a complete batch: answers become results, granted approvals begin."""
        through_suspension = any(call.batch < tree.batch for call in batch.calls)

        async def body(tx: Tx) -> None:
            await give_results(tx, tree.session.id, batch.results)
            await calls.begin(tx, tree.session.id, [call.call_id for call in batch.begun])
            await calls.drain(tx, tree.session.id, [call.call_id for call in batch.calls])
            await runs.wake_children(tx, tree.root.id)

        await self._commit(tree, Commit.DRAIN, body, message, next_batch=not through_suspension)
        for call, result in batch.results:
            _settled(call, result)
        for call in batch.begun:
            call.state = CallState.STARTED
        for call in batch.calls:
            call.drained = True
        if not through_suspension:
            tree.batch += 1

    async def settle_tree(
        self,
        tree: Tree,
        state: RunState,
        *,
        error_code: str | None,
        results: Sequence[tuple[Call, Result]],
        partial: Sequence[Entry],
        message: Message,
    ) -> None:
        """The root's end, and that of everything of its tree that is still live. ``partial``: what a cut response had said."""

        async def body(tx: Tx) -> None:
            await give_results(tx, tree.session.id, results)
            entries: list[Entry] = []
            if (last := await unanswered(tx, tree.session.id)) is not None:
                entries.append(results_entry(last, tree.root.id, list(tree.calls.values()), results))
            await history.append(
                tx, tree.session.id, tree.root.id, tree.root.step, [*entries, *partial], child=False
            )
            await runs.settle(tx, [tree.root.id, *tree.children], state, error_code=error_code)

        await self._commit(tree, Commit.SETTLEMENT, body, message, despite_stop=True)

    async def _commit(
        self,
        tree: Tree,
        name: Commit,
        body: Callable[[Tx], Awaitable[None]],
        message: Message | None,
        *,
        despite_stop: bool = False,
        next_batch: bool = False,
    ) -> None:
        async def attempt() -> None:
            async with self._store.transaction() as tx:
                if await sessions.lock_by_id(tx, tree.session.id) is None:
                    raise LeaseLost("the session was deleted")
                row = await runs.lock(tx, tree.root.id)
                if row is None or row.epoch != tree.epoch:
                    raise LeaseLost(f"run {tree.root.id} has another owner")
                if row.commits == tree.commits + 1:
                    return  # the reply of an earlier try was lost, its writes were not
                if row.state is not RunState.RUNNING:
                    raise LeaseLost(f"run {tree.root.id} is {row.state}")
                if row.stop_requested and not despite_stop:
                    raise StopRequested
                await body(tx)
                if message is not None:
                    await messages.write(tx, tree.root.id, message.parts, message.metadata)
                    await frame_rows.insert_committed(tx, tree.root.id, message.frames)
                await runs.advance(
                    tx,
                    tree.root.id,
                    frame_seq=message.watermark if message else 0,
                    step_open=message.step_open if message else None,
                    next_batch=next_batch,
                )
                self._checkpoint(f"before-{name}")

        await self._patiently(tree, attempt)
        self._checkpoint(f"after-{name}")
        tree.commits += 1

    async def _patiently(self, tree: Tree, attempt: Callable[[], Awaitable[T]]) -> T:
        """Tries again after every transient fault: the run pauses while the database is away. An abandoned tree does not.

        A pause is told when it begins and when it is over, however long it is."""
        delay, run_id, tries = 0.05, str(tree.root.id), 0
        while True:
            try:
                done = await attempt()
                if tries:
                    log.info("run.resumed", run_id=run_id, tries=tries)
                return done
            except Exception as error:
                if classify(error) is not Fault.TRANSIENT:
                    raise
                if tree.abandoned:
                    raise LeaseLost("given up while the database was away") from error
                if not tries:
                    log.warning("run.paused", run_id=run_id, causes=cause_chain(error))
            tries += 1
            await asyncio.sleep(delay)
            delay = min(delay * 2, 1.0)


class _NothingPendingError(Exception):
    """Rolls the suspension back: the last answer came in meanwhile."""


def _settled(call: Call, result: Result) -> None:
    call.state, call.outcome, call.value, call.error_code = (
        CallState.SETTLED,
        result.outcome,
        result.value,
        result.error_code,
    )
