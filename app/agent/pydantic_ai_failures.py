"""The library's errors, and its responses that are no whole answer, as codes of the error table."""

from typing import cast

from pydantic_ai import exceptions, messages
from pydantic_ai.models import Model as LibraryModel
from pydantic_ai.models.wrapper import WrapperModel

from app.agent.model import ModelFailure
from app.agent.model_words import read_input
from app.errors import Code

# The first row whose type fits decides.
_CODES: tuple[tuple[type[Exception], Code], ...] = (
    (exceptions.ModelRateLimitError, Code.PROVIDER_RATE_LIMITED),
    (exceptions.ModelQuotaExceededError, Code.PROVIDER_RATE_LIMITED),
    (exceptions.ModelAuthenticationError, Code.PROVIDER_AUTH),
    (exceptions.ModelContextWindowExceededError, Code.PROVIDER_CONTEXT_TOO_LONG),
    (exceptions.ContentFilterError, Code.PROVIDER_CONTENT_FILTERED),
    (exceptions.ModelTimeoutError, Code.PROVIDER_TIMEOUT),
    (exceptions.ModelRequestTimeout, Code.PROVIDER_TIMEOUT),
    (exceptions.ModelConnectionError, Code.PROVIDER_UNAVAILABLE),
    (exceptions.ModelUnavailableError, Code.PROVIDER_UNAVAILABLE),
    (exceptions.ModelServerError, Code.PROVIDER_UNAVAILABLE),
    (TimeoutError, Code.PROVIDER_TIMEOUT),
    (OSError, Code.PROVIDER_UNAVAILABLE),
)


def classified(error: Exception) -> tuple[Code, float | None]:
    while isinstance(error, ExceptionGroup):
        error = cast("ExceptionGroup[Exception]", error).exceptions[-1]
    told = error if isinstance(error, exceptions.ModelAPIError) else None
    if told is not None and told.provider_error_code in ("content_filter", "content_policy_violation"):
        return Code.PROVIDER_CONTENT_FILTERED, None
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code, told.retry_after if told is not None else None
    # An error of no known kind: the provider's own, if it sent one in the stream; else something unreadable.
    return Code.PROVIDER_UNAVAILABLE if told and told.in_stream else Code.PROVIDER_BAD_RESPONSE, None


def refuse_unfinished(response: messages.ModelResponse, model: LibraryModel) -> None:
    """Raises ``ModelFailure`` for a response that is not a whole answer."""
    reason, raw = response.finish_reason, (response.provider_details or {}).get("finish_reason")
    if reason == "content_filter":
        raise ModelFailure(Code.PROVIDER_CONTENT_FILTERED)
    # Of a reason that never came the library's chat completions make a "stop"; the raw one shows it.
    chat = any(kind.__name__ == "OpenAIChatModel" for kind in type(innermost(model)).__mro__)
    invented = chat and reason == "stop" and raw is None
    missing = (reason is None or invented) and innermost(model).system not in ("function", "test")
    calls = [part for part in response.parts if isinstance(part, messages.ToolCallPart)]
    thought = all(isinstance(part, messages.ThinkingPart) for part in response.parts)
    unsaid = thought or any(isinstance(read_input(call.args, empty=""), str) for call in calls)
    if missing or (reason == "length" and unsaid) or reason == "error" or response.state != "complete":
        raise ModelFailure(Code.PROVIDER_BAD_RESPONSE)


def innermost(model: LibraryModel) -> LibraryModel:
    """The model that speaks to the provider, under the library's wrappers."""
    while isinstance(model, WrapperModel):
        model = model.wrapped
    return model
