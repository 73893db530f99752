"""The agents that come with the server, for a first look and for tests; a deployment brings its own
(``AGENT_SERVER_AGENTS``).

- ``demo``       answers by rules and needs no key; ``tellings`` are its sentences
- ``assistant``  the same agent on a real model
- ``built_in``   the two, as the settings ask for them
- ``tools``      the tools of both, and of the researcher that each has as a sub-agent; ``outbox`` is the file that they write to

May import: ``agent`` (the declarations and the model port) and ``domain``. Knows neither the wire nor the store: everything a tool
needs is in its ``ToolContext``.
"""
