"""Run rows: the live run, the lease that owns it, and guarded transitions.

Every write of an owner goes through ``guard``: it locks the root's row and raises ``LeaseLost`` unless epoch and state are still
the owner's. Transitions leave only from the states that ``domain.run_state`` allows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from app.domain.run_state import LIVE, RunEvent, RunState, leaves
from app.store.faults import CorruptRow, LeaseLost
from app.store.schema import run
from app.store.transaction import Tx


@dataclass(slots=True)
class Run:
    """A run's row. Mutable: the owner of a tree keeps its runs in step with its commits.

    ``lapsed``: running, and its lease ended without being given back. ``unclaimed``: running, and nobody holds it."""

    id: UUID
    session_id: UUID
    root_run: UUID
    parent_run: UUID | None
    parent_call: str | None
    agent: str
    state: RunState
    input_message: str | None
    message: str | None
    request: dict[str, Any] | None
    step: int
    batch: int
    epoch: int
    commits: int
    lease_owner: str | None
    attempts: int
    stop_requested: bool
    frame_seq: int
    step_open: bool
    error_code: str | None
    usage: dict[str, Any] | None
    lapsed: bool
    unclaimed: bool


_DERIVED = {
    "stop_requested": run.c.stop_requested_at.is_not(None),
    "lapsed": sa.and_(run.c.state == RunState.RUNNING, run.c.lease_until < sa.func.now()),
    "unclaimed": sa.and_(run.c.state == RunState.RUNNING, run.c.lease_until.is_(None)),
}
COLUMNS = [
    sa.func.coalesce(_DERIVED[field.name], False).label(field.name)
    if field.name in _DERIVED
    else run.c[field.name]
    for field in fields(Run)
]
_IS_ROOT = run.c.parent_run.is_(None)
_IS_LIVE = run.c.state.in_(LIVE)


def read(row: Any) -> Run:
    found = Run(*row)
    try:
        found.state = RunState(found.state)
    except ValueError as error:
        raise CorruptRow(f"run {found.id} is in an unknown state") from error
    return found


def _interval(seconds: float) -> sa.ColumnElement[Any]:
    return sa.func.make_interval(0, 0, 0, 0, 0, 0, seconds)


async def get(tx: Tx, run_id: UUID) -> Run | None:
    row = (await tx.execute(sa.select(*COLUMNS).where(run.c.id == run_id))).one_or_none()
    return read(row) if row else None


async def lock(tx: Tx, run_id: UUID) -> Run | None:
    row = (await tx.execute(sa.select(*COLUMNS).where(run.c.id == run_id).with_for_update())).one_or_none()
    return read(row) if row else None


async def current(tx: Tx, session_id: UUID) -> Run | None:
    """The session's live root run, else its last one."""
    query = (
        sa.select(*COLUMNS)
        .where(run.c.session_id == session_id, _IS_ROOT)
        .order_by(_IS_LIVE.desc(), run.c.created_at.desc(), run.c.id.desc())
        .limit(1)
    )
    row = (await tx.execute(query)).one_or_none()
    return read(row) if row else None


async def tree(tx: Tx, root_run: UUID) -> list[Run]:
    """The root and all its child runs, oldest first."""
    query = sa.select(*COLUMNS).where(run.c.root_run == root_run).order_by(run.c.created_at, run.c.id)
    return [read(row) for row in await tx.execute(query)]


async def insert_root(
    tx: Tx,
    *,
    run_id: UUID,
    session_id: UUID,
    agent: str,
    input_message: str,
    message: str,
    request: Mapping[str, Any],
    lease_owner: str | None,
    lease_s: float,
) -> None:
    """A new root run, running; with ``lease_owner`` it is claimed at once under epoch 1, else it waits unclaimed."""
    await tx.execute(
        sa.insert(run).values(
            id=run_id,
            session_id=session_id,
            root_run=run_id,
            agent=agent,
            state=RunState.RUNNING,
            input_message=input_message,
            message=message,
            request=dict(request),
            epoch=1 if lease_owner else 0,
            lease_owner=lease_owner,
            lease_until=sa.func.now() + _interval(lease_s) if lease_owner else None,
        )
    )


async def insert_child(
    tx: Tx, *, run_id: UUID, session_id: UUID, root_run: UUID, parent_run: UUID, parent_call: str, agent: str
) -> None:
    await tx.execute(
        sa.insert(run).values(
            id=run_id,
            session_id=session_id,
            root_run=root_run,
            parent_run=parent_run,
            parent_call=parent_call,
            agent=agent,
            state=RunState.RUNNING,
        )
    )


async def claim(
    tx: Tx, run_id: UUID, *, owner: str, lease_s: float, takeover: bool = False, next_batch: bool = False
) -> Run:
    """Makes ``owner`` the run's owner under a raised epoch. ``takeover`` costs an attempt; ``next_batch``: its batch is complete.

    Raises ``LeaseLost`` when the run is no longer live."""
    statement = (
        sa.update(run)
        .where(run.c.id == run_id, run.c.state.in_(leaves(RunEvent.CLAIM)))
        .values(
            state=RunState.RUNNING,
            epoch=run.c.epoch + 1,
            lease_owner=owner,
            lease_until=sa.func.now() + _interval(lease_s),
            attempts=run.c.attempts + (1 if takeover else 0),
            batch=run.c.batch + (1 if next_batch else 0),
        )
        .returning(*COLUMNS)
    )
    row = (await tx.execute(statement)).one_or_none()
    if row is None:
        raise LeaseLost(f"run {run_id} is not live")
    return read(row)


