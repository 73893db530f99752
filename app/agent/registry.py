"""Which agents there are: the names a session may ask for.

``AGENT_SERVER_AGENTS=module:attribute`` names a mapping of names to agents, an iterable of agents or one
agent; without it the built-in agents are served. The first agent is the default of new sessions. An agent is a
declaration (``agent.declaration``), a plain ``pydantic_ai.Agent``, or one with the dependencies it needs
(``own(agent, deps=…)``). Whatever is wrong with a declaration is found when the process starts and said in one
line (``RegistryError``), never in the middle of a run.
"""

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import cast

from app.agent.declaration import Agent, AgentStep, Instructions, Limits, RegistryError, Toolset
from app.agent.models import ConfiguredModel, model
from app.agent.own import Own, is_pydantic_ai_agent
from app.agent.scripted import ScriptedModel, close

__all__ = ["Agent", "AgentStep", "Instructions", "Limits", "Registry", "RegistryError", "Toolset"]


class Registry:
    """The agents of this process. Raises ``RegistryError`` for none, for a doubled name, and for a sub-agent
    that is not here."""

    def __init__(self, agents: Iterable[Agent]) -> None:
        self._agents: dict[str, Agent] = {}
        for agent in agents:
            if agent.name in self._agents:
                raise RegistryError(f"two agents are called {agent.name}")
            self._agents[agent.name] = agent
        if not self._agents:
            raise RegistryError("there is no agent")
        for agent in self._agents.values():
            for declared in agent.tools:
                if declared.agent is not None and declared.agent not in self._agents:
                    raise RegistryError(
                        f"agent {agent.name}: tool {declared.name} needs an agent called {declared.agent}"
                    )

    @property
    def default(self) -> str:
        """The agent of a new session that names none."""
        return next(iter(self._agents))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._agents)

    def get(self, name: str) -> Agent | None:
        return self._agents.get(name)

    async def aclose(self) -> None:
        """Close the models' and toolsets' connections, at the end of the process."""
        opened: dict[int, object] = {}
        for agent in self._agents.values():
            for each in (agent.model, *agent.toolsets):
                opened[id(each)] = each
        for each in opened.values():
            await close(each)

    @classmethod
    def load(
        cls,
        spec: str | None,
        *,
        built_in: Callable[[], Iterable[Agent]],
        scripted: bool = False,
        model: str | None = None,
    ) -> "Registry":
        """The agents of ``spec`` (``module:attribute``), or of ``built_in()`` without one.

        ``scripted``: a message ``script:…`` drives the model of any agent (see ``agent.scripted``). ``model``: the
        name of the model of agents that leave the choice to the deployment."""
        agents = list(built_in() if spec is None else _imported(spec, model))
        if model is not None or not scripted:  # scripts need no model behind them
            agents = [_with_model(agent, model) for agent in agents]
        if scripted:
            agents = [replace(agent, model=ScriptedModel(agent.model)) for agent in agents]
        return cls(agents)


def _with_model(agent: Agent, name: str | None) -> Agent:
    if not isinstance(agent.model, ConfiguredModel):
        return agent
    if name is None:
        raise RegistryError(
            f"agent {agent.name}: its model is the configured one, and AGENT_SERVER_MODEL is not set"
        )
    return replace(agent, model=model(name, **agent.model.settings))


def _imported(spec: str, model_name: str | None) -> list[Agent]:
    module_name, _, attribute = spec.partition(":")
    if not module_name or not attribute:
        raise RegistryError(f"AGENT_SERVER_AGENTS is module:attribute, not {spec!r}")
    try:
        found: object = importlib.import_module(module_name)
        for name in attribute.split("."):
            found = getattr(found, name)
    except RegistryError:
        raise
    except Exception as error:
        # The error of the user's own module, on one line; its traceback is the cause.
        raise RegistryError(
            f"AGENT_SERVER_AGENTS={spec}: {type(error).__name__}: {' '.join(str(error).split())}"
        ) from error
    return _agents_of(found, spec, model_name)


def _agents_of(found: object, spec: str, model_name: str | None) -> list[Agent]:
    if isinstance(found, Agent | Own) or is_pydantic_ai_agent(found):
        found = [found]
    named: list[tuple[str | None, object]] = []
    if isinstance(found, Mapping):
        named = [(str(name), agent) for name, agent in cast("Mapping[object, object]", found).items()]
    elif isinstance(found, Iterable) and not isinstance(found, str):
        named = [(None, agent) for agent in cast("Iterable[object]", found)]
    else:
        raise RegistryError(
            f"AGENT_SERVER_AGENTS={spec}: a {type(found).__name__} is not a mapping or list of agents"
        )
    agents: list[Agent] = []
    for name, agent in named:
        if is_pydantic_ai_agent(agent):
            agent = Own(agent)
        if isinstance(agent, Own):
            agents.append(_served(agent, name, model_name))
        elif isinstance(agent, Agent):
            agents.append(agent if name is None or name == agent.name else replace(agent, name=name))
        else:
            raise RegistryError(f"AGENT_SERVER_AGENTS={spec}: a {type(agent).__name__} is not an Agent")
    return agents


def _served(declared: Own, name: str | None, model_name: str | None) -> Agent:
    from app.agent.pydantic_ai_agent import served  # seconds of imports, which such an agent has paid already

    return served(declared, name, model_name)
