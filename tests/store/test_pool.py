"""The pool's connections: what they are set to, how they read and write JSON, and that they outlive a restart of Postgres."""

import asyncio
from pathlib import Path

import asyncpg
import pytest

from app.store import migrate
from app.store.embedded import start_embedded
from app.store.engine import connect, dumps, loads, open_pool
from app.store.faults import CorruptRow, Fault, classify
from app.store.transaction import Store
from tests.store.make import pid_of, until

SETTINGS = {
    "application_name": "agent-server",
    "lock_timeout": "5s",
    "statement_timeout": "15s",
    "idle_in_transaction_session_timeout": "30s",
    "TimeZone": "UTC",
    "jit": "off",
}


@pytest.mark.parametrize(("name", "value"), SETTINGS.items())
async def test_settings(store: Store, name, value):
    async with store.transaction() as tx:
        assert await tx.fetchval(f"show {name}") == value


async def test_no_more_connections_than_asked_for(database_url, bare):
    pool = await open_pool(database_url, pool_size=2)
    store = Store(pool)
    pids = []

    async def one():
        async with store.transaction() as tx:
            pids.append(await pid_of(tx))

    await asyncio.gather(*(one() for _ in range(20)))
    assert len(pids) == 20
    assert len(set(pids)) == 2
    await store.close()


async def test_nothing_is_asked_between_two_transactions(store: Store):
    """A reset that took a round trip would show: it would be the connection's last query."""
    async with store.transaction() as tx:
        await tx.execute("select 1")
        pid = await pid_of(tx)
    async with store.transaction() as tx:
        assert await pid_of(tx) == pid
        last = await tx.fetchval("select query from pg_stat_activity where pid = pg_backend_pid()")
        assert "RESET" not in last


ROUND_TRIPS = [
    {"nul": "a\x00b"},
    {"backslash-u": r"\u0000 \ud800 \\u0041"},
    {"text": "é 𝄞 \u2028"},
    {"numbers": [0, -1, 1.5, 2**53, 2**63 - 1, 1e300]},
    [[1, [2, []]], {}],
    "a bare string",
    0,
    False,
]


@pytest.mark.parametrize("value", ROUND_TRIPS, ids=str)
async def test_what_json_can_hold_comes_back(store: Store, value):
    async with store.transaction() as tx:
        await tx.execute("create temporary table kept (value json) on commit drop")
        await tx.execute("insert into kept values ($1)", value)
        assert await tx.fetchval("select value from kept") == value


async def test_none_is_sql_null_and_stored_null_is_none(store: Store):
    async with store.transaction() as tx:
        assert await tx.fetchval("select $1::json is null", None) is True
        assert await tx.fetchval("select 'null'::json") is None


@pytest.mark.parametrize("text", [r'"\ud800"', "[" * 2000 + "]" * 2000], ids=["lone surrogate", "too deep"])
async def test_json_that_postgres_takes_and_we_cannot_read_is_a_corrupt_row(store: Store, bare, text):
    await bare.execute("create table kept (value json)")
    await bare.execute(f"insert into kept values ('{text}'), ('1')")

    async def read(query):
        async with store.transaction() as tx:
            return await tx.fetch(query)

    with pytest.raises(CorruptRow) as raised:
        await read("select value from kept")
    assert classify(raised.value) is Fault.PERMANENT
    assert [row[0] for row in await read("select value from kept where value::text = '1'")] == [1]


def test_corrupt_text_is_named_without_its_contents():
    with pytest.raises(CorruptRow, match=r"^a JSON value that cannot be read$"):
        loads('{"secret": tru}')
    assert loads(dumps({"a": [1, None]})) == {"a": [1, None]}


async def test_a_statement_is_prepared_once_on_a_connection(store: Store):
    prepared = "select count(*) from pg_prepared_statements where statement = 'select $1::int + 1'"
    for _ in range(3):
        async with store.transaction() as tx:
            await tx.fetchval("select $1::int + 1", 1)
            assert await tx.fetchval(prepared) == 1


async def test_behind_a_pooler_nothing_is_prepared_by_name(database_url):
    joint = "&" if "?" in database_url else "?"
    pool = await open_pool(f"{database_url}{joint}statement_cache_size=0", pool_size=1)
    store = Store(pool)
    async with store.transaction() as tx:
        assert await tx.fetchval("select $1::int + 1", 1) == 2
        assert await tx.fetchval("select count(*) from pg_prepared_statements where name <> ''") == 0
    await store.close()
    own = await connect(f"{database_url}{joint}statement_cache_size=0")
    assert await own.fetchval("select $1::int + 1", 1) == 2
    assert await own.fetchval("select count(*) from pg_prepared_statements where name <> ''") == 0
    await own.close()


@pytest.mark.parametrize(
    "options",
    [
        "sslmode=prefer",
        "application_name=mine",
        "options=-c%20geqo%3Doff",
        "statement_cache_size=0&target_session_attrs=any",
    ],
)
async def test_an_address_with_options_serves_the_pool_and_the_migrations(database_url, options):
    dsn = f"{database_url}{'&' if '?' in database_url else '?'}{options}"
    store = Store(await open_pool(dsn, pool_size=1))
    await migrate.upgrade(dsn)
    assert await migrate.is_current(store, migrate.head())
    await store.close()


async def test_an_address_nobody_answers_at_is_transient(tmp_path: Path):
    with pytest.raises(OSError) as raised:
        await open_pool(f"postgresql://postgres@/postgres?host={tmp_path}", pool_size=1)
    assert classify(raised.value) is Fault.TRANSIENT


@pytest.mark.timeout(120)
async def test_a_restart_of_postgres_needs_no_restart_of_the_pool(tmp_path: Path):
    first = await start_embedded(tmp_path)
    pool = await open_pool(first.url, pool_size=3)
    store = Store(pool)
    together = asyncio.Barrier(3)

    async def hold():
        async with store.transaction() as tx:
            await together.wait()
            return await pid_of(tx)

    before = set(await asyncio.gather(hold(), hold(), hold()))
    await first.stop()

    with pytest.raises((OSError, asyncpg.PostgresError, asyncpg.InterfaceError)) as raised:
        await hold()
    assert classify(raised.value) is Fault.TRANSIENT

    second = await start_embedded(tmp_path)
    assert second.url == first.url

    async def back():
        try:
            async with store.transaction() as tx:
                return await pid_of(tx)
        except Exception as error:
            if classify(error) is not Fault.TRANSIENT:
                raise
            return None

    await until(back)
    after = set(await asyncio.gather(hold(), hold(), hold()))
    assert len(after) == 3
    assert not after & before
    await store.close()
    await second.stop()
