"""Makes JSON that is near the mark: the names and the values that our parser looks at, in all the wrong places.

From a seed, without hypothesis's own strategies for nested data, which are a hundred times slower than the parser.
"""

import json
from random import Random
from typing import Any


def _words(text: str) -> list[str]:
    return text.split()


KEYS = _words(
    "id sessionId messages message trigger messageId agent role parts content metadata type text url mediaType toolCallId state "
    "input output errorText approval approvalId approved reason providerExecuted answers runId __proto__ data "
)
PART_KEYS = _words(
    "text url mediaType toolCallId state input output errorText approval providerExecuted filename data "
)
WORDS = _words(
    "user assistant system tool submit-message regenerate-message text file tool-get_location tool-send_email dynamic-tool "
    "output-available output-error output-denied input-available input-streaming approval-requested approval-responded "
    "data-x step-start reasoning loc m u0 chat "
)
ODD = [
    None, True, False, 0, -1, 1.5, 1e308, float("nan"), float("inf"), 2**53, 2**63, 2**64, -(2**70), "", " ", "\x00", "\ud800",
    "a\r\nb", "\x1b[2J", "x" * 300, "\u202e", "\U0001f600", "apr_" + "0" * 32 + "_" + "0" * 32, [], {}, [[]], [None], {"": None},
]  # fmt: skip


class Careless(Random):
    """A client that gets most things right and something wrong."""

    def value(self, depth: int = 3) -> Any:
        kind = self.random()
        if depth == 0 or kind < 0.35:
            return self.choice(ODD)
        if kind < 0.6:
            return self.choice(WORDS)
        if kind < 0.65:
            return "".join(chr(self.randrange(0x3000)) for _ in range(self.randrange(8)))
        if kind < 0.8:
            return [self.value(depth - 1) for _ in range(self.randrange(4))]
        return {self.choice(KEYS): self.value(depth - 1) for _ in range(self.randrange(5))}

    def or_odd(self, right: Any, odds: float = 0.15) -> Any:
        return self.value() if self.random() < odds else right

    def part(self) -> Any:
        fields = {key: self.value(2) for key in self.sample(PART_KEYS, self.randrange(6))}
        return self.or_odd({"type": self.or_odd(self.choice(WORDS)), **fields})

    def message(self) -> Any:
        parts = [self.part() for _ in range(self.randrange(4))]
        fields = {
            "id": self.or_odd(f"u{self.randrange(3)}"),
            "role": self.or_odd(self.choice(WORDS[:3])),
            "parts": self.or_odd(parts),
        }
        for key in ("content", "metadata"):
            if self.random() < 0.2:
                fields[key] = self.value()
        return self.or_odd(fields)

    def chat(self) -> Any:
        fields = {
            "id": self.or_odd("chat"),
            "messages": self.or_odd([self.message() for _ in range(self.randrange(4))]),
        }
        for key in ("sessionId", "message", "trigger", "messageId", "agent", "runId", "answers"):
            if self.random() < 0.2:
                fields[key] = self.or_odd(self.choice(WORDS))
        return fields

    def answers(self) -> Any:
        keys = ("toolCallId", "output", "errorText", "approvalId", "approved", "reason")
        given = [
            {key: self.or_odd(self.choice(WORDS)) for key in self.sample(keys, self.randrange(6))}
            for _ in range(self.randrange(4))
        ]
        return {"answers": self.or_odd([self.or_odd(each) for each in given])}

    def body(self) -> Any:
        return self.choice((self.chat, self.chat, self.answers, self.value))()


def written(value: Any) -> bytes:
    """As a careless client would: NaN, Infinity, half surrogates and integers of any size."""
    return json.dumps(value, ensure_ascii=True).encode()
