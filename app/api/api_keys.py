"""``AGENT_SERVER_AUTH=api_key``: keys from a setting and from a file that may change while the server runs.

An entry is ``owner:key`` or, for a key that is not kept in plain, ``owner:sha256:HEX``; ``owner:scope=NAME+NAME:…`` is either with
just these scopes. The setting has commas between its entries; a file has one on a line, and lines that begin with ``#``.
"""

import hmac
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from app.api.auth import USUAL, Headers, Principal, Scope, bearer
from app.clock import monotonic
from app.domain.turn import valid_id
from app.errors import Code, ServiceError
from app.log import get_logger

log = get_logger(__name__)

LOOK_EVERY_S = 1.0
"""How long a key that was taken out of the file may still be good."""

_ENTRY = re.compile(
    r"(?P<owner>[^:]+):(?:scope=(?P<scopes>[^:]*):)?(?:sha256:(?P<hex>.*)|(?P<key>(?!scope=).+))"
)
_HEX = re.compile(r"[0-9a-fA-F]{64}")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """``digest``: the key's SHA-256, 32 bytes."""

    principal: Principal
    digest: bytes


def parse(entries: Iterable[str]) -> list[ApiKey]:
    """The keys of these entries, blank ones left out. Raises ``ValueError``, which tells an entry by its number and quotes nothing."""
    return [_key(number, text) for number, entry in enumerate(entries, start=1) if (text := entry.strip())]


def _key(number: int, entry: str) -> ApiKey:
    found = _ENTRY.fullmatch(entry)
    if found is None or not valid_id(found["owner"]):
        raise ValueError(f"entry {number} should be owner:key or owner:sha256:HEX")
    if found["hex"] is not None and not _HEX.fullmatch(found["hex"]):
        raise ValueError(f"entry {number}: a hashed key has 64 hex digits")
    names = found["scopes"].split("+") if found["scopes"] is not None else []
    if found["scopes"] is not None and not set(names) <= set(Scope):
        raise ValueError(f"entry {number}: scopes are {', '.join(Scope)}, with + between them")
    digest = (
        bytes.fromhex(found["hex"]) if found["hex"] is not None else sha256(found["key"].encode()).digest()
    )
    return ApiKey(Principal(found["owner"], frozenset(map(Scope, names)) or USUAL), digest)


class KeyFile:
    """The keys of a file, read again when it has changed. When it cannot be used any more that is told once, and its last keys stay.

    Raises ``OSError`` or ``ValueError`` when it cannot be used at the start."""

    def __init__(self, path: Path, *, now: Callable[[], float] = monotonic) -> None:
        self._path = path
        self._now = now
        self._looked_at = now()
        self._seen = self._stamp()
        self._keys = self._read()

    def current(self) -> Sequence[ApiKey]:
        if self._now() - self._looked_at >= LOOK_EVERY_S:
            self._looked_at = self._now()
            self._look()
        return self._keys

    def _look(self) -> None:
        stamp = self._stamp()
        if stamp == self._seen:
            return
        self._seen = stamp
        try:
            self._keys = self._read()
        except (OSError, ValueError) as error:
            log.error("auth.key_file_refused", file=str(self._path), kept=len(self._keys), exc_info=error)
        else:
            log.info("auth.key_file_read", file=str(self._path), keys=len(self._keys))

    def _stamp(self) -> tuple[int, ...] | None:
        """Changes whenever the file does, also when another takes its place."""
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _read(self) -> list[ApiKey]:
        lines = self._path.read_text().splitlines()
        return parse("" if line.lstrip().startswith("#") else line for line in lines)


class ApiKeys:
    """Sent as ``Authorization: Bearer``, compared in constant time."""

    def __init__(self, keys: Sequence[ApiKey], file: KeyFile | None = None) -> None:
        self._keys = keys
        self._file = file

    async def __call__(self, headers: Headers, session_id: str | None) -> Principal:
        sent = sha256(bearer(headers).encode()).digest()
        known = [*self._keys, *(self._file.current() if self._file is not None else ())]
        # every key is compared, so that the time does not tell which one came near
        found = [key.principal for key in known if hmac.compare_digest(key.digest, sent)]
        if not found:
            raise ServiceError(Code.AUTH_REQUIRED, "an unknown API key")
        return found[0]
