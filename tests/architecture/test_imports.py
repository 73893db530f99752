"""Imports point down, as the contracts of pyproject.toml say."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture import ROOT


@pytest.mark.timeout(120)
def test_imports_point_down_as_the_contracts_say() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    found = subprocess.run(
        [linter, "--no-logo", "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
