"""What may follow what in a stream, and how to close what is open.

``StreamState`` reads the chunks a client was sent. ``accept`` raises on one that no client may be sent there (production uses it
as a guard, every streaming test as a checker); ``closing`` gives the chunks that must come before an early end; ``needs_boundary``
says whether an ending would leave a last step that satisfies a stock predicate, so that the client would send once more.
"""

from enum import StrEnum

from app.domain.frames import ENDINGS, FINISH_STEP, Chunk, reasoning_end, text_end


class Place(StrEnum):
    BEFORE = "before"
    """Nothing was sent."""
    BETWEEN = "between"
    """Started, no step open."""
    STEP = "step"
    """Inside a step."""
    ENDED = "ended"


class Said(StrEnum):
    START = "start"
    START_STEP = "start_step"
    FINISH_STEP = "finish_step"
    CONTENT = "content"
    ENDING = "ending"


# A missing pair is a violation; absence is meaningful here.
# fmt: off
FOLLOWS: dict[tuple[Place, Said], Place] = {
    (Place.BEFORE,  Said.START):       Place.BETWEEN,
    (Place.BETWEEN, Said.START):       Place.BETWEEN,
    (Place.BETWEEN, Said.START_STEP):  Place.STEP,
    (Place.BETWEEN, Said.ENDING):      Place.ENDED,
    (Place.STEP,    Said.START):       Place.STEP,      # the start that writes
    (Place.STEP,    Said.CONTENT):     Place.STEP,
    (Place.STEP,    Said.FINISH_STEP): Place.BETWEEN,
}
# fmt: on


class GrammarError(Exception):
    """A chunk that no client may be sent there: a bug of ours."""


def _said(kind: str) -> Said:
    match kind:
        case "start":
            return Said.START
        case "start-step":
            return Said.START_STEP
        case "finish-step":
            return Said.FINISH_STEP
        case _:
            return Said.ENDING if kind in ENDINGS else Said.CONTENT


class StreamState:
    """What one client has been sent so far."""

    def __init__(self) -> None:
        self.place = Place.BEFORE
        self._open: dict[str, str] = {}  # part id → "text" or "reasoning"
        self._used: set[str] = set()
        self._step_calls: dict[str, tuple[str, bool]] = {}  # call of the last step → (state, flagged)

    def accept(self, chunk: Chunk) -> None:
        """Raises ``GrammarError`` when ``chunk`` may not come now."""
        kind: str = chunk["type"]
        if kind.startswith("data-") and chunk.get("transient") and self.place is not Place.BEFORE:
            return  # writes nothing, so it may come anywhere
        following = FOLLOWS.get((self.place, _said(kind)))
        if following is None:
            raise GrammarError(f"{kind} while {self.place}")
        if kind == "finish-step" and self._open:
            raise GrammarError("finish-step with an open text")
        self.place = following
        if kind == "start-step":
            self._step_calls.clear()
        elif kind.startswith(("text-", "reasoning-")):
            self._streamed(kind, chunk)
        elif kind.startswith("tool-"):
            self._tool(kind, chunk)

    def _streamed(self, kind: str, chunk: Chunk) -> None:
        stem, _, verb = kind.partition("-")
        part_id: str = chunk["id"]
        if verb == "start":
            if part_id in self._used:
                raise GrammarError(f"{kind}: the id was used before")
            self._used.add(part_id)
            self._open[part_id] = stem
        elif self._open.get(part_id) != stem:
            raise GrammarError(f"{kind} without its start")
        elif verb == "end":
            del self._open[part_id]

    def _tool(self, kind: str, chunk: Chunk) -> None:
        call_id: str = chunk["toolCallId"]
        state, flagged = self._step_calls.get(call_id, ("", False))
        match kind:
            case "tool-input-start" | "tool-input-delta" | "tool-input-available":
                self._step_calls[call_id] = ("open", flagged or chunk.get("providerExecuted") is True)
            case "tool-approval-request" if state:  # one of an earlier step leaves this one as it is
                self._step_calls[call_id] = ("open", flagged)
            case _ if state:  # an output for a call of an earlier step changes nothing in this one
                flag = chunk.get("providerExecuted")
                self._step_calls[call_id] = ("over", flagged if flag is None else flag)
            case _:
                pass

    def closing(self) -> list[Chunk]:
        """The chunks that close every open part and the step, in order; empty when nothing is open."""
        ends = [text_end(i) if stem == "text" else reasoning_end(i) for i, stem in self._open.items()]
        return [*ends, FINISH_STEP] if self.place is Place.STEP else ends

    def needs_boundary(self) -> bool:
        """The last step has a settled call that a predicate counts, and nothing that holds the predicates back."""
        unflagged = [state for state, flagged in self._step_calls.values() if not flagged]
        return bool(unflagged) and "open" not in unflagged
