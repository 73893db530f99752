"""One line for one fact: structlog for ours, and the standard library's loggers through the same renderer.

`configure` is called once, by `__main__` or the composition root; importing this file changes nothing.
A line holds what was bound to the context (`bound(request_id=…)`), an event named `noun.past_participle`, and
data as keys. Prompts, outputs and answers are never handed to a logger.

An exception is not printed as a traceback, whose text may quote anything: its chain becomes `causes` (a type
and a message each, with secrets masked), and its place `trace` (file, line, function; no source, no values).
"""

import json
import logging
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from types import TracebackType
from typing import Any, Literal, TextIO, cast

import orjson
import structlog
from structlog.contextvars import bound_contextvars as bound
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

__all__ = ["Outage", "bound", "cause_chain", "configure", "get_logger", "mask"]

MESSAGE_LIMIT = 500  # characters of one exception's message
# Of these the secrets are masked; the rest, which may be megabytes, is not looked at.
READ_LIMIT = 20 * MESSAGE_LIMIT
KEY_LENGTH = 8  # a shorter one may be an ordinary word
CHAIN_LIMIT = 10
TRACE_LIMIT = 30

# Libraries that tell bodies, URLs or SQL at a lower level, or what nobody asks or our own canonical lines say.
QUIET = (
    "alembic.runtime.plugins", "anthropic", "asyncpg", "httpcore", "httpcore2", "httpx", "httpx2", "mcp", "openai", "sqlalchemy",
    "uvicorn.access",
)  # fmt: skip

# No pattern begins with a repetition: a message may quote a megabyte of anything, and has to be read in one go.
_NAMED = r"(?:passw(?:or)?d|api[_-]?key|access[_-]?key|secret|token"
_SECRETS = (
    (re.compile(r"(://[^\s:/@]*):[^\s/]*@"), r"\1:***@"),
    (re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]{6,}", re.IGNORECASE), r"\1 ***"),
    (re.compile(r"\bsk-[\w-]{6,}"), "sk-***"),
    (re.compile(rf"({_NAMED})=)[^\s&;,'\"]+", re.IGNORECASE), r"\1***"),
    # of a dict or a JSON text that is quoted: headers, a body, arguments
    (
        re.compile(rf"""({_NAMED}|authorization|cookie)['"]\s?[:=]\s?)(?:"[^"]*"|'[^']*')""", re.IGNORECASE),
        r"\1***",
    ),
)
_KEY_NAME = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD)$", re.IGNORECASE)
_known: list[re.Pattern[str]] = []
# What asyncpg's messages add to the plain fact: values of a row, of an argument.
_QUOTED = re.compile(r"(?s)\nDETAIL:.*|(?<=for query argument )(\$\d+): .*")


