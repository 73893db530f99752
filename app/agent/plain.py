"""Any value a tool returns, as plain JSON: what is stored, sent to the model and framed for the client.

Models, dataclasses, dates, UUIDs, decimals, enums, sets and bytes (base64) are dumped the way pydantic dumps
them. What JSON cannot say is replaced rather than refused: NaN and Infinity by null, an integer over 64 bits
by the float a browser would read, half a surrogate pair by U+FFFD; each time with a warning in the log.

Fails with ``ValueError`` (or what the value's own code raises) for a value that has no JSON form, refers to
itself or is nested deeper than ``MAX_DEPTH``: a client posts tool values back inside its messages, and a body
nested deeper than the request's limit would be refused for ever.
"""

import math
from collections.abc import Mapping
from typing import Any, cast

from pydantic_core import to_jsonable_python

from app.log import get_logger

log = get_logger(__name__)

MAX_DEPTH = 48

_MIN_INT, _MAX_INT = -(2**63), 2**64 - 1


def plain(value: object) -> Any:
    """``value`` as JSON values only: dict with string keys, list, str, int, float, bool, None."""
    replaced: set[str] = set()
    result = _plain(value, MAX_DEPTH, replaced)
    if replaced:
        log.warning("tool_value.replaced", kinds=sorted(replaced))
    return result


def _plain(value: object, depth: int, replaced: set[str]) -> Any:
    if value is None or value is True or value is False:
        return value
    kind = type(value)
    if kind is str:
        return _text(cast("str", value), replaced)
    if kind is int:
        return _integer(cast("int", value), replaced)
    if kind is float:
        return _number(cast("float", value), replaced)
    if depth == 0:
        raise ValueError(f"a tool's value is nested deeper than {MAX_DEPTH}, or refers to itself")
    if kind is dict:
        items = cast("dict[object, object]", value).items()
        return {_key(key, replaced): _plain(item, depth - 1, replaced) for key, item in items}
    if kind is list or kind is tuple:
        return [_plain(item, depth - 1, replaced) for item in cast("list[object]", value)]
    dumped = to_jsonable_python(value, bytes_mode="base64", by_alias=True)
    if type(dumped) not in (dict, list, str, int, float, bool, type(None)):
        raise ValueError(f"a {kind.__name__} has no JSON form")
    return _plain(dumped, depth, replaced)


def _key(key: object, replaced: set[str]) -> str:
    if isinstance(key, str):
        return _text(str(key), replaced)
    dumped: Mapping[str, None] = to_jsonable_python({key: None}, bytes_mode="base64")
    return next(iter(dumped))


def _text(text: str, replaced: set[str]) -> str:
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        replaced.add("surrogate")
        # A whole pair written as two escapes becomes its character; only a half is lost.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _integer(number: int, replaced: set[str]) -> int | float | None:
    if _MIN_INT <= number <= _MAX_INT:
        return number
    replaced.add("big_integer")
    try:
        return float(number)
    except OverflowError:
        return None


def _number(number: float, replaced: set[str]) -> float | None:
    if math.isfinite(number):
        return number
    replaced.add("not_finite")
    return None
