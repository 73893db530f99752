"""The decisions, pure: no await, no I/O, no clock, no pydantic.

Every question has a file named after it. Classifiers reduce loaded facts to small enums; a total table (proved at import by
``decision.Table``) gives a named outcome; the rooms above render or apply it. A missing or doubled row stops the import.

May import: nothing of ours. Fails: only by a programming error (``LookupError`` of an impossible combination is a table row named
``IMPOSSIBLE``, so that reaching it is a logged bug and never a missing key).
"""
