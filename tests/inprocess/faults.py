"""A store whose transactions fail where the test says, in the request that the test makes; all others are left alone.

``async with serve(around=FaultyStore)``, then ``with failing({2: KILLED}):`` around a request: its second transaction fails. The
failures are Postgres's own where it can be made to have them.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from enum import StrEnum
from typing import Any

from app.store.transaction import Store, Tx


class Failure(StrEnum):
    REFUSED = "no connection to be had"
    """Before anything was asked of the database."""
    KILLED = "connection lost before the commit"
    REPLY_LOST = "connection lost after the commit, before its reply"
    SERIALIZATION = "serialization failure"
    STATEMENT_TIMEOUT = "statement timeout"
    LOCK_TIMEOUT = "lock timeout"
    PERMANENT = "a statement that can never succeed"


NOTHING_STORED = (
    Failure.REFUSED,
    Failure.KILLED,
    Failure.SERIALIZATION,
    Failure.STATEMENT_TIMEOUT,
    Failure.LOCK_TIMEOUT,
)

_STATEMENTS = {
    Failure.KILLED: ("select pg_terminate_backend(pg_backend_pid())",),
    Failure.SERIALIZATION: ("do $$ begin raise exception 'made' using errcode = '40001'; end $$",),
    Failure.STATEMENT_TIMEOUT: ("set local statement_timeout = 1", "select pg_sleep(10)"),
    Failure.LOCK_TIMEOUT: ("do $$ begin raise exception 'made' using errcode = '55P03'; end $$",),
    Failure.PERMANENT: ("select * from there_is_no_such_table",),
}


class _Plan:
    """The failures of one request's transactions, by their number. The request's task is the first that opens one."""

    def __init__(self, failures: Mapping[int, Failure]) -> None:
        self.failures = failures
        self.count = 0
        self._task: asyncio.Task[Any] | None = None

    def next(self) -> Failure | None:
        self._task = self._task or asyncio.current_task()
        if asyncio.current_task() is not self._task:
            return None
        self.count += 1
        return self.failures.get(self.count)


_plan: ContextVar[_Plan | None] = ContextVar("planned_failures", default=None)


@contextmanager
def failing(failures: Mapping[int, Failure]) -> Iterator[_Plan]:
    """The request made in here meets these failures; its ``count`` is how many transactions it had."""
    plan = _Plan(failures)
    token = _plan.set(plan)
    try:
        yield plan
    finally:
        _plan.reset(token)


class FaultyStore(Store):
    def __init__(self, inner: Store) -> None:
        self._inner = inner

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Tx]:
        plan = _plan.get()
        failure = plan.next() if plan is not None else None
        if failure is Failure.REFUSED:
            raise ConnectionRefusedError(111, "made: no connection")
        async with self._inner.transaction() as tx:
            yield tx
            for statement in _STATEMENTS.get(failure, ()) if failure is not None else ():
                await tx.execute(statement)
        if failure is Failure.REPLY_LOST:
            raise ConnectionResetError(104, "made: the reply is lost")

    async def close(self) -> None:
        await self._inner.close()
