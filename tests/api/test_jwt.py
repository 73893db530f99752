"""Tokens: what is accepted, what is refused, and how the issuer's keys are fetched."""

import asyncio
import time
from typing import Any

import httpx2
import pytest

from app.api.auth import USUAL, Principal, Scope
from app.api.jwt import KEPT_S, Jwt, KeySet, UnusableKeys, fetch_from, read_keys
from app.errors import Code, ServiceError
from tests.fakes.issuer import key_set, private_key, published, publishing, token, unsigned


class Issuer:
    """Publishes what the test puts into ``document``; counts how often it was asked."""

    def __init__(self, document: bytes) -> None:
        self.document = document
        self.asked = 0
        self.fails = False
        self.gate: asyncio.Event | None = None

    async def fetch(self) -> bytes:
        self.asked += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.fails:
            raise httpx2.ConnectError("the issuer is away")
        return self.document


class Clock:
    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


RSA = private_key("RS256")
K1 = published(RSA, "RS256", kid="k1")


async def asks(authenticate: Jwt, sent: str) -> Principal:
    return await authenticate({"authorization": f"Bearer {sent}"}, None)


async def accepts(*keys: dict[str, Any], sent: str, **checks: Any) -> Principal:
    return await asks(Jwt(KeySet(Issuer(key_set(*keys)).fetch), **checks), sent)


async def refuses(*keys: dict[str, Any], sent: str, **checks: Any) -> str:
    with pytest.raises(ServiceError) as caught:
        await accepts(*keys, sent=sent, **checks)
    assert caught.value.code is Code.AUTH_REQUIRED
    return caught.value.detail


