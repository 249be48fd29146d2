from __future__ import annotations

import threading
from collections.abc import Iterator
from http.client import HTTPConnection, RemoteDisconnected
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from servers.fault_proxy import FaultProxy, Faults, request_kind, run_fault_proxy


class EchoHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(self.path.encode())

    def do_PUT(self) -> None:
        self._answer(self.rfile.read(int(self.headers["Content-Length"])))

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module")
def target_port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), EchoHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


@pytest.fixture
def proxy(target_port: int) -> Iterator[FaultProxy]:
    with run_fault_proxy(target_port) as proxy:
        yield proxy


def send(connection: HTTPConnection, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    connection.request(method, path, body)
    response = connection.getresponse()
    return response.status, response.read()


def test_requests_and_bodies_pass_unchanged_on_one_connection(proxy: FaultProxy) -> None:
    connection = HTTPConnection("127.0.0.1", proxy.port)
    body = b"x" * 1_000_000

    assert send(connection, "GET", "/a?b=c") == (200, b"/a?b=c")
    assert send(connection, "PUT", "/a", body) == (200, body)
    assert send(connection, "HEAD", "/a") == (200, b"")
    assert send(connection, "GET", "/d") == (200, b"/d")
    assert proxy.counts == {"GET": 2, "PUT": 1, "HEAD": 1}


def test_the_configured_share_of_requests_fails_and_is_counted(proxy: FaultProxy) -> None:
    proxy.set_faults(fail_percent=20)
    connection = HTTPConnection("127.0.0.1", proxy.port)

    statuses = [send(connection, "PUT", "/a", b"data")[0] for _ in range(300)]

    assert proxy.counts["failed"] == statuses.count(503)
    assert 30 < statuses.count(503) < 90


def test_a_proxy_that_is_down_fails_every_request_until_it_is_up(proxy: FaultProxy) -> None:
    connection = HTTPConnection("127.0.0.1", proxy.port)
    proxy.set_faults(is_down=True)
    assert send(connection, "GET", "/")[0] == 503
    proxy.set_faults(is_down=False)
    assert send(connection, "GET", "/")[0] == 200


def test_a_reset_closes_the_connection_without_an_answer(target_port: int) -> None:
    with run_fault_proxy(target_port, Faults(reset_percent=100)) as proxy:
        connection = HTTPConnection("127.0.0.1", proxy.port)
        connection.request("GET", "/")
        with pytest.raises((ConnectionResetError, RemoteDisconnected)):
            connection.getresponse()
        assert proxy.counts["reset"] == 1


@pytest.mark.parametrize(
    ("first_line", "kind"),
    [
        ("GET /lake/a.parquet HTTP/1.1", "GET"),
        ("GET /lake?list-type=2&prefix=db HTTP/1.1", "LIST"),
        ("POST /lake?delete HTTP/1.1", "DELETE"),
        ("POST /lake/a?uploads HTTP/1.1", "POST"),
        ("PUT /lake/a?partNumber=1 HTTP/1.1", "PUT"),
    ],
)
def test_requests_are_counted_as_s3_bills_them(first_line: str, kind: str) -> None:
    assert request_kind(first_line) == kind
