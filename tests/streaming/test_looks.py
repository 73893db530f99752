"""Readers of one run share their looks at the log, and none is told less than it was rung for."""

import asyncio
from typing import Any, cast
from uuid import uuid4

import pytest

from app.clock import monotonic
from app.domain.run_state import RunState
from app.store.frames import Slice
from app.streaming.looks import Looks

RUN = uuid4()


class Log:
    """Counts the looks; each waits until it is let through."""

    def __init__(self) -> None:
        self.looks = 0
        self.opened = asyncio.Event()
        self.fault: Exception | None = None

    async def frames_after(self, run_id: object, seq: int) -> Slice:
        self.looks += 1
        await self.opened.wait()
        if self.fault is not None:
            raise self.fault
        return Slice(RunState.RUNNING, 1, self.looks, ())


def _looks(log: Log) -> Looks:
    return Looks(cast("Any", log))


async def test_readers_that_are_rung_together_look_once():
    log = Log()
    looks, rung_at = _looks(log), monotonic()
    reading = asyncio.gather(*(looks.after(RUN, 7, rung_at=rung_at) for _ in range(100)))
    log.opened.set()
    assert {found.watermark for found in await reading if found} == {1}
    assert log.looks == 1


async def test_a_reader_that_is_rung_after_a_look_began_looks_again():
    log = Log()
    looks = _looks(log)
    first = asyncio.ensure_future(looks.after(RUN, 7, rung_at=monotonic()))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(looks.after(RUN, 7, rung_at=monotonic()))
    await asyncio.sleep(0)
    log.opened.set()
    await asyncio.gather(first, second)
    assert log.looks == 2


async def test_a_reader_that_stands_elsewhere_looks_for_itself():
    log = Log()
    log.opened.set()
    looks, rung_at = _looks(log), monotonic()
    await looks.after(RUN, 7, rung_at=rung_at)
    await looks.after(RUN, 6, rung_at=rung_at)
    assert log.looks == 2


async def test_who_leaves_takes_nobodys_look_away():
    log = Log()
    looks, rung_at = _looks(log), monotonic()
    leaving = asyncio.ensure_future(looks.after(RUN, 7, rung_at=rung_at))
    staying = asyncio.ensure_future(looks.after(RUN, 7, rung_at=rung_at))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.sleep(0)
    log.opened.set()
    assert (await staying) is not None
    assert log.looks == 1


async def test_a_look_that_failed_is_not_handed_on():
    log = Log()
    log.opened.set()
    log.fault = ConnectionResetError()
    looks, rung_at = _looks(log), monotonic()
    with pytest.raises(ConnectionResetError):
        await looks.after(RUN, 7, rung_at=rung_at)
    log.fault = None
    assert await looks.after(RUN, 7, rung_at=rung_at) is not None
