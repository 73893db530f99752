"""Run rows: the live run, the lease that owns it, and guarded transitions.

Every write of an owner goes through ``guard``: it locks the root's row and raises ``LeaseLost`` unless epoch and state are still
the owner's. Transitions leave only from the states that ``domain.run_state`` allows.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any
from uuid import UUID

from app.domain.run_state import LIVE, RunEvent, RunState, leaves
from app.store.faults import CorruptRow, LeaseLost
from app.store.statements import one_of
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
    headers: dict[str, str] | None
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
    "stop_requested": "run.stop_requested_at is not null",
    "lapsed": "run.state = 'running' and coalesce(run.lease_until < now(), false)",
    "unclaimed": "run.state = 'running' and run.lease_until is null",
}
COLUMNS = ", ".join(_DERIVED.get(field.name, f"run.{field.name}") for field in fields(Run))
_SELECT = f"select {COLUMNS} from run "
_LIVE = f"run.state in ({one_of(LIVE)})"

_GET = _SELECT + "where id = $1"
_LOCK = _GET + " for update"
# A root and its child runs.
_TREE = _SELECT + "where root_run = $1 order by created_at, id"

# The live root run, else the last one that was made.
_CURRENT = f"""
    {_SELECT} where session_id = $1 and parent_run is null
    order by {_LIVE} desc, created_at desc, id desc limit 1
"""

# A new root run, claimed at once under epoch 1 when it has an owner. Roots of a session are made under its lock and told apart by
# age, so their time is the moment and not the beginning of a transaction that may have waited for that lock.
_INSERT_ROOT = """
    insert into run (
        id, session_id, root_run, agent, state, input_message, message, request, headers, epoch, lease_owner, lease_until, created_at
    ) values (
        $1, $2, $1, $3, 'running', $4, $5, $6, $9, case when $7::text is null then 0 else 1 end, $7::text,
        case when $7::text is not null then now() + make_interval(secs => $8) end, clock_timestamp()
    )
"""

_INSERT_CHILD = """
    insert into run (id, session_id, root_run, parent_run, parent_call, agent, state)
    values ($1, $2, $3, $4, $5, $6, 'running')
"""

# A live run gets an owner, a fresh lease and the next epoch, which fences off whoever had it before.
_CLAIM = f"""
    update run set state = 'running', epoch = epoch + 1, lease_owner = $2,
        lease_until = now() + make_interval(secs => $3), attempts = attempts + $4, batch = batch + $5
    where id = $1 and state in ({one_of(leaves(RunEvent.CLAIM))})
    returning {COLUMNS}
"""

_RAISE_EPOCH = "update run set epoch = epoch + 1 where id = $1 returning epoch"
_SET_STEP = "update run set step = $2, usage = $3 where id = $1"

# One more commit of the owner. The log ages by a generation when that is due: the frames up to the last generation's watermark
# have had their time, and go.
_ADVANCE = """
    with advanced as (
        update run set commits = commits + 1, frame_seq = greatest(frame_seq, $2),
            step_open = coalesce($3, step_open), batch = batch + $4,
            trim_seq = case when trim_at >= now() - make_interval(secs => $5) then trim_seq else frame_seq end,
            trim_at = case when trim_at >= now() - make_interval(secs => $5) then trim_at else now() end
        where id = $1 returning id, trim_seq
    )
    delete from frame using advanced where frame.run_id = advanced.id and frame.seq <= advanced.trim_seq
"""

# Everything of the tree that runs begins to wait; the lease is given back.
_SUSPEND_TREE = f"""
    update run set state = 'suspended', lease_owner = null, lease_until = null
    where root_run = $1 and state in ({one_of(leaves(RunEvent.SUSPEND))})
"""

_WAKE_CHILDREN = (
    "update run set state = 'running' where root_run = $1 and parent_run is not null and state = 'suspended'"
)

_SETTLE = f"""
    update run set state = $2, error_code = $3, settled_at = now(), lease_owner = null, lease_until = null
    where id = any($1::uuid[]) and {_LIVE}
"""

# The first stop counts.
_REQUEST_STOP = (
    f"update run set stop_requested_at = coalesce(stop_requested_at, now()) where id = $1 and {_LIVE}"
)

# Nobody who held a lease is alive.
_LAPSE_ALL = "update run set lease_until = now() - interval '1 second' where lease_until is not null"

# All leases of an owner in one statement; a run under another epoch is not among them any more. The rows are locked in the order of
# their ids: two renewals at once must not wait for each other.
_RENEW = """
    with mine as (
        select run.id from run join unnest($2::uuid[], $3::int[]) as held (id, epoch) using (id)
        where run.epoch = held.epoch and lease_owner = $1 and state = 'running'
        order by run.id for no key update of run
    )
    update run set lease_until = now() + make_interval(secs => $4) from mine where run.id = mine.id
    returning run.id, stop_requested_at is not null
"""

# The epoch is raised with it: what the owner had shown and not committed is nothing from now on, and not only from the next claim on.
_RELEASE = """
    update run set (lease_owner, lease_until, epoch) = (null, null, epoch + 1) where id = $1 and epoch = $2
"""

# Root runs that nobody holds: new, given back, or lapsed by the database's clock.
_CLAIMABLE = """
    select session_id, id from run
    where parent_run is null and state = 'running' and (lease_until is null or lease_until < now())
    order by created_at limit $1
