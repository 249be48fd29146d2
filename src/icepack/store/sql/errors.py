"""What a database's failure looks like to the user: one sentence, a remedy, no secret."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnectionFree

from icepack.errors import EnvironmentFault

_REMEDIES = {
    "sqlite": "Check that the file is a database, its folder can be written to and the disk is not full.",
    "postgresql": "Check that the server runs, knows the user and password, and lets the user create tables.",
}


@contextmanager
def plain_faults(url: URL) -> Iterator[None]:
    """Turn the driver's errors into an EnvironmentFault."""
    try:
        yield
    except (DBAPIError, NoConnectionFree) as error:
        reason = _reason(error)
        masked = _masked(reason, url)
        raise EnvironmentFault(
            f"The state database {shown(url)} could not be used: {masked}.",
            _REMEDIES[url.get_backend_name()],
        ) from (error if masked == reason else None)


def shown(url: URL) -> str:
    """The URL as a user may see it; options are left out, since they can hold passwords too."""
    return url.set(drivername=url.get_backend_name(), query={}).render_as_string(hide_password=True)


def _reason(error: DBAPIError | NoConnectionFree) -> str:
    """What the driver said, on one line, without the statement it quotes."""
    if isinstance(error, NoConnectionFree):
        return "all connections to it were in use for too long"
    return " ".join(str(error.orig).partition("\nLINE ")[0].split()).rstrip(".")


def _masked(text: str, url: URL) -> str:
    for secret in _secrets(url):
        text = text.replace(secret, "***")
    return text


def _secrets(url: URL) -> Iterator[str]:
    if url.password:
        yield url.password
    for key, value in url.query.items():
        if "password" in key:
            yield from (value,) if isinstance(value, str) else value
