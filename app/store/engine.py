"""The connection pool: its address, its timeouts and the JSON codec.

Behind PgBouncer in transaction mode:

- ``DATABASE_URL`` gets ``?statement_cache_size=0``: a prepared statement would be looked for on another server connection.
- Its ``ignore_startup_parameters`` name those of ``_SETTINGS`` and ``synchronous_commit``; the role is given the timeouts instead
  (``alter role … set lock_timeout = '5s'``).
- ``LISTEN`` and the migrations, whose lock is a session's, want an address that leads to Postgres itself.
"""

from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import asyncpg
import orjson

from app.store.faults import CorruptRow

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

Pool = asyncpg.Pool
"""For those who may not import asyncpg."""

ACQUIRE_TIMEOUT_S = 10.0
CONNECT_TIMEOUT_S = 10.0
LOCK_TIMEOUT_MS = 5_000
STATEMENT_TIMEOUT_MS = 15_000
_COMMAND_TIMEOUT_S = STATEMENT_TIMEOUT_MS / 1000 + 5  # a server that does not say that it gave up is gone

_FAREWELL_TIMEOUT_S = 5.0

# Of a connection that one task has to itself, and replaces when it fails.
_OWN_CONNECT_TIMEOUT_S = 5.0
_OWN_COMMAND_TIMEOUT_S = 10.0

_CACHE_SIZE = "statement_cache_size"
_STATEMENTS = 200  # more than we have: none is ever prepared twice on a connection

_SETTINGS = {
    "lock_timeout": str(LOCK_TIMEOUT_MS),
    "statement_timeout": str(STATEMENT_TIMEOUT_MS),
    "idle_in_transaction_session_timeout": "30000",
    "timezone": "UTC",
    "jit": "off",  # statements this short only lose by it
}


def dumps(value: Any) -> str:
    """JSON text as it is stored. Raises ``TypeError`` for what JSON cannot hold; the edges have cleaned it before."""
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()


def loads(text: str) -> Any:
    """What is stored as JSON text. Raises ``CorruptRow`` for what Postgres accepts as JSON and we cannot read (a lone surrogate)."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise CorruptRow("a JSON value that cannot be read") from error


def sqlalchemy_engine(dsn: str) -> "AsyncEngine":
    """For migrations. The driver reads the address itself: SQLAlchemy would stumble over options of libpq such as ``sslmode``."""
    from sqlalchemy.ext.asyncio import create_async_engine  # a second of import, for the migrations alone
    from sqlalchemy.pool import NullPool

    return create_async_engine(
        "postgresql+asyncpg://", async_creator=lambda: asyncpg.connect(_split(dsn)[0]), poolclass=NullPool
    )


def _split(dsn: str) -> tuple[str, int]:
    """The address as asyncpg takes it, and the size of the statement cache that its query asks for."""
    parts = urlsplit(dsn)._replace(scheme="postgresql")
    query = parse_qsl(parts.query, keep_blank_values=True)
    asked = [value for key, value in query if key == _CACHE_SIZE]
    if not asked:
        return urlunsplit(parts), _STATEMENTS
    rest = urlencode([(key, value) for key, value in query if key != _CACHE_SIZE])
    return urlunsplit(parts._replace(query=rest)), int(asked[-1])


class _Connection(asyncpg.Connection):
    """Its farewell never fails: the pool does not wait for that of a connection which it replaces, so nobody would catch it."""

    async def close(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109, the driver's own signature
        with suppress(Exception):  # it was lost: it is aborted then
            await super().close(timeout=timeout or _FAREWELL_TIMEOUT_S)


async def open_pool(dsn: str, *, pool_size: int, application_name: str = "agent-server") -> asyncpg.Pool:
    """A pool of at most ``pool_size`` connections. Its statements give up on a lock after 5 s, and altogether after 15 s.

    Raises what connecting raises: ``OSError``, ``TimeoutError``, ``asyncpg.PostgresError``."""
    address, statements = _split(dsn)
    return await asyncpg.create_pool(
        address,
        min_size=1,
        max_size=pool_size,
        connection_class=_Connection,
        init=_teach_json,
        reset=_keep_session,
        timeout=CONNECT_TIMEOUT_S,
        command_timeout=_COMMAND_TIMEOUT_S,
        statement_cache_size=statements,
        max_cached_statement_lifetime=0,
        server_settings={"application_name": application_name, **_SETTINGS},
    )


async def connect(dsn: str, **settings: str) -> asyncpg.Connection:
    """A connection of one's own, outside the pool; ``settings`` are the server's. Raises as ``open_pool`` does."""
    address, statements = _split(dsn)
    return await asyncpg.connect(
        address,
        timeout=_OWN_CONNECT_TIMEOUT_S,
        command_timeout=_OWN_COMMAND_TIMEOUT_S,
        statement_cache_size=statements,
        server_settings={"jit": "off", **settings},
    )


async def _teach_json(connection: Any) -> None:
    await connection.set_type_codec("json", schema="pg_catalog", encoder=dumps, decoder=loads)


async def _keep_session(_connection: Any) -> None:
    """Nothing is ever set on a session, so nothing has to be reset between two transactions: a round trip saved on each."""
