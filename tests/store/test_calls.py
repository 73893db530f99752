"""Call rows: an answer is stored once, a result is given once, and a tombstone is kept as long as it must."""

import asyncio
from uuid import uuid4

import asyncpg
import pytest

from app.domain.call_state import CallEvent, CallKind, CallState, Outcome, leaves
from app.domain.run_state import RunState
from app.store import calls, runs, sessions
from app.store.calls import Call
from app.store.faults import CorruptRow, Fault, classify
from app.store.transaction import Store
from tests.store.make import a_call, a_child, a_tree, waits_for_a_lock

C, A, S, SUB = CallKind.CLIENT, CallKind.APPROVAL, CallKind.SERVER, CallKind.SUBAGENT


async def get(store: Store, session_id, call_id: str = "c1") -> Call:
    async with store.transaction() as tx:
        found = await calls.get(tx, session_id, call_id)
    assert found is not None
    return found


async def put_in(bare, call_id: str, state: CallState) -> None:
    """The call's row as it would be in that state, whatever it was before."""
    await bare.execute(
        "update call set state = $2, answered_at = now(), outcome = case when $2 = 'settled' then 'ok' end where call_id = $1",
        call_id,
        str(state),
    )


async def test_a_call_comes_back_as_it_was_inserted(store: Store):
    session, run = await a_tree(store)
    made = [
        a_call(
            run,
            "full",
            A,
            step=2,
            ordinal=1,
            batch=3,
            tool="pay",
            input={"nul": "a\x00b", "literal": r"\ud800"},
            output_schema={"type": "object"},
            deadline_s=1.5,
        ),
        a_call(run, "list", S, ordinal=2, input=[1, [2, [3]]], child_run=uuid4()),
        a_call(run, "other list", S, ordinal=3, input=[]),
        a_call(run, "text", SUB, ordinal=4, input="just a string"),
        a_call(
            run,
            "refused",
            S,
            ordinal=5,
            state=CallState.SETTLED,
            outcome=Outcome.ERROR,
            value=["no"],
            error_code="x",
        ),
    ]
    async with store.transaction() as tx:
        await calls.insert(tx, session.id, made)
        await calls.insert(tx, session.id, [])
        found = await calls.of_tree(tx, run.id)
    assert sorted(found, key=lambda call: call.ordinal) == made
    assert [type(call.outcome) for call in found if call.outcome] == [Outcome]


async def test_the_calls_of_a_tree_are_in_the_order_they_were_made(store: Store):
    session, run = await a_tree(store)
    async with store.transaction() as tx:
        child = await a_child(tx, run)
        await calls.insert(tx, session.id, [a_call(run, "b", ordinal=1), a_call(run, "a", ordinal=0)])
    async with store.transaction() as tx:
        await calls.insert(tx, session.id, [a_call(run, "of the child", run_id=child.id)])
        assert [call.call_id for call in await calls.of_tree(tx, run.id)] == ["a", "b", "of the child"]
        assert await calls.known_ids(tx, session.id) == {"a", "b", "of the child"}
        assert await calls.known_ids(tx, uuid4()) == set()
        assert await calls.get(tx, session.id, "z") is None
        assert await calls.get(tx, uuid4(), "a") is None


async def test_only_a_settled_call_has_its_time_when_it_is_inserted(store: Store, bare):
    session, run = await a_tree(store)
    async with store.transaction() as tx:
        settled = a_call(run, "refused", S, state=CallState.SETTLED, outcome=Outcome.ERROR)
        await calls.insert(tx, session.id, [a_call(run), settled])
    assert await bare.fetchval("select array_agg(call_id) from call where settled_at is not null") == [
        "refused"
    ]


@pytest.mark.parametrize("state", CallState)
async def test_an_answer_is_stored_only_for_a_pending_call(store: Store, bare, state: CallState):
    session, _ = await a_tree(store, ("c1", C))
    await put_in(bare, "c1", state)
    async with store.transaction() as tx:
        stored = await calls.answer(tx, session.id, "c1", {"output": ["a\x00b"]}, error_code="late")
    assert stored is (state in leaves(CallEvent.ANSWER)) is (state is CallState.PENDING)
    found = await get(store, session.id)
    if stored:
        assert (found.state, found.answer, found.error_code) == (
            CallState.ANSWERED,
            {"output": ["a\x00b"]},
            "late",
        )
        assert await bare.fetchval("select answered_at is not null from call")
    else:
        assert (found.state, found.answer, found.error_code) == (state, None, None)