@pytest.mark.parametrize(
    "algorithm", ["RS256", "RS384", "RS512", "PS256", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
)
async def test_every_asymmetric_algorithm_is_accepted_with_a_key_of_its_kind(algorithm: str):
    key = private_key("RS256" if algorithm.startswith(("RS", "PS")) else algorithm)
    found = await accepts(published(key, algorithm, kid="k1"), sent=token(key, algorithm))
    assert found == Principal("ada", USUAL)


async def test_a_key_that_names_its_algorithm_is_used_for_no_other():
    named = published(RSA, "RS256", kid="k1", alg="RS256")
    assert (await accepts(named, sent=token(RSA, "RS256"))).owner == "ada"
    assert await refuses(named, sent=token(RSA, "PS256")) == "the token's key is not among the issuer's"


async def test_unsigned_tokens_and_shared_secrets_are_refused_whatever_the_key_set_holds():
    claims = {"sub": "ada", "exp": int(time.time()) + 600}
    for name in ("none", "None", "NONE", "nOnE", "HS256", "HS512", "ES256K", "", None, 7, ["RS256"]):
        await refuses(K1, sent=unsigned({"alg": name, "kid": "k1"}, claims, b"x"))
    secret = {"kty": "oct", "kid": "k1", "k": "c2VjcmV0", "alg": "HS256"}
    await refuses(secret, K1, sent=token("secret" * 8, "HS256"))


async def test_the_public_key_is_no_secret_to_sign_with():
    """The classic confusion: an HMAC over the published key."""
    import hmac
    from hashlib import sha256

    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    pem = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head, claims = {"alg": "HS256", "kid": "k1"}, {"sub": "ada", "exp": int(time.time()) + 600}
    signing_input = unsigned(head, claims).rsplit(".", 1)[0]
    await refuses(K1, sent=unsigned(head, claims, hmac.digest(pem, signing_input.encode(), sha256)))


async def test_a_changed_token_is_refused():
    head, claims, signature = token(RSA, "RS256").split(".")
    other = token(RSA, "RS256", sub="eve").split(".")[1]
    for forged in (
        f"{head}.{other}.{signature}",
        f"{head}.{claims}.{signature[:-6]}AAAAAA",
        f"{head}.{claims}.",
    ):
        await refuses(K1, sent=forged)
    await refuses(K1, sent=token(private_key("RS256", "another"), "RS256"))


@pytest.mark.parametrize(
    "head", [{"jwk": K1}, {"jku": "https://evil.example/jwks"}, {"x5u": "https://evil.example"}]
)
async def test_a_key_that_the_token_brings_along_is_not_looked_at(head: dict[str, Any]):
    await refuses(K1, sent=token(private_key("RS256", "another"), "RS256", head=head))


@pytest.mark.parametrize(
    "sent", ["", ".", "..", "a.b.c", "ada", "." * 1000, "é.é.é", "e30.e30.e30", "x" * 20_000, "[[" * 3000]
)
async def test_what_is_no_token_is_refused(sent: str):
    await refuses(K1, sent=sent)


@pytest.mark.parametrize(
    "authorization", [None, "", "Bearer", "Bearer  ", "Basic YTpi", "Token x", "BearerX y"]
)
async def test_a_request_without_a_bearer_token_is_refused(authorization: str | None):
    headers = {} if authorization is None else {"authorization": authorization}
    with pytest.raises(ServiceError) as caught:
        await Jwt(KeySet(Issuer(key_set(K1)).fetch))(headers, None)
    assert caught.value.code is Code.AUTH_REQUIRED


async def test_a_token_must_end_and_clocks_may_differ_by_a_minute():
    now = int(time.time())
    await refuses(K1, sent=token(RSA, "RS256", exp=None))
    await refuses(K1, sent=token(RSA, "RS256", exp=now - 65))
    await refuses(K1, sent=token(RSA, "RS256", nbf=now + 65))
    await accepts(K1, sent=token(RSA, "RS256", exp=now - 55))
    await accepts(K1, sent=token(RSA, "RS256", nbf=now + 55))
    for odd in ("soon", -1, [now], {}, True):
        await refuses(K1, sent=token(RSA, "RS256", exp=odd))


async def test_issuer_and_audience_are_required_when_they_are_set():
    good = token(RSA, "RS256", iss="https://id.example/", aud=["chat", "other"])
    checks: dict[str, Any] = {"issuer": "https://id.example/", "audience": "chat"}
    assert (await accepts(K1, sent=good, **checks)).owner == "ada"
    assert (await accepts(K1, sent=good)).owner == "ada"
    await refuses(K1, sent=token(RSA, "RS256"), **checks)
    await refuses(K1, sent=token(RSA, "RS256", iss="https://id.example", aud="chat"), **checks)
    await refuses(K1, sent=token(RSA, "RS256", iss="https://id.example/", aud="chats"), **checks)
    await refuses(K1, sent=token(RSA, "RS256", iss="https://id.example/"), **checks)


async def test_the_owner_is_the_claim_that_is_set():
    sent = token(RSA, "RS256", tenant="acme")
    assert (await accepts(K1, sent=sent, owner_claim="tenant")).owner == "acme"
    assert (
        await accepts(K1, sent=token(RSA, "RS256", sub=None, tenant="acme"), owner_claim="tenant")
    ).owner == "acme"
    for odd in (None, "", 7, ["acme"], {"a": 1}, True, "a\x00b", "a\nb", "x" * 257):
        await refuses(K1, sent=token(RSA, "RS256", tenant=odd), owner_claim="tenant")


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({}, USUAL),
        ({"scope": "chat"}, {Scope.CHAT}),
        ({"scope": "openid answers admin"}, {Scope.ANSWERS, Scope.ADMIN}),
        ({"scp": ["chat", "admin", 7, None]}, {Scope.CHAT, Scope.ADMIN}),
        ({"scp": "chat"}, {Scope.CHAT}),
        ({"scope": ""}, set()),
        ({"scope": "chats CHAT"}, set()),
        ({"scope": 7}, set()),
        ({"scope": {"chat": True}}, set()),
    ],
)
async def test_scopes_restrict_when_they_are_claimed(claims: dict[str, Any], scopes: set[Scope]):
    assert (await accepts(K1, sent=token(RSA, "RS256", **claims))).scopes == scopes


async def test_a_token_that_names_no_key_must_leave_no_choice():
    other = published(private_key("RS256", "another"), "RS256", kid="k2")
    sent = token(RSA, "RS256", key_id=None)
    assert (await accepts(K1, sent=sent)).owner == "ada"
    await refuses(K1, other, sent=sent)


# --- the issuer's keys


async def test_keys_are_fetched_once_and_kept_until_they_are_old():
    issuer, clock = Issuer(key_set(K1)), Clock()
    authenticate = Jwt(KeySet(issuer.fetch, now=clock))
    for _ in range(3):
        await asks(authenticate, token(RSA, "RS256"))
    assert issuer.asked == 1
    clock.at += KEPT_S
    await asks(authenticate, token(RSA, "RS256"))
    assert issuer.asked == 2


