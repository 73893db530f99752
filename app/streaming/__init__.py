"""Frames to bytes: what a client is sent of a run, wherever the run's owner is.

- ``replay``   a stored message as frames
- ``encode``   one client's stream: the writing prefix, what must be closed, the boundary before an ending
- ``tail``     replay, then follow the run until it suspends or settles; ``looks`` shares one look at the log among its readers
- ``sse``      bytes, keep-alive, and the end of a stream by destroying its connection

May import: sessions (reads), store (the frame log), and below; never agent. Subscribe, then read, then follow: no frame is missed,
none is sent twice. No database connection is held while a stream is open.

Fails: before the first byte with ``ServiceError``; after it only with ``StreamDestroyed``, which ends the connection without
``finish``, so that the client is in ``error`` and not in a false ``ready``.
"""
