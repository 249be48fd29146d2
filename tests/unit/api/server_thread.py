"""Runs the application with its real server, in a thread."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from icepack.api.app import build_api
from icepack.api.server import ApiServer
from icepack.config import load_config
from icepack.wiring import App, build_app

from .service import fill_cache, fill_queue


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def run_server(folder: Path, *, stream_seconds: float = 120.0, **settings: Any) -> Iterator[tuple[str, App]]:
    """Yields the URL of the server and the application that it serves."""
    environ = {"HOME": str(folder), "XDG_STATE_HOME": str(folder), "XDG_CACHE_HOME": str(folder)}
    port = free_port()
    overrides = {"server": {"requests_per_second": 0, "port": port}, **settings}
    app = build_app(load_config(environ=environ, overrides=overrides, cwd=folder), environ=environ)
    fill_cache(app.stores)
    fill_queue(app.stores)
    server = ApiServer(build_api(app, stream_seconds=stream_seconds), app.loaded.config)
    thread = threading.Thread(target=server.serve_until_stopped)
    thread.start()
    try:
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        yield f"http://127.0.0.1:{port}", app
    finally:
        server.stop()
        thread.join()
        app.close()
