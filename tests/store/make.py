"""Rows for tests: a session, its root run, its calls, with everything that does not matter filled in."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID, uuid4

import asyncpg

from app.domain.call_state import CallKind, first_state
from app.domain.history import user_entry
from app.store import calls, messages, runs, sessions
from app.store.calls import Call
from app.store.runs import Run
from app.store.sessions import Session
from app.store.transaction import Store, Tx

LEASE_S = 30.0
USER = user_entry([{"type": "text", "text": "hello"}])


async def a_session(tx: Tx, owner: str = "ada", chat_id: str | None = None) -> Session:
    session_id = uuid4()
    await sessions.create(tx, session_id, owner, chat_id or session_id.hex, "demo")
    found = await sessions.lock_by_id(tx, session_id)
    assert found is not None
    return found


async def a_run(tx: Tx, session: Session, *, owner: str | None = "here", message: bool = True) -> Run:
    """A running root run, with its empty assistant message."""
    run_id = uuid4()
    await runs.insert_root(
        tx,
        run_id=run_id,
        session_id=session.id,
        agent="demo",
        input_message="u1",
        message=str(run_id),
        request={},
        headers={},
        lease_owner=owner,
        lease_s=LEASE_S,
    )
    if message:
        position = await sessions.take_positions(tx, session.id, 1)
        await messages.insert(
            tx, session.id, position, message_id=str(run_id), role="assistant", run_id=run_id, parts=[]
        )
    return await the_run(tx, run_id)


async def the_run(tx: Tx, run_id: UUID) -> Run:
    found = await runs.get(tx, run_id)
    assert found is not None
    return found


async def a_child(tx: Tx, root: Run, parent_call: str = "c1") -> Run:
    run_id = uuid4()
    await runs.insert_child(
        tx,
        run_id=run_id,
        session_id=root.session_id,
        root_run=root.id,
        parent_run=root.id,
        parent_call=parent_call,
        agent="helper",
    )
    return await the_run(tx, run_id)


def a_call(root: Run, call_id: str = "c1", kind: CallKind = CallKind.CLIENT, **fields: Any) -> Call:
    """A call of the root's first step, in its first state."""
    made = Call(
        call_id=call_id,
        run_id=root.id,
        root_run=root.id,
        step=1,
        ordinal=0,
        batch=1,
        kind=kind,
        tool="t",
        input={},
    )
    made.state = first_state(kind)
    if kind is CallKind.APPROVAL:
        made.approval_id = f"approval-{call_id}"
    for name, value in fields.items():
        setattr(made, name, value)
    return made


async def a_tree(store: Store, *of: Call | tuple[str, CallKind]) -> tuple[Session, Run]:
    """A committed session with a running run and these calls."""
    async with store.transaction() as tx:
        session = await a_session(tx)
        run = await a_run(tx, session)
        made = [a_call(run, *each, ordinal=n) for n, each in enumerate(of) if isinstance(each, tuple)]
        await calls.insert(tx, session.id, made)
    return session, run


async def until(true: Callable[[], Awaitable[Any]]) -> Any:
    """Waits for something that another process has to get to; the test's own time limit ends it."""
    while not (found := await true()):
        await asyncio.sleep(0.005)
    return found


async def waits_for_a_lock(bare: asyncpg.Connection, pid: int | None = None) -> None:
    """Returns when some backend of this database (or the one named) is waiting for a lock."""
    query = """
        select pid from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' and ($1::int is null or pid = $1)
    """
    await until(lambda: bare.fetchval(query, pid))


async def pid_of(tx: Tx) -> int:
    return await tx.fetchval("select pg_backend_pid()")
