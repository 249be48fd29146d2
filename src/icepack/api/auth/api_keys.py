"""Keys and session tokens: made at random, shown once, kept as digests."""

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


def new_key() -> NewKey:
    key_id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    return NewKey(key_id, f"{PREFIX}_{key_id}_{secret}", digest_of(secret))


def new_token() -> str:
    return secrets.token_urlsafe(32)


def split_key(text: str) -> tuple[str, str] | None:
    """Its id and its secret; None when it is no key of ours."""
    found = _KEY.fullmatch(text)
    return None if found is None else (found[1], found[2])


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def matches(secret: str, digest: str) -> bool:
    return hmac.compare_digest(digest_of(secret), digest)
