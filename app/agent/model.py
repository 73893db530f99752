"""The port between the step loop and a language model: one model request in, events out.

An adapter is any object with a ``step`` method (``Model``). It yields events while the model speaks and, last and exactly once,
the whole ``ModelResponse``; it raises ``ModelFailure`` for everything that goes wrong, with a code of the error table. It never
runs tools and never retries: both are the loop's.

A stream that ends without the provider saying why it ended is a failure (``provider_bad_response``), not an end.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from app.domain.history import Entry
from app.errors import Code


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model sees it. ``input_schema`` is a JSON schema of an object. ``output``: calling it is the answer,
    and some tool has to be called; an adapter may ask for the same JSON as the response's text instead."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    output: bool = False


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request. ``history`` satisfies ``domain.history.unpaired(history) == []``."""

    instructions: str
    history: Sequence[Entry]
    tools: Sequence[ToolSpec] = ()
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of a text part. ``part`` numbers the parts of one response from 0; a new number opens a part."""

    part: int
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of a reasoning part; ``part`` as in ``TextDelta``."""

    part: int
    text: str


@dataclass(frozen=True, slots=True)
class ToolInputDelta:
    """A piece of a call's JSON input. The first one of a part carries the provider's call id and the tool's name."""

    part: int
    text: str
    call_id: str
    tool: str


@dataclass(frozen=True, slots=True)
class ProviderTool:
    """A tool that the provider has run by itself, whole: ``input`` and ``output`` are plain JSON. No part of the response
    stands for it; ``part`` as in ``TextDelta``."""

    part: int
    call_id: str
    tool: str
    input: Any
    output: Any


ModelEvent = TextDelta | ReasoningDelta | ToolInputDelta | ProviderTool


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request, as the provider counted them (0 where it did not)."""

    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class ModelResponse:
    """The whole answer. ``parts`` as in ``domain.history`` (assistant); a call part's ``input`` is the parsed JSON,
    or the raw text (``str``) when the provider's JSON does not parse."""

    parts: Sequence[dict[str, Any]]
    usage: Usage = Usage()
    provider: dict[str, Any] | None = None


class ModelFailure(Exception):
    """A model request failed. ``code`` is a ``provider_*`` code; ``retry_after_s`` is what the provider asked for, if it did.
    The original error is the ``__cause__``; its text never reaches a client."""

    def __init__(self, code: Code, *, retry_after_s: float | None = None) -> None:
        super().__init__(str(code))
        self.code = code
        self.retry_after_s = retry_after_s


class Model(Protocol):
    """A language model. One instance serves any number of concurrent steps. ``step`` is an async generator: it is closed early
    when its run is stopped, and must let go of its connection then."""

    def step(self, request: ModelRequest) -> AsyncGenerator[ModelEvent | ModelResponse, None]: ...
