"""A transaction commits, rolls back or is thrown away with its connection; whatever happens, the next one finds a clean pool."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from app.store import sessions
from app.store.faults import Fault, classify
from app.store.transaction import Store, Tx, in_transaction
from tests.store.make import a_session, pid_of, until, waits_for_a_lock

# The connections of this database but the one that asks.
OTHERS = "from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
COUNT_OTHERS = f"select count(*) {OTHERS}"


# What the driver raises on a connection that the server has closed, depending on how much of it has arrived.
LOST = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)


class Refused(Exception):
    pass


async def count(bare: asyncpg.Connection) -> int:
    return await bare.fetchval("select count(*) from session")


async def is_clean(store: Store, pool: asyncpg.Pool, bare: asyncpg.Connection) -> None:
    """Every connection that the pool may have can be had at once, and none is left in a transaction."""
    all_here = asyncio.Barrier(pool.get_max_size())

    async def one() -> None:
        async with store.transaction() as tx:
            assert await tx.fetchval("select 1") == 1
            await all_here.wait()

    await asyncio.gather(*(one() for _ in range(pool.get_max_size())))
    assert pool.get_idle_size() == pool.get_size() == pool.get_max_size()
    await until(lambda: no_rows(bare, f"{COUNT_OTHERS} and xact_start is not null"))


async def within(store: Store, body: Callable[[Tx], Awaitable[Any]]) -> Any:
    async with store.transaction() as tx:
        return await body(tx)


async def kill_others(bare: asyncpg.Connection) -> int:
    """Kills the pool's connections and waits until they are dead; how many they were."""
    killed = [row[0] for row in await bare.fetch(f"select pid, pg_terminate_backend(pid) {OTHERS}")]
    alive = f"select count(*) {OTHERS} and pid in ({', '.join(map(str, killed))})"
    await until(lambda: no_rows(bare, alive))
    return len(killed)


async def no_rows(bare: asyncpg.Connection, query: str) -> bool:
    return await bare.fetchval(query) == 0


async def test_a_clean_exit_commits(store, bare):
    async with store.transaction() as tx:
        await a_session(tx)
        assert await count(bare) == 0
    assert await count(bare) == 1


async def test_leaving_early_commits(store, bare):
    async def leave():
        async with store.transaction() as tx:
            await a_session(tx)
            return

    await leave()
    assert await count(bare) == 1


async def test_an_exception_rolls_back_and_keeps_the_connection(store, pool, bare):
    async with store.transaction() as tx:
        before = await pid_of(tx)

    async def refuse(tx):
        await a_session(tx)
        raise Refused

    with pytest.raises(Refused):
        await within(store, refuse)
    assert await count(bare) == 0
    async with store.transaction() as tx:
        assert await pid_of(tx) == before


async def test_a_failed_statement_rolls_back_and_keeps_its_own_exception(store, pool, bare):
    async def twice(tx):
        session = await a_session(tx)
        await tx.execute("insert into session select * from session where id = $1", session.id)

    with pytest.raises(asyncpg.UniqueViolationError) as raised:
        await within(store, twice)
    assert classify(raised.value) is Fault.CONFLICT
    assert await count(bare) == 0
    await is_clean(store, pool, bare)


async def test_a_swallowed_failure_is_not_taken_for_a_commit(store, pool, bare):
    async def swallow(tx):
        await a_session(tx)
        with pytest.raises(asyncpg.DivisionByZeroError):
            await tx.execute("select 1 / 0")

    with pytest.raises(RuntimeError, match="nothing is committed"):
        await within(store, swallow)
    assert await count(bare) == 0
    await is_clean(store, pool, bare)


async def test_nesting_is_refused_and_the_outer_one_goes_on(store, bare):
    async with store.transaction() as tx:
        with pytest.raises(RuntimeError, match="inside"):
            async with store.transaction():
                pass
        await a_session(tx)
    assert await count(bare) == 1
    async with store.transaction():
        pass


async def test_a_task_knows_that_it_is_inside(store):
    assert not in_transaction()
    async with store.transaction():
        assert in_transaction()
    assert not in_transaction()
    with pytest.raises(Refused):
        async with store.transaction():
            raise Refused
    assert not in_transaction()


async def test_every_transaction_is_read_committed_whatever_the_database_prefers(store, bare):
    name = await bare.fetchval("select current_database()")
    await bare.execute(f'alter database "{name}" set default_transaction_isolation to serializable')
    await kill_others(bare)
    async with store.transaction() as tx:
        assert await tx.fetchval("show default_transaction_isolation") == "serializable"
        assert await tx.fetchval("show transaction_isolation") == "read committed"


async def test_cancelled_in_the_middle_it_rolls_back_and_its_connection_is_thrown_away(store, pool, bare):
    began = asyncio.Event()
    pids: list[int] = []

    async def stuck():
        async with store.transaction() as tx:
            await a_session(tx)
            pids.append(await pid_of(tx))
            began.set()
            await tx.execute("select pg_sleep(60)")

    task = asyncio.create_task(stuck())
    await began.wait()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with store.transaction() as tx:
        assert await pid_of(tx) not in pids
    assert await count(bare) == 0
    assert not in_transaction()
    await bare.execute("select pg_terminate_backend($1)", pids[0])  # the closed one's statement sleeps on
    await is_clean(store, pool, bare)


