"""A client-side loop that nobody foresaw ends in a visible error instead of running for hours.

When the same answers of a session were answered with a harmless step five times within ten seconds, each request read after the
previous step was sent (equal requests at the same time do not count), the next one is ``rate_limited``. In memory, per replica.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

from app.errors import Code, ServiceError

LIMIT = 5
WINDOW_S = 10.0
_KEPT = 10_000

Key = tuple[str, str]


@dataclass(slots=True)
class _Seen:
    sent_at: list[float] = field(default_factory=list[float])


class Breaker:
    """Times are of one monotonic clock, in seconds."""

    def __init__(self) -> None:
        self._seen: OrderedDict[Key, _Seen] = OrderedDict()

    def check(self, key: Key, *, read_at: float) -> None:
        """Raises ``rate_limited`` when this answer would be one harmless step too many. ``read_at``: when the body was read."""
        seen = self._seen.get(key)
        if seen is None:
            return
        seen.sent_at = [at for at in seen.sent_at if at > read_at - WINDOW_S]
        if len(seen.sent_at) >= LIMIT:
            raise ServiceError(
                Code.RATE_LIMITED,
                "the same answers were answered with a harmless step again and again",
                retry_after_s=WINDOW_S,
            )

    def sent(self, key: Key, *, read_at: float, sent_at: float) -> None:
        """A harmless step left at ``sent_at``."""
        seen = self._seen.setdefault(key, _Seen())
        self._seen.move_to_end(key)
        if not seen.sent_at or read_at >= seen.sent_at[-1]:
            seen.sent_at.append(sent_at)
        while len(self._seen) > _KEPT:
            self._seen.popitem(last=False)
