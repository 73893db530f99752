"""``POST /chat``: facts under one lock, the path, its writes; then a plan for the edge to answer with.

Facts are read once, under the session's row lock. A live run whose lease has lapsed is taken over before anything is decided
(reconcile). The user message and the run are committed before the plan is returned: commit before you speak.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from app.clock import NewId
from app.domain.call_state import CloseCode
from app.domain.path import INTERRUPTIBLE, PATH, Ask, Path, Standing, ask_of_user_message, standing
from app.domain.run_state import LIVE, RunState
from app.domain.turn import Posted, Turn
from app.errors import Code, ServiceError
from app.log import cause_chain, get_logger
from app.sessions.admission import Admission, Agents, Policy, Runtime
from app.sessions.answer_facts import Seen, facts
from app.sessions.closing import settle_without_owner
from app.sessions.continuing import plan
from app.sessions.faults import as_service_error
from app.sessions.leases import Leases
from app.sessions.plans import Attach, HarmlessStep, Plan
from app.sessions.reconcile import reconcile
from app.sessions.starting import Begin, begin
from app.sessions.stop import Stop
from app.sessions.submit import Submitter
from app.store import messages, runs, sessions
from app.store.faults import Fault, classify
from app.store.messages import Message
from app.store.runs import Run
from app.store.sessions import Session
from app.store.transaction import Store, Tx

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, parsed. ``agent``: of a new session; ``request``: the body's extra keys; ``headers``: what the agent is told of
    the request's headers."""

    owner: str
    chat_id: str
    turn: Turn
    agent: str | None
    request: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


class _LapsedError(Exception):
    """The live run's lease has lapsed: reconcile first."""


class _StoppingError(Exception):
    """The live run is being stopped: its owner is about to settle it."""

    def __init__(self, run_id: UUID) -> None:
        super().__init__(str(run_id))
        self.run_id = run_id


@dataclass(slots=True)
class _Decided:
    """What the facts transaction decided. ``seen`` on path 3 alone; ``began`` when a run began in it; ``closed`` one it closed."""

    plan: Plan | None = None
    session_id: UUID | None = None
    seen: list[Seen] | None = None
    began: Begin | None = None
    closed: UUID | None = None


