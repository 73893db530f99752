"""What a tree's own rows say of its surroundings: which agent drives a run, which tool a call names, what these are told."""

from collections.abc import Callable, Sequence

from app.agent.context import RequestContext, ToolContext
from app.agent.declaration import Agent
from app.agent.deps import Deps, RunFailed
from app.agent.emitter import Emitter
from app.agent.tools import Tool
from app.domain.call_state import CallKind
from app.domain.frames import Chunk
from app.domain.history import Entry
from app.errors import ERRORS, Code
from app.log import cause_chain, get_logger
from app.sessions.tree import Tree
from app.store.calls import Call
from app.store.runs import Run

log = get_logger(__name__)


class Surroundings:
    """Of one tree; nothing here changes it."""

    def __init__(self, deps: Deps, tree: Tree) -> None:
        self._deps = deps
        self._tree = tree

    def agent_of(self, run: Run) -> Agent:
        """Raises ``RunFailed`` when this deployment has no such agent."""
        agent = self._deps.registry.get(run.agent)
        if agent is None:
            raise RunFailed(Code.FRAMEWORK_NOT_SUPPORTED)
        return agent

    def tool_of(self, call: Call) -> Tool | None:
        """The tool as it is declared today; ``None`` when it is not any more."""
        agent = self._deps.registry.get(self._run_of(call).agent)
        return agent.tool(call.tool) if agent is not None else None

    async def is_retry_safe(self, call: Call) -> bool:
        """Whether a call that had begun may be run again by another owner."""
        agent = self._deps.registry.get(self._run_of(call).agent)
        return agent is not None and await agent.is_retry_safe(call.tool)

    def depth_of(self, run: Run) -> int:
        """How many runs there are above this one."""
        depth = 0
        while run.parent_run is not None:
            run = self._tree.children.get(run.parent_run, self._tree.root)
            depth += 1
        return depth

    def root_call_of(self, call: Call) -> Call:
        """The root's own call under which this one came to be."""
        while call.run_id != self._tree.root.id:
            call = self._tree.calls[self._run_of(call).parent_call or ""]
        return call

    def request_context(self, run: Run) -> RequestContext:
        session = self._tree.session
        root = self._tree.root
        return RequestContext(
            session.owner, session.chat_id, str(run.id), root.request or {}, headers=root.headers or {}
        )

    def tool_context(
        self, run: Run, call: Call, history: Sequence[Entry], show: Callable[[Chunk], None]
    ) -> ToolContext:
        """``show`` takes what the tool shows on the page; see ``Emitter``."""
        about, under = self.request_context(run), self.root_call_of(call)
        return ToolContext(
            owner=about.owner,
            session_id=about.session_id,
            run_id=about.run_id,
            request=about.request,
            headers=about.headers,
            call_id=call.call_id,
            outbox=self._deps.outbox,
            emitter=Emitter(call.call_id, show, under=(under.call_id, under.tool)),
            approved=call.kind is CallKind.APPROVAL,
            history=history,
        )

    def log_failure(self, run: Run, failure: RunFailed) -> None:
        """The one line of a run's failure, with its cause chain, at its code's level."""
        code = str(failure.code)
        self._deps.observe.metrics.run_failures.labels(code).inc()
        say = {"info": log.info, "warning": log.warning, "error": log.error}[ERRORS[failure.code].level]
        say("run.failed", run_id=str(run.id), code=code, causes=cause_chain(failure, said=code))

    def _run_of(self, call: Call) -> Run:
        tree = self._tree
        return tree.root if call.run_id == tree.root.id else tree.children[call.run_id]
