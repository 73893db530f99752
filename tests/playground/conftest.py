"""A browser and a server for the whole module, and for each test a fresh page whose console must stay silent."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.acceptance.replica import ROOT, Replica
from tests.playground.browser import Browser

PACKAGES = ROOT / "app" / "playground"


def _lacks(what: str) -> None:
    """Without a tool the tests are skipped; where everything must be proved they fail."""
    if os.environ.get("CI"):
        pytest.fail(f"{what} is needed to test the page")
    pytest.skip(f"{what} is needed to test the page")


@pytest.fixture(scope="session")
def node() -> str:
    """Node, with the page's packages installed."""
    found, npm = shutil.which("node"), shutil.which("npm")
    if found is None or npm is None:
        _lacks("node (20 or newer) with npm")
        raise AssertionError
    if not (PACKAGES / "node_modules" / "playwright-core").is_dir():
        install = [npm, "install", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(install, cwd=PACKAGES, check=True, timeout=300)
    return found


@pytest.fixture(scope="module")
def browser(node: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        _lacks("chromium")
        raise AssertionError
    opened = Browser(node, chromium, tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replica]:
    """A server process with the built-in agents and the embedded Postgres, as a newcomer has it."""
    replica = Replica("server", tmp_path_factory.mktemp("server"), None, agents=None)
    asyncio.run(replica.start())
    yield replica
    asyncio.run(replica.terminate())  # not killed: its Postgres ends with it
    replica.kill()


@pytest.fixture
def mortal(database_url: str, tmp_path: Path) -> Iterator[Replica]:
    """A server of the test's own, with a short lease, to be killed and started again."""
    replica = Replica("mortal", tmp_path, database_url, agents=None)
    asyncio.run(replica.start())
    yield replica
    replica.kill()


@contextmanager
def opened(browser: Browser, server: Replica, folder: Path, *, width: int, dark: bool) -> Iterator[Browser]:
    """The page in a fresh tab. Its last look is kept in ``folder``; its console must have been silent."""
    browser.new_page(width=width, dark=dark)
    browser.open(f"{server.url}/")
    yield browser
    browser.screenshot(folder / "page.png")
    assert browser.complaints() == []


@pytest.fixture
def page(browser: Browser, server: Replica, tmp_path: Path) -> Iterator[Browser]:
    """The page of ``server``."""
    with opened(browser, server, tmp_path, width=1200, dark=False) as seen:
        yield seen


@pytest.fixture
def narrow_page(browser: Browser, server: Replica, tmp_path: Path) -> Iterator[Browser]:
    """The same, in the dark and on a small phone."""
    with opened(browser, server, tmp_path, width=360, dark=True) as seen:
        yield seen


@pytest.fixture
def mortal_page(browser: Browser, mortal: Replica, tmp_path: Path) -> Iterator[Browser]:
    """The page of ``mortal``."""
    with opened(browser, mortal, tmp_path, width=1200, dark=False) as seen:
        yield seen
