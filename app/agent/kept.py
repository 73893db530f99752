"""An async resource that is opened at first use, shared by everybody, opened again after it broke, and closed once.

The resource lives in a task of its own: a context manager that was entered in a run's task could not outlive the
run, nor be left by another one. Openings are shared: any number of callers wait for the same one.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Generic, TypeVar

from app.log import get_logger

log = get_logger(__name__)

T = TypeVar("T")


class Unavailable(Exception):
    """The resource cannot be had now. The reason is the ``__cause__``."""


class Kept(Generic[T]):
    """``open_`` makes the context manager, anew for each opening. After a failed opening the next one is tried at
    the earliest ``retry_after_s`` later; until then ``get`` fails at once."""

    def __init__(
        self,
        name: str,
        open_: Callable[[], AbstractAsyncContextManager[T]],
        *,
        open_timeout_s: float,
        retry_after_s: float = 5.0,
    ) -> None:
        self._name = name
        self._open = open_
        self._open_timeout_s = open_timeout_s
        self._retry_after_s = retry_after_s
        self._living: _Living[T] | None = None
        self._failed_at: float | None = None
        self._failure: BaseException | None = None

    async def get(self) -> T:
        """The open resource. Raises ``Unavailable``."""
        living = self._living
        if living is None or living.over:
            if self._failed_at is not None and time.monotonic() < self._failed_at + self._retry_after_s:
                raise Unavailable(self._name) from self._failure
            living = self._living = _Living(self._name, self._open)
        # On every way out, so that a slow opening goes on for the next caller who asks.
        done, _ = await asyncio.wait({living.opened}, timeout=self._open_timeout_s)
        if not done:
            self._failed(living, TimeoutError(f"not open after {self._open_timeout_s} s"))
            living.close()
        elif (error := living.opened.exception()) is None:
            self._failed_at = None
            return living.opened.result()
        else:
            self._failed(living, error)
        raise Unavailable(self._name) from self._failure

    def drop(self, broken: T) -> None:
        """``broken`` is of no use any more: the next ``get`` opens another one."""
        living = self._living
        if living is not None and living.holds(broken):
            self._living = None
            living.close()

    async def aclose(self) -> None:
        """Closes what is open. A later ``get`` would open it again."""
        living, self._living = self._living, None
        if living is not None and living.here:
            living.close()
            await asyncio.wait({living.task}, timeout=self._open_timeout_s)

    def _failed(self, living: "_Living[T]", error: BaseException) -> None:
        if self._living is living:
            self._living = None
            self._failed_at, self._failure = time.monotonic(), error
            log.warning("resource.unavailable", name=self._name, error=type(error).__name__, exc_info=error)


class _Living(Generic[T]):
    """One opening, from its beginning to its end."""

    def __init__(self, name: str, open_: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self._loop = asyncio.get_running_loop()
        self._closing = asyncio.Event()
        self.opened: asyncio.Future[T] = self._loop.create_future()
        self.opened.add_done_callback(_looked_at)
        self.task = asyncio.create_task(self._live(name, open_), name=f"kept {name}")

    @property
    def here(self) -> bool:
        """Whether it lives in the running loop: tests have one loop each."""
        return self._loop is asyncio.get_running_loop()

    @property
    def over(self) -> bool:
        return not self.here or self._closing.is_set() or (self.task.done() and self.opened.done())

    def holds(self, resource: T) -> bool:
        return self.opened.done() and not self.opened.exception() and self.opened.result() is resource

    def close(self) -> None:
        self._closing.set()
        if not self.opened.done():
            self.task.cancel()

    async def _live(self, name: str, open_: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        try:
            async with open_() as resource:
                self.opened.set_result(resource)
                await self._closing.wait()
        except BaseException as error:
            if not self.opened.done():
                self.opened.set_exception(
                    error if isinstance(error, Exception) else ConnectionError("opening was given up")
                )
            elif isinstance(error, Exception):
                log.warning("resource.broke", name=name, error=type(error).__name__, exc_info=error)
            if not isinstance(error, Exception):
                raise


def _looked_at(opened: "asyncio.Future[T]") -> None:
    with suppress(asyncio.CancelledError):
        opened.exception()
