"""The adapter for real models: the model port on ``pydantic_ai.direct``.

Used for what it is good at, one streamed request to any provider: no agent loop, no tool runs, no retries
(the step loop's), no downloads. Import it only when a model is configured; it takes seconds.

Fails with ``ModelFailure`` only. What the provider said is the ``__cause__``, for the log; it may hold keys
and prompts.

Two things are checked here because the library lets them pass: a stream that ends without a finish reason was
cut off, and a response that ran into its length limit may end in half a tool call, or in thoughts alone. All
are ``provider_bad_response``.
"""

from collections.abc import AsyncGenerator, Mapping
from typing import Any, cast

from pydantic_ai import exceptions
from pydantic_ai.direct import model_request_stream
from pydantic_ai.models import Model as LibraryModel
from pydantic_ai.models import infer_model
from pydantic_ai.settings import ModelSettings

from app.agent.model import ModelEvent, ModelFailure, ModelRequest, ModelResponse
from app.agent.pydantic_ai_failures import classified, refuse_unfinished
from app.agent.pydantic_ai_messages import (
    Translator,
    from_response,
    request_parameters,
    to_messages,
)
from app.agent.pydantic_ai_trace import traced


class PydanticAiModel:
    """Any model of pydantic-ai: by name (``openai:…`` is the Responses API, ``openai-chat:…`` chat
    completions, honouring ``OPENAI_BASE_URL``), or a model instance of its own. One client is shared by all
    steps.

    ``settings`` are pydantic-ai model settings; a request's settings win. Raises ``ValueError`` for a model
    that cannot be set up (unknown name, missing key or package)."""

    def __init__(self, model: str | LibraryModel, settings: Mapping[str, Any] | None = None) -> None:
        try:
            self._model = infer_model(model)
        except (exceptions.UserError, ImportError, ValueError) as error:
            raise ValueError(" ".join(str(error).split())) from error
        self._settings: dict[str, Any] = {"max_retries": 0, **(settings or {})}
        client: Any = getattr(self._model, "client", None)
        if isinstance(model, str) and hasattr(client, "max_retries"):
            # As a setting it would make a copy of the client for each request; this client is ours.
            client.max_retries = self._settings.pop("max_retries")

    async def step(self, request: ModelRequest) -> AsyncGenerator[ModelEvent | ModelResponse, None]:
        try:
            sent = to_messages(request.history, self._model, request.instructions)
            settings = cast("ModelSettings", traced({**self._settings, **request.settings}, self._model))
            offered = request_parameters(request.tools)
            async with model_request_stream(
                self._model, sent, model_settings=settings, model_request_parameters=offered
            ) as stream:
                translate = Translator()
                async for event in stream:
                    for ours in translate(event):
                        yield ours
                response = stream.get()
                refuse_unfinished(response, self._model)
        except ModelFailure:
            raise
        except Exception as error:
            code, retry_after_s = classified(error)
            raise ModelFailure(code, retry_after_s=retry_after_s) from error
        yield from_response(response, self._model)

    async def aclose(self) -> None:
        """Close the connections to the provider. No step may follow."""
        async with self._model:
            pass  # leaving a model closes the client that was made for it
