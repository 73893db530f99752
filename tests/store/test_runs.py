"""Run rows: claims, leases by the database's clock, and transitions that leave only from where they may."""

import asyncio
from uuid import UUID, uuid4

import pytest

from app.domain.run_state import LIVE, SETTLED, RunEvent, RunState, leaves
from app.store import frames, runs, sessions
from app.store.faults import CorruptRow, Fault, LeaseLost, classify
from app.store.frames import Frame
from app.store.runs import Run
from app.store.transaction import Store, Tx
from tests.store.make import LEASE_S, a_child, a_run, a_session, a_tree, the_run, waits_for_a_lock


async def put_in(tx: Tx, run: Run, state: RunState) -> None:
    """The run's row as it would be in that state, whatever it was before."""
    await tx.execute(
        "update run set state = $2, lease_owner = null, lease_until = null, settled_at = case when $3 then now() end where id = $1",
        run.id,
        state,
        state in SETTLED,
    )


async def test_a_new_root_run_is_claimed_or_waits(store: Store):
    async with store.transaction() as tx:
        mine = await a_run(tx, await a_session(tx), owner="here")
        waiting = await a_run(tx, await a_session(tx), owner=None)
        assert (mine.state, mine.epoch, mine.lease_owner) == (RunState.RUNNING, 1, "here")
        assert (mine.lapsed, mine.unclaimed, mine.stop_requested) == (False, False, False)
        assert (waiting.state, waiting.epoch, waiting.lease_owner) == (RunState.RUNNING, 0, None)
        assert (waiting.lapsed, waiting.unclaimed) == (False, True)
        assert await runs.waiting(tx) == 1
        assert mine.root_run == mine.id
        assert mine.parent_run is None
        assert await runs.get(tx, uuid4()) is None


async def test_a_lease_ends_by_the_database_s_clock(store: Store, bare):
    _, run = await a_tree(store)
    until = await bare.fetchval("select extract(epoch from lease_until - created_at) from run")
    assert LEASE_S - 1 < until <= LEASE_S
    await bare.execute("update run set lease_until = now() - interval '1 ms'")
    async with store.transaction() as tx:
        assert (await the_run(tx, run.id)).lapsed
        assert await runs.claimable(tx, limit=9) == [(run.session_id, run.id)]
        assert await runs.waiting(tx) == 0


async def test_claimable_are_root_runs_that_nobody_holds_oldest_first(store: Store, bare):
    async with store.transaction() as tx:
        made = [await a_run(tx, await a_session(tx), owner=None) for _ in range(4)]
        held = await a_run(tx, await a_session(tx))
        await a_child(tx, held)
        await put_in(tx, made[3], RunState.SUSPENDED)
    await bare.execute("update run set created_at = created_at - interval '1 h' where id = $1", made[2].id)
    async with store.transaction() as tx:
        order = [made[2], made[0], made[1]]
        assert [run for _, run in await runs.claimable(tx, limit=9)] == [run.id for run in order]
        assert [run for _, run in await runs.claimable(tx, limit=1)] == [made[2].id]


@pytest.mark.parametrize("state", RunState)
async def test_a_claim_leaves_only_from_where_it_may(store: Store, state: RunState):
    _, run = await a_tree(store)
    async with store.transaction() as tx:
        await put_in(tx, run, state)
        if state in leaves(RunEvent.CLAIM):
            claimed = await runs.claim(tx, run.id, owner="there", lease_s=9, takeover=True, next_batch=True)
            assert (claimed.state, claimed.lease_owner, claimed.epoch) == (
                RunState.RUNNING,
                "there",
                run.epoch + 1,
            )
            assert (claimed.attempts, claimed.batch) == (run.attempts + 1, run.batch + 1)
            assert not claimed.lapsed
        else:
            with pytest.raises(LeaseLost) as raised:
                await runs.claim(tx, run.id, owner="there", lease_s=9)
            assert classify(raised.value) is Fault.CONFLICT
            assert (await the_run(tx, run.id)).epoch == run.epoch


