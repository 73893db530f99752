"""What the history's values become on the way to a model, whichever library sends them: a result that is not
an output becomes a sentence, a file becomes bytes, an address or a sentence, a call id one that every
provider takes.
"""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from math import isfinite
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes, urlsplit

from app.agent.plain import plain
from app.domain.call_state import Outcome

_TOLD: dict[Outcome, str] = {
    Outcome.ERROR: "This call failed: {value}",
    Outcome.DENIED: "The user denied this call. Do not make it again unless the user asks for it.",
    Outcome.ABANDONED: "This call was not answered: the user went on with the conversation instead.",
    Outcome.TIMEOUT: "This call was not answered in time.",
    Outcome.STOPPED: "The user stopped this call before it finished.",
    Outcome.UNKNOWN: "This call was interrupted. Whether it took effect is not known; do not repeat it.",
}


def result_text(result: Mapping[str, Any]) -> str:
    """What a model reads of a result (as in ``domain.history``) whose outcome is not ``ok``."""
    outcome = Outcome(result["outcome"])
    text = _TOLD[outcome].format(value=result["value"])
    if outcome is Outcome.DENIED and result["value"]:
        text += f" The user's reason: {result['value']}"
    return text


IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
PDF = "application/pdf"
_TEXTS = frozenset({"application/json", "application/xml", "application/yaml"})
# Who fetches the URL of which file for itself, by the library's name of the adapter. For anybody else the
# library would fetch it from here, wherever it points.
_FETCHES: dict[str, frozenset[str]] = {
    "OpenAIChatModel": IMAGES,
    "OpenAIResponsesModel": IMAGES | {PDF},
    "AnthropicModel": IMAGES | {PDF},
}
_READS_ANYTHING = frozenset({"GoogleModel"})
_HTTPS_ONLY = frozenset({"AnthropicModel"})
_MAX_URL = 8192


class Inline(NamedTuple):
    """A file that is given as its bytes."""

    data: bytes
    media_type: str


def given_file(part: Mapping[str, Any], *, adapter: str) -> Inline | str | None:
    """How a file part is given to a model: inline, ``None`` for its URL as it is, or a text in its place.

    Nothing is ever fetched from here. A file that a provider refuses would make it refuse every later turn of the chat
    too, so one of a kind that it does not take, or that is not what it says it is, is told of instead."""
    url, media_type = part.get("url", ""), media_type_of(part)
    named = f" called {part['filename']}" if part.get("filename") else ""
    remote = _is_remote(url)
    fetched = adapter not in _HTTPS_ONLY or url[:6].lower() == "https:"
    if remote and fetched and media_type in _FETCHES.get(adapter, ()):
        return None
    data = _data_of(url)
    if data and (media_type.startswith("text/") or media_type in _TEXTS):
        return f"[The user attached a file{named} ({media_type}):]\n{_decoded(data, url)}"
    seen = _seen_type(data or b"")
    if data and seen and (media_type in IMAGES or media_type == PDF):
        return Inline(data, seen)
    if data and adapter in _READS_ANYTHING:
        return Inline(data, media_type)
    where = f": {url}" if remote else ""
    return f"[The user attached a file{named} ({media_type}) that cannot be opened here{where}]"


def media_type_of(part: Mapping[str, Any]) -> str:
    """A file part's media type, without its parameters."""
    return str(part["mediaType"]).partition(";")[0].strip().lower()


_BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", PDF),
)


def _seen_type(data: bytes) -> str | None:
    """What a file is by its first bytes; ``None`` for what no provider takes inline."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for beginning, kind in _BEGINNINGS if data.startswith(beginning)), None)


def _is_remote(url: str) -> bool:
    if len(url) > _MAX_URL:  # a data URL; the parser keeps what it has parsed
        return False
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _data_of(url: str) -> bytes | None:
    """The bytes of a data URL; ``None`` for any other URL, and for one that cannot be read."""
    header, comma, body = url.partition(",")
    if not comma or not header.lower().startswith("data:"):
        return None
    if not header.lower().endswith(";base64"):
        return unquote_to_bytes(body)
    try:
        return base64.b64decode(unquote_to_bytes(body), validate=True)
    except binascii.Error:
        return None


def _decoded(data: bytes, url: str) -> str:
    """A text file, in the charset that its data URL names."""
    named = re.search(r";charset=([\w.:-]{1,40})", url.partition(",")[0], re.IGNORECASE)
    try:
        return data.decode(named.group(1) if named else "utf-8", "replace")
    except (LookupError, ValueError):
        return data.decode("utf-8", "replace")


def portable_id(call_id: str) -> str:
    """A call id that every provider takes, made of one that another provider, or a script, chose."""
    if re.fullmatch(r"[A-Za-z0-9_-]{1,40}", call_id):
        return call_id
    return "call_" + hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[:24]


def portable_name(tool: str) -> str:
    """A tool's name as every provider and the wire can carry it. A model may make one up, and would be refused its own
    words for ever."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", tool)[:64] or "unnamed"


def read_input(args: str | Mapping[str, Any] | None, *, empty: Any = None) -> Any:
    """A call's input as the model wrote it: parsed to plain JSON, or its raw text when that cannot be done, or would make
    another number of one. For nothing at all, or ``null``, an empty object, or ``empty``."""
    if not args or (isinstance(args, str) and args.strip() in ("", "null")):
        return {} if empty is None else empty
    text = args if isinstance(args, str) else json.dumps(args)
    with suppress(ValueError, RecursionError):
        return plain(json.loads(text, parse_int=_integer, parse_float=_finite, parse_constant=_finite))
    return plain(text)


def _integer(digits: str) -> int:
    if -(2**63) <= (number := int(digits)) < 2**64:
        return number
    raise ValueError("an integer over 64 bits")  # a tool must not be run with the float next to it


def _finite(digits: str) -> float:
    if isfinite(number := float(digits)):
        return number
    raise ValueError("not a finite number")
