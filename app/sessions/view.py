"""What a reader of a stream needs, in one look: the run, its message and the answers that are not in it yet."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.domain.call_state import CallState, CloseCode
from app.domain.results import closed
from app.domain.run_state import RunState
from app.domain.ui_message import Part, answered_state
from app.store import calls, messages, runs, sessions
from app.store import frames as frame_rows
from app.store.calls import Call
from app.store.frames import Slice
from app.store.transaction import Store


@dataclass(frozen=True, slots=True)
class RunView:
    """``parts`` hold every frame up to ``watermark``; ``step_open``: whether a step is open there. ``answered``: call id → what its
    part shows between its answer and its drain. ``batch_complete``: no call of the tree is pending."""

    run_id: UUID
    session_id: UUID
    message_id: str
    state: RunState
    error_code: str | None
    epoch: int
    watermark: int
    step_open: bool
    parts: list[Part]
    metadata: Mapping[str, Any]
    answered: Mapping[str, Part]
    batch_complete: bool


def answered_parts(calls_: list[Call]) -> dict[str, Part]:
    """What the parts of answered calls show until their drain. A deadline's answer is the server's, so it is flagged."""
    shown: dict[str, Part] = {}
    for call in calls_:
        if call.state is not CallState.ANSWERED or call.answer is None:
            continue
        if call.error_code == CloseCode.TIMEOUT:
            text = str(closed(CloseCode.TIMEOUT).value)
            shown[call.call_id] = {"state": "output-error", "errorText": text, "providerExecuted": True}
        else:
            shown[call.call_id] = answered_state(call.kind, call.answer, call.approval_id)
    return shown


class Views:
    """Short reads, one each; never one a stream."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def look(self, run_id: UUID) -> RunView | None:
        """The message and the watermark belong together; answers may be newer, which the frames after the watermark repeat."""
        async with self._store.transaction() as tx:
            found = await messages.with_run(tx, run_id)
            if found is None:
                return None
            message, run = found
            tree_calls = (
                await calls.of_tree(tx, run_id) if run.state in (RunState.RUNNING, RunState.SUSPENDED) else []
            )
        return RunView(
            run_id=run.id,
            session_id=run.session_id,
            message_id=message.id,
            state=run.state,
            error_code=run.error_code,
            epoch=run.epoch,
            watermark=run.frame_seq,
            step_open=run.step_open,
            parts=message.parts,
            metadata=message.metadata or {},
            answered=answered_parts(tree_calls),
            batch_complete=not any(call.state is CallState.PENDING for call in tree_calls),
        )

    async def frames_after(self, run_id: UUID, seq: int) -> Slice | None:
        async with self._store.transaction() as tx:
            return await frame_rows.read_after(tx, run_id, seq)

    async def mark_cut(self, run_id: UUID) -> None:
        """A client may hold less of this run's message than there is. Only the last run's mark counts."""
        async with self._store.transaction() as tx:
            run = await runs.get(tx, run_id)
            if run is None or await sessions.lock_by_id(tx, run.session_id) is None:
                return
            last = await runs.current(tx, run.session_id)
            if last is not None and last.id == run_id:
                await sessions.mark_cut(tx, run.session_id, run_id)
