"""What became of a built-in tool's call, said in a sentence: the voice of the demo.

``tell`` takes a result as in ``domain.history``. A client may have answered anything, so every sentence copes
with any JSON value.
"""

import json
from collections.abc import Mapping
from typing import Any, cast

from app.domain.call_state import Outcome

_FAILED: dict[Outcome, str] = {
    Outcome.ERROR: "{tool} did not work: {value}",
    Outcome.DENIED: "You said no to {tool}, so I left it. {value}",
    Outcome.ABANDONED: "{tool} was left unanswered.",
    Outcome.TIMEOUT: "{tool} was not answered in time.",
    Outcome.STOPPED: "{tool} was stopped.",
    Outcome.UNKNOWN: "{tool} was interrupted; whether it took effect is not known, so I do not repeat it.",
}

_SHOWN = 400


def tell(result: Mapping[str, Any]) -> str:
    """One or two sentences about a tool's result."""
    outcome, tool = Outcome(result["outcome"]), result["tool"]
    value: Any = result["value"]
    if outcome is not Outcome.OK:
        return _FAILED[outcome].format(tool=tool, value=_shown(value)).strip()
    fields: dict[str, Any] = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    try:
        return _OK[tool].format_map(fields)
    except (KeyError, ValueError, IndexError, AttributeError):
        return f"{tool} answered: {_shown(result['value'])}."


_OK: dict[str, str] = {
    "get_weather": "In {city} it is {conditions} at {temperatureC} °C.",
    "slow": "Done, after {waitedMs} ms.",
    "get_location": "You are at {latitude}, {longitude}.",
    "send_email": "The mail to {to} is sent.",
    "publish_note": "The note “{title}” is published.",
}
"""What a tool says of an output that has these fields; any other output is shown as it is."""


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
