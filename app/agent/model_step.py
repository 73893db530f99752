"""One tree's requests to its models: each is sent, shown while it is answered, and committed with the calls it makes."""

from collections.abc import Sequence
from uuid import UUID

from app.agent.declaration import Agent
from app.agent.deps import Deps, RunFailed
from app.agent.model import ModelFailure, ModelRequest, ModelResponse
from app.agent.model_request import CallIds, Speech, ask, exceeded
from app.agent.response import Planned, add_usage, child_run, plan, tokens_of, usage_metadata
from app.agent.scribe import Draft, Scribe
from app.agent.surroundings import Surroundings
from app.domain import frames
from app.domain.history import Entry, assistant_entry, calls_of
from app.domain.run_state import RunState
from app.errors import Code
from app.sessions.closing import results_entry
from app.sessions.runs import Message
from app.sessions.tree import Tree
from app.store.runs import Run


class ModelSteps:
    """Holds what the requests of a tree have in common: the call ids it knows, its runs' histories, the root's open response."""

    def __init__(self, deps: Deps, tree: Tree, scribe: Scribe, around: Surroundings) -> None:
        self._deps = deps
        self._tree = tree
        self._scribe = scribe
        self._around = around
        self._ids = CallIds(tree.known_ids | {p["toolCallId"] for p in tree.parts if "toolCallId" in p})
        self._histories: dict[UUID, list[Entry]] = {}
        self._speech: Speech | None = None  # the root's response that is being streamed

    async def history_of(self, run: Run) -> list[Entry]:
        """The run's committed entries, read once."""
        if run.id not in self._histories:
            self._histories[run.id] = await self._deps.runs.history(self._tree, run)
        return self._histories[run.id]

    def cut(self) -> list[str]:
        """The root's response will not be finished: closes what is open. Returns the texts that were said."""
        return self._speech.cut() if self._speech is not None else []

    async def step(self, run: Run) -> bool:
        """One model request and its commit. ``True``: the response made no calls, so the run is complete.

        Raises ``RunFailed``, and what a commit raises."""
        agent = self._around.agent_of(run)
        if exceeded(agent.limits, run, self._deps.max_steps, self._around.depth_of(run)):
            raise RunFailed(Code.RUN_LIMIT_EXCEEDED)
        history = await self.history_of(run)
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
