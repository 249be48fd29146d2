"""Text from anywhere, made fit for a column."""

from __future__ import annotations


def storable(text: str) -> str:
    """The text without what a text column refuses."""
    return text.encode(errors="replace").decode().replace("\0", "")
