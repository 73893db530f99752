"""What the owner of a tree holds of it, all in step with its commits, and what one commit adds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.domain.call_state import CallKind, CallState
from app.domain.history import Entry
from app.domain.results import Result, of_answer
from app.store.calls import Call
from app.store.frames import Frame
from app.store.runs import Run
from app.store.sessions import Session


@dataclass(slots=True)
class Tree:
    """A claimed tree. ``commits`` and the runs' ``step`` count what is committed.

    ``abandoned``: its owner has given it up; a commit that meets a fault is not tried again."""

    session: Session
    root: Run
    children: dict[UUID, Run]
    calls: dict[str, Call]
    parts: list[dict[str, Any]]
    metadata: dict[str, Any]
    known_ids: set[str]
    epoch: int
    commits: int
    batch: int
    abandoned: bool = False

    def calls_of(self, run_id: UUID, step: int) -> list[Call]:
        """The calls of one committed step of one run, in their order."""
        mine = [c for c in self.calls.values() if c.run_id == run_id and c.step == step]
        return sorted(mine, key=lambda c: c.ordinal)

    @property
    def runs(self) -> list[Run]:
        return [self.root, *self.children.values()]

    @property
    def unsettled(self) -> list[Call]:
        return [c for c in self.calls.values() if c.state is not CallState.SETTLED]

    @property
    def claimed_by_answers(self) -> bool:
        """Whether the batch whose last answer claimed the tree is still to be drained. Calls of sub-agents say nothing of it:
        nobody answers them, and one of an earlier batch goes on beside what is asked in this one."""
        return any(
            call.batch < self.batch and not call.drained and call.kind is not CallKind.SUBAGENT
            for call in self.calls.values()
        )

    def take_answers(self, fresh: Mapping[str, Call]) -> "Batch":
        """The complete batch, with the answers that other transactions have stored (``fresh``: the rows as they are now)."""
        batch = Batch([], [], [])
        for seen in fresh.values():
            if seen.drained or seen.kind is CallKind.SUBAGENT:
                continue
            call = self.calls[seen.call_id]
            call.state, call.answer, call.error_code = seen.state, seen.answer, seen.error_code
            batch.calls.append(call)
            if call.state is CallState.ANSWERED and call.answer is not None:
                result = of_answer(call.kind, call.answer, call.error_code)
                if result is None:
                    batch.begun.append(call)
                else:
                    batch.results.append((call, result))
        return batch


@dataclass(frozen=True, slots=True)
class Batch:
    """A complete batch. ``results``: what its answers are; ``begun``: granted approvals, whose tools begin now."""

    calls: list[Call]
    results: list[tuple[Call, Result]]
    begun: list[Call]


@dataclass(frozen=True, slots=True)
class Message:
    """What a commit writes of the root's message: its parts, and the frames that are not in the log yet."""

    parts: Sequence[dict[str, Any]]
    metadata: Mapping[str, Any]
    frames: Sequence[Frame]
    watermark: int
    step_open: bool


@dataclass(frozen=True, slots=True)
class Child:
    """A child run that a response starts: its id, its call in the parent, its agent and the first entry of its history."""

    run_id: UUID
    call_id: str
    agent: str
    first: Entry
