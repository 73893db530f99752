"""The page at ``GET /``: a chat on the stock ``useChat``, for a first look and for trying an agent of one's own.

- ``route``      serves the page and its files
- ``static/``    what is served: built, committed, plain files, so that running the server needs no Node
- ``src/``       what it is built from (TypeScript); ``make playground`` builds it with the pins of ``package.json``

May import: the framework. It knows nothing of the service: the page is a client of its HTTP surface like any other.

Invariants: nothing is loaded from another origin and no script is inline, so the page's security policy allows its own
origin alone; the page holds no state that a reload would lose but the draft; ``static/sources.sha256`` names the sources
of the bundle, and a test compares them.

Failures: none of its own. With ``AGENT_SERVER_PLAYGROUND=false`` its addresses are unknown ones.
"""
