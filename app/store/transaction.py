"""One short transaction: commits on a clean exit, rolls back otherwise, refuses nesting.

``READ COMMITTED`` is enough: every decision is made under the session's row lock. Inside a transaction there is no model call, no
tool and no stream; the context variable lets those refuse to begin in one.

A connection goes back to the pool only after its ``COMMIT`` or ``ROLLBACK`` was answered. In every other case (cancelled anywhere,
timed out, lost) it is closed, which rolls back whatever was not committed; so none is ever used again in an unknown state. When one
is lost, or the server does not answer it, the others are taken to be so too and are replaced as they are next asked for: that is how
the pool recovers from a restart of Postgres without asking every connection first whether it still lives.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from typing import Any, Protocol

import asyncpg

from app.store.engine import ACQUIRE_TIMEOUT_S

_BEGIN = "begin isolation level read committed"
_ROLLBACK_TIMEOUT_S = 5.0
_CLOSE_TIMEOUT_S = 5.0

_open: ContextVar[bool] = ContextVar("transaction_open", default=False)


class Tx(Protocol):
    """An asyncpg connection inside a transaction: what statements need of it."""

    async def fetch(self, query: str, /, *args: Any) -> list[asyncpg.Record]: ...
    async def fetchrow(self, query: str, /, *args: Any) -> asyncpg.Record | None: ...
    async def fetchval(self, query: str, /, *args: Any) -> Any: ...
    async def execute(self, query: str, /, *args: Any) -> str: ...


def in_transaction() -> bool:
    """Whether this task is inside a transaction."""
    return _open.get()


class Store:
    """Hands out transactions; the connection goes back to the pool with the block. ``acquire_timeout_s``: what one waits for it."""

    def __init__(self, pool: asyncpg.Pool, *, acquire_timeout_s: float = ACQUIRE_TIMEOUT_S) -> None:
        self._pool = pool
        self._acquire_timeout_s = acquire_timeout_s

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Tx]:
        """A transaction that writes or locks. Raises ``RuntimeError`` inside another one.

        ``TimeoutError`` when no connection could be had in time. An exception that comes out of the block's end is a commit whose
        outcome is unknown: read again, on another connection."""
        if _open.get():
            raise RuntimeError("a transaction inside a transaction")
        async with asyncio.timeout(self._acquire_timeout_s):
            connection = await self._pool.acquire()
        token = _open.set(True)
        answered = False
        try:
            await connection.execute(_BEGIN)
            try:
                yield connection
            except Exception as error:
                answered = await _rolled_back(connection, error)
                raise
            tag = await connection.execute("commit")
            answered = True
            if tag != "COMMIT":
                raise RuntimeError("a statement failed and its exception was swallowed: nothing is committed")
        except Exception:
            if not answered:
                await self._pool.expire_connections()
            raise
        finally:
            _open.reset(token)
            await self._give_back(connection, usable=answered)

    async def _give_back(self, connection: Any, *, usable: bool) -> None:
        with suppress(Exception):  # it is over either way; the pool replaces what it cannot take back
            if not usable:
                connection.terminate()
            await self._pool.release(connection)

    async def close(self) -> None:
        """Waits a moment for open transactions, then closes every connection."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await self._pool.close()


async def _rolled_back(connection: Any, error: Exception) -> bool:
    """Whether the server said so. A statement that timed out may still be running, so nothing is asked then."""
    if isinstance(error, TimeoutError):
        return False
    try:
        await connection.execute("rollback", timeout=_ROLLBACK_TIMEOUT_S)
    except Exception:  # what failed before is what the caller has to know
        return False
    return True
