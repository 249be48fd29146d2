"""Recognizes secrets by the names of settings and masks them in text."""

from __future__ import annotations

import re
from collections.abc import Iterable

MASK = "***"
# Shorter secrets are masked only where they are the whole text: replacing them inside other text would garble it.
MIN_MASKED_LENGTH = 4

_SECRET_WORDS = (
    r"passw(?:or)?d|passphrase|secret|token|credential|authorization|signature|"
    r"(?:access|account|api|private|encryption|shared)-key|key-id|sas-token|connection-string"
)
_SECRET_KEY = re.compile(rf"{_SECRET_WORDS}|(?:^|-)(?:pg)?pass(?:$|-)|-pwd?(?:$|-)")
_URL_PASSWORD = re.compile(r"(://[^/?#:@\s]*):\S*@")
_QUERY_SECRET = re.compile(rf"([?&;][^=&;\s]*(?:{_SECRET_WORDS}|[-_]key)[^=&;\s]*=)[^&;\s]+", re.IGNORECASE)


def is_secret(key: str) -> bool:
    """Returns whether a setting, property or variable with this name holds a secret."""
    return _SECRET_KEY.search(re.sub(r"[._\s]+", "-", key.lower())) is not None


def mask_passwords(text: str) -> str:
    """Masks passwords and secret query parameters in the URLs of a text."""
    return _QUERY_SECRET.sub(rf"\1{MASK}", _URL_PASSWORD.sub(rf"\1:{MASK}@", text))


def mask_secrets(text: str, secrets: Iterable[str]) -> str:
    """Masks the given secrets, and passwords in URLs."""
    for secret in sorted(secrets, key=len, reverse=True):
        if text == secret:
            return MASK
        if len(secret) >= MIN_MASKED_LENGTH:
            text = text.replace(secret, MASK)
    return mask_passwords(text)
