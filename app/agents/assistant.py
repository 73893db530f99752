"""``assistant``: the built-in tools on a real model (``AGENT_SERVER_MODEL``)."""

from app.agent.registry import Agent, Limits, RegistryError
from app.agents.tools import RESEARCHER_TOOLS, assistant_tools

NAME, RESEARCHER = "assistant", "assistant-researcher"

INSTRUCTIONS = """\
You are a helpful assistant. Use your tools when they serve the request, several at once when they do not
depend on each other. A result may say that the user denied a call or did not answer it: accept that and do
not call it again unasked. Answer briefly, in the language of the user."""

RESEARCHER_INSTRUCTIONS = """\
You research the topic you are given: search the notes, ask the user when something essential is unclear,
publish a note when you have found something, and end with a summary of a few sentences."""


def agents(model_name: str, limits: Limits) -> list[Agent]:
    """The assistant and its researcher, on one shared model. Raises ``RegistryError`` when the model cannot
    be set up."""
    # Two seconds of imports, only for a configured model.
    from app.agent.pydantic_ai_model import PydanticAiModel

    try:
        model = PydanticAiModel(model_name)
    except ValueError as error:
        raise RegistryError(f"AGENT_SERVER_MODEL={model_name}: {error}") from error
    return [
        Agent(NAME, INSTRUCTIONS, model, assistant_tools(RESEARCHER), limits),
        Agent(RESEARCHER, RESEARCHER_INSTRUCTIONS, model, RESEARCHER_TOOLS, limits),
    ]
