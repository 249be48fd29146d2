"""Starts a temporary PostgreSQL server for the tests on a free port of 127.0.0.1."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import psycopg
from psycopg import sql

from .postgres_install import find_or_install

SUPERUSER = "postgres"
START_ATTEMPTS = 5


class PostgresServer:
    """A database cluster in a temporary folder; PostgreSQL refuses to run as root, so root runs it as `postgres`."""

    def __init__(self, *, durable: bool = False) -> None:
        self.password = uuid4().hex
        self.port = 0
        self._durable = durable
        self._programs = find_or_install()
        self._folder = _create_folder()
        self._data = self._folder / "data"
        self._initialise()

    def start(self) -> None:
        """Start at the previous port, or at a free one; retries because another process may take the port first."""
        for _ in range(1 if self.port else START_ATTEMPTS):
            port = self.port or _find_free_port()
            started = self._run("pg_ctl", "start", "-w", "-D", self._data, "-l", self._log, "-o", self._options(port))
            if started.returncode == 0:
                self.port = port
                return
        raise RuntimeError(f"PostgreSQL did not start:\n{self._log.read_text()}")

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "stop", "-w", "-m", mode, "-D", self._data)

    def remove(self) -> None:
        self.stop("immediate")
        shutil.rmtree(self._folder, ignore_errors=True)

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://{SUPERUSER}:{self.password}@127.0.0.1:{self.port}/{database}"

    @contextmanager
    def database(self) -> Iterator[str]:
        """The URL of a new, empty database, which is dropped afterwards together with its connections."""
        name = f"test_{uuid4().hex}"
        self._execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield self.url(name)
        finally:
            with suppress(psycopg.OperationalError):
                self._execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    @property
    def _log(self) -> Path:
        return self._folder / "log"

    def _options(self, port: int) -> str:
        durability = "" if self._durable else " -c fsync=off -c synchronous_commit=off -c full_page_writes=off"
        return f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=''{durability}"

    def _initialise(self) -> None:
        secret = self._folder / "password"
        secret.write_text(self.password)
        secret.chmod(0o644)
        made = self._run(
            "initdb",
            *("-D", self._data, "-U", SUPERUSER, "-A", "scram-sha-256", f"--pwfile={secret}"),
            *("--no-sync", "-E", "UTF8", "--locale=C"),
        )
        secret.unlink()
        if made.returncode:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise RuntimeError(f"initdb failed:\n{made.stdout}{made.stderr}")

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement)

    def _run(self, program: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        as_user = ["runuser", "-u", SUPERUSER, "--"] if os.geteuid() == 0 else []
        command = [*as_user, self._programs / program, *arguments]
        return subprocess.run(command, cwd=self._folder, capture_output=True, text=True, check=False)


def _create_folder() -> Path:
    """Create a folder that the server's user owns and can reach; root's TMPDIR may be unreachable for it."""
    is_root = os.geteuid() == 0
    folder = Path(tempfile.mkdtemp(prefix="icepack-postgres-", dir="/tmp" if is_root else None))
    if is_root:
        account = pwd.getpwnam(SUPERUSER)
        os.chown(folder, account.pw_uid, account.pw_gid)
    return folder


def _find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
