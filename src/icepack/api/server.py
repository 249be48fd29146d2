"""The HTTP server: refuses to listen publicly without authentication, and shuts down gracefully."""

from __future__ import annotations

import ipaddress
import socket
from contextlib import contextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI

from icepack.config import CompactionConfig
from icepack.errors import EnvironmentFault, UsageError

SHUTDOWN_SECONDS = 10
BACKLOG = 2048


def is_loopback(host: str) -> bool:
    """Returns whether only this machine can reach the host; for a name, all of its addresses must be loopback."""
    try:
        addresses = {info[4][0] for info in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    parsed = [ipaddress.ip_address(str(address).partition("%")[0]) for address in addresses]
    return bool(parsed) and all(address.is_loopback for address in parsed)


def require_authentication(config: CompactionConfig) -> None:
    """Raises UsageError if the service would be reachable from other machines without authentication."""
    if not config.auth.is_on and not is_loopback(config.server.host):
        raise UsageError(
            f"Listening on {config.server.host} without authentication would give everyone access to every table.",
            "Set auth.enabled and create a key with `icepack keys create`, or listen on a loopback address.",
        )


class ApiServer(uvicorn.Server):
    """A uvicorn server that leaves signal handling to its caller."""

    def __init__(self, api: FastAPI, config: CompactionConfig) -> None:
        require_authentication(config)
        self._api = api
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
                timeout_graceful_shutdown=SHUTDOWN_SECONDS,
                backlog=BACKLOG,
                http="httptools",
                loop="auto",
            )
        )

    @contextmanager
    def capture_signals(self) -> Any:
        yield

    def stop(self) -> None:
        """Asks the server to stop; may be called from any thread."""
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Closes event streams first, because the graceful shutdown would wait for them."""
        services = getattr(self._api.state, "services", None)
        if services is not None:
            services.job_events.close()
        await super().shutdown(sockets)

    def serve_until_stopped(self) -> None:
        """Serves until it is stopped; raises EnvironmentFault if it cannot start."""
        try:
            self.run()
        except SystemExit as exc:
            raise EnvironmentFault(
                f"The API cannot listen on {self.address}.",
                "The port may be in use: stop the other program, or choose another port.",
            ) from exc
        if not self.started:
            raise EnvironmentFault("The API did not start.", "See the log.")
