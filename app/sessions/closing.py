"""How a tree ends without its owner: one transaction gives every call its result, writes the message and settles the runs.

Used by the paths that close a live run, by a stop of a run that nobody holds, and by a takeover that is one too many. An owner
settles through ``runs``, which shares ``give_results``.
"""

from collections.abc import Sequence
from uuid import UUID

from app.domain import frames
from app.domain.call_state import CallState, CloseCode
from app.domain.history import Entry, assistant_entry, calls_of, tool_entry, unpaired
from app.domain.results import Result, at_the_end, closed, fold_result, shown, to_model
from app.domain.run_state import RunState
from app.domain.ui_message import MessageFold
from app.errors import Code, error_body
from app.store import calls, history, messages, runs
from app.store import frames as frame_rows
from app.store.calls import Call
from app.store.engine import dumps
from app.store.faults import CorruptRow
from app.store.frames import Frame
from app.store.runs import Run
from app.store.transaction import Tx


def closing_results(
    unsettled: Sequence[Call], *, code: CloseCode, started: CloseCode
) -> list[tuple[Call, Result]]:
    """The result of every call that has none when its tree ends. ``started``: what a tool that runs right now is told."""
    return [
        (call, at_the_end(call.kind, call.state, call.answer, call.error_code, code=code, started=started))
        for call in unsettled
    ]


def stopped_meanwhile(tree_calls: Sequence[Call]) -> list[tuple[Call, Result]]:
    """Calls that the transaction of a stop has closed: their rows have the result, the message does not show it yet."""
    return [
        (call, closed(CloseCode.RUN_STOPPED))
        for call in tree_calls
        if call.error_code == CloseCode.RUN_STOPPED
    ]


def is_shown(fold: MessageFold, call: Call, root_run: UUID) -> bool:
    """Whether the root's message shows this call: its own calls, and what a person answers of its children's."""
    return call.run_id == root_run or fold.call(call.call_id) is not None


def fold_results(fold: MessageFold, root_run: UUID, results: Sequence[tuple[Call, Result]]) -> None:
    for call, result in results:
        if is_shown(fold, call, root_run):
            fold_result(
                fold,
                call.call_id,
                shown(call.kind, call.call_id, call.tool, call.input, result),
                call.answer,
                result,
            )


async def give_results(tx: Tx, session_id: UUID, results: Sequence[tuple[Call, Result]]) -> None:
    for call, result in results:
        await calls.settle(tx, session_id, call.call_id, result.outcome, result.value, result.error_code)


async def pair_history(
    tx: Tx, root: Run, tree_calls: Sequence[Call], results: Sequence[tuple[Call, Result]]
) -> None:
    """The root's last response gets its one tool entry, so that the next turn's model is sent a history that pairs."""
    last = await unanswered(tx, root.session_id)
    if last is not None:
        entry = results_entry(last, root.id, tree_calls, results)
        await history.append(tx, root.session_id, root.id, root.step, [entry], child=False)


async def unanswered(tx: Tx, session_id: UUID) -> Entry | None:
    """The root's last response when its calls have no results yet. One that cannot be read here is left as it is: a run has to
    be able to end beside it."""
    try:
        last = await history.last_of_session(tx, session_id)
    except CorruptRow:
        return None
    return last if last is not None and unpaired([last]) else None


def results_entry(
    response: Entry, run_id: UUID, tree_calls: Sequence[Call], results: Sequence[tuple[Call, Result]] = ()
) -> Entry:
    """The tool entry of a response: one result for each of its calls, in its order."""
    known = {
        call.call_id: Result(call.outcome, call.value, call.error_code)
        for call in tree_calls
        if call.run_id == run_id and call.outcome is not None
    }
    known |= {call.call_id: result for call, result in results if call.run_id == run_id}
    return tool_entry([to_model(part["id"], part["tool"], known[part["id"]]) for part in calls_of(response)])


def partial_entry(texts: Sequence[str]) -> list[Entry]:
    """What was said of a response that a stop or a failure cut: its text, never its calls."""
    said = [text for text in texts if text]
    return [assistant_entry([{"type": "text", "text": text} for text in said])] if said else []


def ending(state: RunState, error_code: str | None) -> frames.Chunk:
    """The frame that ends a stream of a run in this state."""
    if state is RunState.FAILED:
        return frames.error(dumps(error_body(Code(error_code or Code.FRAMEWORK_INTERNAL_ERROR))))
    return frames.FINISH if state in (RunState.COMPLETED, RunState.SUSPENDED) else frames.ABORT


async def settle_without_owner(
    tx: Tx, root: Run, state: RunState, code: CloseCode, *, error_code: str | None = None
) -> None:
    """Settles a whole tree under the session's lock. What an owner had not committed is lost; it finds out on the raised epoch."""
    epoch = await runs.raise_epoch(tx, root.id)
    message = await messages.of_run(tx, root.id)
    tree_calls = await calls.of_tree(tx, root.id)
    fold = MessageFold(message.parts if message else (), message.metadata if message else None)
    unsettled = [call for call in tree_calls if call.state is not CallState.SETTLED]
    results = closing_results(unsettled, code=code, started=CloseCode.OUTCOME_UNKNOWN)
    fold_results(fold, root.id, [*stopped_meanwhile(tree_calls), *results])
    await give_results(tx, root.session_id, results)
    await pair_history(tx, root, tree_calls, results)
    fold.trim()
    await messages.write(tx, root.id, fold.stored(), fold.metadata)
    await frame_rows.discard_after(tx, root.id, root.frame_seq)
    last = Frame.of(root.frame_seq + 1, epoch, ending(state, error_code))
    await frame_rows.insert_committed(tx, root.id, [last])
    await runs.advance(tx, root.id, frame_seq=last.seq, step_open=False)
    await runs.settle(tx, [run.id for run in await runs.tree(tx, root.id)], state, error_code=error_code)
