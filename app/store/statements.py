"""What the texts of statements share. They are put together from our own constants, at import; every value is a parameter."""

from collections.abc import Iterable


def one_of(members: Iterable[str]) -> str:
    """The members of an enum as a list of literals, for ``column in (…)``: ``'completed', 'failed'``."""
    return ", ".join(f"'{member}'" for member in sorted(members))


def holdable(texts: Iterable[str]) -> list[str]:
    """Of texts to look up, those that a column can hold: Postgres knows no NUL, so no row has one of the others."""
    return [text for text in texts if "\x00" not in text]
