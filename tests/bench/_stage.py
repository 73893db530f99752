"""What the benchmarks share: a Postgres, replicas, a client; percentiles and tables."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from tests.acceptance.postgres import Postgres, postgres
from tests.acceptance.replica import Replica


@dataclass
class Stage:
    pg: Postgres
    replicas: list[Replica]
    client: httpx2.AsyncClient
    folder: Path


@asynccontextmanager
async def stage(count: int, **settings: Any) -> AsyncIterator[Stage]:
    """``count`` ready replicas on a Postgres of their own."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        pg = await stack.enter_async_context(postgres())
        replicas = [Replica(f"replica{n}", folder, pg.url, **settings) for n in range(count)]
        for replica in replicas:
            stack.callback(replica.kill)
        await asyncio.gather(*(replica.start() for replica in replicas))
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
        client = httpx2.AsyncClient(trust_env=False, timeout=60, limits=limits)
        yield Stage(pg, replicas, await stack.enter_async_context(client), folder)


def at(values: Iterable[float], percent: float) -> float:
    """The value that ``percent`` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    lines = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(line[n]) for line in lines) for n in range(len(head))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    print(flush=True)


async def commits(pg: Postgres) -> int:
    return await pg.value("select sum(xact_commit)::bigint from pg_stat_database")
