"""The connection pool, its timeouts and the JSON codec."""

from typing import Any

import orjson
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

LOCK_TIMEOUT_MS = 5_000
STATEMENT_TIMEOUT_MS = 15_000


def dumps(value: Any) -> str:
    """JSON text as it is stored. Raises ``TypeError`` for what JSON cannot hold; the edges have cleaned it before."""
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()


def sqlalchemy_url(dsn: str) -> str:
    """A libpq-style DSN as SQLAlchemy spells it for asyncpg."""
    url = make_url(dsn)
    return url.set(drivername="postgresql+asyncpg").render_as_string(hide_password=False)


def asyncpg_dsn(dsn: str) -> str:
    """The same address for a bare asyncpg connection."""
    return make_url(dsn).set(drivername="postgresql").render_as_string(hide_password=False)


def create_engine(dsn: str, *, pool_size: int, application_name: str = "agent-server") -> AsyncEngine:
    """A pool of at most ``pool_size`` connections. Its statements give up on a lock after 5 s, and altogether after 15 s."""
    return create_async_engine(
        sqlalchemy_url(dsn),
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=10,
        pool_pre_ping=True,
        json_serializer=dumps,
        json_deserializer=orjson.loads,
        connect_args={
            "timeout": 10,
            "command_timeout": STATEMENT_TIMEOUT_MS / 1000 + 5,
            "server_settings": {
                "application_name": application_name,
                "lock_timeout": str(LOCK_TIMEOUT_MS),
                "statement_timeout": str(STATEMENT_TIMEOUT_MS),
                "idle_in_transaction_session_timeout": "30000",
                "timezone": "UTC",
            },
        },
    )