async def test_cancelled_while_it_waits_for_a_lock(store, pool, bare):
    async with store.transaction() as tx:
        session = await a_session(tx)

    async def waiter():
        async with store.transaction() as tx:
            await sessions.lock_by_id(tx, session.id)

    async with bare.transaction():
        await sessions.lock_by_id(bare, session.id)
        task = asyncio.create_task(waiter())
        await waits_for_a_lock(bare)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await is_clean(store, pool, bare)


async def test_cancelled_in_the_middle_of_its_commit_the_connection_is_never_used_again(store, pool, bare):
    await bare.execute(
        "create function hold() returns trigger language plpgsql as $$ begin perform pg_advisory_xact_lock(7); return null; end $$"
    )
    await bare.execute(
        "create constraint trigger hold after insert on session deferrable initially deferred for each row execute function hold()"
    )
    await bare.execute("select pg_advisory_lock(7)")
    pids: list[int] = []

    async def commits():
        async with store.transaction() as tx:
            pids.append(await pid_of(tx))
            await a_session(tx)

    task = asyncio.create_task(commits())
    await until(lambda: started(pids))
    await waits_for_a_lock(bare, pids[0])
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with store.transaction() as tx:
        assert await pid_of(tx) not in pids
    await bare.execute("select pg_advisory_unlock(7)")
    await is_clean(store, pool, bare)
    assert await count(bare) in (0, 1)  # nobody was told; whoever cares reads again


async def started(pids: list[int]) -> bool:
    return bool(pids)


async def test_cancelled_at_any_moment_the_pool_stays_whole(store, pool, bare):
    async with store.transaction() as tx:
        session = await a_session(tx)
    chance = random.Random(7)

    async def work() -> None:
        async with store.transaction() as tx:
            await sessions.lock_by_id(tx, session.id)
            await sessions.take_positions(tx, session.id, 1)

    for _ in range(25):
        tasks = [asyncio.create_task(work()) for _ in range(6)]
        for _ in range(chance.randrange(40)):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    await is_clean(store, pool, bare)


async def test_a_connection_lost_in_the_middle_is_transient_and_all_pooled_ones_are_replaced(
    store, pool, bare
):
    pids = set()
    both = asyncio.Barrier(2)

    async def one():
        async with store.transaction() as tx:
            pids.add(await pid_of(tx))
            await both.wait()

    await asyncio.gather(one(), one())

    async def lose(tx):
        await a_session(tx)
        await bare.execute("select pg_terminate_backend($1)", await pid_of(tx))
        await until(lambda: fails(tx))
        await tx.execute("select 1")

    with pytest.raises(LOST) as raised:
        await within(store, lose)
    assert classify(raised.value) is Fault.TRANSIENT
    assert await count(bare) == 0
    for _ in range(3):
        async with store.transaction() as tx:
            assert await pid_of(tx) not in pids
    await is_clean(store, pool, bare)


async def fails(tx) -> bool:
    try:
        await tx.execute("select 1")
    except LOST:
        return True
    return False


async def test_idle_connections_that_died_are_replaced_unasked(store, pool, bare):
    await is_clean(store, pool, bare)
    assert await kill_others(bare) == pool.get_max_size()
    failures = 0
    for _ in range(8):
        try:
            await within(store, pid_of)
        except LOST as error:
            failures += 1 if classify(error) is Fault.TRANSIENT else 100
    assert failures <= 1  # the first one to meet a dead connection makes the others be replaced
    await is_clean(store, pool, bare)


async def test_a_server_that_does_not_answer_takes_all_connections_with_it(store, pool, bare):
    await is_clean(store, pool, bare)
    before = {row[0] for row in await bare.fetch(f"select pid {OTHERS}")}
    with pytest.raises(TimeoutError) as raised:
        async with store.transaction() as tx:
            await tx.execute("select pg_sleep(60)", timeout=0.05)
    assert classify(raised.value) is Fault.TRANSIENT
    async with store.transaction() as tx:
        assert await pid_of(tx) not in before
    await bare.execute(
        "select pg_cancel_backend(pid) from pg_stat_activity where query like 'select pg_sleep%'"
    )
    await is_clean(store, pool, bare)


async def test_no_connection_in_time_is_transient(pool, store):
    impatient = Store(pool, acquire_timeout_s=0.05)
    full, done = asyncio.Barrier(pool.get_max_size() + 1), asyncio.Event()

    async def hold():
        async with store.transaction():
            await full.wait()
            await done.wait()

    holders = [asyncio.create_task(hold()) for _ in range(pool.get_max_size())]
    await full.wait()
    with pytest.raises(TimeoutError) as raised:
        async with impatient.transaction():
            pass
    assert classify(raised.value) is Fault.TRANSIENT
    assert not in_transaction()
    done.set()
    await asyncio.gather(*holders)


async def test_closing_waits_for_what_is_open_but_not_for_ever(store, pool):
    entered = asyncio.Event()

    async def last():
        async with store.transaction() as tx:
            entered.set()
            return await tx.fetchval("select pg_sleep(0.05) is not null")

    task = asyncio.create_task(last())
    await entered.wait()
    await store.close()
    assert await task
    with pytest.raises(asyncpg.InterfaceError):
        async with store.transaction():
            pass
