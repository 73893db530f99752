"""A connection until its request is known: whoever has not said who he is holds little memory, and no place for ever.

The server's parser keeps an address and headers however long they are, and waits for them without end; a body has its own limits
(``limits``). Here the head of a request has ``max_bytes`` (what arrives in one read is not counted twice: a head that is whole at
once may be somewhat longer) and ``seconds``, from the connection's beginning or, on a kept one, from the request's first byte.
"""

import asyncio
from typing import cast

import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.errors import Code, error_body
from app.log import get_logger

log = get_logger(__name__)

_BODY = orjson.dumps(error_body(Code.VALIDATION_PAYLOAD_TOO_LARGE))
_TOO_LARGE = b"\r\n".join(
    (
        b"HTTP/1.1 431 Request Header Fields Too Large",
        b"content-type: application/json",
        b"content-length: %d" % len(_BODY),
        b"connection: close",
        b"",
        _BODY,
    )
)


class Connection(HttpToolsProtocol):
    """uvicorn's, with a bound on the head of a request: 431, or closed without a word when it only takes too long."""

    max_bytes = 64 * 1024
    seconds = 30.0

    _read = 0
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast("asyncio.Transport", transport))
        self._await_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._deadline is None:
            self._await_head()

    def data_received(self, data: bytes) -> None:
        awaited = self._deadline
        super().data_received(data)
        # All of it belongs to a head that is not whole.
        if awaited is not None and awaited is self._deadline:
            self._read += len(data)
            if self._read > self.max_bytes:
                self._end("too large", _TOO_LARGE)

    def on_headers_complete(self) -> None:
        self._forget_head()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_head()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        self._read = 0
        self._deadline = self.loop.call_later(self.seconds, self._end, "too slow")

    def _forget_head(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _end(self, why: str, said: bytes = b"") -> None:
        self._forget_head()
        if self._read:  # a browser also opens connections that it may never use
            log.info("connection.refused", head=why, bytes=self._read)
        if said:
            self.transport.write(said)
        self.transport.close()
