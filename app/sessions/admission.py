"""May one more run begin, and has it a slot here? Asked in the transaction that would begin it, after everything else was decided."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

import orjson

from app.errors import Code, ServiceError
from app.sessions.owner_quota import OwnerQuota
from app.store import runs
from app.store.sessions import Session
from app.store.transaction import Tx

WAITING_RETRY_S = 5.0
DRAINING_RETRY_S = 2.0


class Agents(Protocol):
    """The names that a session may begin with."""

    @property
    def default(self) -> str: ...

    def get(self, name: str) -> object | None: ...


class Runtime(Protocol):
    """Drives what this replica claims."""

    @property
    def draining(self) -> bool: ...

    def has_room(self) -> bool: ...
    def wake(self, run_id: UUID, epoch: int) -> None: ...
    def announce(self, run_id: UUID) -> None: ...
    def adopt(self, run_id: UUID) -> None: ...


@dataclass(frozen=True, slots=True)
class Policy:
    """``max_waiting``: runs that may wait unclaimed, on all replicas. ``max_message_bytes``: of one stored message.
    ``quota``: what one owner may have."""

    interrupt: bool
    max_waiting: int
    max_message_bytes: int
    quota: OwnerQuota


class Admission:
    def __init__(self, agents: Agents, runtime: Runtime, policy: Policy) -> None:
        self._agents = agents
        self._runtime = runtime
        self._policy = policy

    async def admit(self, tx: Tx, session: Session, parts: Sequence[dict[str, Any]]) -> bool:
        """``parts``: the user message's. ``False``: the run waits, unclaimed, for a slot anywhere.

        Raises ``framework_draining``, ``framework_not_supported``, ``state_size_exceeded`` or ``rate_limited``."""
        if self._runtime.draining:
            raise ServiceError(Code.FRAMEWORK_DRAINING, retry_after_s=DRAINING_RETRY_S)
        if self._agents.get(session.agent) is None:
            raise ServiceError(Code.FRAMEWORK_NOT_SUPPORTED, f"agent {session.agent} is not registered")
        if len(orjson.dumps(list(parts))) > self._policy.max_message_bytes:
            raise ServiceError(Code.STATE_SIZE_EXCEEDED, "the user message is over the store's limit")
        await self._policy.quota.check_live(tx, session.owner)
        waiting = await runs.waiting(tx)
        room = self._runtime.has_room() and not waiting  # who waits for a slot was here first
        if not room and waiting >= self._policy.max_waiting:
            raise ServiceError(
                Code.RATE_LIMITED, "too many runs wait for a slot", retry_after_s=WAITING_RETRY_S
            )
        return room
