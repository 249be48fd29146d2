"""The server: refuses to be open to the world without authentication, and ends cleanly when told to."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from contextlib import contextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI

from icepack.config import CompactionConfig
from icepack.errors import EnvironmentFault, UsageError

log = logging.getLogger(__name__)

GRACE_SECONDS = 10
QUEUE_LENGTH = 2048


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it; a name counts by all the addresses it stands for."""
    try:
        found = {info[4][0] for info in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    return bool(found) and all(ipaddress.ip_address(str(address).partition("%")[0]).is_loopback for address in found)


def refuse_openness(config: CompactionConfig) -> None:
    if not config.auth.is_on and not is_loopback(config.server.host):
        raise UsageError(
            f"Listening on {config.server.host} without authentication would open every table to whoever can reach it.",
            "Set auth.enabled and make a key with `icepack keys create`, or listen on a loopback address.",
        )


class ApiServer(uvicorn.Server):
    """Told to stop by whoever runs it: signals are theirs."""

    def __init__(self, api: FastAPI, config: CompactionConfig) -> None:
        refuse_openness(config)
        self._api = api
        self._loop: asyncio.AbstractEventLoop | None = None
        self.address = f"{config.server.host}:{config.server.port}"
        server = config.server
        super().__init__(
            uvicorn.Config(
                api,
                host=server.host,
                port=server.port,
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=True,
                proxy_headers=bool(server.trusted_proxies),
                forwarded_allow_ips=list(server.trusted_proxies),
                timeout_graceful_shutdown=GRACE_SECONDS,
                backlog=QUEUE_LENGTH,
                http="httptools",
                loop="auto",
            )
        )

    @contextmanager
    def capture_signals(self) -> Any:
        yield

    def stop(self) -> None:
        """From any thread."""
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Streams would be waited for, so they are ended first."""
        parts = getattr(self._api.state, "parts", None)
        if parts is not None:
            parts.news.close()
        await super().shutdown(sockets)

    def serve_until_stopped(self) -> None:
        """Raises EnvironmentFault when it could not start."""
        try:
            self.run()
        except SystemExit as exc:
            raise EnvironmentFault(
                f"The API cannot listen on {self.address}.", "Another program may hold the port: choose another one."
            ) from exc
        if not self.started:
            raise EnvironmentFault("The API did not start.", "The log says why.")
