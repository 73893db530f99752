"""What the store adds to the driver: one select and one update in a transaction each, against bare asyncpg on a held connection.

Both send the same statements. The store's share is its pool, its transaction and the dataclass; rounds take turns, so that a busy
machine is equally unkind to both.
"""

import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from uuid import uuid4

import asyncpg
import uvloop

from app.store import migrate, runs, sessions
from app.store.embedded import start_embedded
from app.store.engine import connect, open_pool
from app.store.transaction import Store
from tests.bench._stage import table
from tests.store.make import a_run, a_session

ROUNDS, CALLS = 15, 200

SELECT = "select id, session_id, state, epoch, step, frame_seq, lease_owner from run where id = $1"
UPDATE = "update session set next_position = next_position + 1, updated_at = now() where id = $1 returning next_position"


async def _round(call: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """Microseconds a call: of the clock, of this process."""
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(CALLS):
        await call()
    return (time.perf_counter() - wall) / CALLS * 1e6, (time.process_time() - cpu) / CALLS * 1e6


async def _compare(
    name: str, ours: Callable[[], Awaitable[object]], bare: Callable[[], Awaitable[object]]
) -> tuple[object, ...]:
    taken = [(await _round(ours), await _round(bare)) for _ in range(ROUNDS + 1)][1:]
    (wall, cpu), (bare_wall, bare_cpu) = (
        [median(each[n][m] for each in taken) for m in (0, 1)] for n in (0, 1)
    )
    return (
        name,
        f"{wall:.0f}",
        f"{bare_wall:.0f}",
        f"{wall / bare_wall:.2f}",
        f"{cpu:.0f}",
        f"{bare_cpu:.0f}",
        f"{cpu / bare_cpu:.2f}",
    )


async def main() -> None:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        async with await start_embedded(Path(folder), {"synchronous_commit": "off"}) as postgres:
            await migrate.upgrade(postgres.url)
            await _measure(postgres.url)


async def _measure(url: str) -> None:
    store = Store(await open_pool(url, pool_size=2))
    connection: asyncpg.Connection = await connect(url)
    async with store.transaction() as tx:
        session = await a_session(tx, chat_id=uuid4().hex)
        run = await a_run(tx, session)

    async def select() -> None:
        async with store.transaction() as tx:
            await runs.get(tx, run.id)

    async def bare_select() -> None:
        async with connection.transaction():
            await connection.fetchrow(SELECT, run.id)

    async def update() -> None:
        async with store.transaction() as tx:
            await sessions.take_positions(tx, session.id, 1)

    async def bare_update() -> None:
        async with connection.transaction():
            await connection.fetchval(UPDATE, session.id)

    print(f"One statement in a transaction, {CALLS} calls a round, the median of {ROUNDS} rounds")
    table(
        ["call", "store µs", "bare µs", "ratio", "store CPU µs", "bare CPU µs", "CPU ratio"],
        [
            await _compare("select a run", select, bare_select),
            await _compare("update a session", update, bare_update),
        ],
    )
    await connection.close()
    await store.close()


if __name__ == "__main__":
    uvloop.run(main())
