"""The runtime: drives running trees, one at a time each, many side by side.

A replica and its trees:

- ``supervisor``    owns the tasks: starts what this replica claimed, renews leases, takes over, drains
- ``loop``          one tree: model step → commit → tools and child runs → suspend point → … → settled
- ``model_step``    a model request and its commit: ``model_request`` sends it and shows what comes, ``response`` plans its calls
- ``scribe``        frames to readers and to the message, before and after a commit
- ``asking``        a tool that asks a person while it runs
- ``surroundings``  which agent drives a run, which tool a call names; ``deps`` what every tree is handed
- ``observed``, ``run_line``   durations, spans and the line of a run; ``tasks`` the two ways to await

What a deployment declares (``declare`` is all of it, for a module of agents to import):

- ``declaration``, ``registry``   an agent; the agents of this process, and what is wrong with one
- ``tools``, ``tool_input``, ``tool_run``   a tool, its schema, one run of it (``daemon_thread`` for a blocking one)
- ``context``, ``emitter``   what an agent's code is told, and what a tool shows (``room``: how much of it a message takes)
- ``output``        a run that ends with a checked value
- ``mcp_servers``   tools of other processes; ``kept`` holds a connection for everybody
- ``models``, ``own``   a model by its name; a ``pydantic_ai.Agent`` as it is

Models:

- ``model``         the port; ``model_words`` and ``plain`` say a history's values as any model can take them
- ``pydantic_ai_model`` is its adapter, with ``pydantic_ai_messages``, ``pydantic_ai_provider_tools``, ``pydantic_ai_failures``
  and ``pydantic_ai_trace``
- ``pydantic_ai_agent``, ``pydantic_ai_step``, ``pydantic_ai_calls``   a plain agent behind the same ports
- ``scripted``, ``present_turn``   models made of rules

May import: sessions (every change of a run's state goes through ``sessions.runs``), store (the frame log), and below. Never api or
streaming: a run outlives every request.

Fails: a model's failure, a limit or a bug settles the run ``failed`` with a code; a lost lease ends the task without another write.
"""