async def test_of_twenty_answers_at_once_exactly_one_is_stored(store: Store):
    session, _ = await a_tree(store, ("c1", C))

    async def answer(number: int) -> int | None:
        async with store.transaction() as tx:
            await sessions.lock_by_id(tx, session.id)
            return number if await calls.answer(tx, session.id, "c1", {"output": number}) else None

    stored = [n for n in await asyncio.gather(*(answer(n) for n in range(20))) if n is not None]
    assert len(stored) == 1
    assert (await get(store, session.id)).answer == {"output": stored[0]}


async def test_even_without_the_session_s_lock_exactly_one_is_stored(store: Store):
    session, _ = await a_tree(store, ("c1", C))

    async def answer(number: int) -> bool:
        async with store.transaction() as tx:
            return await calls.answer(tx, session.id, "c1", {"output": number})

    assert sum(await asyncio.gather(*(answer(n) for n in range(20)))) == 1


async def test_an_answer_waits_for_who_decides_about_the_session(store: Store, bare):
    """Session first, then calls: an answer and a stop never both win."""
    session, _ = await a_tree(store, ("c1", C))

    async def answer() -> bool:
        async with store.transaction() as tx:
            await sessions.lock_by_id(tx, session.id)
            return await calls.answer(tx, session.id, "c1", {"output": 1})

    async with bare.transaction():
        await sessions.lock_by_id(bare, session.id)
        task = asyncio.create_task(answer())
        await waits_for_a_lock(bare)
        assert await calls.settle(bare, session.id, "c1", Outcome.STOPPED, None, "run_stopped")
    assert await task is False
    assert (await get(store, session.id)).outcome is Outcome.STOPPED


@pytest.mark.parametrize("state", CallState)
async def test_a_call_begins_only_from_where_it_may(store: Store, bare, state: CallState):
    session, _ = await a_tree(store, ("c1", S), ("untouched", S))
    await put_in(bare, "c1", state)
    async with store.transaction() as tx:
        await calls.begin(tx, session.id, ["c1"])
        await calls.begin(tx, session.id, [])
    expected = CallState.STARTED if state in leaves(CallEvent.BEGIN) else state
    assert (await get(store, session.id)).state is expected
    assert (await get(store, session.id, "untouched")).state is CallState.READY


@pytest.mark.parametrize("state", CallState)
@pytest.mark.parametrize("kind", CallKind)
async def test_only_a_begun_server_call_may_ask(store: Store, bare, kind: CallKind, state: CallState):
    session, run = await a_tree(store, ("c1", kind), ("untouched", S))
    await put_in(bare, "c1", state)
    before = await get(store, session.id)
    async with store.transaction() as tx:
        asked = await calls.ask(tx, session.id, "c1", A, "asked")
    assert asked is (kind is S and state is CallState.STARTED)
    found = await get(store, session.id)
    if asked:
        assert (found.kind, found.state, found.approval_id) == (A, CallState.PENDING, "asked")
        async with store.transaction() as tx:
            assert await calls.pending(tx, run.id) == 1
            assert await calls.answerable_of_batch(tx, run.id, 1) == ["c1"]
            assert not await calls.ask(tx, session.id, "c1", C, None)
    else:
        assert found == before
    assert (await get(store, session.id, "untouched")).kind is S


async def test_a_call_whose_output_comes_from_elsewhere_is_a_clients(store: Store, bare):
    session, _ = await a_tree(store, ("c1", S))
    await put_in(bare, "c1", CallState.STARTED)
    async with store.transaction() as tx:
        assert await calls.ask(tx, session.id, "c1", C, None)
        assert await calls.answer(tx, session.id, "c1", {"output": 1})
    assert (await get(store, session.id)).kind is C


