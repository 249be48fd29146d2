"""Storage locations compared as places, not as strings."""

from __future__ import annotations

import posixpath
import re

OWN_PATH_PROPERTIES = (
    "write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path",
)  # fmt: skip
"""Table properties that name further places where a table's files lie."""

_EQUAL_SCHEMES = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "wasbs": "wasb"}
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):(.*)", re.DOTALL)


def normalize_location(location: str) -> str:
    """One spelling per place: `s3a://b/x/` and `s3://b/x` are the same, and so are `file:/x` and `/x`."""
    found = _SCHEME.fullmatch(location)
    scheme, rest = (found[1].lower(), found[2]) if found else ("file", location)
    scheme = _EQUAL_SCHEMES.get(scheme, scheme)
    if scheme == "file":
        rest = "//" + posixpath.normpath("/" + rest.lstrip("/"))
    head, tail = rest[:2], re.sub(r"/+", "/", rest[2:])
    return f"{scheme}:{head}{tail}".rstrip("/")


def is_inside(inner: str, outer: str) -> bool:
    """Whether `inner` is `outer` or lies below it."""
    place, parent = normalize_location(inner), normalize_location(outer)
    return place == parent or place.startswith(parent + "/")


def overlap(one: str, other: str) -> bool:
    return is_inside(one, other) or is_inside(other, one)
