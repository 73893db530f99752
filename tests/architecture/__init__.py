"""What holds for the repository as a whole: its imports, its sizes, its words, and a README that says what the code does.

``python -m tests.architecture.readme`` writes the README's tables anew from the code; ``python -m tests.architecture.sizes`` lists
the files that are getting long.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