@pytest.mark.parametrize("state", CallState)
async def test_a_call_gets_one_result(store: Store, bare, state: CallState):
    session, _ = await a_tree(store, ("c1", S))
    await put_in(bare, "c1", state)
    async with store.transaction() as tx:
        first = await calls.settle(tx, session.id, "c1", Outcome.OK, ["a", ["b"]], None)
        second = await calls.settle(tx, session.id, "c1", Outcome.ERROR, "late", "x")
    assert (first, second) == (state is not CallState.SETTLED, False)
    if first:
        found = await get(store, session.id)
        assert (found.state, found.outcome, found.value) == (CallState.SETTLED, Outcome.OK, ["a", ["b"]])
        assert await bare.fetchval("select settled_at is not null from call")


@pytest.mark.parametrize("value", [None, False, 0, "", [], {}, "a\x00b", r"\u0000", [None], 1.5])
async def test_a_result_comes_back(store: Store, value):
    session, _ = await a_tree(store, ("c1", S))
    async with store.transaction() as tx:
        await calls.settle(tx, session.id, "c1", Outcome.OK, value, None)
    assert (await get(store, session.id)).value == value


async def test_drained_is_a_mark_beside_the_state(store: Store):
    session, _ = await a_tree(store, ("c1", C), ("c2", C))
    async with store.transaction() as tx:
        await calls.drain(tx, session.id, ["c1"])
        await calls.drain(tx, session.id, [])
    assert (await get(store, session.id)).drained
    assert (await get(store, session.id)).state is CallState.PENDING
    assert not (await get(store, session.id, "c2")).drained


async def test_what_waits_for_a_person(store: Store):
    session, run = await a_tree(store, ("server", S), ("approval", A), ("client", C), ("agent", SUB))
    async with store.transaction() as tx:
        await calls.insert(tx, session.id, [a_call(run, "next", C, batch=2)])
        assert await calls.pending(tx, run.id) == 3
        assert await calls.pending(tx, uuid4()) == 0
        assert await calls.answerable_of_batch(tx, run.id, 1) == ["approval", "client"]
        assert await calls.answerable_of_batch(tx, run.id, 2) == ["next"]
        await calls.answer(tx, session.id, "client", {"output": 1})
        assert await calls.pending(tx, run.id) == 2
        assert await calls.answerable_of_batch(tx, run.id, 1) == ["approval", "client"]


async def test_the_facts_of_a_submit(store: Store):
    session, run = await a_tree(store, ("c1", C), ("a1", A), ("s1", S))
    async with store.transaction() as tx:
        await calls.answer(tx, session.id, "a1", {"approved": True})
        await runs.request_stop(tx, run.id)
        found = await calls.facts(tx, session.id, ["c1", "a1", "unknown", "c1"])
        assert set(found) == {"c1", "a1"}
        client, approval = found["c1"], found["a1"]
        assert (client.kind, client.state, client.answer) == (C, CallState.PENDING, None)
        assert (client.root_run, client.batch, client.drained) == (run.id, 1, False)
        assert (approval.kind, approval.state, approval.answer) == (A, CallState.ANSWERED, {"approved": True})
        assert approval.approval_id == "approval-a1"
        assert client.root_state is RunState.RUNNING
        assert client.stop_requested is True
        assert await calls.facts(tx, uuid4(), ["c1"]) == {}
        assert await calls.facts(tx, session.id, []) == {}


async def test_a_deadline_starts_when_the_tree_suspends_and_once(store: Store, bare):
    session, run = await a_tree(store)
    async with store.transaction() as tx:
        made = [
            a_call(run, "timed", C, deadline_s=60.0),
            a_call(run, "patient", C),
            a_call(run, "s", S, deadline_s=1.0),
        ]
        await calls.insert(tx, session.id, made)
        await calls.start_deadlines(tx, run.id)
    first = await bare.fetch("select call_id, deadline_at from call where deadline_at is not null")
    assert [row[0] for row in first] == ["timed"]
    assert await bare.fetchval(
        "select deadline_at - now() between interval '50 s' and interval '60 s' from call where call_id = 'timed'"
    )
    async with store.transaction() as tx:
        await calls.start_deadlines(tx, run.id)
        assert await calls.overdue(tx, limit=9) == []
    assert await bare.fetch("select call_id, deadline_at from call where deadline_at is not null") == first


