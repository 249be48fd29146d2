"""API keys and sessions in SQLite or PostgreSQL: digests only, never what they are digests of."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, Row, delete, insert, or_, select, update

from icepack.domain.access import ApiKey, Principal, Role, Scope, Session
from icepack.domain.ports.access import KeyExists, KeyNotFound, KeyStore, SessionStore
from icepack.domain.serialization import from_json, to_json
from icepack.store.schema import api_keys, sessions
from icepack.store.sql.errors import plain_faults
from icepack.store.sql.text import storable
from icepack.store.sql.transaction import reading, writing


class SqlKeyStore(KeyStore):
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def add(self, key: ApiKey, digest: str) -> None:
        values = {
            "id": key.id,
            "name": storable(key.name),
            "digest": digest,
            "role": key.role.value,
            "scopes": [str(scope) for scope in key.scopes],
            "created_at": key.created_at,
            "created_by": storable(key.created_by),
            "expires_at": key.expires_at,
        }
        with plain_faults(self._engine.url), writing(self._engine) as connection:
            if _valid(connection, storable(key.name), key.created_at):
                raise KeyExists(key.name)
            connection.execute(insert(api_keys).values(values))

    def find(self, key_id: str) -> tuple[ApiKey, str] | None:
        with plain_faults(self._engine.url), reading(self._engine) as connection:
            row = connection.execute(select(api_keys).where(api_keys.c.id == key_id)).one_or_none()
        return None if row is None else (_to_key(row), row.digest)

    def list_keys(self) -> list[ApiKey]:
        """The oldest first."""
        with plain_faults(self._engine.url), reading(self._engine) as connection:
            rows = connection.execute(select(api_keys).order_by(api_keys.c.created_at, api_keys.c.id)).all()
        return [_to_key(row) for row in rows]

    def revoke(self, name: str, at: datetime) -> ApiKey:
        with plain_faults(self._engine.url), writing(self._engine) as connection:
            found = _valid(connection, name, at)
            if found is None:
                raise KeyNotFound(name)
            connection.execute(update(api_keys).where(api_keys.c.id == found.id).values(revoked_at=at))
            connection.execute(delete(sessions).where(sessions.c.key_id == found.id))
            return _to_key(connection.execute(select(api_keys).where(api_keys.c.id == found.id)).one())


class SqlSessionStore(SessionStore):
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def open(self, digest: str, session: Session, now: datetime) -> None:
        """Sessions that have ended go with the same stroke."""
        values = {
            "digest": digest,
            "key_id": session.key_id,
            "principal": to_json(session.principal),
            "created_at": now,
            "expires_at": session.expires_at,
        }
        with plain_faults(self._engine.url), writing(self._engine) as connection:
            connection.execute(delete(sessions).where(sessions.c.expires_at <= now))
            connection.execute(insert(sessions).values(values))

    def find(self, digest: str, now: datetime) -> Session | None:
        held = sessions.outerjoin(api_keys, api_keys.c.id == sessions.c.key_id)
        statement = select(*sessions.c).select_from(held)
        statement = statement.where(sessions.c.digest == digest, sessions.c.expires_at > now)
        statement = statement.where(or_(sessions.c.key_id.is_(None), _is_valid(now)))
        with plain_faults(self._engine.url), reading(self._engine) as connection:
            row = connection.execute(statement).one_or_none()
        if row is None:
            return None
        return Session(principal=from_json(Principal, row.principal), expires_at=row.expires_at, key_id=row.key_id)

    def end(self, digest: str) -> None:
        with plain_faults(self._engine.url), writing(self._engine) as connection:
            connection.execute(delete(sessions).where(sessions.c.digest == digest))


def _is_valid(now: datetime) -> Any:
    lasting = or_(api_keys.c.expires_at.is_(None), api_keys.c.expires_at > now)
    return api_keys.c.id.is_not(None) & api_keys.c.revoked_at.is_(None) & lasting


def _valid(connection: Connection, name: str, now: datetime) -> Row[Any] | None:
    named = or_(api_keys.c.name == name, api_keys.c.id == name)
    found = select(api_keys).where(named, _is_valid(now))
    # Somebody may have called a key by another's id: the id counts.
    return connection.execute(found.order_by((api_keys.c.id == name).desc())).first()


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
