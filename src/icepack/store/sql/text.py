"""Text from anywhere, made fit for a column."""

from __future__ import annotations


def storable(text: str) -> str:
    """The text without what a text column refuses; JSON documents keep it, escaped."""
    return text.encode(errors="replace").decode().replace("\0", "")
