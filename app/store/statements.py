"""What the texts of statements share. They are put together from our own constants, at import; every value is a parameter."""

from collections.abc import Iterable


def one_of(members: Iterable[str]) -> str:
    """The members of an enum as a list of literals, for ``column in (…)``: ``'completed', 'failed'``."""
    return ", ".join(f"'{member}'" for member in sorted(members))