async def raise_epoch(tx: Tx, run_id: UUID) -> int:
    """Fences the run's owner off: whatever it has not committed is lost. Returns the new epoch."""
    statement = sa.update(run).where(run.c.id == run_id).values(epoch=run.c.epoch + 1).returning(run.c.epoch)
    return int((await tx.execute(statement)).scalar_one())


async def guard(tx: Tx, run_id: UUID, epoch: int) -> Run:
    """Locks the root's row for its owner. Raises ``LeaseLost`` when another epoch holds it or it is not running."""
    found = await lock(tx, run_id)
    if found is None or found.epoch != epoch or found.state is not RunState.RUNNING:
        raise LeaseLost(f"run {run_id} is not running under epoch {epoch}")
    return found


async def advance(
    tx: Tx,
    run_id: UUID,
    *,
    frame_seq: int,
    step_open: bool | None,
    next_batch: bool = False,
    keep_frames_s: float = 60.0,
) -> None:
    """Notes one more commit of the owner and the frames that the message now holds; ages the log by a generation when it is due.

    ``step_open`` is ``None`` when the commit writes no frames."""
    due = sa.or_(run.c.trim_at.is_(None), run.c.trim_at < sa.func.now() - _interval(keep_frames_s))
    await tx.execute(
        sa.update(run)
        .where(run.c.id == run_id)
        .values(
            commits=run.c.commits + 1,
            frame_seq=sa.func.greatest(run.c.frame_seq, frame_seq),
            step_open=run.c.step_open if step_open is None else step_open,
            batch=run.c.batch + (1 if next_batch else 0),
            trim_seq=sa.case((due, run.c.frame_seq), else_=run.c.trim_seq),
            trim_at=sa.case((due, sa.func.now()), else_=run.c.trim_at),
        )
    )


async def set_step(tx: Tx, run_id: UUID, step: int, usage: Mapping[str, Any]) -> None:
    await tx.execute(sa.update(run).where(run.c.id == run_id).values(step=step, usage=dict(usage)))


async def suspend_tree(tx: Tx, root_run: UUID) -> None:
    """Every running run of the tree waits; the lease is given back."""
    await tx.execute(
        sa.update(run)
        .where(run.c.root_run == root_run, run.c.state.in_(leaves(RunEvent.SUSPEND)))
        .values(state=RunState.SUSPENDED, lease_owner=None, lease_until=None)
    )


async def wake_children(tx: Tx, root_run: UUID) -> None:
    """The suspended child runs of a tree that goes on."""
    await tx.execute(
        sa.update(run)
        .where(run.c.root_run == root_run, ~_IS_ROOT, run.c.state == RunState.SUSPENDED)
        .values(state=RunState.RUNNING)
    )


async def settle(tx: Tx, run_ids: Sequence[UUID], state: RunState, *, error_code: str | None = None) -> None:
    """Settles live runs; settled ones stay as they are."""
    await tx.execute(
        sa.update(run)
        .where(run.c.id.in_(run_ids), _IS_LIVE)
        .values(
            state=state, error_code=error_code, settled_at=sa.func.now(), lease_owner=None, lease_until=None
        )
    )


async def request_stop(tx: Tx, run_id: UUID) -> None:
    await tx.execute(
        sa.update(run)
        .where(run.c.id == run_id, _IS_LIVE)
        .values(stop_requested_at=sa.func.coalesce(run.c.stop_requested_at, sa.func.now()))
    )


async def renew(tx: Tx, owner: str, held: Mapping[UUID, int], lease_s: float) -> dict[UUID, bool]:
    """Extends this owner's leases in one statement. Returns the runs still held → whether a stop is recorded for it."""
    if not held:
        return {}
    mine = sa.tuple_(run.c.id, run.c.epoch).in_(list(held.items()))
    statement = (
        sa.update(run)
        .where(mine, run.c.lease_owner == owner, run.c.state == RunState.RUNNING)
        .values(lease_until=sa.func.now() + _interval(lease_s))
        .returning(run.c.id, run.c.stop_requested_at.is_not(None))
    )
    return {row[0]: row[1] for row in await tx.execute(statement)}


async def release(tx: Tx, run_id: UUID, epoch: int) -> None:
    """Gives a lease back, at no cost of an attempt: any replica may claim the run at once."""
    await tx.execute(
        sa.update(run)
        .where(run.c.id == run_id, run.c.epoch == epoch, run.c.state == RunState.RUNNING)
        .values(lease_owner=None, lease_until=None)
    )


async def claimable(tx: Tx, *, limit: int) -> list[tuple[UUID, UUID]]:
    """(session, run) of root runs that nobody holds, the longest waiting first. Rows that somebody else is claiming are skipped."""
    query = (
        sa.select(run.c.session_id, run.c.id)
        .where(
            _IS_ROOT,
            run.c.state == RunState.RUNNING,
            sa.or_(run.c.lease_until.is_(None), run.c.lease_until < sa.func.now()),
        )
        .order_by(run.c.created_at)
        .limit(limit)
    )
    return [(row[0], row[1]) for row in await tx.execute(query)]


async def waiting(tx: Tx) -> int:
    """How many runs wait unclaimed for a slot, on all replicas."""
    query = sa.select(sa.func.count()).where(
        _IS_ROOT, run.c.state == RunState.RUNNING, run.c.lease_until.is_(None)
    )
    return int((await tx.execute(query)).scalar_one())


async def live_counts(tx: Tx) -> dict[str, int]:
    """State → number of live root runs, on all replicas."""
    query = sa.select(run.c.state, sa.func.count()).where(_IS_ROOT, _IS_LIVE).group_by(run.c.state)
    return {row[0]: row[1] for row in await tx.execute(query)}
