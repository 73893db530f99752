"""The release before this one, out of the git history: its app beside ours, on the packages that are installed here.

``PREVIOUS_RELEASE`` names another tag or commit than the one that would be found.
"""

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

from tests.acceptance.replica import ROOT

REACH = 30  # commits
PARTS = ("app", "migrations", "pyproject.toml", "tests/__init__.py", "tests/acceptance")


class NoReleaseError(Exception):
    """There is none within reach; ``str()`` says why."""


def previous(folder: Path) -> tuple[str, Path]:
    """The newest release whose app is another than ours, whose migrations are ours or fewer, and whose app
    starts: its name, and where under ``folder`` it lies now. Tags come first, then commits.

    Raises ``NoReleaseError``."""
    named = os.environ.get("PREVIOUS_RELEASE")
    candidates = [named] if named else [*_tags(), *_commits()]
    for name in candidates:
        if not _differs(name) or not _migrations(name) <= _migrations_here():
            continue
        release = _laid_out(name, folder)
        if _starts(release):
            return name, release
    raise NoReleaseError(f"none of {len(candidates)} tags and commits has another app that starts")


def _git(*arguments: str) -> "subprocess.CompletedProcess[bytes]":
    try:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False, timeout=60)
    except FileNotFoundError:
        raise NoReleaseError("git is not installed") from None


def _lines(*arguments: str) -> list[str]:
    done = _git(*arguments)
    if done.returncode:
        raise NoReleaseError(f"no git history: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout.decode().splitlines()


def _tags() -> list[str]:
    return _lines("tag", "--merged", "HEAD", "--sort=-creatordate")


def _commits() -> list[str]:
    """The newest first. A shallow clone has few of them, or only the one that is checked out."""
    return _lines("rev-list", "--first-parent", f"--max-count={REACH + 1}", "--abbrev-commit", "HEAD")


def _differs(name: str) -> bool:
    """Whether its app is another than the one that lies here, changes that are not committed included."""
    return _git("diff", "--quiet", name, "--", "app").returncode == 1


def _migrations(name: str) -> set[tuple[str, str]]:
    """File and content of each."""
    listed = _lines("ls-tree", "-r", "--format=%(path) %(objectname)", name, "--", "migrations/versions")
    return {(line.split()[0], line.split()[1]) for line in listed}


def _migrations_here() -> set[tuple[str, str]]:
    files = sorted((ROOT / "migrations" / "versions").glob("*.py"))
    names = [str(file.relative_to(ROOT)) for file in files]
    return set(zip(names, _lines("hash-object", "--", *names), strict=True))


def _laid_out(name: str, folder: Path) -> Path:
    """Its parts under ``folder``; nothing when it has not all of them."""
    release = folder / name.replace("/", "-")
    release.mkdir(exist_ok=True)
    archive = _git("archive", "--format=tar", name, "--", *PARTS)
    if archive.returncode == 0:
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as packed:
            packed.extractall(release, filter="data")
    return release


def _starts(release: Path) -> bool:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AGENT_SERVER_")}
    environment["AGENT_SERVER_AGENTS"] = "tests.acceptance.scripts:AGENTS"
    command = [sys.executable, "-m", "app", "check"]
    done = subprocess.run(command, cwd=release, env=environment, capture_output=True, check=False, timeout=60)
    return done.returncode == 0
