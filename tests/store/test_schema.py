"""The tables keep what the code relies on: every CHECK, every unique index, every cascade, tried against a migrated database."""

import asyncio
import sys

import asyncpg
import pytest
from alembic import command
from alembic.config import Config

from app.domain.call_state import CallKind, CallState, Outcome
from app.domain.run_state import LIVE, SETTLED, RunState
from app.store import calls, history, migrate, runs
from app.store.engine import sqlalchemy_engine
from app.store.faults import Fault, classify
from app.store.frames import Frame, insert_committed
from app.store.schema import metadata
from app.store.transaction import Store
from tests.store.make import USER, a_call, a_child, a_run, a_session

# What Postgres says a database consists of: names, types, defaults, constraints and indexes with their predicates.
CATALOG = """
    select table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable || ' ' || coalesce(column_default, '')
    from information_schema.columns where table_schema = 'public' and table_name <> 'alembic_version'
    union all
    select conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) from pg_constraint
    where connamespace = 'public'::regnamespace and conrelid::regclass::text <> 'alembic_version'
    union all
    select indexdef from pg_indexes where schemaname = 'public' and tablename <> 'alembic_version'
    order by 1
"""


async def catalog(url: str) -> list[str]:
    connection = await asyncpg.connect(url)
    try:
        return [row[0] for row in await connection.fetch(CATALOG)]
    finally:
        await connection.close()


def config(url: str) -> Config:
    made = Config(toml_file=migrate.ROOT / "pyproject.toml")
    made.attributes["url"] = url
    return made


def test_migrations_make_the_declared_tables_down_to_the_predicates(database_url, empty_database_url):
    async def declare() -> None:
        engine = sqlalchemy_engine(empty_database_url)
        async with engine.begin() as connection:
            await connection.run_sync(metadata.create_all)
        await engine.dispose()

    asyncio.run(declare())
    migrated = asyncio.run(catalog(database_url))
    assert migrated == asyncio.run(catalog(empty_database_url))
    assert len(migrated) > 80


def test_up_down_and_up_again(database_url, empty_database_url):
    there = asyncio.run(catalog(database_url))
    for step, expected in (("upgrade", there), ("downgrade", []), ("upgrade", there)):
        getattr(command, step)(config(empty_database_url), {"upgrade": "head", "downgrade": "base"}[step])
        assert asyncio.run(catalog(empty_database_url)) == expected


@pytest.mark.timeout(60)
async def test_any_number_of_processes_migrate_at_once(empty_database_url, database_url):
    script = "import asyncio, sys; from app.store.migrate import upgrade; asyncio.run(upgrade(sys.argv[1]))"

    async def process() -> int:
        started = await asyncio.create_subprocess_exec(
            sys.executable, "-c", script, empty_database_url, cwd=migrate.ROOT
        )
        return await started.wait()

    assert await asyncio.gather(*(process() for _ in range(2))) == [0, 0]
    assert await catalog(empty_database_url) == await catalog(database_url)


def test_a_newer_release_s_schema_is_left_as_it_is(empty_database_url):
    async def now_newer() -> None:
        connection = await asyncpg.connect(empty_database_url)
        await connection.execute("alter table run add column later text")
        await connection.execute("update alembic_version set version_num = 'from the future'")
        await connection.close()

    asyncio.run(migrate.upgrade(empty_database_url))
    asyncio.run(now_newer())
    newer = asyncio.run(catalog(empty_database_url))
    asyncio.run(migrate.upgrade(empty_database_url))
    assert asyncio.run(catalog(empty_database_url)) == newer


async def test_current_means_at_the_head_or_at_a_newer_release_s(store: Store, bare):
    assert await migrate.is_current(store, migrate.head())
    await bare.execute("update alembic_version set version_num = 'from the future'")
    assert await migrate.is_current(store, migrate.head())
    await bare.execute("update alembic_version set version_num = $1", migrate.head())
    assert not await migrate.is_current(store, "a head that is not there yet")
    await bare.execute("delete from alembic_version")
    assert not await migrate.is_current(store, migrate.head())


RUN = "update run set "
CALL = "update call set "
VIOLATIONS = [
    (RUN + "lease_until = null, state = 'asleep'", "run_state_check"),
    (RUN + "settled_at = now()", "run_settled_at_is_of_settled_states_check"),
    (RUN + "state = 'suspended', lease_until = now()", "run_only_a_running_run_has_a_lease_check"),
    (RUN + "parent_run = gen_random_uuid()", "run_a_root_has_no_parent_check"),
    (RUN + "root_run = gen_random_uuid()", "run_a_root_has_no_parent_check"),
    ("update message set role = 'system'", "message_role_check"),
    ("update history set role = 'system'", "history_role_check"),
    (CALL + "kind = 'magic'", "call_kind_check"),
    (CALL + "state = 'lost'", "call_state_check"),
    (CALL + "state = 'settled', outcome = 'maybe'", "call_outcome_check"),
    (CALL + "state = 'settled'", "call_a_settled_call_has_an_outcome_check"),
    (CALL + "outcome = 'ok'", "call_a_settled_call_has_an_outcome_check"),
    (CALL + "approval_id = 'a'", "call_an_approval_has_its_id_check"),
    (CALL + "kind = 'approval'", "call_an_approval_has_its_id_check"),
    (CALL + "state = 'answered'", "call_an_answered_call_has_its_answer_check"),
] + [
    (RUN + f"lease_until = null, state = '{state}'", "run_settled_at_is_of_settled_states_check")
    for state in sorted(SETTLED)
]  # fmt: skip


