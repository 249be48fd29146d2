"""Which kernel this is: its code, so that any change of it has to earn its trust again."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from importlib.resources.abc import Traversable

from icepack import __version__


@cache
def kernel_version() -> str:
    digest = blake2b(digest_size=6)
    for module in sorted(_modules(files("icepack.kernel")), key=str):
        digest.update(module.name.encode())
        digest.update(module.read_bytes())
    return f"{__version__}+{digest.hexdigest()}"


def _modules(folder: Traversable) -> Iterator[Traversable]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _modules(entry)
        elif entry.name.endswith(".py"):
            yield entry
