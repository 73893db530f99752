"""The agent server: any stock ``useChat`` frontend pointed at ``POST /chat`` gets a durable agent.

The rooms, top to bottom; imports only point down, and `make check` proves it:

- ``main``       the composition root: builds everything from the settings, opens and closes it
- ``api``        HTTP only: parse, one use case, render
- ``streaming``  frames to bytes: replay a stored message, follow a run, frame as SSE
- ``agents``     the built-in agents
- ``agent``      the runtime: the step loop, the model port, tools, the supervisor that owns running runs
- ``sessions``   the use cases: open the transactions, apply the decisions
- ``store``      all SQL; the frame log and its doorbell
- ``errors``     THE error table
- ``domain``     the decisions: pure tables and the fold, no I/O
- ``settings``, ``log``, ``clock``, ``metrics``, ``tracing``

Start reading at ``domain/path.py`` (which path a request takes), ``domain/chat_answer.py`` (which of the three answers it gets)
and ``agent/loop.py`` (how a run goes on).
"""
