"""What every tree needs of its surroundings, and the two ways its work ends early."""

from dataclasses import dataclass, field
from pathlib import Path

from app.agent.observed import Observer
from app.agent.registry import Registry
from app.clock import NewId
from app.errors import Code
from app.sessions.leases import Leases
from app.sessions.runs import Runs
from app.store.framelog import FrameLog


@dataclass(frozen=True, slots=True)
class Deps:
    """``max_message_bytes``: the store's limit for one message; ``max_parts``: of one message, above which its tools show no more;
    ``max_steps``: no agent gets more in one run."""

    runs: Runs
    leases: Leases
    registry: Registry
    log: FrameLog
    new_id: NewId
    outbox: Path
    max_message_bytes: int
    max_parts: int
    max_steps: int
    observe: Observer = field(default_factory=Observer)


class RunFailed(Exception):
    """The run cannot go on. ``code`` is what its user is told; the original error is the ``__cause__``."""

    def __init__(self, code: Code) -> None:
        super().__init__(str(code))
        self.code = code


class HandedOver(Exception):
    """The replica is draining and the tree has reached a commit: another replica goes on from there."""