async def test_a_claim_of_a_lapsed_run_by_two_gives_it_to_one(store: Store, bare):
    session, run = await a_tree(store)
    await bare.execute("update run set lease_until = now() - interval '1 s'")

    async def take_over(owner: str) -> int | None:
        async with store.transaction() as tx:
            await sessions.lock_by_id(tx, session.id)
            found = await runs.lock(tx, run.id)
            if found is None or not found.lapsed:
                return None
            return (await runs.claim(tx, run.id, owner=owner, lease_s=9, takeover=True)).epoch

    assert sorted(await asyncio.gather(*(take_over(n) for n in "abcd")), key=str) == [2, None, None, None]
    async with store.transaction() as tx:
        assert (await the_run(tx, run.id)).attempts == 1


async def test_a_claim_without_a_look_still_fences_the_other_off(store: Store):
    """Two claims that both go through follow each other: the last epoch is the owner's."""
    _, run = await a_tree(store)

    async def claim(owner: str) -> Run:
        async with store.transaction() as tx:
            return await runs.claim(tx, run.id, owner=owner, lease_s=9)

    claims = await asyncio.gather(claim("a"), claim("b"))
    last = max(claims, key=lambda claimed: claimed.epoch)
    assert sorted(claimed.epoch for claimed in claims) == [2, 3]
    async with store.transaction() as tx:
        assert (await runs.guard(tx, run.id, last.epoch)).lease_owner == last.lease_owner
        with pytest.raises(LeaseLost):
            await runs.guard(tx, run.id, last.epoch - 1)


@pytest.mark.parametrize("state", RunState)
async def test_the_guard_lets_only_the_owner_of_a_running_run_pass(store: Store, state: RunState):
    _, run = await a_tree(store)
    async with store.transaction() as tx:
        await put_in(tx, run, state)
        if state is RunState.RUNNING:
            assert (await runs.guard(tx, run.id, 1)).id == run.id
        for epoch in (0, 2) if state is RunState.RUNNING else (0, 1, 2):
            with pytest.raises(LeaseLost):
                await runs.guard(tx, run.id, epoch)
        with pytest.raises(LeaseLost):
            await runs.guard(tx, uuid4(), 1)


async def test_the_guard_waits_for_a_takeover_that_is_under_way(store: Store, bare):
    _, run = await a_tree(store)

    async def owner_s_commit() -> None:
        async with store.transaction() as tx:
            await runs.guard(tx, run.id, 1)

    async with bare.transaction():
        await runs.raise_epoch(bare, run.id)
        task = asyncio.create_task(owner_s_commit())
        await waits_for_a_lock(bare)
    with pytest.raises(LeaseLost):
        await task


async def test_raising_the_epoch(store: Store):
    _, run = await a_tree(store)
    async with store.transaction() as tx:
        assert await runs.raise_epoch(tx, run.id) == 2
        assert await runs.raise_epoch(tx, run.id) == 3
        with pytest.raises(LookupError):
            await runs.raise_epoch(tx, uuid4())


async def test_the_current_run_is_the_live_one_else_the_last_that_was_made(store: Store, bare):
    session, first = await a_tree(store)
    async with store.transaction() as tx:
        await a_child(tx, first)
        assert (await runs.current(tx, session.id) or first).id == first.id
        await runs.settle(tx, [first.id], RunState.COMPLETED)
        second = await a_run(
            tx, session
        )  # in one transaction with the first one's end, as a closing path does it
        assert (await runs.current(tx, session.id) or first).id == second.id
        await runs.settle(tx, [second.id], RunState.COMPLETED)
        assert (await runs.current(tx, session.id) or first).id == second.id
        assert await runs.current(tx, uuid4()) is None
    await bare.execute("update run set created_at = now() - interval '1 d' where id = $1", second.id)
    await bare.execute("update run set state = 'suspended', settled_at = null where id = $1", second.id)
    async with store.transaction() as tx:
        assert (await runs.current(tx, session.id) or first).id == second.id


async def test_a_run_that_began_after_a_wait_for_the_lock_is_the_last_one(store: Store, bare):
    """The later run's transaction began first and waited: the time of a run is that of its making, not of its transaction."""
    session, first = await a_tree(store)
    async with store.transaction() as tx:
        await runs.settle(tx, [first.id], RunState.COMPLETED)
    begun = asyncio.Event()

    async def late() -> Run:
        async with store.transaction() as tx:
            await tx.execute("select 1")
            begun.set()
            await sessions.lock_by_id(tx, session.id)
            return await a_run(tx, session)

    async with bare.transaction():
        await sessions.lock_by_id(bare, session.id)
        task = asyncio.create_task(late())
        await begun.wait()
        await waits_for_a_lock(bare)
        early = await a_run(bare, session, message=False)
        await runs.settle(bare, [early.id], RunState.COMPLETED)
    later = await task
    async with store.transaction() as tx:
        await runs.settle(tx, [later.id], RunState.COMPLETED)
        assert (await runs.current(tx, session.id) or first).id == later.id


