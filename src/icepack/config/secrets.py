"""What counts as a secret, and how it is kept out of sight."""

from __future__ import annotations

import re
from collections.abc import Iterable

MASK = "***"
SHORTEST_FRAGMENT = 4
"""A shorter secret is hidden only where it stands alone: it would tear holes into innocent text."""

_WORDS = (
    r"passw(?:or)?d|passphrase|secret|token|credential|authorization|signature|"
    r"(?:access|account|api|private|encryption|shared)-key|key-id|sas-token|connection-string"
)
_SECRET_KEY = re.compile(rf"{_WORDS}|(?:^|-)(?:pg)?pass(?:$|-)|-pwd?(?:$|-)")
_URL_PASSWORD = re.compile(r"(://[^/?#:@\s]*):\S*@")
_QUERY_SECRET = re.compile(rf"([?&;][^=&;\s]*(?:{_WORDS}|[-_]key)[^=&;\s]*=)[^&;\s]+", re.IGNORECASE)


def is_secret(key: str) -> bool:
    """Whether a setting, property or variable of this name holds a secret."""
    return _SECRET_KEY.search(re.sub(r"[._\s]+", "-", key.lower())) is not None


def without_passwords(text: str) -> str:
    """The text with the passwords of its URLs masked."""
    return _QUERY_SECRET.sub(rf"\1{MASK}", _URL_PASSWORD.sub(rf"\1:{MASK}@", text))


def hide(text: str, secrets: Iterable[str]) -> str:
    """The text with these secrets, and the passwords of URLs, masked."""
    for secret in sorted(secrets, key=len, reverse=True):
        if text == secret:
            return MASK
        if len(secret) >= SHORTEST_FRAGMENT:
            text = text.replace(secret, MASK)
    return without_passwords(text)
