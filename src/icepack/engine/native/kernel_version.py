"""Lists the kernel's source files, and computes a version that changes with any of them.

File classes are trusted for one kernel version, so that changed code is verified again.
"""

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
    for path, module in kernel_modules():
        digest.update(path.encode())
        digest.update(module.read_bytes())
    return f"{__version__}+{digest.hexdigest()}"


def kernel_modules() -> list[tuple[str, Traversable]]:
    """Returns all modules of the kernel, with their paths in a zip archive of the package."""
    return sorted(_walk(files("icepack.kernel"), "icepack/kernel"), key=lambda item: item[0])


def _walk(folder: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{path}/{entry.name}")
        elif entry.name.endswith(".py"):
            yield f"{path}/{entry.name}", entry
