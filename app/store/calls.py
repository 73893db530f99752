"""Call rows: pending calls, the ledger of tools and the completed tombstones, one state machine (``domain.call_state``)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from app.domain.answers import CallFacts
from app.domain.call_state import ANSWERABLE, ASKS, CallEvent, CallKind, CallState, Outcome, leaves
from app.domain.run_state import LIVE, RunState
from app.store.engine import dumps
from app.store.faults import CorruptRow
from app.store.statements import holdable, one_of
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
_COLUMNS = ", ".join(f"call.{name}" for name in _NAMES)
_SELECT = f"select {_COLUMNS} from call "

# How each column travels when many rows are inserted at once. JSON goes as text: an array of JSON arrays would be read as an array
# of two dimensions.
_TYPES = {
    "call_id": "text", "run_id": "uuid", "root_run": "uuid", "step": "int", "ordinal": "int", "batch": "int", "kind": "text",
    "tool": "text", "input": "json", "approval_id": "text", "child_run": "uuid", "output_schema": "json", "deadline_s": "float8",
    "deadline_at": "timestamptz", "state": "text", "answer": "json", "outcome": "text", "value": "json", "error_code": "text",
    "drained": "bool",
}  # fmt: skip
_ARRAYS = ", ".join(
    f"${number}::{'text' if _TYPES[name] == 'json' else _TYPES[name]}[]"
    for number, name in enumerate(_NAMES, start=2)
)
_VALUES = ", ".join(f"new.{name}::json" if _TYPES[name] == "json" else f"new.{name}" for name in _NAMES)

# All calls of a response in one statement; one that is settled already gets its time here.
_INSERT = f"""
    insert into call (session_id, settled_at, {", ".join(_NAMES)})
    select $1::uuid, case when new.state = 'settled' then now() end, {_VALUES}
    from unnest({_ARRAYS}) as new ({", ".join(_NAMES)})
"""

_OF_TREE = _SELECT + "where root_run = $1 order by created_at, step, ordinal"

_GET = _SELECT + "where session_id = $1 and call_id = $2"

_KNOWN_IDS = "select call_id from call where session_id = $1"

# A call with what a submit asks of its root run.
_FACTS = """
    select call.call_id, call.root_run, call.kind, call.state, call.approval_id, call.drained, call.answer, call.error_code,
        run.state, run.stop_requested_at is not null, call.batch
    from call join run on run.id = call.root_run
    where call.session_id = $1 and call.call_id = any($2::text[])
"""

_PENDING = "select count(*) from call where root_run = $1 and state = 'pending'"

_ANSWERABLE_OF_BATCH = f"""
    select call_id from call where root_run = $1 and batch = $2 and kind in ({one_of(ANSWERABLE)})
    order by created_at, step, ordinal
"""

# Only a pending call takes an answer, so of any number that come at once one is stored.
_ANSWER = f"""
    update call set state = 'answered', answer = $3, error_code = $4, answered_at = now()
    where session_id = $1 and call_id = $2 and state in ({one_of(leaves(CallEvent.ANSWER))})
    returning true
"""

_BEGIN = f"""
    update call set state = 'started'
    where session_id = $1 and call_id = any($2::text[]) and state in ({one_of(leaves(CallEvent.BEGIN))})
"""

# A tool that has begun asks: its call waits from now on, as what it has become.
_ASK = f"""
    update call set state = 'pending', kind = $3, approval_id = $4
    where session_id = $1 and call_id = $2 and kind in ({one_of(ASKS)}) and state in ({one_of(leaves(CallEvent.ASK))})
    returning true
"""

# Whatever the call was doing, it gets one result: that of its tool, or the one its closing gives it.
_SETTLE = f"""
    update call set state = 'settled', outcome = $3, value = $4, error_code = $5, settled_at = now()
    where session_id = $1 and call_id = $2
    and state in ({one_of(leaves(CallEvent.SETTLE) | leaves(CallEvent.CLOSE))})
    returning true
"""

_DRAIN = "update call set drained = true where session_id = $1 and call_id = any($2::text[])"

# A deadline begins once.
_START_DEADLINES = """
    update call set deadline_at = now() + make_interval(secs => deadline_s)
    where root_run = $1 and state = 'pending' and deadline_s is not null and deadline_at is null
"""

# By the database's clock, the longest overdue first.
_OVERDUE = """
    select session_id, call_id from call where state = 'pending' and deadline_at < now()
    order by deadline_at limit $1
"""

# Tombstones past their time. Rows that another replica is purging are left to it.
_PURGE = f"""
    with due as (
        select session_id, call_id from call
        where settled_at < now() - make_interval(secs => $1)
        and not exists (select from run where run.id = call.root_run and run.state in ({one_of(LIVE)}))
        limit $2 for update skip locked
    ), gone as (
        delete from call using due where call.session_id = due.session_id and call.call_id = due.call_id
        returning 1
    )
    select count(*) from gone
