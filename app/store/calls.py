"""Call rows: pending calls, the ledger of tools and the completed tombstones, one state machine (``domain.call_state``)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from app.domain.answers import CallFacts
from app.domain.call_state import CallEvent, CallKind, CallState, Outcome, leaves
from app.domain.run_state import LIVE, RunState
from app.store.faults import CorruptRow
from app.store.schema import call, run
from app.store.transaction import Tx


@dataclass(slots=True)
class Call:
    """A call's row. Mutable: the owner of a tree keeps its calls in step with its commits."""

    call_id: str
    run_id: UUID
    root_run: UUID
    step: int
    ordinal: int
    batch: int
    kind: CallKind
    tool: str
    input: Any
    approval_id: str | None = None
    child_run: UUID | None = None
    output_schema: dict[str, Any] | None = None
    deadline_s: float | None = None
    deadline_at: datetime | None = None
    state: CallState = CallState.READY
    answer: dict[str, Any] | None = None
    outcome: Outcome | None = None
    value: Any = None
    error_code: str | None = None
    drained: bool = False


_NAMES = [field.name for field in fields(Call)]
_COLUMNS = [call.c[name] for name in _NAMES]
_UNSETTLED = call.c.state != CallState.SETTLED


def _read(row: Any) -> Call:
    found = Call(*row)
    try:
        found.kind, found.state = CallKind(found.kind), CallState(found.state)
        found.outcome = Outcome(found.outcome) if found.outcome else None
    except ValueError as error:
        raise CorruptRow(f"call {found.call_id} is of an unknown kind or state") from error
    if found.answer is not None and not isinstance(found.answer, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise CorruptRow(f"the answer of call {found.call_id}")
    return found


async def insert(tx: Tx, session_id: UUID, rows: Sequence[Call]) -> None:
    if rows:
        values = [
            {name: getattr(row, name) for name in _NAMES}
            | {
                "session_id": session_id,
                "settled_at": sa.func.now() if row.state is CallState.SETTLED else None,
            }
            for row in rows
        ]
        for (
            value
        ) in values:  # settled_at is an expression for some: one statement each, and steps have few calls
            await tx.execute(sa.insert(call).values(**value))


async def of_tree(tx: Tx, root_run: UUID) -> list[Call]:
    """All calls of a tree, in the order they were made."""
    query = sa.select(*_COLUMNS).where(call.c.root_run == root_run)
    return [
        _read(row) for row in await tx.execute(query.order_by(call.c.created_at, call.c.step, call.c.ordinal))
    ]


async def of_run_step(tx: Tx, run_id: UUID, step: int) -> list[Call]:
    query = sa.select(*_COLUMNS).where(call.c.run_id == run_id, call.c.step == step).order_by(call.c.ordinal)
    return [_read(row) for row in await tx.execute(query)]


async def known_ids(tx: Tx, session_id: UUID) -> set[str]:
    """Every call id the session has seen and still keeps."""
    return set((await tx.execute(sa.select(call.c.call_id).where(call.c.session_id == session_id))).scalars())


async def facts(tx: Tx, session_id: UUID, call_ids: Iterable[str]) -> dict[str, CallFacts]:
    """What a submit looks at, of the calls that this session knows. Corrupt rows raise ``CorruptRow``."""
    query = (
        sa.select(
            call.c.call_id,
            call.c.root_run,
            call.c.kind,
            call.c.state,
            call.c.approval_id,
            call.c.drained,
            call.c.answer,
            call.c.error_code,
            run.c.state.label("root_state"),
            run.c.stop_requested_at.is_not(None).label("stop_requested"),
            call.c.batch,
        )
        .join(run, run.c.id == call.c.root_run)
        .where(call.c.session_id == session_id, call.c.call_id.in_(list(call_ids)))
    )
    found: dict[str, CallFacts] = {}
    for row in await tx.execute(query):
        try:
            found[row.call_id] = CallFacts(
                row.call_id,
                row.root_run,
                CallKind(row.kind),
                CallState(row.state),
                row.approval_id,
                row.drained,
                row.answer,
                row.error_code,
                RunState(row.root_state),
                row.stop_requested,
                row.batch,
            )
        except ValueError as error:
            raise CorruptRow(f"call {row.call_id} is of an unknown kind or state") from error
    return found


async def get(tx: Tx, session_id: UUID, call_id: str) -> Call | None:
    query = sa.select(*_COLUMNS).where(call.c.session_id == session_id, call.c.call_id == call_id)
    row = (await tx.execute(query)).one_or_none()
    return _read(row) if row else None


async def pending(tx: Tx, root_run: UUID) -> int:
    """How many calls of the tree wait for an answer."""
    query = sa.select(sa.func.count()).where(call.c.root_run == root_run, call.c.state == CallState.PENDING)
    return int((await tx.execute(query)).scalar_one())


async def answerable_of_batch(tx: Tx, root_run: UUID, batch: int) -> list[str]:
    """The ids of a batch's client and approval calls, in order."""
    query = sa.select(call.c.call_id).where(
        call.c.root_run == root_run,
        call.c.batch == batch,
        call.c.kind.in_((CallKind.CLIENT, CallKind.APPROVAL)),
    )
    return list((await tx.execute(query.order_by(call.c.created_at, call.c.step, call.c.ordinal))).scalars())


async def answer(
    tx: Tx, session_id: UUID, call_id: str, value: Mapping[str, Any], *, error_code: str | None = None
) -> bool:
    """Stores the answer of a pending call, once: ``False`` when it is not pending any more."""
    statement = (
        sa.update(call)
        .where(
            call.c.session_id == session_id,
            call.c.call_id == call_id,
            call.c.state.in_(leaves(CallEvent.ANSWER)),
        )
        .values(
            state=CallState.ANSWERED, answer=dict(value), answered_at=sa.func.now(), error_code=error_code
        )
    )
    return (await tx.execute(statement)).rowcount == 1


async def begin(tx: Tx, session_id: UUID, call_ids: Sequence[str]) -> None:
    """Commits that these calls begin: after a crash they are never run again unless their tool is retry-safe."""
    await tx.execute(
        sa.update(call)
        .where(
            call.c.session_id == session_id,
            call.c.call_id.in_(call_ids),
            call.c.state.in_(leaves(CallEvent.BEGIN)),
        )
        .values(state=CallState.STARTED)
    )


async def settle(
    tx: Tx, session_id: UUID, call_id: str, outcome: Outcome, value: Any, error_code: str | None
) -> bool:
    """Gives a call its one result; ``False`` when it has one."""
    statement = (
        sa.update(call)
        .where(call.c.session_id == session_id, call.c.call_id == call_id, _UNSETTLED)
        .values(
            state=CallState.SETTLED,
            outcome=outcome,
            value=value,
            error_code=error_code,
            settled_at=sa.func.now(),
        )
    )
    return (await tx.execute(statement)).rowcount == 1


async def drain(tx: Tx, session_id: UUID, call_ids: Sequence[str]) -> None:
    """The tree goes on with these calls' answers: they are their own completed tombstones from now on."""
    await tx.execute(
        sa.update(call)
        .where(call.c.session_id == session_id, call.c.call_id.in_(call_ids))
        .values(drained=True)
    )


async def start_deadlines(tx: Tx, root_run: UUID) -> None:
    """The tree suspends: from now on a person can answer, so the deadlines of its pending calls start."""
    await tx.execute(
        sa.update(call)
        .where(
            call.c.root_run == root_run,
            call.c.state == CallState.PENDING,
            call.c.deadline_s.is_not(None),
            call.c.deadline_at.is_(None),
        )
        .values(deadline_at=sa.func.now() + call.c.deadline_s * sa.func.make_interval(0, 0, 0, 0, 0, 0, 1))
    )


async def overdue(tx: Tx, *, limit: int) -> list[tuple[UUID, str]]:
    """(session, call) of pending calls past their deadline."""
    query = (
        sa.select(call.c.session_id, call.c.call_id)
        .where(call.c.state == CallState.PENDING, call.c.deadline_at < sa.func.now())
        .order_by(call.c.deadline_at)
        .limit(limit)
    )
    return [(row[0], row[1]) for row in await tx.execute(query)]


async def purge_tombstones(tx: Tx, retention_s: float, *, limit: int) -> int:
    """Drops calls settled longer ago than ``retention_s``, never while their run is live. Returns how many."""
    age = sa.func.now() - sa.func.make_interval(0, 0, 0, 0, 0, 0, retention_s)
    live = sa.exists().where(run.c.id == call.c.root_run, run.c.state.in_(LIVE))
    due = (
        sa.select(call.c.session_id, call.c.call_id)
        .where(call.c.settled_at < age, ~live)
        .limit(limit)
        .with_for_update(skip_locked=True, of=call)
        .subquery()
    )
    statement = sa.delete(call).where(sa.tuple_(call.c.session_id, call.c.call_id).in_(sa.select(due)))
    return (await tx.execute(statement)).rowcount
