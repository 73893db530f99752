"""The runtime: drives running trees, one at a time each, many side by side.

- ``supervisor``  owns the tasks: starts what this replica claimed, renews leases, takes over, drains
- ``loop``        one tree: model step → commit → tools and child runs → suspend point → … → settled
- ``step``        one model request: events to frames, response to calls
- ``scribe``      frames to readers and to the message, before and after a commit
- ``model``       the port of a language model; ``pydantic_ai_model`` is its adapter, ``scripted`` drives tests
- ``declare``     what a module of agents imports; ``declaration``, ``tools``, ``models``, ``mcp_servers`` and ``own`` hold its parts
- ``registry``    the agents of this process, and what is wrong with a declaration
- ``pydantic_ai_agent``, ``_step``, ``_calls``   a plain ``pydantic_ai.Agent`` behind the same ports

May import: sessions (every change of a run's state goes through ``sessions.runs``), store (the frame log), and below. Never api or
streaming: a run outlives every request.

Fails: a model's failure, a limit or a bug settles the run ``failed`` with a code; a lost lease ends the task without another write.
"""
