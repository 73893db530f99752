"""One short transaction: commits on a clean exit, rolls back otherwise, refuses nesting.

``READ COMMITTED`` is enough: every decision is made under the session's row lock. Inside a transaction there is no model call, no
tool and no stream; the context variable lets those refuse to begin in one.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

Tx = AsyncConnection

_open: ContextVar[bool] = ContextVar("transaction_open", default=False)


def in_transaction() -> bool:
    """Whether this task is inside a transaction."""
    return _open.get()


class Store:
    """Hands out transactions. The connection goes back to the pool with the block."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Tx]:
        """A transaction that writes or locks. Raises ``RuntimeError`` inside another one."""
        if _open.get():
            raise RuntimeError("a transaction inside a transaction")
        token = _open.set(True)
        try:
            async with self._engine.begin() as tx:
                yield tx
        finally:
            _open.reset(token)

    async def close(self) -> None:
        await self._engine.dispose()
