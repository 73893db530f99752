"""HTTP only: parse, call one use case, render. No decision is made here.

- ``chat``, ``streams``, ``history``, ``answers``, ``health``   the routes; ``metrics``: what was counted, for Prometheus
- ``wire``        what comes in and goes out: every name that is spelled on the wire
- ``problems``    every failure to its one JSON body
- ``middleware``  the canonical line of a request, its ids, its headers
- ``auth``, ``api_keys``, ``jwt``   who asks, and what they may do
- ``connection``  how long and how large the head of a request may be
- ``request_headers``  those of a request that its agent is told
- ``limits``      how much one request may hold, and one owner may do at once
- ``openapi``, ``documented``   the document, with every typed error of a route
- ``json_response``, ``sse_response``   the two kinds of answer
- ``deps``        what the routes are handed

May import: everything below. Only this room, ``playground`` and ``main`` import fastapi.

Invariants: every refusal is decided before the first byte and is a non-2xx JSON body; a 2xx of ``POST /chat`` is an SSE with a step
that writes; the session id is resolved before authentication, so that every answer can carry it.
"""