"""


def _read(row: Iterable[Any]) -> Call:
    found = Call(*row)
    try:
        found.kind, found.state = CallKind(found.kind), CallState(found.state)
        found.outcome = Outcome(found.outcome) if found.outcome else None
    except ValueError as error:
        raise CorruptRow(f"call {found.call_id} is of an unknown kind or state") from error
    _check_answer(found.call_id, found.answer)
    return found


def _read_facts(row: Iterable[Any]) -> CallFacts:
    call_id, root_run, kind, state, approval_id, drained, value, error_code, root_state, stopped, batch = row
    _check_answer(call_id, value)
    try:
        return CallFacts(
            call_id,
            root_run,
            CallKind(kind),
            CallState(state),
            approval_id,
            drained,
            value,
            error_code,
            RunState(root_state),
            stopped,
            batch,
        )
    except ValueError as error:
        raise CorruptRow(f"call {call_id} is of an unknown kind or state") from error


def _check_answer(call_id: str, value: object) -> None:
    if value is not None and not isinstance(value, dict):
        raise CorruptRow(f"the answer of call {call_id}")


async def insert(tx: Tx, session_id: UUID, rows: Sequence[Call]) -> None:
    """The calls of a response, as they are: usually ready or pending, or settled when they were refused."""
    if rows:
        await tx.execute(_INSERT, session_id, *([_sent(row, name) for row in rows] for name in _NAMES))


def _sent(row: Call, name: str) -> Any:
    value = getattr(row, name)
    return dumps(value) if _TYPES[name] == "json" and value is not None else value


async def of_tree(tx: Tx, root_run: UUID) -> list[Call]:
    """All calls of a tree, in the order they were made."""
    return [_read(row) for row in await tx.fetch(_OF_TREE, root_run)]


async def known_ids(tx: Tx, session_id: UUID) -> set[str]:
    """Every call id the session has seen and still keeps."""
    return {row[0] for row in await tx.fetch(_KNOWN_IDS, session_id)}


async def facts(tx: Tx, session_id: UUID, call_ids: Iterable[str]) -> dict[str, CallFacts]:
    """What a submit looks at, of the calls that this session knows. Corrupt rows raise ``CorruptRow``."""
    return {row[0]: _read_facts(row) for row in await tx.fetch(_FACTS, session_id, holdable(call_ids))}


async def get(tx: Tx, session_id: UUID, call_id: str) -> Call | None:
    row = await tx.fetchrow(_GET, session_id, call_id)
    return _read(row) if row is not None else None


async def pending(tx: Tx, root_run: UUID) -> int:
    """How many calls of the tree wait for an answer."""
    return int(await tx.fetchval(_PENDING, root_run))


async def answerable_of_batch(tx: Tx, root_run: UUID, batch: int) -> list[str]:
    """The ids of a batch's client and approval calls, in order."""
    return [row[0] for row in await tx.fetch(_ANSWERABLE_OF_BATCH, root_run, batch)]


async def answer(
    tx: Tx, session_id: UUID, call_id: str, value: Mapping[str, Any], *, error_code: str | None = None
) -> bool:
    """Stores the answer of a pending call, once: ``False`` when it is not pending any more."""
    return await tx.fetchval(_ANSWER, session_id, call_id, dict(value), error_code) is True


async def begin(tx: Tx, session_id: UUID, call_ids: Sequence[str]) -> None:
    """Commits that these calls begin: after a crash they are never run again unless their tool is retry-safe."""
    if call_ids:
        await tx.execute(_BEGIN, session_id, list(call_ids))


async def ask(tx: Tx, session_id: UUID, call_id: str, kind: CallKind, approval_id: str | None) -> bool:
    """A begun server call waits for a person, as a call of ``kind``; ``False`` when it is none, or has a result."""
    return await tx.fetchval(_ASK, session_id, call_id, kind, approval_id) is True


async def settle(
    tx: Tx, session_id: UUID, call_id: str, outcome: Outcome, value: Any, error_code: str | None
) -> bool:
    """Gives a call its one result; ``False`` when it has one."""
    return await tx.fetchval(_SETTLE, session_id, call_id, outcome, value, error_code) is True


async def drain(tx: Tx, session_id: UUID, call_ids: Sequence[str]) -> None:
    """The tree goes on with these calls' answers: they are their own completed tombstones from now on."""
    if call_ids:
        await tx.execute(_DRAIN, session_id, list(call_ids))


async def start_deadlines(tx: Tx, root_run: UUID) -> None:
    """The tree suspends: from now on a person can answer, so the deadlines of its pending calls start."""
    await tx.execute(_START_DEADLINES, root_run)


async def overdue(tx: Tx, *, limit: int) -> list[tuple[UUID, str]]:
    """(session, call) of pending calls past their deadline."""
    return [(row[0], row[1]) for row in await tx.fetch(_OVERDUE, limit)]


async def purge_tombstones(tx: Tx, retention_s: float, *, limit: int) -> int:
    """Drops calls settled longer ago than ``retention_s``, never while their run is live. Returns how many."""
    return int(await tx.fetchval(_PURGE, retention_s, limit))
