"""What is served, and that it is what the sources say."""

import hashlib

import httpx2
import pytest
from fastapi import FastAPI

from app.main import create_app
from app.playground import route
from app.settings import Settings
from tests.acceptance.replica import ROOT

PLAYGROUND = ROOT / "app" / "playground"
STATIC = PLAYGROUND / "static"


def client() -> httpx2.AsyncClient:
    app = FastAPI()
    route.install(app)
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://page")


def test_the_bundle_is_built_from_these_sources() -> None:
    names = [f"src/{path.name}" for path in (PLAYGROUND / "src").iterdir()]
    hashed = hashlib.sha256()
    for name in sorted([*names, "build.mjs", "package.json", "tsconfig.json"]):
        content = (PLAYGROUND / name).read_bytes()
        hashed.update(f"{name}\0{len(content)}\0".encode() + content)
    built = (STATIC / "sources.sha256").read_text().strip()
    assert built == hashed.hexdigest(), (
        "app/playground/src has changed: run `make playground` and commit static/"
    )


def test_the_bundle_is_small_and_names_the_licences_of_what_it_holds() -> None:
    assert (STATIC / "page.js").stat().st_size < 600_000
    licences = (STATIC / "LICENCES.txt").read_text()
    for package in ("ai 6.", "@ai-sdk/react 3.", "react 19.", "react-dom 19."):
        assert f"\n{package}" in f"\n{licences}"


async def test_the_page_allows_its_own_origin_and_no_inline_script() -> None:
    async with client() as http:
        page = await http.get("/")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "<script>" not in page.text
    assert "http" not in page.text  # no other host's files


async def test_a_versioned_file_is_kept_for_ever_and_any_other_is_asked_for_anew() -> None:
    async with client() as http:
        page = await http.get("/")
        version = page.text.partition("page.js?v=")[2].partition('"')[0]
        kept = await http.get(f"/playground/page.js?v={version}")
        asked = await http.get("/playground/page.js")
    assert kept.headers["content-encoding"] == "gzip"
    assert "immutable" in kept.headers["cache-control"]
    assert asked.headers["cache-control"] == "no-cache"
    assert page.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    "path", ["/playground/none.js", "/playground/../route.py", "/playground/%2e%2e/route.py"]
)
async def test_only_the_built_files_are_served(path: str) -> None:
    async with client() as http:
        assert (await http.get(path)).status_code == 404


@pytest.mark.parametrize("on", [True, False])
def test_the_page_can_be_turned_off(on: bool) -> None:
    paths = {getattr(known, "path", "") for known in create_app(Settings(playground=on)).routes}
    assert ({"/", "/playground"} <= paths) is on
