"""Makes any text storable in a text column."""

from __future__ import annotations


def clean_text(text: str) -> str:
    """Remove NUL characters and replace lone surrogates: text columns reject both, JSON columns escape them."""
    return text.encode(errors="replace").decode().replace("\0", "")
