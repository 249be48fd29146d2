"""A fake S3 server on localhost that keeps objects in memory and counts requests.

It checks no signatures and supports only what reading and writing a table needs; it is not a test of S3 itself.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

NAME = "bench"
_NOT_FOUND = b"<Error><Code>NoSuchKey</Code><Message>There is no such object.</Message></Error>"


class Bucket:
    """The objects by path, and the number of requests by method."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.parts: dict[str, dict[int, bytes]] = {}
        self.requests: Counter[str] = Counter()
        self.lock = threading.Lock()

    def put(self, key: str, data: bytes) -> None:
        self.objects[key] = data

    def begin(self) -> str:
        with self.lock:
            upload = f"upload-{len(self.parts)}"
            self.parts[upload] = {}
        return upload

    def complete(self, key: str, upload: str) -> None:
        self.put(key, b"".join(data for _, data in sorted(self.parts.pop(upload).items())))


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, bucket: Bucket) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bucket = bucket

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores clients that disconnect between requests, and reports all other errors."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def run_server() -> Iterator[Server]:
    server = Server(Bucket())
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self._count()
        if "list-type" in self._query:
            self._respond(200, self._listing())
        else:
            self._send_object(with_body=True)

    def do_HEAD(self) -> None:
        self._count()
        self._send_object(with_body=False)

    def do_PUT(self) -> None:
        self._count()
        data = self._body()
        if "uploadId" in self._query:
            self._bucket.parts[self._query["uploadId"]][int(self._query["partNumber"])] = data
        else:
            self._bucket.put(self._key, data)
        self._respond(200, headers={"ETag": '"e"'})

    def do_POST(self) -> None:
        self._count()
        self._body()
        if "uploads" in self._query:
            upload_id = f"<UploadId>{self._bucket.begin()}</UploadId>"
            self._respond(200, _xml("InitiateMultipartUploadResult", upload_id))
        else:
            self._bucket.complete(self._key, self._query["uploadId"])
            self._respond(200, _xml("CompleteMultipartUploadResult", "<ETag>e</ETag>"))

    def do_DELETE(self) -> None:
        self._count()
        self._bucket.objects.pop(self._key, None)
        self._respond(204)

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing, because only the request count is needed."""

    @property
    def _bucket(self) -> Bucket:
        return self.server.bucket

    @property
    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).lstrip("/")

    @property
    def _query(self) -> dict[str, str]:
        found = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        return {key: values[0] for key, values in found.items()}

    def _count(self) -> None:
        with self._bucket.lock:
            self._bucket.requests[self.command] += 1

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            data = b"".join(_http_chunks(self.rfile))
        else:
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        is_framed = "aws-chunked" in self.headers.get("Content-Encoding", "") or self.headers.get(
            "x-amz-content-sha256", ""
        ).startswith("STREAMING-")
        return b"".join(_aws_chunks(data)) if is_framed else data

    def _send_object(self, *, with_body: bool) -> None:
        data = self._bucket.objects.get(self._key)
        if data is None:
            self._respond(404, _NOT_FOUND if with_body else b"")
            return
        begin, end = _parse_range(self.headers.get("Range"), len(data))
        status = 206 if self.headers.get("Range") else 200
        headers = {"ETag": '"e"', "Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT", "Accept-Ranges": "bytes"}
        if status == 206:
            headers["Content-Range"] = f"bytes {begin}-{end - 1}/{len(data)}"
        self._respond(status, data[begin:end], headers, with_body=with_body)

    def _listing(self) -> bytes:
        prefix = f"{self._key}/".replace("//", "/") + self._query.get("prefix", "")
        keys = [key for key in self._bucket.objects if key.startswith(prefix)]
        rows = "".join(
            f"<Contents><Key>{key.partition('/')[2]}</Key><Size>{len(self._bucket.objects[key])}</Size></Contents>"
            for key in sorted(keys)
        )
        return _xml("ListBucketResult", f"<KeyCount>{len(keys)}</KeyCount><IsTruncated>false</IsTruncated>{rows}")

    def _respond(
        self, status: int, body: bytes = b"", headers: dict[str, str] | None = None, *, with_body: bool = True
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)


def _xml(root: str, inside: str) -> bytes:
    return f'<?xml version="1.0" encoding="UTF-8"?><{root}>{inside}</{root}>'.encode()


def _parse_range(header: str | None, size: int) -> tuple[int, int]:
    """Returns the first byte and the one after the last; `bytes=-8` requests the last eight bytes."""
    if not header:
        return 0, size
    first, _, last = header.removeprefix("bytes=").partition("-")
    if not first:
        return max(size - int(last), 0), size
    return int(first), min(int(last) + 1, size) if last else size


def _http_chunks(stream: Any) -> Iterator[bytes]:
    while length := int(stream.readline().split(b";")[0], 16):
        yield stream.read(length)
        stream.readline()
    while stream.readline().strip():
        pass


def _aws_chunks(data: bytes) -> Iterator[bytes]:
    """Yields the chunks, each of which is preceded by its length; trailers follow the empty chunk."""
    at = 0
    while True:
        line_end = data.index(b"\r\n", at)
        length = int(data[at:line_end].split(b";")[0], 16)
        if length == 0:
            return
        yield data[line_end + 2 : line_end + 2 + length]
        at = line_end + 2 + length + 2
