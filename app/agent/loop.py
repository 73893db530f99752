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
from uuid import UUID

from app.agent.asking import ask_person
from app.agent.declaration import Agent
from app.agent.deps import Deps, HandedOver, RunFailed
from app.agent.model import ModelFailure, ModelRequest, ModelResponse
from app.agent.response import (
    Planned,
    add_usage,
    as_result,
    child_run,
    output_of,
    plan,
    tokens_of,
    usage_metadata,
)
from app.agent.scribe import Draft, MessageTooLarge, Scribe
from app.agent.step import CallIds, Speech, ask, exceeded
from app.agent.surroundings import Surroundings
from app.agent.tasks import together, watched
from app.agent.tools import Asks, run_tool, too_large, unknown_tool
from app.domain import frames
from app.domain.call_state import CallKind, CallState, CloseCode, Outcome
from app.domain.frames import Chunk
from app.domain.history import Entry, assistant_entry, calls_of
from app.domain.results import Result, closed
from app.domain.run_state import SETTLED, RunState
from app.domain.ui_message import MessageFold
from app.errors import Code
from app.log import get_logger
from app.sessions.closing import closing_results, ending, partial_entry, results_entry, stopped_meanwhile
from app.sessions.runs import Message, StopRequested, Tree
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
        self._ids = CallIds(tree.known_ids | {p["toolCallId"] for p in tree.parts if "toolCallId" in p})
        self._stop = asyncio.Event()
        self._draining = False
        self._over = False  # the tree is being stopped or was lost: its tools show no more
        self._handing_over = False  # something of the tree waits for its next owner
        self._due: set[str] = set()  # begun calls whose tool this owner has yet to run
        self._histories: dict[UUID, list[Entry]] = {}
        self._speech: Speech | None = None  # the root's response that is being streamed

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
            tool = self._around.tool_of(call)
            if tool is not None and tool.retry_safe:
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
            if await self._model_step(run):
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
        context = self._around.tool_context(run, call, await self._history_of(run), self._show)
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
            self._progress(call, "running", "")
            try:
                if not await self._advance(child):
                    self._progress(call, "waiting", "")
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
            history = await self._history_of(child)
            await self._settle_call(call, Result(Outcome.OK, output_of(history[-1])))
        else:
            await self._settle_call(call, Result(Outcome.ERROR, "The sub-agent failed.", child.error_code))

    async def _model_step(self, run: Run) -> bool:
        """One model request and its commit. ``True``: the response made no calls, so the run is complete."""
        agent = self._around.agent_of(run)
        if exceeded(agent.limits, run, self._deps.max_steps, self._around.depth_of(run)):
            raise RunFailed(Code.RUN_LIMIT_EXCEEDED)
        history = await self._history_of(run)
        results = (
            [results_entry(history[-1], run.id, list(self._tree.calls.values()))]
            if calls_of(history[-1])
            else []
        )
        is_root = run.parent_run is None
        speech, response, planned = await self._respond(run, agent, [*history, *results])
        entries = [*results, assistant_entry(planned.parts, response.provider, tokens_of(response))]
        usage = add_usage(run.usage, response, len(planned.calls))
        complete = not planned.calls
        tells_usage = self._around.agent_of(self._tree.root).usage_metadata

        def write(draft: Draft) -> None:
            if is_root and not speech.begun:
                draft.open_step()
            draft.ensure_step()
            draft.say(*planned.chunks)
            if tells_usage:
                draft.say(usage_metadata(self._tree, run, usage))
            if is_root and complete:
                draft.close_step()
                draft.say(frames.FINISH)

        async def commit(message: Message | None) -> None:
            await self._deps.runs.commit_response(
                self._tree,
                run,
                entries=entries,
                new_calls=planned.calls,
                new_children=planned.children,
                usage=usage,
                message=message,
                settle=complete,
            )
            run.step, run.usage = run.step + 1, usage  # before the next commit of the tree, which tells of it

        if is_root or planned.chunks or tells_usage:
            await self._scribe.commit(write, commit)
        else:
            await self._scribe.exclusively(commit(None))
        history += entries
        if is_root:
            self._speech = None
        if complete:
            run.state = RunState.COMPLETED
        for child in planned.children:
            self._tree.children[child.run_id] = child_run(run, child)
            self._histories[child.run_id] = [child.first]
        return complete

    async def _respond(
        self, run: Run, agent: Agent, history: Sequence[Entry]
    ) -> tuple[Speech, ModelResponse, Planned]:
        """One model request. Raises ``RunFailed``, also for whatever the agent's own code raises: it ends this run and no other."""
        is_root = run.parent_run is None
        try:
            ready = await agent.for_step(self._around.request_context(run))
            speech = Speech(ready, self._scribe if is_root else None, self._ids, run.step + 1)
            if is_root:
                self._speech = speech
            tools = [tool.spec for tool in ready.tools]
            request = ModelRequest(ready.instructions, history, tools, ready.settings)
            response = await self._deps.observe.model(run.agent, ask(ready.model, request, speech))
            speech.end()
            planned = plan(
                run,
                ready,
                response,
                batch=self._tree.batch,
                stored_id=speech.stored_id,
                new_id=self._deps.new_id,
            )
        except ModelFailure as failure:
            raise RunFailed(failure.code) from failure
        except Exception as error:
            raise RunFailed(Code.FRAMEWORK_INTERNAL_ERROR) from error
        return speech, response, planned

    async def _settle_call(self, call: Call, result: Result) -> None:
        """An output that the message cannot hold fails its own call, and not the run."""
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
        said = self._speech.cut() if self._speech is not None else []
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

    async def _history_of(self, run: Run) -> list[Entry]:
        if run.id not in self._histories:
            self._histories[run.id] = await self._deps.runs.history(self._tree, run)
        return self._histories[run.id]

    def _show(self, chunk: Chunk) -> None:
        """What a tool shows: at once, and stored with the next commit. Raises ``ToolError`` when the message is full."""
        if not self._over:
            self._scribe.show(chunk)

    def _progress(self, call: Call, status: str, text: str) -> None:
        """Transient: what a sub-agent does meanwhile, under the root's own call."""
        shown_as = self._around.root_call_of(call)
        self._scribe.say(frames.subagent_progress(shown_as.call_id, shown_as.tool, status, text[:1000]))
