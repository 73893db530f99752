"""The use cases, one file each: they open the transactions, let the domain decide and apply what it decided.

A request:

- ``chat``      ``POST /chat``: facts under one lock, the path, its writes; ``plans`` is what it tells the edge to answer
- ``reconcile``, ``admission``   a lapsed run is taken over first; may one more begin, and here?
- ``elsewhere`` ``POST /chat/{id}/answers``
- ``answer_facts``   how the calls of the answers stand
- ``submit``    each answer in its own transaction; ``fitness``: does it fit its call?
- ``continuing``   what follows the answers, or the error
- ``starting``, ``closing``   how a run begins; how a tree ends without its owner
- ``stop``      stopping the live run
- ``owner_quota``, ``breaker``   how much one owner may have; a client that repeats itself
- ``snapshot``  what a reload shows; the list of chats; deletion
- ``view``      what a reader of a stream needs, in one look

A run, for its owner:

- ``leases``    claiming, renewing, giving back
- ``runs``      the only door to the state of a running ``tree``, under its epoch; ``checkpoints`` names its commits
- ``sweep``     deadlines, retention, purges

May import: store, errors, domain, settings, log, clock. Wakes the agent runtime through callables handed in by ``main``.

Invariants: commit before you speak; no transaction is open during a model call, a tool or a stream; every way a run settles gives
each call of its tree exactly one result first.

Fails: with ``ServiceError``; store faults are classified in ``faults.as_service_error``.
"""
