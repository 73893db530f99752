"""The use cases, one file each: they open the transactions, let the domain decide and apply what it decided.

- ``chat``      ``POST /chat``: facts under one lock, the path, its writes
- ``submit``    path 3 and ``POST /chat/{id}/answers``: every answer in its own transaction, then the decision
- ``starting``, ``closing``   how a run begins; how a tree ends without its owner
- ``runs``      the only door to the state of a running tree, for its owner, under its epoch
- ``snapshot``  what a reload shows; the list of chats; deletion
- ``view``      what a reader of a stream needs, in one look
- ``stop``, ``sweep``   stopping a run; deadlines, retention, purges

May import: store, errors, domain, settings, log, clock. Wakes the agent runtime through callables handed in by ``main``.

Invariants: commit before you speak; no transaction is open during a model call, a tool or a stream; every way a run settles gives
each call of its tree exactly one result first.

Fails: with ``ServiceError``; store faults are classified in ``faults.as_service_error``.
"""
