"""What the owner of a tree holds of it, all in step with its commits, and what one commit adds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.domain.call_state import CallState
from app.domain.history import Entry
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
    def unsettled(self) -> list[Call]:
        return [c for c in self.calls.values() if c.state is not CallState.SETTLED]


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