@pytest.mark.parametrize("state", RunState)
async def test_settling_leaves_only_live_runs(store: Store, state: RunState):
    _, run = await a_tree(store)
    async with store.transaction() as tx:
        await put_in(tx, run, state)
        await runs.settle(tx, [run.id], RunState.FAILED, error_code="x")
        found = await the_run(tx, run.id)
        expected = (RunState.FAILED, "x") if state in LIVE else (state, None)
        assert (found.state, found.error_code) == expected
        assert found.lease_owner is None


async def test_a_tree_suspends_and_wakes_as_one(store: Store):
    _, root = await a_tree(store)
    _, stranger = await a_tree(store)
    async with store.transaction() as tx:
        child, done = await a_child(tx, root), await a_child(tx, root, "c2")
        await runs.settle(tx, [done.id], RunState.COMPLETED)
        await runs.suspend_tree(tx, root.id)
        tree = {run.id: run for run in await runs.tree(tx, root.id)}
        assert next(iter(tree)) == root.id
        assert (tree[root.id].state, tree[root.id].lease_owner) == (RunState.SUSPENDED, None)
        assert tree[child.id].state is RunState.SUSPENDED
        assert tree[done.id].state is RunState.COMPLETED
        assert not tree[root.id].unclaimed  # it waits for an answer, not for an owner
        assert (await the_run(tx, stranger.id)).state is RunState.RUNNING
        await runs.claim(tx, root.id, owner="here", lease_s=9)
        await runs.wake_children(tx, root.id)
        states = {run.id: run.state for run in await runs.tree(tx, root.id)}
        assert states == {root.id: RunState.RUNNING, child.id: RunState.RUNNING, done.id: RunState.COMPLETED}


async def test_the_first_stop_counts_and_only_a_live_run_s(store: Store, bare):
    _, run = await a_tree(store)
    async with store.transaction() as tx:
        await runs.request_stop(tx, run.id)
        assert (await the_run(tx, run.id)).stop_requested
    first = await bare.fetchval("select stop_requested_at from run")
    async with store.transaction() as tx:
        await runs.request_stop(tx, run.id)
    assert await bare.fetchval("select stop_requested_at from run") == first
    _, over = await a_tree(store)
    async with store.transaction() as tx:
        await runs.settle(tx, [over.id], RunState.COMPLETED)
        await runs.request_stop(tx, over.id)
        assert not (await the_run(tx, over.id)).stop_requested


async def test_renewal_tells_what_is_still_held_and_what_shall_stop(store: Store, bare):
    made = [(await a_tree(store))[1] for _ in range(5)]
    kept, stopping, overtaken, suspended, given_back = made
    async with store.transaction() as tx:
        await runs.request_stop(tx, stopping.id)
        await runs.claim(tx, overtaken.id, owner="there", lease_s=9)
        await runs.suspend_tree(tx, suspended.id)
        await runs.release(tx, given_back.id, 1)
    await bare.execute("update run set lease_until = now() - interval '1 s' where id = $1", kept.id)
    held = {run.id: 1 for run in made} | {uuid4(): 1}
    async with store.transaction() as tx:
        assert await runs.renew(tx, "here", held, 60) == {kept.id: False, stopping.id: True}
        assert await runs.renew(tx, "elsewhere", held, 60) == {}
        assert await runs.renew(tx, "here", {}, 60) == {}
        assert not (await the_run(tx, kept.id)).lapsed
    assert await bare.fetchval("select lease_until > now() + interval '50 s' from run where id = $1", kept.id)


async def test_renewal_needs_no_session_lock(store: Store, bare):
    session, run = await a_tree(store)
    async with bare.transaction():
        await sessions.lock_by_id(bare, session.id)
        async with store.transaction() as tx:
            assert await runs.renew(tx, "here", {run.id: 1}, 60) == {run.id: False}


