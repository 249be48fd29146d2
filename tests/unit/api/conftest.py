"""One service for all tests of a module that do not mind what the others have done to it, and one for those that do."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .service import Service, serving

# The generator is no part of the package: it is imported from where it lies.
sys.path.insert(0, str(Path(__file__).parents[3] / "docs"))


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with serving(tmp_path) as found:
        yield found


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Service]:
    """Asks for keys."""
    with serving(tmp_path, auth={"enabled": True}) as found:
        yield found
