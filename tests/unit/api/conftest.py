"""Fixtures with a running service, with and without authentication."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .service import Service, serve

# The documentation generator is not part of the package.
sys.path.insert(0, str(Path(__file__).parents[3] / "docs"))


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with serve(tmp_path) as found:
        yield found


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Service]:
    """A service that requires authentication."""
    with serve(tmp_path, auth={"enabled": True}) as found:
        yield found


@pytest.fixture
def audited(service: Service) -> Any:
    """Returns the actions and outcomes in the audit log, the oldest first."""
    return lambda: [(entry.action, entry.outcome) for entry in reversed(service.stores.audit.entries())]
