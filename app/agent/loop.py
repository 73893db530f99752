"""One tree from its claim to its suspension or settlement.

::

    advance(run):   calls of its last step still to do? → tools and child runs in parallel, each result committed
                    some call waits for a person?       → blocked
                    else                                → model step, committed; no calls in it → the run is complete
    suspend point:  nothing of the tree executes. A call pending → suspend. None pending → drain the batch, go on.

Everything is decided from the committed rows, so a tree that is taken over goes on by the same code: a call that had begun when its
owner died gets the result ``outcome unknown`` unless its tool is retry-safe.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

import orjson

from app.agent.asking import ask_person
from app.agent.deps import Deps, HandedOver, RunFailed
from app.agent.model_step import ModelSteps
from app.agent.response import as_result, output_of
from app.agent.scribe import Draft, MessageTooLarge, Scribe
from app.agent.surroundings import Surroundings
from app.agent.tasks import together, watched
from app.agent.tools import Asks, run_tool, too_large, unknown_tool
from app.domain import frames
from app.domain.call_state import CallKind, CallState, CloseCode, Outcome
from app.domain.frames import Chunk
from app.domain.results import Result, closed
from app.domain.run_state import SETTLED, RunState
from app.domain.ui_message import MessageFold
from app.errors import Code
from app.log import get_logger
from app.sessions.closing import closing_results, ending, partial_entry, stopped_meanwhile
from app.sessions.runs import StopRequested, Tree
from app.store.calls import Call
from app.store.faults import LeaseLost
from app.store.runs import Run

log = get_logger(__name__)


class TreeDriver:
    """Drives one claimed tree. ``drive`` returns the root's state at the end; ``stop`` makes it settle ``stopped``."""

    def __init__(self, deps: Deps, tree: Tree) -> None:
        self._deps = deps
        self._tree = tree
        self._feed = deps.log.open(tree.root.id, tree.epoch, tree.root.frame_seq)
        self._scribe = Scribe(
            self._feed,
            MessageFold(tree.parts, tree.metadata),
            in_step=tree.root.step_open,
            max_bytes=deps.max_message_bytes,
            max_parts=deps.max_parts,
        )
        self._around = Surroundings(deps, tree)
        self._model = ModelSteps(deps, tree, self._scribe, self._around)
        self._stop = asyncio.Event()
        self._draining = False
        self._over = False  # the tree is being stopped or was lost: its tools show no more
        self._handing_over = False  # something of the tree waits for its next owner
        self._due: set[str] = set()  # begun calls whose tool this owner has yet to run

    def stop(self) -> None:
        self._stop.set()

    def drain(self) -> None:
        """At its next commit the tree is handed over (``HandedOver``)."""
        self._draining = True

    async def drive(self) -> RunState:
        """Raises ``LeaseLost`` when somebody else owns the tree now, ``HandedOver`` after ``drain``."""
        try:
            return await self._drive()
        finally:
            self._deps.log.close(self._feed)

    async def _drive(self) -> RunState:
        work = watched(self._work(), f"work {self._tree.root.id}")
        stop = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
            await self._cease(work)
            return await self._settle(RunState.STOPPED) if work.cancelled() else work.result()
        except StopRequested:
            return await self._settle(RunState.STOPPED)
        except RunFailed as failure:
            self._around.log_failure(self._tree.root, failure)
            return await self._settle(RunState.FAILED, failure.code)
        finally:
            stop.cancel()
            await self._cease(work)  # we may be cancelled ourselves

    async def _cease(self, work: asyncio.Task[RunState]) -> None:
        if not work.done():
            self._over = True
            work.cancel()
            await asyncio.wait({work})

    async def _work(self) -> RunState:
        agent = self._deps.registry.get(self._tree.root.agent)
        limit = asyncio.timeout(agent.limits.max_seconds if agent is not None else None)
        try:
            async with limit:
                return await self._go_on()
        except MessageTooLarge as error:
            raise RunFailed(Code.STATE_SIZE_EXCEEDED) from error
        except (StopRequested, LeaseLost, RunFailed, HandedOver):
            raise
        except Exception as error:
            raise RunFailed(
                Code.RUN_LIMIT_EXCEEDED if limit.expired() else Code.FRAMEWORK_INTERNAL_ERROR
            ) from error

    async def _go_on(self) -> RunState:
        await self._recover()
        if self._tree.claimed_by_answers:
            await self._drain_batch(self._tree.calls)
        while not await self._advance(self._tree.root):
            if await self._suspend_point():
                return RunState.SUSPENDED
        return RunState.COMPLETED

    async def _recover(self) -> None:
        """Calls that had begun under an earlier owner: nobody knows whether they took effect."""
        for call in self._tree.unsettled:
            if call.state is not CallState.STARTED or call.kind is CallKind.SUBAGENT:
                continue
            if await self._around.is_retry_safe(call):
                self._due.add(call.call_id)
            else:
                log.warning(
                    "call.outcome_unknown", run_id=str(call.run_id), call_id=call.call_id, tool=call.tool
                )
                await self._settle_call(call, closed(CloseCode.OUTCOME_UNKNOWN))

    async def _advance(self, run: Run) -> bool:
        """Takes a run as far as it gets by itself. ``True``: it is complete; ``False``: it waits for a person."""
        while True:
            step = self._tree.calls_of(run.id, run.step)
            await self._execute(run, step)
            if any(call.state is not CallState.SETTLED for call in step):
                return False
            if self._draining:
                raise HandedOver
            if await self._model.step(run):
                return True

    async def _execute(self, run: Run, step: Sequence[Call]) -> None:
        ready = [c for c in step if c.state is CallState.READY]
        if ready and self._draining:
            self._handing_over = True
        elif ready:
            await self._scribe.exclusively(self._deps.runs.begin_calls(self._tree, ready))
            self._due.update(c.call_id for c in ready)
        work: list[Coroutine[Any, Any, None]] = []
        for call in step:
            if call.call_id in self._due:
                self._due.discard(call.call_id)
                work.append(self._run_tool(run, call))
            elif call.kind is CallKind.SUBAGENT and call.state is CallState.STARTED:
                work.append(self._run_child(call))
        await together(work)
        if self._handing_over:
            raise HandedOver

    async def _run_tool(self, run: Run, call: Call) -> None:
        tool = self._around.tool_of(call)
        if tool is None:
            await self._settle_call(call, as_result(unknown_tool()))
            return
        context = self._around.tool_context(run, call, await self._model.history_of(run), self._show)
        try:
            running = run_tool(tool, context, call.input)
            result = await self._deps.observe.tool(call.tool, call.call_id, running)
        except Asks as asking:
            result = await ask_person(self._deps, self._tree, self._scribe, call, asking.kind)
        finally:
            context.emitter.close()
        if result is not None:
            await self._settle_call(call, as_result(result))

    async def _run_child(self, call: Call) -> None:
        child = self._tree.children[call.child_run]  # pyright: ignore[reportArgumentType]  begun calls have their child
        if child.state not in SETTLED:
            self._progress(call, "running")
            try:
                if not await self._advance(child):
                    self._progress(call, "waiting")
                    return
            except HandedOver:  # once the tools beside it are done
                self._handing_over = True
                return
            except RunFailed as failure:
                self._around.log_failure(child, failure)
                settled = self._deps.runs.settle_child(self._tree, child, RunState.FAILED, str(failure.code))
                await self._scribe.exclusively(settled)
                child.state, child.error_code = RunState.FAILED, str(failure.code)
        if child.state is RunState.COMPLETED:
            history = await self._model.history_of(child)
            await self._settle_call(call, Result(Outcome.OK, output_of(history[-1])))
        else:
            await self._settle_call(call, Result(Outcome.ERROR, "The sub-agent failed.", child.error_code))

    async def _settle_call(self, call: Call, result: Result) -> None:
        """An output that a message cannot hold fails its own call, and not the run; a child's is in no message, and bounded alike."""
        unseen = call.run_id != self._tree.root.id
        if unseen and len(orjson.dumps(result.value)) > self._deps.max_message_bytes:
            result = as_result(too_large())
        try:
            await self._commit_result(call, result)
        except MessageTooLarge:
            await self._commit_result(call, as_result(too_large()))

    async def _commit_result(self, call: Call, result: Result) -> None:
        await self._scribe.commit(
            lambda draft: draft.result(call, result),
            lambda m: self._deps.runs.settle_call(self._tree, call, result, m),
        )

    async def _suspend_point(self) -> bool:
        """Nothing of the tree executes. ``True``: it is suspended; ``False``: the batch is complete and was drained."""

        def write(draft: Draft) -> None:
            draft.close_step()
            draft.say(frames.FINISH)

        pending, fresh = await self._deps.runs.look(self._tree)
        if pending and await self._scribe.commit(write, lambda m: self._deps.runs.suspend(self._tree, m)):
            return True
        if pending:  # the last answer came in between
            _, fresh = await self._deps.runs.look(self._tree)
        await self._drain_batch(fresh)
        return False

    async def _drain_batch(self, fresh: dict[str, Call]) -> None:
        """Goes on with a complete batch: answers become results and are shown, granted approvals begin."""
        batch = self._tree.take_answers(fresh)

        def write(draft: Draft) -> None:
            draft.open_step()
            for call, result in batch.results:
                draft.result(call, result)
            for call in batch.begun:
                draft.fold.respond(call.call_id, call.answer or {})

        await self._scribe.commit(write, lambda m: self._deps.runs.drain(self._tree, batch, m))
        self._due.update(call.call_id for call in batch.begun)

    async def _settle(self, state: RunState, code: Code | None = None) -> RunState:
        """The tree's end by a stop or a failure: every call gets its result, what was said is kept."""
        tree, error_code = self._tree, str(code) if code else None
        said = self._model.cut()
        if code is Code.STATE_SIZE_EXCEEDED:
            self._scribe.rewind()
        _, tree.calls = await self._deps.runs.look(tree)
        closing = CloseCode.RUN_STOPPED if state is RunState.STOPPED else CloseCode.RUN_FAILED
        results = closing_results(tree.unsettled, code=closing, started=closing)

        def write(draft: Draft) -> None:
            for call, result in [*stopped_meanwhile(list(tree.calls.values())), *results]:
                draft.result(call, result)
            draft.close_step()
            draft.say(ending(state, error_code))
            draft.fold.trim()

        await self._scribe.commit(
            write,
            lambda m: self._deps.runs.settle_tree(
                tree, state, error_code=error_code, results=results, partial=partial_entry(said), message=m
            ),
            bounded=False,
        )
        return state

    # small things

    def _show(self, chunk: Chunk) -> None:
        """What a tool shows: at once, and stored with the next commit. Raises ``ToolError`` when the message is full."""
        if not self._over:
            self._scribe.show(chunk)

    def _progress(self, call: Call, status: str) -> None:
        """Transient: what a sub-agent does meanwhile, under the root's own call."""
        shown_as = self._around.root_call_of(call)
        self._scribe.say(frames.subagent_progress(shown_as.call_id, shown_as.tool, status, ""))
