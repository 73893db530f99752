"""The agents that come with the server, for a first look and for tests; a deployment brings its own
(``AGENT_SERVER_AGENTS``).

``demo`` answers by rules and needs no key; ``assistant`` is the same agent on a real model. Each has a
researcher as its sub-agent. A file each for the tools, the rules of the demo and the outbox its tools write
to.

May import: ``agent`` (the declarations and the model port), ``domain.history``, ``errors``, ``log``. Knows
neither the wire nor the store: everything a tool needs is in its ``ToolContext``.
"""
