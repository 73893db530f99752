"""The model of a declaration, by name.

``model("openai:…")`` is a model of pydantic-ai, whose import takes seconds and is paid only here. ``model()`` leaves
the choice to the deployment (``AGENT_SERVER_MODEL``). A model of one's own needs neither: any object with a ``step``
(``agent.model.Model``).
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.agent.declaration import RegistryError
from app.agent.model import Model, ModelEvent, ModelRequest, ModelResponse


@dataclass(frozen=True)
class ConfiguredModel:
    """Stands for the deployment's model until the registry is loaded."""

    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])

    async def step(self, request: ModelRequest) -> AsyncGenerator[ModelEvent | ModelResponse, None]:
        raise RuntimeError("AGENT_SERVER_MODEL is not set")
        yield  # a generator, as every step


def model(name: object = None, /, **settings: Any) -> Model:
    """The model called ``name`` (or a pydantic-ai model instance), with pydantic-ai's model settings
    (``temperature=0``). Without a name: the one of ``AGENT_SERVER_MODEL``.

    Raises ``RegistryError`` for a model that cannot be set up (unknown name, missing key or package)."""
    if name is None:
        return ConfiguredModel(settings)
    from app.agent.pydantic_ai_model import PydanticAiModel

    try:
        return PydanticAiModel(name, settings)  # pyright: ignore[reportArgumentType]  it refuses what it does not know
    except ValueError as error:
        raise RegistryError(f"model {name}: {error}") from error
