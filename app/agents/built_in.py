"""Which built-in agents a process serves: ``demo`` always; with a model configured ``assistant`` too, first
and so the default.

The two researchers are agents like any other, each on the model of the agent that asks it.
"""

from app.agent.registry import Agent, Limits
from app.agents import assistant, demo


def built_in(model: str | None, *, limits: Limits | None = None) -> list[Agent]:
    """``model`` is a model name of pydantic-ai (``openai:…``, ``openai-chat:…``, ``anthropic:…``) or None.

    The model's library is imported only for a name. Raises ``RegistryError`` for a model that cannot be set
    up."""
    limits = limits or Limits()
    return [*(assistant.agents(model, limits) if model else ()), *demo.agents(limits)]
