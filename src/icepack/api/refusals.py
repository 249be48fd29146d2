"""What the API itself refuses, before anything is done."""

from __future__ import annotations

from icepack.domain.access import Role
from icepack.errors import Refused


class Unauthenticated(Refused):
    def __init__(self, message: str = "This needs a key, a token or a session.") -> None:
        super().__init__(message, "Send it as `Authorization: Bearer …`.")


class Forbidden(Refused):
    def __init__(self, role: Role, where: str = "") -> None:
        super().__init__(f"This needs the role {role.value}{f' for {where}' if where else ''}.")
        self.role = role


class TooManyRequests(Refused):
    def __init__(self, wait_seconds: float) -> None:
        super().__init__("That is too many requests in too short a time.", "Wait a moment.")
        self.wait_seconds = wait_seconds


class NotAllowed(Refused):
    """A request that no honest client makes: wrong in its form, whoever sends it."""

    def __init__(self, status: int, slug: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.slug = slug
