"""Translates database errors into one sentence with a remedy, without passwords."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from icepack.errors import EnvironmentFault

_REMEDIES = {
    "sqlite": "Check that the file is a database, that its folder is writable and that the disk is not full.",
    "postgresql": (
        "Check that the server is running, that the user and password are correct, and that the user may create tables."
    ),
}


@contextmanager
def translate_errors(url: URL) -> Iterator[None]:
    """Raise EnvironmentFault for errors of the database driver and the connection pool."""
    try:
        yield
    except (DBAPIError, PoolTimeout) as error:
        reason = _describe(error)
        masked = _mask_secrets(reason, url)
        raise EnvironmentFault(
            f"The state database {mask_url(url)} could not be used: {masked}.",
            _REMEDIES[url.get_backend_name()],
        ) from (error if masked == reason else None)


def mask_url(url: URL) -> str:
    """The URL without its password, and without its options, which can contain passwords too."""
    return url.set(drivername=url.get_backend_name(), query={}).render_as_string(hide_password=True)


def _describe(error: DBAPIError | PoolTimeout) -> str:
    """The driver's message on one line, without the statement that it quotes."""
    if isinstance(error, PoolTimeout):
        return "timed out waiting for a free connection"
    return " ".join(str(error.orig).partition("\nLINE ")[0].split()).rstrip(".")


def _mask_secrets(text: str, url: URL) -> str:
    for secret in _list_secrets(url):
        text = text.replace(secret, "***")
    return text


def _list_secrets(url: URL) -> Iterator[str]:
    if url.password:
        yield url.password
    for key, value in url.query.items():
        if "password" in key:
            yield from (value,) if isinstance(value, str) else value
