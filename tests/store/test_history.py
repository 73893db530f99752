"""History rows: in order, a root's and a child's apart, cut by a rewind, and read back to the letter."""

import asyncio
from uuid import uuid4

import pytest

from app.domain.history import assistant_entry, tool_entry, user_entry
from app.store import history, sessions
from app.store.faults import CorruptRow, Fault, classify
from app.store.transaction import Store
from tests.store.make import USER, a_child, a_tree

STRANGE = user_entry(
    [{"type": "text", "text": "a\x00b"}, {"type": "text", "text": r"\u0000 \ud83d", "deep": [[[]]]}]
)
SAID = assistant_entry([{"type": "text", "text": "é 𝄞"}], {"version": 1, "dump": [[1], [2]]})
DONE = tool_entry([])


async def test_entries_come_back_in_order_and_to_the_letter(store: Store, bare):
    session, run = await a_tree(store)
    async with store.transaction() as tx:
        await history.append(tx, session.id, run.id, 0, [USER], child=False)
        await history.append(tx, session.id, run.id, 1, [STRANGE, SAID, DONE], child=False)
        await history.append(tx, session.id, run.id, 1, [], child=False)
        assert await history.of_session(tx, session.id) == [USER, STRANGE, SAID, DONE]
        assert await history.last_of_session(tx, session.id) == DONE
        assert await history.of_session(tx, uuid4()) == []
        assert await history.last_of_session(tx, uuid4()) is None
    rows = await bare.fetch("select role, step, run_id, position from history order by position")
    assert [tuple(row)[:3] for row in rows] == [
        ("user", 0, run.id),
        ("user", 1, run.id),
        ("assistant", 1, run.id),
        ("tool", 1, run.id),
    ]
    positions = [row["position"] for row in rows]
    assert positions == list(range(positions[0], positions[0] + 4))


async def test_the_session_s_order_is_shared_with_its_messages(store: Store):
    session, run = await a_tree(store)
    async with store.transaction() as tx:
        before = await sessions.take_positions(tx, session.id, 1)
        await history.append(tx, session.id, run.id, 0, [USER, USER], child=False)
        assert await sessions.take_positions(tx, session.id, 1) == before + 3


async def test_appends_at_once_take_different_positions(store: Store):
    session, run = await a_tree(store)

    async def append(step: int) -> None:
        async with store.transaction() as tx:
            await history.append(tx, session.id, run.id, step, [USER] * 3, child=False)

    await asyncio.gather(*(append(step) for step in range(8)))
    async with store.transaction() as tx:
        assert len(await history.of_session(tx, session.id)) == 24


async def test_a_child_s_history_is_its_own(store: Store):
    session, run = await a_tree(store)
    async with store.transaction() as tx:
        child = await a_child(tx, run)
        await history.append(tx, session.id, run.id, 0, [USER], child=False)
        await history.append(tx, session.id, child.id, 0, [STRANGE], child=True)
        await history.append(tx, session.id, child.id, 1, [SAID], child=True)
        assert await history.of_session(tx, session.id) == [USER]
        assert await history.last_of_session(tx, session.id) == USER
        assert await history.of_child(tx, child.id) == [STRANGE, SAID]
        assert await history.of_child(tx, uuid4()) == []


async def test_a_rewind_takes_what_came_after_out_of_the_model_s_sight(store: Store, bare):
    session, run = await a_tree(store)
    async with store.transaction() as tx:
        await history.append(tx, session.id, run.id, 0, [USER, SAID], child=False)
        first = await tx.fetchval("select min(position) from history")
        await history.cut_after(tx, session.id, first)
        assert await history.of_session(tx, session.id) == [USER]
        assert await history.last_of_session(tx, session.id) == USER
        await history.append(tx, session.id, run.id, 1, [DONE], child=False)
        assert await history.of_session(tx, session.id) == [USER, DONE]
    assert await bare.fetchval("select count(*) from history") == 3


async def test_nothing_is_appended_to_a_session_that_is_not_there(store: Store):
    _, run = await a_tree(store)
    async with store.transaction() as tx:
        with pytest.raises(LookupError):
            await history.append(tx, uuid4(), run.id, 0, [USER], child=False)


@pytest.mark.parametrize(
    "body", ["[]", "null", '{"role": "user"}', '{"v": 99, "role": "user"}', '{"v": 1}', r'"\ud800"']
)
async def test_an_entry_that_cannot_be_read_is_permanent(store: Store, bare, body):
    session, run = await a_tree(store)
    async with store.transaction() as tx:
        child = await a_child(tx, run)
        await history.append(tx, session.id, run.id, 0, [USER], child=False)
        await history.append(tx, session.id, child.id, 0, [USER], child=True)
    await bare.execute(f"update history set body = '{body}'")
    for read in (
        lambda tx: history.of_session(tx, session.id),
        lambda tx: history.last_of_session(tx, session.id),
        lambda tx: history.of_child(tx, child.id),
    ):
        async with store.transaction() as tx:
            with pytest.raises(CorruptRow) as raised:
                await read(tx)
        assert classify(raised.value) is Fault.PERMANENT
