"""Two ways to await that the loop relies on: work that must not be torn, and work side by side."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


def watched(work: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
    """A task that may end with nobody left to be told of its failure: it is taken note of, so that asyncio does not complain."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    return task


async def unbroken(work: Coroutine[Any, Any, T]) -> T:
    """Awaits work that must not be torn: a cancellation is held back until it is done."""
    task = watched(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            await asyncio.wait({task})
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error from None
        raise


async def together(work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Runs everything side by side; the first failure cancels the rest and is raised as itself."""
    tasks = [watched(each) for each in work]
    if not tasks:
        return
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error
