"""The composition root: builds everything from the settings; the lifespan opens and closes it.

Start reading here for what is wired to what. Nothing else constructs settings, engines, registries or use cases.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware

from app.agent.deps import Deps
from app.agent.observed import Observer
from app.agent.registry import Limits, Registry
from app.agent.run_line import tell_run_ended
from app.agent.supervisor import Supervisor
from app.agents.built_in import built_in
from app.api import answers, chat, health, history, openapi, problems, streams
from app.api import metrics as metrics_route
from app.api.api_keys import ApiKeys, KeyFile, parse
from app.api.auth import Authenticator, Hook, Nobody
from app.api.deps import Services
from app.api.jwt import Jwt, KeySet, fetch_from
from app.api.limits import BodyLimits, OwnerLimits
from app.api.middleware import RequestLine
from app.clock import new_id
from app.errors import ERRORS
from app.log import cause_chain, get_logger
from app.metrics import Metrics
from app.playground import route as playground
from app.sessions.admission import Policy
from app.sessions.breaker import Breaker
from app.sessions.chat import Chat
from app.sessions.checkpoints import dies_at, passes
from app.sessions.elsewhere import Elsewhere
from app.sessions.fitness import AnswerLimits
from app.sessions.leases import Leases
from app.sessions.owner_quota import OwnerQuota
from app.sessions.runs import Runs
from app.sessions.snapshot import Snapshots
from app.sessions.stop import Stop
from app.sessions.submit import Submitter
from app.sessions.sweep import Retention, Sweeper
from app.sessions.view import Views
from app.settings import Settings, SettingsError, variable
from app.store import migrate
from app.store.embedded import start_embedded
from app.store.engine import Pool, open_pool
from app.store.framelog import FrameLog
from app.store.transaction import Store
from app.streaming.tail import Tail

READY_S = 3.0
"""How long the database may take to answer a probe: one that hangs is as good as gone."""

log = get_logger(__name__)


@dataclass(slots=True)
class Running:
    """What a started server is made of; in ``app.state.running``."""

    store: Store
    leases: Leases
    frames: FrameLog
    supervisor: Supervisor
    tail: Tail
    sweeper: Sweeper
    database_url: str

    async def drain(self) -> None:
        """Not ready from now on, no new runs; live runs are handed over, then every open stream is destroyed."""
        await self.supervisor.stop()
        self.tail.close()


def authenticator(settings: Settings) -> Authenticator:
    """Raises ``SettingsError`` for an authentication that cannot be set up."""
    match settings.auth:
        case "none":
            return Nobody()
        case "api_key":
            return _api_keys(settings)
        case "jwt":
            return Jwt(
                KeySet(fetch_from(settings.jwt_jwks_url or "")),
                owner_claim=settings.jwt_owner_claim,
                issuer=settings.jwt_issuer,
                audience=settings.jwt_audience,
            )
        case hook:
            try:
                return Hook(hook)
            except (ImportError, AttributeError, ValueError) as error:
                raise SettingsError(f"AGENT_SERVER_AUTH={hook} cannot be loaded: {error}") from error


def _api_keys(settings: Settings) -> ApiKeys:
    path, name = settings.api_keys_file, variable("api_keys_file")
    try:
        file = KeyFile(path) if path is not None else None
        name = variable("api_keys")
        keys = parse(settings.api_keys.get_secret_value().split(",")) if settings.api_keys is not None else []
    except (OSError, ValueError) as error:
        raise SettingsError(f"{name}: {error}") from error
    if not keys and (file is None or not file.current()):
        raise SettingsError(f"{name} holds no key")
    return ApiKeys(keys, file)


def registry(settings: Settings) -> Registry:
    """Raises ``RegistryError`` for agents that cannot be served."""
    return Registry.load(
        settings.agents,
        built_in=lambda: built_in(settings.model, limits=Limits(max_steps=settings.max_steps)),
        scripted=settings.scripted,
        model=settings.model,
    )


def create_app(
    settings: Settings | None = None, *, around_store: Callable[[Store], Store] = lambda store: store
) -> FastAPI:
    """The application. Importing this module reads nothing; the settings are read here when none are given.

    ``around_store`` is put around the store that every use case is handed: tests make transactions fail with it."""
    settings = settings or Settings()
    agents = registry(settings)
    authenticate = authenticator(settings)

    @asynccontextmanager
    async def opened(app: FastAPI) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            url = settings.database_url.get_secret_value() if settings.database_url is not None else None
            alone = False
            if url is None:
                embedded = await start_embedded(settings.data_dir)
                stack.push_async_callback(embedded.stop)
                url = embedded.url
                alone = embedded.alone
            stack.push_async_callback(agents.aclose)
            # Behind a pooler the direct address: migrations hold a lock of their connection's.
            await migrate.upgrade(settings.listen_url.get_secret_value() if settings.listen_url else url)
            app.state.running = running = await _start(
                app, settings, agents, authenticate, url, stack, around_store
            )
            if alone:  # the folder's last server was killed: nobody waits for its leases
                await running.leases.lapse_all()
            yield

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        try:
            async with opened(app):
                yield
        except Exception as error:  # the server above would say it as a traceback
            log.error("server.failed", exc_info=error)
            raise

    app = FastAPI(
        title="agent-server",
        summary="Any stock useChat frontend pointed at POST /chat gets a durable agent.",
        lifespan=lifespan,
        redirect_slashes=False,
        openapi_url=None,  # served by a guarded route
    )
    app.state.metrics = Metrics()
    for room in (health, metrics_route, openapi, streams, answers, chat, history):
        app.include_router(room.router)
    problems.install(app)
    if settings.playground:
        playground.install(app)
    app.add_middleware(
        CORSMiddleware,
        allow_origins=list(settings.cors_origins),
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=[
            "content-type",
            "authorization",
            "user-agent",
            "last-event-id",
            *settings.request_headers,
        ],
        expose_headers=["x-session-id", "x-run-id", "x-vercel-ai-ui-message-stream"],
    )
    app.add_middleware(RequestLine, metrics=app.state.metrics)
    return app


async def _start(
    app: FastAPI,
    settings: Settings,
    agents: Registry,
    authenticate: Authenticator,
    url: str,
    stack: AsyncExitStack,
    around_store: Callable[[Store], Store],
) -> Running:
    replica = new_id().hex
    metrics: Metrics = app.state.metrics
    pool = await open_pool(url, pool_size=settings.pool_size)
    store = around_store(Store(pool))
    stack.push_async_callback(store.close)
    listen_url = settings.listen_url.get_secret_value() if settings.listen_url is not None else None
    frames = FrameLog(url, replica=replica, tick_s=settings.frame_tick_ms / 1000, listen_dsn=listen_url)
    checkpoint = dies_at(settings.crash_at) if settings.crash_at is not None else passes
    runs = Runs(store, checkpoint=checkpoint)
    leases = Leases(store, owner=replica, seconds=settings.lease_seconds, on_takeover=metrics.takeovers.inc)
    deps = Deps(
        runs=runs,
        leases=leases,
        registry=agents,
        log=frames,
        new_id=new_id,
        outbox=settings.outbox,
        max_message_bytes=settings.max_message_bytes,
        max_parts=settings.max_parts // 2,  # a client posts the message back, with steps of its own
        max_steps=settings.max_steps,
        observe=Observer(metrics),
    )

    def wake(run_id: UUID, epoch: int) -> None:
        supervisor.wake(run_id, epoch)

    sweeper = Sweeper(
        store,
        leases,
        Retention(settings.completed_tombstone_retention, settings.session_retention),
        wake=wake,
        ring=frames.ring_owner,
        waiting=metrics.waiting_runs.set,
    )
    supervisor = Supervisor(
        deps,
        max_running=settings.max_running,
        drain_s=settings.drain_seconds,
        sweep=sweeper.sweep,
        on_end=partial(tell_run_ended, metrics),
    )
    owners = OwnerLimits(
        rate=settings.owner_rate, streams=settings.streams_per_owner, refused=metrics.refused
    )
    tail = Tail(Views(store), frames)
    limits = AnswerLimits(
        settings.max_answer_bytes, settings.max_error_text_bytes, settings.max_message_bytes
    )
    submitter = Submitter(store, leases, limits, wake=supervisor.wake, adopt=supervisor.adopt)
    policy = Policy(
        settings.on_busy == "interrupt",
        settings.max_waiting,
        settings.max_message_bytes,
        OwnerQuota(settings.max_live_per_owner, settings.max_sessions_per_owner, metrics.refused),
    )
    stop = Stop(store, ring=frames.ring_owner)
    app.state.services = Services(
        authenticate=authenticate,
        chat=Chat(
            store, leases, submitter, stop, agents, supervisor, policy, new_id=new_id, ring=frames.ring_owner
        ),
        elsewhere=Elsewhere(store, submitter),
        snapshots=Snapshots(store, ring=frames.ring_owner),
        stop=stop,
        tail=tail,
        breaker=Breaker(),
        body=BodyLimits(
            settings.max_body_bytes, settings.body_timeout_seconds, settings.max_messages, settings.max_parts
        ),
        owners=owners,
        metrics=metrics,
        request_headers=settings.request_headers,
        metrics_here=settings.metrics_port is None,
    )
    _watch(metrics, supervisor, frames, owners, pool)
    frames.on_batch = metrics.batch
    if settings.metrics_port is not None:
        stack.callback(metrics.serve(settings.host, settings.metrics_port))
    if settings.auth == "jwt" and not (settings.jwt_issuer and settings.jwt_audience):
        log.warning(
            "auth.any_token", meaning="without issuer and audience every token of the key set is accepted"
        )
    if settings.reachable_without_identity:
        log.warning(
            "auth.off", host=settings.host, meaning="whoever reaches this address reads and writes every chat"
        )
    app.state.ready = _ready(store, supervisor)
    await frames.start()
    stack.push_async_callback(frames.stop)
    await supervisor.start()
    running = Running(store, leases, frames, supervisor, tail, sweeper, url)
    stack.push_async_callback(running.drain)
    log.info("server.started", replica=replica, agents=list(agents.names), default_agent=agents.default)
    return running


def _ready(store: Store, supervisor: Supervisor) -> health.Ready:
    known = migrate.head()

    async def ready() -> dict[str, str]:
        found = {"database": "ok", "schema": "ok", "accepting": "draining" if supervisor.draining else "ok"}
        try:
            async with asyncio.timeout(READY_S):
                if not await migrate.is_current(store, known):
                    found["schema"] = "behind"
        except Exception as error:
            log.warning("ready.database_failed", causes=cause_chain(error))
            found["database"] = "unreachable"
        return found

    return ready


def _watch(
    metrics: Metrics, supervisor: Supervisor, frames: FrameLog, owners: OwnerLimits, pool: Pool
) -> None:
    """What is measured by looking, when the metrics are read."""
    for code, row in ERRORS.items():  # from 0: of a series that begins with 1 no alert sees the increase
        if row.uncommitted is None and row.committed is None:
            metrics.run_failures.labels(str(code))
    metrics.watch("live_runs", "Runs that this replica drives.", lambda: supervisor.running)
    metrics.watch("open_streams", "Streams that are open here.", lambda: owners.open_streams)
    metrics.watch("doorbell_up", "Whether LISTEN's connection stands.", lambda: frames.listening)
    metrics.watch("pool_connections", "Open database connections of the pool.", pool.get_size)
    metrics.watch("pool_idle", "Of them, those that nobody uses.", pool.get_idle_size)
    metrics.watch("pool_limit", "The most that the pool may open.", pool.get_max_size)
    metrics.watch("draining", "Whether the replica is draining.", lambda: supervisor.draining)
