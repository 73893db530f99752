"""``jwt``: bearer tokens that an issuer signed with one of the keys it publishes.

Asymmetric algorithms only: ``none`` and HMAC are never accepted, a key is only used for its own kind of algorithm, and ``exp`` is
required. Keys are fetched over HTTP when they are first needed, kept for ten minutes, and fetched again for an unknown key id, at most
every half minute. Requests that wait for keys share one fetch. While the issuer cannot be reached the keys that are known stay in use.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import httpx2
import jwt
import orjson

from app.api.auth import USUAL, Headers, Principal, bearer, scopes_in
from app.clock import monotonic
from app.domain.turn import valid_id
from app.errors import Code, ServiceError
from app.log import cause_chain, get_logger

LEEWAY_S = 60
KEPT_S = 600.0
FLOOR_S = 30.0
EMPTY_FLOOR_S = 1.0  # while no key is known nobody gets in: it is tried again soon
FETCH_TIMEOUT_S = 5.0
MAX_KEY_SET_BYTES = 2**20
MAX_TOKEN_LENGTH = 16_384
MIN_RSA_BITS = 2048

# Which algorithms a key of a kind (and curve) may be used for, when it does not say itself.
_RSA = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_BY_KIND: dict[tuple[str, str | None], frozenset[str]] = {
    ("RSA", None): _RSA,
    ("EC", "P-256"): frozenset({"ES256"}),
    ("EC", "P-384"): frozenset({"ES384"}),
    ("EC", "P-521"): frozenset({"ES512"}),
    ("OKP", "Ed25519"): frozenset({"EdDSA"}),
    ("OKP", "Ed448"): frozenset({"EdDSA"}),
}

log = get_logger(__name__)

Fetch = Callable[[], Awaitable[bytes]]


class UnusableKeys(Exception):
    """What the issuer published holds no key that can be used."""


def _refused(why: str) -> ServiceError:
    return ServiceError(Code.AUTH_REQUIRED, why)


class Key:
    """One published key. Raises ``ValueError`` for one that no accepted algorithm can use."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        kind, curve = fields.get("kty"), fields.get("crv")
        allowed = _BY_KIND.get((str(kind), curve if kind != "RSA" else None), frozenset[str]())
        named = fields.get("alg")
        self.algorithms = allowed if named is None else allowed & {str(named)}
        self.id: object = fields.get("kid")
        if not self.algorithms or fields.get("use", "sig") != "sig" or "d" in fields:
            raise ValueError("not a public key for signatures of an accepted algorithm")
        self._fields = {name: value for name, value in fields.items() if name != "alg"}
        self._made: dict[str, jwt.PyJWK] = {}
        made = self.of(min(self.algorithms))
        if kind == "RSA" and made.key.key_size < MIN_RSA_BITS:
            raise ValueError("an RSA key under 2048 bits")

    def of(self, algorithm: str) -> jwt.PyJWK:
        """The key, bound to this one algorithm."""
        if algorithm not in self._made:
            try:
                self._made[algorithm] = jwt.PyJWK.from_dict(self._fields, algorithm)
            except jwt.PyJWTError as error:
                raise ValueError("a key that cannot be read") from error
        return self._made[algorithm]


def read_keys(body: bytes) -> list[Key]:
    """The usable keys of a JWKS document. Raises ``UnusableKeys`` when there is none."""
    try:
        document: Any = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise UnusableKeys("the key set is not JSON") from error
    published: Any = cast("dict[str, Any]", document).get("keys") if isinstance(document, dict) else None
    keys: list[Key] = []
    for fields in cast("list[Any]", published) if isinstance(published, list) else []:
        try:
            keys.append(Key(fields))
        except (ValueError, TypeError, AttributeError) as error:
            log.debug("jwt.key_skipped", causes=cause_chain(error))
    if not keys:
        raise UnusableKeys("the key set has no usable key")
    return keys


def fetch_from(url: str, *, transport: httpx2.AsyncBaseTransport | None = None) -> Fetch:
    """Fetches the document at ``url``: 5 s, 1 MiB and no redirect at most. Raises ``httpx2.HTTPError``, ``UnusableKeys``."""

    async def fetch() -> bytes:
        body = bytearray()
        async with (
            asyncio.timeout(FETCH_TIMEOUT_S),
            httpx2.AsyncClient(transport=transport, timeout=FETCH_TIMEOUT_S) as client,
            client.stream("GET", url, headers={"accept": "application/json"}) as response,
        ):
            if response.status_code != 200:
                raise UnusableKeys(f"the key set's address answered {response.status_code}")
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > MAX_KEY_SET_BYTES:
                    raise UnusableKeys("the key set is over 1 MiB")
        return bytes(body)

    return fetch