async def test_a_lease_is_given_back_only_by_who_has_it(store: Store):
    _, run = await a_tree(store)
    async with store.transaction() as tx:
        await runs.release(tx, run.id, 0)
        assert not (await the_run(tx, run.id)).unclaimed
        await runs.release(tx, run.id, 1)
        found = await the_run(tx, run.id)
        assert (found.unclaimed, found.lease_owner, found.attempts) == (True, None, 0)
        assert found.epoch == 2, "what its owner still writes is nobody's"


async def test_every_lease_of_dead_owners_lapses_at_once_and_nothing_else_changes(store: Store):
    held, waiting, suspended = [(await a_tree(store))[1] for _ in range(3)]
    async with store.transaction() as tx:
        await runs.release(tx, waiting.id, 1)
        await runs.suspend_tree(tx, suspended.id)
        await runs.lapse_all(tx)
        assert (await the_run(tx, held.id)).lapsed
        assert (await the_run(tx, waiting.id)).unclaimed
        assert (await the_run(tx, suspended.id)).state is RunState.SUSPENDED


async def test_steps_and_usage(store: Store):
    _, run = await a_tree(store)
    async with store.transaction() as tx:
        await runs.set_step(tx, run.id, 3, {"inputTokens": 7})
        found = await the_run(tx, run.id)
        assert (found.step, found.usage) == (3, {"inputTokens": 7})


async def test_a_commit_moves_the_watermark_forward_only(store: Store):
    _, run = await a_tree(store)
    async with store.transaction() as tx:
        await runs.advance(tx, run.id, frame_seq=5, step_open=True)
        await runs.advance(tx, run.id, frame_seq=0, step_open=None, next_batch=True)
        found = await the_run(tx, run.id)
        assert (found.commits, found.frame_seq, found.step_open, found.batch) == (2, 5, True, 2)
        await runs.advance(tx, run.id, frame_seq=9, step_open=False)
        found = await the_run(tx, run.id)
        assert (found.commits, found.frame_seq, found.step_open, found.batch) == (3, 9, False, 2)


async def test_frames_are_dropped_a_generation_after_their_commit(store: Store, bare):
    _, run = await a_tree(store)

    async def commit(upto: int) -> list[int]:
        async with store.transaction() as tx:
            await frames.insert_committed(tx, run.id, [Frame.of(upto, 1, {"type": "start-step"})])
            await runs.advance(tx, run.id, frame_seq=upto, step_open=True)
        return [row[0] for row in await bare.fetch("select seq from frame order by seq")]

    async def a_minute_passes() -> None:
        await bare.execute("update run set trim_at = trim_at - interval '61 s'")

    assert await commit(1) == [1]
    assert await commit(2) == [1, 2]
    await a_minute_passes()
    assert await commit(3) == [3]  # 1 and 2 were committed a minute ago
    assert await commit(4) == [3, 4]
    await a_minute_passes()
    assert await commit(5) == [5]


async def test_a_row_in_an_unknown_state_is_corrupt(store: Store, bare):
    _, run = await a_tree(store)
    await bare.execute("alter table run drop constraint run_state_check")
    await bare.execute("update run set state = 'asleep', lease_until = null")
    async with store.transaction() as tx:
        with pytest.raises(CorruptRow):
            await runs.get(tx, run.id)


async def test_a_request_keeps_what_json_can_hold(store: Store):
    request = {"nul": "a\x00b", "literal": r"\u0000", "deep": [[{"a": None}]]}
    async with store.transaction() as tx:
        session = await a_session(tx)
        run_id = uuid4()
        await runs.insert_root(
            tx,
            run_id=run_id,
            session_id=session.id,
            agent="demo",
            input_message="u",
            message="a",
            request=request,
            headers={"x-tenant": "é"},
            lease_owner=None,
            lease_s=1,
        )
        run = await the_run(tx, run_id)
        assert (run.request, run.headers) == (request, {"x-tenant": "é"})


async def test_renewals_at_once_do_not_wait_for_each_other(store: Store):
    async with store.transaction() as tx:
        made = [await a_run(tx, await a_session(tx), owner="here") for _ in range(40)]
    held = {run.id: 1 for run in made}

    async def renew(order: dict[UUID, int]) -> None:
        for _ in range(25):
            async with store.transaction() as tx:
                assert len(await runs.renew(tx, "here", order, 60)) == len(made)

    await asyncio.gather(*(renew(held if n % 2 else dict(reversed(held.items()))) for n in range(4)))
