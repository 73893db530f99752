"""Which agents there are: the declaration of an agent, and the names a session may ask for.

``AGENT_SERVER_AGENTS=module:attribute`` names a mapping of names to agents, an iterable of agents or one
agent; without it the built-in agents are served. The first agent is the default of new sessions. Whatever is
wrong with a declaration is found when the process starts and said in one line (``RegistryError``), never in
the middle of a run.
"""

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from app.agent.model import Model
from app.agent.scripted import ScriptedModel, close
from app.agent.tools import NAME, Tool

Instructions = str | Callable[[Mapping[str, Any]], str]


class RegistryError(ValueError):
    """A declaration that cannot be served; ``str()`` is one line for the operator."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may use; ``None``: no limit. ``max_tokens`` counts input and output; ``max_seconds``
    counts running time only, not the time a run is suspended."""

    max_steps: int | None = 32
    max_tool_calls: int | None = 200
    max_tokens: int | None = None
    max_seconds: float | None = None


@dataclass(frozen=True)
class Agent:
    """Instructions, a model, tools and limits under a name.

    ``instructions``: a text, or a function of the request's extra body keys. ``settings`` go to the model as
    they are. Raises ``RegistryError`` for a bad name, a doubled tool, or a model without ``step``."""

    name: str
    instructions: Instructions
    model: Model
    tools: tuple[Tool, ...] = ()
    limits: Limits = Limits()
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise RegistryError(f"an agent's name is 1 to 64 letters, digits, _ or -, not {self.name!r}")
        object.__setattr__(self, "tools", tuple(self.tools))
        if not callable(getattr(self.model, "step", None)):
            raise RegistryError(f"agent {self.name}: its model has no step method")
        seen: set[str] = set()
        for declared in self.tools:
            if not isinstance(declared, Tool):  # pyright: ignore[reportUnnecessaryIsInstance]  users' modules are not all typed
                raise RegistryError(f"agent {self.name}: {declared!r} is not a Tool; declare it with @tool")
            if declared.name in seen:
                raise RegistryError(f"agent {self.name}: two tools are called {declared.name}")
            seen.add(declared.name)

    def tool(self, name: str) -> Tool | None:
        """The tool of that name, if the agent has it."""
        return next((declared for declared in self.tools if declared.name == name), None)

    def instructions_for(self, request: Mapping[str, Any]) -> str:
        """The instructions, given the request's extra body keys. Raises what the agent's own function
        raises."""
        return self.instructions if isinstance(self.instructions, str) else self.instructions(request)


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
        """Close the models' connections, at the end of the process."""
        for model in {id(agent.model): agent.model for agent in self._agents.values()}.values():
            await close(model)

    @classmethod
    def load(
        cls, spec: str | None, *, built_in: Callable[[], Iterable[Agent]], scripted: bool = False
    ) -> "Registry":
        """The agents of ``spec`` (``module:attribute``), or of ``built_in()`` without one.

        ``scripted``: a message ``script:…`` drives the model of any agent (see ``agent.scripted``)."""
        agents = built_in() if spec is None else _imported(spec)
        if scripted:
            agents = [replace(agent, model=ScriptedModel(agent.model)) for agent in agents]
        return cls(agents)


def _imported(spec: str) -> list[Agent]:
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
    return _agents_of(found, spec)


def _agents_of(found: object, spec: str) -> list[Agent]:
    if isinstance(found, Agent):
        return [found]
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
        if not isinstance(agent, Agent):
            raise RegistryError(f"AGENT_SERVER_AGENTS={spec}: a {type(agent).__name__} is not an Agent")
        agents.append(agent if name is None or name == agent.name else replace(agent, name=name))
    return agents