async def test_an_unknown_key_id_fetches_again_but_not_more_often_than_the_floor():
    issuer, clock = Issuer(key_set(K1)), Clock()
    authenticate = Jwt(KeySet(issuer.fetch, floor_s=30, now=clock))
    await asks(authenticate, token(RSA, "RS256"))
    new = private_key("ES256")
    issuer.document = key_set(K1, published(new, "ES256", kid="k2"))
    for _ in range(5):
        with pytest.raises(ServiceError):
            await asks(authenticate, token(new, "ES256", key_id="k2"))
    assert issuer.asked == 1
    clock.at += 30
    assert (await asks(authenticate, token(new, "ES256", key_id="k2"))).owner == "ada"
    assert issuer.asked == 2


async def test_requests_that_wait_for_keys_share_one_fetch_even_when_the_first_leaves():
    issuer = Issuer(key_set(K1))
    issuer.gate = asyncio.Event()
    authenticate = Jwt(KeySet(issuer.fetch))
    waiting = [asyncio.create_task(asks(authenticate, token(RSA, "RS256"))) for _ in range(20)]
    while not issuer.asked:
        await asyncio.sleep(0)
    waiting[0].cancel()
    issuer.gate.set()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(each).__name__ for each in found] == ["CancelledError"] + ["Principal"] * 19
    assert issuer.asked == 1


@pytest.mark.parametrize(
    "document", [b"", b"no", b"[]", b"{}", b'{"keys":{}}', b'{"keys":[]}', b'{"keys":[1,null,{}]}']
)
async def test_an_issuer_that_fails_leaves_the_known_keys_in_use(document: bytes):
    issuer, clock = Issuer(key_set(K1)), Clock()
    authenticate = Jwt(KeySet(issuer.fetch, now=clock))
    await asks(authenticate, token(RSA, "RS256"))
    clock.at += KEPT_S
    issuer.fails = not document
    issuer.document = document
    for _ in range(3):
        assert (await asks(authenticate, token(RSA, "RS256"))).owner == "ada"
    assert issuer.asked == 2


async def test_without_any_key_a_fault_is_ours_and_is_tried_again_soon():
    issuer, clock = Issuer(key_set(K1)), Clock()
    issuer.fails = True
    authenticate = Jwt(KeySet(issuer.fetch, now=clock))
    with pytest.raises(httpx2.ConnectError):
        await asks(authenticate, token(RSA, "RS256"))
    with pytest.raises(UnusableKeys):
        await asks(authenticate, token(RSA, "RS256"))
    assert issuer.asked == 1
    clock.at += 1
    issuer.fails = False
    assert (await asks(authenticate, token(RSA, "RS256"))).owner == "ada"


def test_keys_that_no_accepted_algorithm_can_use_are_skipped():
    from cryptography.hazmat.primitives.asymmetric import rsa

    weak = published(rsa.generate_private_key(65537, 1024), "RS256", kid="weak")
    private = {**K1, "d": "AQAB"}
    odd = [
        weak,
        private,
        {**K1, "use": "enc"},
        {**K1, "alg": "RSA-OAEP"},
        {**K1, "n": "!!"},
        {"kty": "oct", "k": "c2VjcmV0"},
        {"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"},
        {"kty": "RSA"},
        {"kty": ["RSA"]},
        "RSA",
    ]
    with pytest.raises(UnusableKeys):
        read_keys(key_set(*odd))
    assert [key.id for key in read_keys(key_set(*odd, K1))] == ["k1"]


async def test_keys_come_over_http():
    with publishing(key_set(K1)) as address:
        assert (await asks(Jwt(KeySet(fetch_from(address))), token(RSA, "RS256"))).owner == "ada"


@pytest.mark.parametrize(
    ("document", "status", "headers"),
    [
        (key_set(K1), 500, {}),
        (b"", 302, {"location": "http://169.254.169.254/latest/meta-data"}),
        (b" " * (2**20 + 1), 200, {}),
    ],
)
async def test_an_answer_that_is_no_key_set_is_not_read_and_no_redirect_is_followed(
    document: bytes, status: int, headers: dict[str, str]
):
    with publishing(document, status=status, headers=headers) as address, pytest.raises(UnusableKeys):
        await fetch_from(address)()
