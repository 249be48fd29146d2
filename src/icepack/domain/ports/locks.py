"""Port to the table locks, and the errors that they raise."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from icepack.domain.table import TableId
from icepack.errors import IcepackError, Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLock:
    """Who holds a table, for what, and until when; `token` only ever grows."""

    table: TableId
    owner: str
    token: int
    purpose: str
    taken_at: datetime
    expires_at: datetime
    expired: bool
    job_id: UUID | None = None


class TableLocked(Refused):
    """Another owner holds the lock on the table."""

    def __init__(self, lock: TableLock) -> None:
        reason = f" for {lock.purpose}" if lock.purpose else ""
        super().__init__(
            f"{lock.table} is locked by '{lock.owner}'{reason} until {lock.expires_at:%Y-%m-%d %H:%M:%S} UTC.",
            "Wait until the lock is released; `icepack locks` lists all locks.",
        )
        self.lock = lock


class LockLost(IcepackError):
    """The lock expired or was broken while its owner was working."""

    def __init__(self, lock: TableLock) -> None:
        super().__init__(
            f"'{lock.owner}' no longer holds the lock on {lock.table} (token {lock.token}).",
            "Stop working on the table: the lock expired and was acquired by another owner, or was broken.",
        )
        self.lock = lock


class TableLocks(Protocol):
    """One lock per table, held by a worker's job or by a command."""

    def acquire(self, table: TableId, owner: str, lease: timedelta, purpose: str = "") -> TableLock:
        """Raises TableLocked if another owner holds the lock."""
        ...

    def renew(self, lock: TableLock, lease: timedelta) -> TableLock: ...

    def release(self, lock: TableLock) -> bool:
        """Returns False if the lock no longer belonged to this owner."""
        ...

    def list_locks(self) -> list[TableLock]: ...

    def break_lock(self, table: TableId, *, force: bool = False, by: str = "") -> TableLock | None:
        """Removes an expired lock, or any lock with `force`.

        A job that held the lock returns to the queue, and its worker loses the claim.
        """
        ...

    def close(self) -> None: ...
