"""Message rows: what a user sees, what is cut out of sight, and the message that belongs to its watermark."""

from uuid import uuid4

import pytest

from app.store import messages, runs, sessions
from app.store.faults import CorruptRow, Fault, classify
from app.store.messages import Message
from app.store.sessions import Session
from app.store.transaction import Store, Tx
from tests.store.make import a_run, a_session, a_tree

TEXT = {"type": "text", "text": "hello"}


async def write(tx: Tx, session: Session, *ids: str, run_id=None) -> list[int]:
    """User messages at the next positions."""
    positions = []
    for message_id in ids:
        position = await sessions.take_positions(tx, session.id, 1)
        await messages.insert(
            tx,
            session.id,
            position,
            message_id=message_id,
            role="user",
            run_id=run_id or uuid4(),
            parts=[TEXT],
        )
        positions.append(position)
    return positions


def ids(found: list[Message]) -> list[str]:
    return [message.id for message in found]


async def test_a_message_comes_back_as_it_was_inserted(store: Store):
    parts = [{"type": "text", "text": "a\x00b"}, {"type": "data-x", "data": [[r"\u0000"], {}]}]
    async with store.transaction() as tx:
        session, run_id = await a_session(tx), uuid4()
        await messages.insert(
            tx,
            session.id,
            7,
            message_id="m",
            role="user",
            run_id=run_id,
            parts=tuple(parts),
            metadata={"a": [1]},
        )
        assert await messages.get(tx, session.id, "m") == Message(7, "m", "user", run_id, parts, {"a": [1]})
        assert await messages.get(tx, session.id, "n") is None
        assert await messages.get(tx, uuid4(), "m") is None


async def test_pages_go_backwards_and_read_forwards(store: Store):
    async with store.transaction() as tx:
        session = await a_session(tx)
        positions = await write(tx, session, "a", "b", "c", "d")
        await write(tx, await a_session(tx), "another's")
        assert ids(await messages.page(tx, session.id, before=None, limit=None)) == ["a", "b", "c", "d"]
        assert ids(await messages.page(tx, session.id, before=None, limit=2)) == ["c", "d"]
        assert ids(await messages.page(tx, session.id, before=positions[2], limit=9)) == ["a", "b"]
        assert await messages.page(tx, session.id, before=positions[0], limit=9) == []


async def test_cut_messages_are_out_of_every_view_but_stay(store: Store, bare):
    async with store.transaction() as tx:
        session = await a_session(tx)
        positions = await write(tx, session, "a", "b")
        run = await a_run(tx, session)
        await messages.cut_after(tx, session.id, positions[0])
        assert ids(await messages.page(tx, session.id, before=None, limit=None)) == ["a"]
        assert await messages.get(tx, session.id, "b") is None
        assert (await messages.of_run(tx, run.id)) is not None  # a late answer to it is stale, not a mystery
    cut = await bare.fetchval("select cut_at from message where id = 'b'")
    async with store.transaction() as tx:
        await messages.cut_after(tx, session.id, positions[0])
        await write(tx, session, "b")
        found = await messages.get(tx, session.id, "b")
        assert found is not None
        assert found.position > positions[1]
    assert await bare.fetchval("select cut_at from message where id = 'b' and cut_at is not null") == cut


async def test_which_run_wrote_a_message(store: Store):
    async with store.transaction() as tx:
        session = await a_session(tx)
        old, new = uuid4(), uuid4()
        await messages.insert(tx, session.id, 1, message_id="m", role="assistant", run_id=old, parts=[])
        assert await messages.runs_of(tx, session.id, ["m", "unknown"]) == {"m": old}
        await messages.cut_after(tx, session.id, 0)
        assert await messages.runs_of(tx, session.id, ["m"]) == {"m": old}
        await messages.insert(tx, session.id, 2, message_id="m", role="assistant", run_id=new, parts=[])
        assert await messages.runs_of(tx, session.id, ["m"]) == {"m": new}
        await messages.insert(tx, session.id, 3, message_id="u", role="user", run_id=new, parts=[])
        assert await messages.runs_of(tx, session.id, ["u"]) == {}
        assert await messages.runs_of(tx, session.id, []) == {}
        assert await messages.runs_of(tx, uuid4(), ["m"]) == {}


async def test_writing_touches_the_run_s_assistant_message_alone(store: Store):
    async with store.transaction() as tx:
        session = await a_session(tx)
        run = await a_run(tx, session)
        await write(tx, session, "u1", run_id=run.id)
        await messages.write(tx, run.id, (TEXT,), {})
        written = await messages.of_run(tx, run.id)
        assert written is not None
        assert (written.parts, written.metadata) == ([TEXT], None)
        await messages.write(tx, run.id, [], {"cost": 1})
        written = await messages.of_run(tx, run.id)
        assert written is not None
        assert (written.parts, written.metadata) == ([], {"cost": 1})
        user = await messages.get(tx, session.id, "u1")
        assert user is not None
        assert user.parts == [TEXT]


async def test_a_user_message_begins_another_run(store: Store):
    async with store.transaction() as tx:
        session, again = await a_session(tx), uuid4()
        [position] = await write(tx, session, "u1")
        await messages.begin_again(tx, session.id, position, run_id=again, parts=[TEXT, TEXT])
        found = await messages.get(tx, session.id, "u1")
        assert found is not None
        assert (found.run_id, found.parts) == (again, [TEXT, TEXT])


async def test_a_message_and_its_watermark_are_read_together(store: Store):
    _, run = await a_tree(store)
    async with store.transaction() as tx:
        await messages.write(tx, run.id, [TEXT], None)
        await runs.advance(tx, run.id, frame_seq=4, step_open=True)
        found = await messages.with_run(tx, run.id)
        assert found is not None
        message, row = found
        assert (message.parts, row.frame_seq, row.step_open) == ([TEXT], 4, True)
        assert row == await runs.get(tx, run.id)
        assert message == await messages.of_run(tx, run.id)
        assert await messages.with_run(tx, uuid4()) is None


async def test_the_size_of_a_message_is_that_of_its_stored_text(store: Store):
    _, run = await a_tree(store)
    async with store.transaction() as tx:
        assert await messages.size(tx, run.id) == len("[]")
        await messages.write(tx, run.id, [{"type": "text", "text": "é\x00"}], None)
        stored = r'[{"type":"text","text":"é\u0000"}]'
        assert await messages.size(tx, run.id) == len(stored.encode())
        assert await messages.size(tx, uuid4()) == 0


@pytest.mark.parametrize("parts", ["{}", "null", "[1]", '[{"no": "type"}]', r'[{"type": "\ud800"}]'])
async def test_parts_that_cannot_be_read_are_permanent(store: Store, bare, parts):
    session, run = await a_tree(store)
    await bare.execute(f"update message set parts = '{parts}'")
    for read in (
        lambda tx: messages.of_run(tx, run.id),
        lambda tx: messages.get(tx, session.id, str(run.id)),
        lambda tx: messages.page(tx, session.id, before=None, limit=None),
        lambda tx: messages.with_run(tx, run.id),
    ):
        async with store.transaction() as tx:
            with pytest.raises(CorruptRow) as raised:
                await read(tx)
        assert classify(raised.value) is Fault.PERMANENT
