"""A small model of one chat: what an answer becomes and what then waits, as the contract's tables say. No clock, no streams.

Every turn is a script of batches; a batch is a list of ``(id, kind)`` with kind ``client`` or ``approval``.
"""

from dataclasses import dataclass, field
from typing import Any

Batch = list[tuple[str, str]]


@dataclass
class Call:
    """``answer``: what was stored first. ``closed``: the server gave it its result."""

    kind: str
    turn: "Turn"
    answer: dict[str, Any] | None = None
    drained: bool = False
    closed: bool = False

    @property
    def pending(self) -> bool:
        return self.answer is None and not self.closed

    @property
    def approved(self) -> bool:
        return self.kind == "approval" and bool(self.answer and self.answer.get("approved"))


@dataclass
class Turn:
    """``state``: suspended, completed, stopped or superseded. ``waits``: the ids of the batch that is open."""

    user_id: str
    script: list[Batch]
    state: str = "completed"
    waits: list[str] = field(default_factory=list)
    left: list[Batch] = field(default_factory=list)


@dataclass
class Chat:
    """``turns``: what is visible, in order. ``calls``: every call the chat has ever known. ``executed``: approved tools that ran."""

    turns: list[Turn] = field(default_factory=list)
    calls: dict[str, Call] = field(default_factory=dict)
    executed: set[str] = field(default_factory=set)

    @property
    def live(self) -> Turn | None:
        return next((turn for turn in self.turns if turn.state == "suspended"), None)

    @property
    def pending(self) -> set[str]:
        live = self.live
        return {call_id for call_id in live.waits if self.calls[call_id].pending} if live else set()

    def turn_of(self, user_id: str) -> Turn | None:
        return next((turn for turn in self.turns if turn.user_id == user_id), None)

    # what happens

    def begin(self, user_id: str, script: list[Batch]) -> None:
        self.turns.append(Turn(user_id, script, left=list(script)))
        self._go_on(self.turns[-1])

    def outcome(self, call_id: str) -> str:
        """What an answer to this call becomes now."""
        call = self.calls.get(call_id)
        if call is None:
            return "unknown_tool_call"
        if not call.drained and call.turn.state == "stopped":
            return "run_stopped"
        if not call.drained and call.turn.state == "superseded":
            return "stale_run"
        return "stored" if call.pending else "already_completed"

    def submit(self, answers: dict[str, dict[str, Any]]) -> tuple[int, str | None]:
        """Stores what can be stored; (status, cause) of the response."""
        outcomes = [self.outcome(call_id) for call_id in answers]
        for call_id, outcome in zip(answers, outcomes, strict=True):
            if outcome == "stored":
                self.calls[call_id].answer = answers[call_id]
        live = self.live
        if "stored" in outcomes and live is not None and not self.pending:
            self._drain(live)
        if {"stored", "already_completed"} & set(outcomes):
            return 200, None
        return 409, next(c for c in ("run_stopped", "stale_run", "unknown_tool_call") if c in outcomes)

    def abandon(self, answers: dict[str, dict[str, Any]]) -> None:
        """A new message takes the place of the live run; what its tab had filled in is taken first."""
        for call_id, answer in answers.items():
            if self.outcome(call_id) == "stored":
                self.calls[call_id].answer = answer
        self._close("superseded")

    def stop(self) -> None:
        self._close("stopped")

    def rewind(self, user_id: str, script: list[Batch] | None) -> None:
        """An edit (with another script) or a regeneration."""
        self._close("superseded")
        turn = self.turn_of(user_id)
        assert turn is not None
        del self.turns[self.turns.index(turn) :]
        self.begin(user_id, turn.script if script is None else script)

    def _close(self, state: str) -> None:
        live = self.live
        if live is None:
            return
        for call_id in live.waits:
            call = self.calls[call_id]
            call.closed = call.closed or call.answer is None or call.approved
        live.state, live.waits = state, []

    def _drain(self, turn: Turn) -> None:
        for call_id in turn.waits:
            call = self.calls[call_id]
            call.drained = True
            if call.approved:
                self.executed.add(call_id)
        self._go_on(turn)

    def _go_on(self, turn: Turn) -> None:
        turn.waits = []
        if not turn.left:
            turn.state = "completed"
            return
        for wanted, kind in turn.left.pop(0):
            call_id = self._free(wanted)
            self.calls[call_id] = Call(kind, turn)
            turn.waits.append(call_id)
        turn.state = "suspended"

    def _free(self, wanted: str) -> str:
        names = [wanted, *(f"{wanted}_{n}" for n in range(2, 1000))]
        return next(name for name in names if name not in self.calls)
