"""The page that the README gives away to be copied: bundled and run as it stands there."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.replica import ROOT, Replica
from tests.playground.browser import Browser
from tests.playground.conftest import PACKAGES

README = ROOT / "README.md"

# What a framework would do with the file: render its component.
ENTRY = """\
import { createElement } from 'react';
import { createRoot } from 'react-dom/client';
import * as page from './page';

const component = page.default ?? Object.values(page).find((value) => typeof value === 'function');
createRoot(document.getElementById('root')).render(createElement(component));
"""
DOCUMENT = (
    '<!doctype html><meta charset="utf-8"><div id="root"></div><script type="module" src="entry.js"></script>'
)


def copied_page() -> str:
    """The README's first TSX block that uses ``useChat``."""
    text = README.read_text() if README.exists() else ""
    blocks = re.findall(r"^```tsx[^\n]*\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    found = next((block for block in blocks if "useChat" in block), None)
    if found is None:
        pytest.xfail("the README has no page to copy yet")
    return found


@pytest.mark.timeout(120)
def test_the_page_that_the_readme_gives_away_runs_a_turn(
    browser: Browser, server: Replica, tmp_path: Path
) -> None:
    source = re.sub(r"https?://(?:localhost|127\.0\.0\.1):\d+", server.url, copied_page())
    folder = tmp_path / "copied"
    folder.mkdir()
    (folder / "page.tsx").write_text(source)
    (folder / "entry.js").write_text(ENTRY)
    (folder / "index.html").write_text(DOCUMENT)
    bundle = [str(PACKAGES / "node_modules" / ".bin" / "esbuild"), "entry.js", "--bundle"]
    options = [
        "--jsx=automatic",
        '--define:process.env.NODE_ENV="production"',
        "--format=esm",
        "--outfile=out/entry.js",
    ]
    subprocess.run(
        [*bundle, *options],
        cwd=folder,
        env=os.environ | {"NODE_PATH": str(PACKAGES / "node_modules")},
        check=True,
        timeout=60,
    )
    (folder / "out" / "index.html").write_text(DOCUMENT)

    browser.new_page()
    browser.serve(f"{server.url}/copied/", folder / "out")
    browser.open(f"{server.url}/copied/")
    browser.fill_css("input, textarea", "What's the weather in Lisbon?")
    browser.press("Enter")
    browser.sees("In Lisbon it is", within="body")
    browser.screenshot(tmp_path / "readme.png")
    assert browser.complaints() == []