@pytest.mark.parametrize(("statement", "constraint"), VIOLATIONS, ids=[sql for sql, _ in VIOLATIONS])
async def test_what_must_not_be_is_refused_by_name(store: Store, bare, statement, constraint):
    async with store.transaction() as tx:
        session = await a_session(tx)
        run = await a_run(tx, session)
        await history.append(tx, session.id, run.id, 0, [USER], child=False)
        await calls.insert(tx, session.id, [a_call(run)])
    with pytest.raises(asyncpg.CheckViolationError) as raised:
        await bare.execute(statement)
    assert raised.value.constraint_name == constraint
    assert classify(raised.value) is Fault.PERMANENT


@pytest.mark.parametrize(
    ("column", "members"), [("kind", CallKind), ("state", CallState), ("outcome", Outcome)]
)
async def test_every_member_of_an_enum_is_allowed(store: Store, bare, column, members):
    async with store.transaction() as tx:
        session = await a_session(tx)
        run = await a_run(tx, session)
        await calls.insert(tx, session.id, [a_call(run)])
    for member in members:
        value = {"kind": "server", "state": "pending", "outcome": None} | {column: str(member)}
        if column == "outcome":
            value["state"] = "settled"
        elif value["state"] == "settled":
            value["outcome"] = "ok"
        await bare.execute(
            "update call set kind = $1, state = $2, outcome = $3, answered_at = now(), approval_id = $4",
            value["kind"],
            value["state"],
            value["outcome"],
            "a" if value["kind"] == "approval" else None,
        )


@pytest.mark.parametrize("state", sorted(LIVE))
async def test_one_live_root_run_per_session(store: Store, bare, state):
    async with store.transaction() as tx:
        session = await a_session(tx)
        first = await a_run(tx, session)
        await a_child(tx, first)  # a child is no root
        if state is RunState.SUSPENDED:
            await runs.suspend_tree(tx, first.id)

    async def second():
        async with store.transaction() as tx:
            return await a_run(tx, session, message=False)

    with pytest.raises(asyncpg.UniqueViolationError) as raised:
        await second()
    assert raised.value.constraint_name == "one_live_root_run_per_session"
    assert classify(raised.value) is Fault.CONFLICT
    async with store.transaction() as tx:
        await runs.settle(tx, [first.id], RunState.SUPERSEDED)
        await a_run(tx, session)


async def test_of_many_root_runs_inserted_at_once_one_lives(store: Store, bare):
    async with store.transaction() as tx:
        session = await a_session(tx)

    async def begin():
        async with store.transaction() as tx:
            return await a_run(tx, session, message=False)

    results = await asyncio.gather(*(begin() for _ in range(12)), return_exceptions=True)
    lost = [r for r in results if isinstance(r, BaseException)]
    assert len(lost) == 11
    assert {classify(error) for error in lost} == {Fault.CONFLICT}
    assert await bare.fetchval("select count(*) from run") == 1


async def test_a_cut_message_s_id_is_free_again(store: Store, bare):
    insert = "insert into message (session_id, position, id, role, parts) values ($1, $2, 'm', 'user', '[]')"
    async with store.transaction() as tx:
        session = await a_session(tx)
        await tx.execute(insert, session.id, 1)
    with pytest.raises(asyncpg.UniqueViolationError) as raised:
        await bare.execute(insert, session.id, 2)
    assert raised.value.constraint_name == "one_uncut_message_per_id"
    await bare.execute("update message set cut_at = now()")
    await bare.execute(insert, session.id, 2)


async def test_a_deleted_session_takes_everything_of_it_along(store: Store, bare):
    async with store.transaction() as tx:
        for _ in range(2):
            session = await a_session(tx)
            run = await a_run(tx, session)
            await a_child(tx, run)
            await history.append(tx, session.id, run.id, 0, [USER], child=False)
            await calls.insert(tx, session.id, [a_call(run), a_call(run, "c2", CallKind.SERVER)])
            await insert_committed(tx, run.id, [Frame.of(1, 1, {"type": "start-step"})])
    await bare.execute("delete from session where id = $1", session.id)
    for table, left in (("session", 1), ("run", 2), ("message", 1), ("history", 1), ("call", 2)):
        assert await bare.fetchval(f"select count(*) from {table}") == left
    assert (
        await bare.fetchval("select count(*) from frame") == 2
    )  # the log keeps no reference: their own sweep finds them
