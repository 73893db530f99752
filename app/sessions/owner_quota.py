"""How much may one owner have, on all replicas together? Counted in the transaction that would make one more.

Both counts take the owner's own lock, to the end of the transaction: two that begin at once must see each other. It is always the last
lock, after the session's, so nobody waits for it in a circle. Without a limit nothing is counted and no lock is taken.
"""

from collections.abc import Callable
from dataclasses import dataclass

from app.errors import Code, ServiceError
from app.store import sessions
from app.store.transaction import Tx

LIVE_RETRY_S = 10.0
SESSIONS_RETRY_S = 60.0
FULL = "There are too many chats. Delete one, then try again."


@dataclass(frozen=True, slots=True)
class OwnerQuota:
    """``live``: root runs that run or wait; ``sessions``: stored chats, of any age. ``None`` is no limit.

    ``refused`` is told the name of the limit that a request ran into."""

    live: int | None = None
    sessions: int | None = None
    refused: Callable[[str], None] = lambda _: None

    async def check_live(self, tx: Tx, owner: str) -> None:
        """Before one more run begins. Raises ``rate_limited``."""
        if self.live is not None and await sessions.live_runs_of_owner(tx, owner) >= self.live:
            self.refused("owner_live")
            raise ServiceError(Code.RATE_LIMITED, "the owner's live runs", retry_after_s=LIVE_RETRY_S)

    async def check_sessions(self, tx: Tx, owner: str) -> None:
        """After one more was created in this transaction, and is locked. Raises ``rate_limited``."""
        if self.sessions is not None and await sessions.owner_has_over(tx, owner, self.sessions):
            self.refused("owner_sessions")
            raise ServiceError(
                Code.RATE_LIMITED, "the owner's chats", retry_after_s=SESSIONS_RETRY_S, sentence=FULL
            )
