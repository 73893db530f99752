"""The decisions, pure: no await, no I/O, no clock, no pydantic.

Every question has a file named after it. Classifiers reduce loaded facts to small enums; a total table (proved at import by
``decision.Table``) gives a named outcome; the rooms above render or apply it. A missing or doubled row stops the import.

- ``decision``   a table that is proved total
- ``path``       which path does a request take?
- ``answers``    what becomes of one answer?
- ``chat_answer``, ``continuation``   what is the request answered; what follows?
- ``run_state``, ``call_state``, ``results``   the life of a run and of a call; the one result a call gets
- ``turn``       what was posted
- ``frames``, ``grammar``   the chunks, and what may follow what
- ``ui_message``, ``history``   what the user sees; what a model is sent

May import: nothing of ours. Fails: only by a programming error (``LookupError`` of an impossible combination is a table row named
``IMPOSSIBLE``, so that reaching it is a logged bug and never a missing key).
"""