async def test_overdue_by_the_database_s_clock_the_longest_first(store: Store, bare):
    session, _ = await a_tree(store, ("a", C), ("b", C), ("c", C))
    await bare.execute("update call set deadline_at = now() - make_interval(secs => ascii(call_id))")
    async with store.transaction() as tx:
        await calls.answer(tx, session.id, "b", {"output": 1})
        assert await calls.overdue(tx, limit=9) == [(session.id, "c"), (session.id, "a")]
        assert await calls.overdue(tx, limit=1) == [(session.id, "c")]


async def test_tombstones_go_when_their_time_is_over_but_never_those_of_a_live_run(store: Store, bare):
    trees = [await a_tree(store, ("old", S), ("young", S), ("open", C)) for _ in range(3)]
    for session, _ in trees:
        async with store.transaction() as tx:
            for call_id in ("old", "young"):
                await calls.settle(tx, session.id, call_id, Outcome.OK, 1, None)
    await bare.execute("update call set settled_at = now() - interval '1 h' where call_id = 'old'")
    (_, done), (_, running), (_, suspended) = trees
    async with store.transaction() as tx:
        await runs.settle(tx, [done.id], RunState.COMPLETED)
        await runs.suspend_tree(tx, suspended.id)
    async with store.transaction() as tx:
        assert await calls.purge_tombstones(tx, 60, limit=9) == 1
        assert await calls.purge_tombstones(tx, 60, limit=9) == 0
        assert [call.call_id for call in await calls.of_tree(tx, done.id)] == ["young", "open"]
        assert len(await calls.of_tree(tx, running.id)) == len(await calls.of_tree(tx, suspended.id)) == 3
        await runs.settle(tx, [running.id, suspended.id], RunState.FAILED)
        assert await calls.purge_tombstones(tx, 60, limit=1) == 1
        assert await calls.purge_tombstones(tx, 60, limit=9) == 1


async def test_two_replicas_purge_at_once_without_waiting(store: Store, bare):
    session, run = await a_tree(store, *((f"c{n}", S) for n in range(6)))
    async with store.transaction() as tx:
        await tx.execute(
            "update call set state = 'settled', outcome = 'ok', settled_at = now() - interval '1 h'"
        )
        await runs.settle(tx, [run.id], RunState.COMPLETED)
    async with bare.transaction():
        assert await calls.purge_tombstones(bare, 60, limit=4) == 4
        async with store.transaction() as tx:
            assert await calls.purge_tombstones(tx, 60, limit=9) == 2
    async with store.transaction() as tx:
        assert await calls.known_ids(tx, session.id) == set()


CORRUPTIONS = {
    "kind": ("call_kind_check", "update call set kind = 'magic'"),
    "state": ("call_state_check", "update call set state = 'lost'"),
    "outcome": ("call_outcome_check", "update call set state = 'settled', outcome = 'maybe'"),
    "answer": ("call_kind_check", "update call set answer = '[1]'"),
    "json": ("call_kind_check", r"""update call set answer = '{"output": "\ud800"}'"""),
}


@pytest.mark.parametrize(("constraint", "statement"), CORRUPTIONS.values(), ids=list(CORRUPTIONS))
async def test_a_row_that_cannot_be_read_is_permanent(store: Store, bare, constraint, statement):
    session, run = await a_tree(store, ("c1", C))
    await bare.execute(f"alter table call drop constraint {constraint}")
    await bare.execute(statement)
    facts_read_it = "outcome" not in statement
    for read in (
        lambda tx: calls.get(tx, session.id, "c1"),
        lambda tx: calls.of_tree(tx, run.id),
        *([lambda tx: calls.facts(tx, session.id, ["c1"])] if facts_read_it else []),
    ):
        async with store.transaction() as tx:
            with pytest.raises(CorruptRow) as raised:
                await read(tx)
        assert classify(raised.value) is Fault.PERMANENT


async def test_a_call_without_its_run_cannot_be(store: Store, bare):
    session, run = await a_tree(store)
    with pytest.raises(asyncpg.ForeignKeyViolationError):
        await calls.insert(bare, session.id, [a_call(run, run_id=uuid4())])