class Chat:
    """``ring(run)`` tells the owner of a run, wherever it is, that its row has changed."""

    def __init__(
        self,
        store: Store,
        leases: Leases,
        submitter: Submitter,
        stops: Stop,
        agents: Agents,
        runtime: Runtime,
        policy: Policy,
        *,
        new_id: NewId,
        ring: Callable[[UUID], None],
    ) -> None:
        self._store = store
        self._leases = leases
        self._submitter = submitter
        self._stops = stops
        self._agents = agents
        self._runtime = runtime
        self._policy = policy
        self._admission = Admission(agents, runtime, policy)
        self._new_id = new_id
        self._ring = ring

    async def post(self, asked: Asked) -> Plan:
        """Raises ``ServiceError`` for every refusal."""
        decided = await self._decide(asked)
        if decided.closed is not None:
            self._ring(decided.closed)
        if decided.began is not None:
            if decided.began.lease_owner is not None:
                self._runtime.wake(decided.began.run_id, 1)
            else:
                self._runtime.announce(decided.began.run_id)
        if decided.seen is not None and asked.turn.continued is not None:
            submitted = await self._submitter.submit_all(decided.session_id, decided.seen)
            return plan(submitted, asked.turn.continued)
        if decided.plan is None:
            raise RuntimeError("no plan")
        return decided.plan

    async def _decide(self, asked: Asked) -> _Decided:
        for _ in range(3):
            decided = _Decided()
            try:
                async with self._store.transaction() as tx:
                    await self._in_transaction(tx, asked, decided)
                return decided
            except _LapsedError:
                await reconcile(self._store, self._leases, self._runtime, asked.owner, asked.chat_id)
            except _StoppingError as stopping:
                await self._stops.settled(stopping.run_id)
            except ServiceError:
                raise
            except Exception as error:
                if decided.began is not None:
                    if await self._did_begin(decided.began, error):
                        return decided
                    # Nobody can say whether it began: if it did, it is driven.
                    self._runtime.adopt(decided.began.run_id)
                raise as_service_error(error, committed=False) from error
        raise ServiceError(Code.STATE_CONCURRENCY_CONFLICT, "the run changed hands again and again")

    async def _did_begin(self, how: Begin, error: Exception) -> bool:
        """A commit whose reply is lost is resolved by reading again on a new connection."""
        if classify(error) is not Fault.TRANSIENT:
            return False
        try:
            async with self._store.transaction() as tx:
                return await runs.get(tx, how.run_id) is not None
        except Exception as again:
            log.debug("chat.commit_unreadable", causes=cause_chain(again))
            return False

    async def _in_transaction(self, tx: Tx, asked: Asked, decided: _Decided) -> None:
        turn = asked.turn
        session = await sessions.lock(tx, asked.owner, asked.chat_id)
        if session is None and turn.user is not None:
            session = await self._create(tx, asked)
        run = await runs.current(tx, session.id) if session is not None else None
        if run is not None and run.lapsed:
            raise _LapsedError
        if turn.continued is not None:
            await self._continue(tx, asked, session, run, decided)
            return
        if session is None or turn.user is None:
            raise RuntimeError("a turn with neither a user message nor a message to continue")
        known = await messages.get(tx, session.id, turn.user.id) if turn.user.id is not None else None
        if known is not None and known.role != "user":
            raise ServiceError(
                Code.VALIDATION_ERROR, "the user message's id belongs to an assistant's message"
            )
        ask = ask_of_user_message(
            known=known is not None,
            live=known is not None and run is not None and run.state in LIVE and known.run_id == run.id,
            edited=known is not None
            and turn.message_id == turn.user.id
            and known.parts != list(turn.user.parts),
            regenerate=turn.regenerate,
        )
        path = PATH[ask, standing(run.state if run is not None else None)]
        if path is Path.BUSY and run is not None and run.stop_requested:
            raise _StoppingError(run.id)  # a message sent the instant a stop was answered is not refused
        if path is Path.BUSY and self._policy.interrupt and ask in INTERRUPTIBLE and run is not None:
            await self._close(tx, session, run, turn if ask is Ask.NEW else None, decided)
            run, path = None, PATH[ask, Standing.SETTLED]
        await self._take(tx, path, asked, session, run, turn.user, known, ask, decided)

    async def _take(
        self,
        tx: Tx,
        path: Path,
        asked: Asked,
        session: Session,
        run: Run | None,
        user: Posted,
        known: Message | None,
        ask: Ask,
        decided: _Decided,
    ) -> None:
        match path:
            case Path.FRESH | Path.NEXT_TURN:
                await self._begin(tx, asked, session, user, None, decided)
            case Path.ABANDON if run is not None:
                await self._close(tx, session, run, asked.turn, decided)
                await self._begin(tx, asked, session, user, None, decided)
            case Path.REWIND if known is not None:
                if run is not None and run.state in LIVE:
                    await self._close(tx, session, run, None, decided)
                parts = user.parts if ask is Ask.EDIT else known.parts
                again = Posted(known.id, user.role, parts, user.metadata)
                await self._begin(tx, asked, session, again, known, decided)
            case Path.ATTACH if run is not None:
                decided.plan = Attach(run.id, run.message or "")
            case Path.RETRY if known is not None and known.run_id is not None:
                decided.plan = Attach(known.run_id, "")
            case Path.BUSY:
                raise ServiceError(Code.STATE_RUN_ACTIVE)
            case _:
                raise RuntimeError(f"path {path} with facts that contradict it")

    async def _continue(
        self, tx: Tx, asked: Asked, session: Session | None, run: Run | None, decided: _Decided
    ) -> None:
        """The last message is an assistant's: path 3, or nothing to do."""
        turn = asked.turn
        seen = await facts(tx, session.id if session is not None else None, turn.answers)
        seen = [each for each in seen if not each.is_history]
        ask = Ask.ANSWERS if seen else Ask.NOTHING
        continued = turn.continued
        match PATH[ask, standing(run.state if run is not None else None)]:
            case Path.SUBMIT if session is not None and self._agents.get(session.agent) is None:
                raise ServiceError(Code.FRAMEWORK_NOT_SUPPORTED, f"agent {session.agent} is not registered")
            case Path.SUBMIT:
                decided.session_id = session.id if session is not None else None
                decided.seen = seen
            case Path.NOT_FOUND:
                raise ServiceError(Code.STATE_SESSION_NOT_FOUND)
            case Path.BUSY:
                raise ServiceError(Code.STATE_RUN_ACTIVE)
            case Path.CASE_B if continued is not None:
                decided.plan = HarmlessStep(continued.id or "", fingerprint=f"nothing {continued.id}")
            case path:
                raise RuntimeError(f"path {path} with facts that contradict it")

    async def _create(self, tx: Tx, asked: Asked) -> Session:
        agent = asked.agent or self._agents.default
        if self._agents.get(agent) is None:
            raise ServiceError(Code.VALIDATION_ERROR, "an unknown agent")
        created = await sessions.create(tx, self._new_id(), asked.owner, asked.chat_id, agent)
        session = await sessions.lock(tx, asked.owner, asked.chat_id)
        if session is None:
            raise ServiceError(
                Code.STATE_CONCURRENCY_CONFLICT, "the session was deleted while it was being created"
            )
        if created:
            await self._policy.quota.check_sessions(tx, asked.owner)
        return session

    async def _close(self, tx: Tx, session: Session, run: Run, turn: Turn | None, decided: _Decided) -> None:
        """Closes the live run for what takes its place; the answers that a new message leaves behind are taken first."""
        if turn is not None:
            await self._submitter.submit_in(tx, session.id, turn.closing_answers)
        locked = await runs.lock(tx, run.id)
        if locked is None:
            raise RuntimeError("the live run is gone under the session's lock")
        await settle_without_owner(tx, locked, RunState.SUPERSEDED, CloseCode.ABANDONED)
        decided.closed = run.id

    async def _begin(
        self, tx: Tx, asked: Asked, session: Session, user: Posted, known: Message | None, decided: _Decided
    ) -> None:
        room = await self._admission.admit(tx, session, user.parts)
        run_id = self._new_id()
        how = Begin(
            run_id,
            str(run_id),
            self._leases.owner if room else None,
            self._leases.seconds,
            asked.request,
            asked.headers,
        )
        await begin(
            tx,
            session,
            how,
            user_id=user.id or str(self._new_id()),
            parts=user.parts,
            metadata=user.metadata,
            known=known,
        )
        decided.began = how
        decided.plan = Attach(run_id, how.message_id)
