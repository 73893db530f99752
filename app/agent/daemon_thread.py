"""A blocking call in a thread of its own.

Not the loop's executor: its few threads also resolve host names, so tools that hang would stop every model
request; and it is joined at exit, so one of them would keep a stopped server alive. A thread that its caller
has given up runs on unheard.
"""

import asyncio
import contextvars
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import TypeVar

Result = TypeVar("Result")


async def in_thread(function: Callable[[], Result]) -> Result:
    """The result of ``function()``, or whatever it raises. Cancellation stops the waiting, not the thread."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[tuple[Result | None, BaseException | None]] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(result: Result | None, error: BaseException | None) -> None:
        if not future.done():
            future.set_result((result, error))

    def work() -> None:
        result: Result | None = None
        raised: BaseException | None = None
        try:
            result = context.run(function)
        except BaseException as error:
            raised = error
        with suppress(RuntimeError):  # the loop has gone
            loop.call_soon_threadsafe(deliver, result, raised)

    Thread(target=work, name="tool", daemon=True).start()
    result, raised = await future
    if raised is not None:
        raise raised
    return result  # pyright: ignore[reportReturnType]  None only where the function returned it