"""

_WAITING = "select count(*) from run where parent_run is null and state = 'running' and lease_until is null"


def read(row: Iterable[Any]) -> Run:
    """A row of ``COLUMNS``. Raises ``CorruptRow``."""
    found = Run(*row)
    try:
        found.state = RunState(found.state)
    except ValueError as error:
        raise CorruptRow(f"run {found.id} is in an unknown state") from error
    return found


async def get(tx: Tx, run_id: UUID) -> Run | None:
    row = await tx.fetchrow(_GET, run_id)
    return read(row) if row is not None else None


async def lock(tx: Tx, run_id: UUID) -> Run | None:
    row = await tx.fetchrow(_LOCK, run_id)
    return read(row) if row is not None else None


async def current(tx: Tx, session_id: UUID) -> Run | None:
    """The session's live root run, else its last one."""
    row = await tx.fetchrow(_CURRENT, session_id)
    return read(row) if row is not None else None


async def tree(tx: Tx, root_run: UUID) -> list[Run]:
    """The root and all its child runs, oldest first."""
    return [read(row) for row in await tx.fetch(_TREE, root_run)]


async def insert_root(
    tx: Tx,
    *,
    run_id: UUID,
    session_id: UUID,
    agent: str,
    input_message: str,
    message: str,
    request: Mapping[str, Any],
    headers: Mapping[str, str],
    lease_owner: str | None,
    lease_s: float,
) -> None:
    """A new root run, running; with ``lease_owner`` it is claimed at once under epoch 1, else it waits unclaimed."""
    await tx.execute(
        _INSERT_ROOT,
        run_id,
        session_id,
        agent,
        input_message,
        message,
        dict(request),
        lease_owner,
        lease_s,
        dict(headers) or None,
    )


async def insert_child(
    tx: Tx, *, run_id: UUID, session_id: UUID, root_run: UUID, parent_run: UUID, parent_call: str, agent: str
) -> None:
    await tx.execute(_INSERT_CHILD, run_id, session_id, root_run, parent_run, parent_call, agent)


async def claim(
    tx: Tx, run_id: UUID, *, owner: str, lease_s: float, takeover: bool = False, next_batch: bool = False
) -> Run:
    """Makes ``owner`` the run's owner under a raised epoch. ``takeover`` costs an attempt; ``next_batch``: its batch is complete.

    Raises ``LeaseLost`` when the run is no longer live."""
    row = await tx.fetchrow(_CLAIM, run_id, owner, lease_s, int(takeover), int(next_batch))
    if row is None:
        raise LeaseLost(f"run {run_id} is not live")
    return read(row)


async def raise_epoch(tx: Tx, run_id: UUID) -> int:
    """Fences the run's owner off: whatever it has not committed is lost. Returns the new epoch."""
    epoch = await tx.fetchval(_RAISE_EPOCH, run_id)
    if epoch is None:
        raise LookupError(f"no run {run_id}")
    return int(epoch)


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
    """Notes one more commit of the owner and the frames that the message now holds; ages the log by a generation when it is due,
    and drops the generation before the last, whose readers have had ``keep_frames_s`` to finish.

    ``step_open`` is ``None`` when the commit writes no frames."""
    await tx.execute(_ADVANCE, run_id, frame_seq, step_open, int(next_batch), keep_frames_s)


async def set_step(tx: Tx, run_id: UUID, step: int, usage: Mapping[str, Any]) -> None:
    await tx.execute(_SET_STEP, run_id, step, dict(usage))


async def suspend_tree(tx: Tx, root_run: UUID) -> None:
    """Every running run of the tree waits; the lease is given back."""
    await tx.execute(_SUSPEND_TREE, root_run)


async def wake_children(tx: Tx, root_run: UUID) -> None:
    """The suspended child runs of a tree that goes on."""
    await tx.execute(_WAKE_CHILDREN, root_run)


async def settle(tx: Tx, run_ids: Sequence[UUID], state: RunState, *, error_code: str | None = None) -> None:
    """Settles live runs; settled ones stay as they are."""
    await tx.execute(_SETTLE, list(run_ids), state, error_code)


async def request_stop(tx: Tx, run_id: UUID) -> None:
    await tx.execute(_REQUEST_STOP, run_id)


async def renew(tx: Tx, owner: str, held: Mapping[UUID, int], lease_s: float) -> dict[UUID, bool]:
    """Extends this owner's leases in one statement. Returns the runs still held → whether a stop is recorded for it."""
    if not held:
        return {}
    rows = await tx.fetch(_RENEW, owner, list(held), list(held.values()), lease_s)
    return {row[0]: row[1] for row in rows}


async def release(tx: Tx, run_id: UUID, epoch: int) -> None:
    """Gives a lease back, at no cost of an attempt: any replica may claim the run at once, and ``epoch`` is no owner's any more."""
    await tx.execute(_RELEASE, run_id, epoch)


async def lapse_all(tx: Tx) -> None:
    """Every lease is of a dead owner: whoever comes takes its run over."""
    await tx.execute(_LAPSE_ALL)


async def claimable(tx: Tx, *, limit: int) -> list[tuple[UUID, UUID]]:
    """(session, run) of root runs that nobody holds, the longest waiting first. Not locked: look again under the session's lock."""
    return [(row[0], row[1]) for row in await tx.fetch(_CLAIMABLE, limit)]


async def waiting(tx: Tx) -> int:
    """How many runs wait unclaimed for a slot, on all replicas."""
    return int(await tx.fetchval(_WAITING))
