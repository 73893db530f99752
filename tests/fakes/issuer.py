"""An issuer of tokens: keys of every kind, its key set as a document, and the address that publishes it."""

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from jwt.algorithms import get_default_algorithms


@cache
def private_key(algorithm: str, name: str = "") -> Any:
    """A key for the algorithm; the same one for the same name."""
    match algorithm:
        case "ES256":
            return ec.generate_private_key(ec.SECP256R1())
        case "ES384":
            return ec.generate_private_key(ec.SECP384R1())
        case "ES512":
            return ec.generate_private_key(ec.SECP521R1())
        case "EdDSA":
            return ed25519.Ed25519PrivateKey.generate()
        case "Ed448":
            return ed448.Ed448PrivateKey.generate()
        case _:
            return rsa.generate_private_key(65537, 2048)


def published(key: Any, algorithm: str, **fields: Any) -> dict[str, Any]:
    """The key as a key set shows it."""
    as_jwk: Any = get_default_algorithms()[algorithm]
    return {**json.loads(as_jwk.to_jwk(key.public_key())), "use": "sig", **fields}


def key_set(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


def token(key: Any, algorithm: str, *, key_id: str | None = "k1", head: Any = None, **claims: Any) -> str:
    """A signed token; ``exp`` is in an hour and ``sub`` is ada, unless a claim is given (``None`` leaves it out)."""
    merged = {"sub": "ada", "exp": int(time.time()) + 3600, **claims}
    headers = {**({"kid": key_id} if key_id is not None else {}), **(head or {})}
    kept = {name: value for name, value in merged.items() if value is not None}
    return jwt.encode(kept, key, algorithm, headers=headers)


def unsigned(head: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    """A token that nobody signed."""
    parts = (json.dumps(head).encode(), json.dumps(claims).encode(), signature)
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


@contextmanager
def publishing(document: bytes, *, status: int = 200, headers: dict[str, str] | None = None) -> Iterator[str]:
    """Serves the document on loopback; yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(document)))
            self.end_headers()
            self.wfile.write(document)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/jwks"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
