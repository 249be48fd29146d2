"""Damage in an input: it must not be read and written anew as if it were data."""

from __future__ import annotations


class DamagedPage(Exception):
    """A page whose bytes do not have the checksum that its header states."""

    def __init__(self, path: str, column: str, page: str) -> None:
        super().__init__(f"{path}: column {column}, {page}: the checksum of the page does not match its bytes")
