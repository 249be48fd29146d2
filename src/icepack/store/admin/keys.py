"""API keys and sessions in SQLite or PostgreSQL. Implements the ports `KeyStore` and `SessionStore`.

Only digests of secrets are stored, never the secrets.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, Row, delete, insert, or_, select, update

from icepack.domain.access import ApiKey, Principal, Role, Scope, Session
from icepack.domain.ports.access import KeyExists, KeyNotFound, KeyStore, SessionStore
from icepack.domain.serialization import from_json, to_json
from icepack.store.schema import api_keys, sessions
from icepack.store.sql.errors import translate_errors
from icepack.store.sql.text import clean_text
from icepack.store.sql.transaction import read_connection, write_transaction


class SqlKeyStore(KeyStore):
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def add(self, key: ApiKey, digest: str) -> None:
        values = {
            "id": key.id,
            "name": clean_text(key.name),
            "digest": digest,
            "role": key.role.value,
            "scopes": [str(scope) for scope in key.scopes],
            "created_at": key.created_at,
            "created_by": clean_text(key.created_by),
            "expires_at": key.expires_at,
        }
        with translate_errors(self._engine.url), write_transaction(self._engine) as connection:
            if _find_valid(connection, clean_text(key.name), key.created_at):
                raise KeyExists(key.name)
            connection.execute(insert(api_keys).values(values))

    def find(self, key_id: str) -> tuple[ApiKey, str] | None:
        with translate_errors(self._engine.url), read_connection(self._engine) as connection:
            row = connection.execute(select(api_keys).where(api_keys.c.id == key_id)).one_or_none()
        return None if row is None else (_to_key(row), row.digest)

    def list_keys(self) -> list[ApiKey]:
        """All keys, oldest first."""
        with translate_errors(self._engine.url), read_connection(self._engine) as connection:
            rows = connection.execute(select(api_keys).order_by(api_keys.c.created_at, api_keys.c.id)).all()
        return [_to_key(row) for row in rows]

    def revoke(self, name: str, at: datetime) -> ApiKey:
        with translate_errors(self._engine.url), write_transaction(self._engine) as connection:
            found = _find_valid(connection, name, at)
            if found is None:
                raise KeyNotFound(name)
            connection.execute(update(api_keys).where(api_keys.c.id == found.id).values(revoked_at=at))
            connection.execute(delete(sessions).where(sessions.c.key_id == found.id))
            return _to_key(connection.execute(select(api_keys).where(api_keys.c.id == found.id)).one())


class SqlSessionStore(SessionStore):
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def open(self, digest: str, session: Session, now: datetime) -> None:
        """Store a session; also deletes expired sessions."""
        values = {
            "digest": digest,
            "key_id": session.key_id,
            "principal": to_json(session.principal),
            "created_at": now,
            "expires_at": session.expires_at,
        }
        with translate_errors(self._engine.url), write_transaction(self._engine) as connection:
            connection.execute(delete(sessions).where(sessions.c.expires_at <= now))
            connection.execute(insert(sessions).values(values))

    def find(self, digest: str, now: datetime) -> Session | None:
        with_key = sessions.outerjoin(api_keys, api_keys.c.id == sessions.c.key_id)
        statement = select(*sessions.c).select_from(with_key)
        statement = statement.where(sessions.c.digest == digest, sessions.c.expires_at > now)
        statement = statement.where(or_(sessions.c.key_id.is_(None), _is_valid(now)))
        with translate_errors(self._engine.url), read_connection(self._engine) as connection:
            row = connection.execute(statement).one_or_none()
        if row is None:
            return None
        return Session(principal=from_json(Principal, row.principal), expires_at=row.expires_at, key_id=row.key_id)

    def end(self, digest: str) -> None:
        with translate_errors(self._engine.url), write_transaction(self._engine) as connection:
            connection.execute(delete(sessions).where(sessions.c.digest == digest))


def _is_valid(now: datetime) -> Any:
    is_unexpired = or_(api_keys.c.expires_at.is_(None), api_keys.c.expires_at > now)
    return api_keys.c.id.is_not(None) & api_keys.c.revoked_at.is_(None) & is_unexpired


def _find_valid(connection: Connection, name: str, now: datetime) -> Row[Any] | None:
    """The valid key with this name or id."""
    is_named = or_(api_keys.c.name == name, api_keys.c.id == name)
    matches = select(api_keys).where(is_named, _is_valid(now))
    # The name of one key can be the id of another: the id takes precedence.
    return connection.execute(matches.order_by((api_keys.c.id == name).desc())).first()


def _to_key(row: Row[Any]) -> ApiKey:
    return ApiKey(
        id=row.id,
        name=row.name,
        role=Role(row.role),
        scopes=tuple(Scope.parse(text) for text in row.scopes),
        created_at=row.created_at,
        created_by=row.created_by,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
    )
