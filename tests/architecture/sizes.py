"""How long the service's files are. Over ``DISCUSSED`` lines a file is reported, over ``REFUSED`` the tests fail."""

import sys

from tests.architecture import ROOT

DISCUSSED, REFUSED = 300, 400


def longer_than(lines: int) -> dict[str, int]:
    """The files of ``app/`` with more lines than that, the longest first."""
    found = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines())
        for path in (ROOT / "app").rglob("*.py")
    }
    return dict(sorted(((p, n) for p, n in found.items() if n > lines), key=lambda item: -item[1]))


if __name__ == "__main__":
    for file, length in longer_than(DISCUSSED).items():
        sys.stdout.write(f"{length:5} {file}\n")
