"""Session rows: one owner's chat, its lock, its order and its list."""

import asyncio
from uuid import uuid4

import pytest

from app.store import sessions
from app.store.transaction import Store
from tests.store.make import a_run, a_session, waits_for_a_lock


async def test_a_session_is_its_owner_s(store: Store):
    async with store.transaction() as tx:
        ada = await a_session(tx, "ada", "chat")
        bob = await a_session(tx, "bob", "chat")
        assert ada.id != bob.id
        assert await sessions.get(tx, "ada", "chat") == ada
        assert await sessions.lock(tx, "bob", "chat") == bob
        assert await sessions.get(tx, "eve", "chat") is None
        assert await sessions.lock_by_id(tx, uuid4()) is None
        assert (ada.owner, ada.chat_id, ada.agent, ada.cut_run) == ("ada", "chat", "demo", None)
        assert ada.created_at.tzinfo is not None


async def test_created_once_by_whoever_is_first(store: Store):
    async def create() -> bool:
        async with store.transaction() as tx:
            return await sessions.create(tx, uuid4(), "ada", "chat", "demo")

    assert sorted(await asyncio.gather(*(create() for _ in range(20)))) == [False] * 19 + [True]


async def test_positions_are_taken_once_and_in_a_row(store: Store):
    async with store.transaction() as tx:
        session = await a_session(tx)

    async def take(count: int) -> range:
        async with store.transaction() as tx:
            first = await sessions.take_positions(tx, session.id, count)
            return range(first, first + count)

    taken = [
        position for each in await asyncio.gather(*(take(n) for n in (1, 2, 3, 4, 5))) for position in each
    ]
    assert sorted(taken) == list(range(1, 16))
    with pytest.raises(LookupError):
        async with store.transaction() as tx:
            await sessions.take_positions(tx, uuid4(), 1)


async def test_taking_positions_is_a_change_of_the_session(store: Store):
    async with store.transaction() as tx:
        session = await a_session(tx)
    async with store.transaction() as tx:
        await sessions.take_positions(tx, session.id, 1)
        changed = await sessions.lock_by_id(tx, session.id)
        assert changed is not None
        assert changed.updated_at > session.updated_at


async def test_the_lock_is_held_until_the_end_and_what_was_committed_is_seen_then(store: Store, bare):
    """The lock order begins here: whoever decides about a session waits for whoever is deciding."""
    async with store.transaction() as tx:
        session = await a_session(tx)
    decided = []

    async def decide() -> None:
        async with store.transaction() as tx:
            await sessions.lock_by_id(tx, session.id)
            run = await a_run(tx, session)
            decided.append(run.id)

    async with bare.transaction():
        await sessions.lock(bare, session.owner, session.chat_id)
        task = asyncio.create_task(decide())
        await waits_for_a_lock(bare)
        assert not decided
        await sessions.mark_cut(bare, session.id, session.id)
    await task
    async with store.transaction() as tx:
        found = await sessions.lock_by_id(tx, session.id)
    assert decided
    assert found is not None
    assert found.cut_run == session.id


async def test_a_reader_does_not_wait_for_the_lock(store: Store, bare):
    async with store.transaction() as tx:
        session = await a_session(tx)
    async with bare.transaction():
        await sessions.lock_by_id(bare, session.id)
        async with store.transaction() as tx:
            assert await sessions.get(tx, session.owner, session.chat_id) == session


async def test_the_cut_mark(store: Store):
    async with store.transaction() as tx:
        session = await a_session(tx)
        for mark in (uuid4(), None):
            await sessions.mark_cut(tx, session.id, mark)
            found = await sessions.lock_by_id(tx, session.id)
            assert found is not None
            assert found.cut_run == mark


async def test_pages_go_from_the_newest_change_back_and_miss_none_of_equal_times(store: Store, bare):
    async with store.transaction() as tx:  # one moment: their ids alone tell them apart
        made = [await a_session(tx) for _ in range(5)]
        await a_session(tx, "bob")
    await bare.execute(
        "update session set updated_at = updated_at + interval '1 s' where id = $1", made[2].id
    )
    seen, before = [], None
    async with store.transaction() as tx:
        while page := await sessions.page(tx, "ada", before=before, limit=2):
            seen += page
            before = (page[-1].updated_at, page[-1].id)
    assert [s.id for s in seen] == [
        made[2].id,
        *sorted((s.id for s in made if s.id != made[2].id), reverse=True),
    ]


async def test_idle_sessions_are_told_by_the_database_s_clock(store: Store, bare):
    async with store.transaction() as tx:
        old, older, young = [await a_session(tx) for _ in range(3)]
    for session, age in ((old, 100), (older, 200), (young, 1)):
        await bare.execute(
            "update session set updated_at = now() - make_interval(secs => $2) where id = $1", session.id, age
        )
    async with store.transaction() as tx:
        assert await sessions.idle_since(tx, 50, limit=10) == [older.id, old.id]
        assert await sessions.idle_since(tx, 50, limit=1) == [older.id]
        assert await sessions.is_idle(tx, old.id, 50)
        assert not await sessions.is_idle(tx, young.id, 50)
        assert not await sessions.is_idle(tx, uuid4(), 50)


async def test_deletion(store: Store):
    async with store.transaction() as tx:
        session = await a_session(tx)
        await a_run(tx, session)
        await sessions.delete(tx, session.id)
        assert await sessions.lock_by_id(tx, session.id) is None
