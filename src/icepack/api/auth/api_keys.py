"""API keys and session tokens: random, shown once, stored only as digests."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass

PREFIX = "ipk"
_KEY = re.compile(rf"{PREFIX}_([0-9a-f]{{16}})_([A-Za-z0-9_-]{{43}})")


@dataclass(frozen=True, slots=True)
class NewKey:
    id: str
    text: str
    digest: str


def generate_key() -> NewKey:
    key_id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    return NewKey(key_id, f"{PREFIX}_{key_id}_{secret}", compute_digest(secret))


def generate_session_token() -> str:
    return secrets.token_urlsafe(32)


def parse_key(text: str) -> tuple[str, str] | None:
    """Returns the id and the secret of an API key, or None if the text does not have the form of one."""
    match = _KEY.fullmatch(text)
    return None if match is None else (match[1], match[2])


def compute_digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def matches_digest(secret: str, digest: str) -> bool:
    return hmac.compare_digest(compute_digest(secret), digest)
