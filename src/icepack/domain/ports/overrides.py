"""Port to policies and schedules that were set through the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from icepack.errors import Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Settings made through the API that extend the configuration; every change increments the version."""

    entries: tuple[Mapping[str, Any], ...] = ()
    version: int = 0
    changed_at: datetime | None = None
    changed_by: str = ""


class VersionConflict(Refused):
    """The document has been changed since the caller read it."""

    def __init__(self, found: int) -> None:
        super().__init__(f"Another user has changed this; it is now at version {found}.", "Read it again first.")
        self.found = found


class OverrideStore(Protocol):
    """One document for each kind: `policies`, `schedules`."""

    def read(self, kind: str) -> Overrides: ...

    def replace(self, kind: str, entries: Sequence[Mapping[str, Any]], *, expected: int | None, by: str) -> Overrides:
        """Raises VersionConflict if the document is not at the expected version; None skips the check."""
        ...
