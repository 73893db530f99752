"""What an enemy, or bad luck, would try: each file is one line of attack.

- ``test_openapi``    requests made from our own document: nothing answers 5xx, nothing answers what is not written there
- ``test_fuzz``       the parser and whole requests against anything that is, or nearly is, JSON
- ``test_forged``     a client that lies about the past
- ``test_injection``  headers, log lines, prototype-like keys, numbers, Unicode, compressed bodies, addresses that must not be fetched
- ``test_secrets``    secrets planted everywhere, then searched for in every answer and every line of the log
- ``test_deletion``   a deleted chat is gone from every table

More inputs than in CI: ``FUZZ_EXAMPLES=100000 python -m pytest tests/security --timeout 0``.
"""

import os


def examples(in_ci: int) -> int:
    """How many inputs a fuzzer tries: ``FUZZ_EXAMPLES`` when it is set."""
    return int(os.environ.get("FUZZ_EXAMPLES", in_ci))