def configure(
    format: Literal["json", "console"],  # noqa: A002, the setting's name
    stream: TextIO | None = None,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Send every log line of this process to `stream` (default: standard output), one line each.

    What `environment` holds under the name of a key, token, secret or password is masked wherever it is said: a provider's
    refusal quotes the key, and not every key looks like one.
    """
    keys = {value for name, value in (environment or {}).items() if _KEY_NAME.search(name)}
    known = sorted((value for value in keys if len(value) >= KEY_LENGTH), key=len, reverse=True)
    _known[:] = [re.compile("|".join(map(re.escape, known)))] if known else []
    out = stream or sys.stdout
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _tell_exception,
        _mask_values,
    ]
    renderer: Processor
    if format == "json":
        renderer = structlog.processors.JSONRenderer(serializer=_to_json)
    else:
        renderer = structlog.dev.ConsoleRenderer(colors=out.isatty(), repr_native_str=True)
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def get_logger(name: str) -> FilteringBoundLogger:
    """A logger for a module: `log = get_logger(__name__)`."""
    return cast("FilteringBoundLogger", structlog.get_logger(name))


class Outage:
    """Something that is tried until it works: a line when it first fails, one when it works again, none between."""

    def __init__(self, log: FilteringBoundLogger, failed: str, resumed: str) -> None:
        self._log = log
        self._events = failed, resumed
        self._tries = 0

    def failed(self, error: BaseException) -> None:
        self._tries += 1
        if self._tries == 1:
            self._log.warning(self._events[0], causes=cause_chain(error))

    def over(self) -> None:
        """It works; also said when nothing had failed."""
        tries, self._tries = self._tries, 0
        if tries:
            self._log.info(self._events[1], tries=tries)


def mask(text: str) -> str:
    """`text` without what looks like a password, token or key: `scheme://user:***@host`."""
    for pattern in _known:
        text = pattern.sub("***", text)
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


# --- exceptions ---------------------------------------------------------------------------------------------


def cause_chain(error: BaseException, *, said: str = "") -> list[str]:
    """The exception, what caused it, and so on: `module.Type: message`, outermost first, at most ten.

    Follows `__cause__`, else `__context__` unless it was suppressed; of a group, its members. A message is
    one line of at most 500 characters without secrets. Of an error that quotes its input (validation, SQL)
    only the position, kind or code is told. A link that only repeats `said`, what the line says already, is
    left out.
    """
    chain: list[str] = []
    for link in _links(error):
        if len(chain) == CHAIN_LIMIT:
            chain.append("…")
            break
        message = _safe_message(link)
        if said and message == said:
            continue
        chain.append(f"{_type_name(link)}: {message}" if message else _type_name(link))
    return chain


def _links(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting: list[BaseException] = [error]
    while waiting:
        link = waiting.pop(0)
        if id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        if isinstance(link, BaseExceptionGroup):
            waiting.extend(cast("BaseExceptionGroup[BaseException]", link).exceptions)
        if link.__cause__ is not None:
            waiting.append(link.__cause__)
        elif link.__context__ is not None and not link.__suppress_context__:
            waiting.append(link.__context__)


def _type_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _safe_message(error: BaseException) -> str:
    try:
        text = _message(error)
    except Exception as fault:  # a log line must not fail because an exception cannot be printed
        text = f"<message lost: {type(fault).__name__}>"
    text = mask(" ".join(text[:READ_LIMIT].split()))
    return text if len(text) <= MESSAGE_LIMIT else text[: MESSAGE_LIMIT - 1] + "…"


def _message(error: BaseException) -> str:
    # Told apart by shape, since this file knows no library of the rooms above it.
    attributes = cast("Any", error)
    if hasattr(error, "statement") and hasattr(error, "orig"):  # SQLAlchemy: SQL and values
        return ""  # its cause says why
    if hasattr(error, "error_count") and hasattr(error, "errors"):  # pydantic
        faults = attributes.errors(include_url=False, include_input=False, include_context=False)
        return "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['type']}" for fault in faults[:5])
    if isinstance(error, OSError) and error.strerror:
        return f"[Errno {error.errno}] {error.strerror}"
    text = _QUOTED.sub("", str(error))
    if isinstance(sqlstate := getattr(error, "sqlstate", None), str):  # asyncpg and SQLAlchemy's copy of it
        constraint = getattr(error, "constraint_name", None)
        text += f" (sqlstate {sqlstate}" + (f", constraint {constraint})" if constraint else ")")
    return text


def _tell_exception(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    error = _exception_of(event.pop("exc_info", None))
    event.pop("stack_info", None)
    if error is not None:
        event["causes"] = cause_chain(error)
        event["trace"] = _trace(error.__traceback__)
    return event


def _exception_of(exc_info: object) -> BaseException | None:
    if isinstance(exc_info, BaseException):
        return exc_info
    if isinstance(exc_info, tuple):
        return cast("tuple[Any, BaseException | None, Any]", exc_info)[1]
    return sys.exc_info()[1] if exc_info else None


def _trace(begin: TracebackType | None) -> list[str]:
    frames = [(code.f_code, line) for code, line in traceback.walk_tb(begin)]
    return [f"{code.co_filename}:{line} {code.co_qualname}" for code, line in frames[-TRACE_LIMIT:]]


# --- rendering ----------------------------------------------------------------------------------------------


def _mask_values(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = mask(value)
    return event


def _to_json(event: Mapping[str, Any], **_: Callable[[Any], Any]) -> str:
    try:
        return orjson.dumps(event, default=_unknown, option=orjson.OPT_NON_STR_KEYS).decode()
    except (TypeError, orjson.JSONEncodeError):  # a lone surrogate, an integer over 64 bits
        return json.dumps(event, default=_unknown)


def _unknown(value: object) -> str:
    return str(value) if isinstance(value, PurePath) else f"<{type(value).__name__}>"
