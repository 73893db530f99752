"""How much may one owner do at once? In memory and of this replica alone: with n replicas an owner gets n times as much.

Each limit is refused with 429 ``rate_limited`` and ``Retry-After`` before anything is stored. What an owner may have on all replicas
together is ``sessions.owner_quota``.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from app.clock import monotonic
from app.errors import Code, ServiceError

STREAM_RETRY_S = 5.0
BUCKETS = 10_000
"""Owners whose rate is remembered; above that the buckets that are full again are forgotten."""


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """Of one request. ``seconds``: for its whole body to arrive; ``parts``: of one message, and the answers of one request."""

    bytes: int
    seconds: float
    messages: int
    parts: int

    def check(self, fields: Mapping[str, Any]) -> None:
        """Counts what a parsed body holds. Raises ``validation_payload_too_large``; other faults are for the parser to find."""
        messages = fields.get("messages")
        if isinstance(messages, list):
            _at_most(cast("list[Any]", messages), self.messages, "messages")
            for message in cast("list[Any]", messages):
                self._check_parts(message)
        self._check_parts(fields.get("message"))
        answers = fields.get("answers")
        if isinstance(answers, list):
            _at_most(cast("list[Any]", answers), self.parts, "answers")

    def _check_parts(self, message: object) -> None:
        parts = cast("dict[str, Any]", message).get("parts") if isinstance(message, dict) else None
        if isinstance(parts, list):
            _at_most(cast("list[Any]", parts), self.parts, "parts of a message")


def _at_most(values: Sequence[Any], limit: int, what: str) -> None:
    if len(values) > limit:
        raise ServiceError(Code.VALIDATION_PAYLOAD_TOO_LARGE, f"over {limit} {what}")


class OwnerLimits:
    """``rate``: requests per second (twice as many in a burst), ``streams``: open at a time; ``None`` is no limit.

    ``refused`` is told the name of the limit that a request ran into."""

    def __init__(
        self,
        *,
        rate: float | None,
        streams: int | None,
        refused: Callable[[str], None] = lambda _: None,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._rate = rate
        self._streams = streams
        self._refused = refused
        self._now = now
        self._buckets: dict[str, tuple[float, float]] = {}  # owner → (tokens, when)
        self._open: Counter[str] = Counter()

    @property
    def open_streams(self) -> int:
        return self._open.total()

    def admit(self, owner: str) -> None:
        """Counts one request. Raises ``rate_limited``."""
        if self._rate is None:
            return
        now, most = self._now(), max(1.0, 2 * self._rate)
        tokens, at = self._buckets.get(owner, (most, now))
        tokens = min(most, tokens + (now - at) * self._rate)
        if tokens < 1:
            self._refused("owner_rate")
            raise ServiceError(
                Code.RATE_LIMITED, "the owner's request rate", retry_after_s=(1 - tokens) / self._rate
            )
        if len(self._buckets) >= BUCKETS and owner not in self._buckets:
            self._forget_full(now, most)
        self._buckets[owner] = (tokens - 1, now)

    def _forget_full(self, now: float, most: float) -> None:
        rate = self._rate or 0.0
        self._buckets = {
            owner: (tokens, at)
            for owner, (tokens, at) in self._buckets.items()
            if tokens + (now - at) * rate < most
        }

    def open_stream(self, owner: str) -> Callable[[], None]:
        """Takes a stream's place; call what is returned when the stream is over. Raises ``rate_limited``."""
        if self._streams is not None and self._open[owner] >= self._streams:
            self._refused("owner_streams")
            raise ServiceError(Code.RATE_LIMITED, "the owner's open streams", retry_after_s=STREAM_RETRY_S)
        self._open[owner] += 1

        def close() -> None:
            self._open[owner] -= 1
            if self._open[owner] <= 0:
                del self._open[owner]

        return close