class KeySet:
    """The issuer's keys. ``now`` gives seconds that never go back."""

    def __init__(
        self, fetch: Fetch, *, floor_s: float = FLOOR_S, now: Callable[[], float] = monotonic
    ) -> None:
        self._fetch = fetch
        self._floor_s = floor_s
        self._now = now
        self._keys: list[Key] = []
        self._fetched_at = float("-inf")
        self._tried_at = float("-inf")
        self._refresh: asyncio.Task[None] | None = None

    async def find(self, key_id: object, algorithm: str) -> jwt.PyJWK:
        """The key for a token. Raises ``auth_required`` when the issuer does not publish it, and what fetching raised when no key
        is known at all."""
        if self._now() - self._fetched_at >= KEPT_S:
            await self._fresh()
        found = self._among(key_id, algorithm)
        if found is None:
            await self._fresh()
            found = self._among(key_id, algorithm)
        if found is None:
            raise _refused("the token's key is not among the issuer's")
        return found

    def _among(self, key_id: object, algorithm: str) -> jwt.PyJWK | None:
        fitting = [key for key in self._keys if algorithm in key.algorithms]
        if key_id is not None:
            fitting = [key for key in fitting if key.id == key_id]
        elif len(fitting) > 1:
            return None  # a token that names no key must leave no choice
        return fitting[0].of(algorithm) if fitting else None

    async def _fresh(self) -> None:
        """Fetches the keys, unless that was tried a moment ago. One fetch at a time, for all who wait."""
        if self._refresh is None:
            floor_s = self._floor_s if self._keys else EMPTY_FLOOR_S
            if self._now() - self._tried_at < floor_s:
                if not self._keys:
                    raise UnusableKeys("no key is known, and the issuer was asked a moment ago")
                return
            self._refresh = asyncio.create_task(self._fetch_keys(), name="jwks")
            self._refresh.add_done_callback(self._over)
        # shielded: a client that leaves must not end the fetch of the others
        try:
            await asyncio.shield(self._refresh)
        except Exception:
            if not self._keys:
                raise

    def _over(self, task: asyncio.Task[None]) -> None:
        self._refresh = None
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.warning("jwt.keys_unavailable", known=len(self._keys), causes=cause_chain(error))

    async def _fetch_keys(self) -> None:
        self._tried_at = self._now()
        self._keys = read_keys(await self._fetch())
        self._fetched_at = self._now()
        log.info("jwt.keys_fetched", keys=len(self._keys))


class Jwt:
    """``owner_claim``: the claim that names the owner. Without an issuer or audience that claim is not checked."""

    def __init__(
        self,
        keys: KeySet,
        *,
        owner_claim: str = "sub",
        issuer: str | None = None,
        audience: str | None = None,
    ) -> None:
        self._keys = keys
        self._owner_claim = owner_claim
        self._issuer = issuer
        self._audience = audience

    async def __call__(self, headers: Headers, session_id: str | None) -> Principal:
        token = bearer(headers)
        if len(token) > MAX_TOKEN_LENGTH:
            raise _refused("the token is too long")
        try:
            head = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, RecursionError) as error:
            raise _refused("the token is malformed") from error
        algorithm, key_id = head.get("alg"), head.get("kid")
        if not isinstance(algorithm, str) or not any(algorithm in known for known in _BY_KIND.values()):
            raise _refused("the token's algorithm is not accepted")
        key = await self._keys.find(key_id, algorithm)
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                issuer=self._issuer,
                audience=self._audience,
                leeway=LEEWAY_S,
                options={
                    "require": ["exp"],
                    "verify_aud": self._audience is not None,
                    "verify_sub": False,  # the owner's claim is checked below, whichever it is
                },
            )
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
            raise _refused(f"the token is refused: {type(error).__name__}") from error
        owner: object = claims.get(self._owner_claim)
        if not isinstance(owner, str) or not valid_id(owner):
            raise _refused("the token names no usable owner")
        claimed: Any = claims.get("scope", claims.get("scp"))
        return Principal(owner, USUAL if claimed is None else scopes_in(_texts(claimed)))


def _texts(claimed: Any) -> str | list[str]:
    if isinstance(claimed, str):
        return claimed
    return (
        [each for each in cast("list[Any]", claimed) if isinstance(each, str)]
        if isinstance(claimed, list)
        else []
    )
