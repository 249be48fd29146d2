"""An HTTP proxy between a client and a server that fails, resets and delays requests, and counts them by kind.

It runs as a thread of the test (`run_fault_proxy`), or as a process of its own, so that a benchmark does not measure
its CPU time: `python -m tests.servers.fault_proxy --port 9001 --target-port 9000 --latency-seconds 0.03`. As a process
it answers `GET /-/counts` with the counts and `DELETE /-/counts` resets them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from urllib.parse import parse_qs, urlsplit

MAX_HEAD_BYTES = 256 * 1024
CHUNK_BYTES = 256 * 1024
SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What happens to requests; the shares are percentages of the requests."""

    fail_percent: float = 0
    reset_percent: float = 0
    delay_percent: float = 0
    delay_seconds: float = 0
    # Added to every request.
    latency_seconds: float = 0
    is_down: bool = False


@dataclass(frozen=True, slots=True)
class Head:
    """The first line and the headers of a request or a response."""

    raw: bytes
    first_line: str
    headers: Mapping[str, str]

    @property
    def content_length(self) -> int:
        return int(self.headers.get("content-length", "0"))

    @property
    def is_chunked(self) -> bool:
        return "chunked" in self.headers.get("transfer-encoding", "").lower()

    @property
    def closes(self) -> bool:
        return self.headers.get("connection", "").lower() == "close"


@dataclass
class FaultProxy:
    """Forwards requests to the target, and applies the current faults."""

    target_port: int
    port: int = 0
    faults: Faults = field(default_factory=Faults)
    counts: Counter[str] = field(default_factory=Counter)
    seed: int = 7

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._server: asyncio.Server | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def set_faults(self, **changes: object) -> None:
        self.faults = replace(self.faults, **changes)  # type: ignore[arg-type]

    def reset_counts(self) -> None:
        self.counts.clear()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=MAX_HEAD_BYTES)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        connections = asyncio.all_tasks() - {asyncio.current_task()}
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        try:
            while (request := await _read_head(reader)) is not None:
                if self._is_control(request):
                    writer.write(self._answer_control(request))
                    await writer.drain()
                    continue
                self.counts[request_kind(request.first_line)] += 1
                faults = self.faults
                await asyncio.sleep(self._delay(faults))
                if faults.is_down or self._happens(faults.fail_percent):
                    self.counts["failed"] += 1
                    await _reject(request, reader, writer)
                    continue
                if self._happens(faults.reset_percent):
                    self.counts["reset"] += 1
                    writer.transport.abort()
                    return
                if upstream is None:
                    upstream = await asyncio.open_connection("127.0.0.1", self.target_port, limit=MAX_HEAD_BYTES)
                if not await _forward(request, reader, writer, *upstream):
                    return
        except (ConnectionError, asyncio.IncompleteReadError, TimeoutError):
            writer.transport.abort()
        finally:
            for stream in (writer, *(upstream[1:] if upstream else ())):
                with suppress(ConnectionError):
                    stream.close()

    def _delay(self, faults: Faults) -> float:
        extra = faults.delay_seconds if self._happens(faults.delay_percent) else 0
        if extra:
            self.counts["delayed"] += 1
        return faults.latency_seconds + extra

    def _happens(self, percent: float) -> bool:
        return percent > 0 and self._random.random() * 100 < percent

    def _is_control(self, request: Head) -> bool:
        return request.first_line.split(" ")[1] == "/-/counts"

    def _answer_control(self, request: Head) -> bytes:
        body = json.dumps(self.counts).encode()
        if request.first_line.startswith("DELETE"):
            self.reset_counts()
        return _response("200 OK", "application/json", body)


def request_kind(first_line: str) -> str:
    """Returns how S3 bills a request: LIST for a listing, DELETE for a batch delete, else its method."""
    method, target, *_ = first_line.split(" ")
    url = urlsplit(target)
    query = parse_qs(url.query, keep_blank_values=True)
    if method == "GET" and ("list-type" in query or "prefix" in query):
        return "LIST"
    if method == "POST" and "delete" in query:
        return "DELETE"
    return method


async def _read_head(reader: asyncio.StreamReader) -> Head | None:
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as exc:
        if exc.partial:
            raise
        return None
    first_line, *lines = raw.decode("latin-1").rstrip("\r\n").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return Head(raw, first_line, {name.strip().lower(): value.strip() for name, _, value in pairs})


async def _reject(request: Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers 503 after the request's body was read; a client that waits for `100 Continue` has not sent one."""
    if "100-continue" not in request.headers.get("expect", "").lower():
        await _copy_body(request, reader, None)
    is_head = request.first_line.startswith("HEAD")
    writer.write(_response("503 Service Unavailable", "application/xml", b"" if is_head else SLOW_DOWN))
    await writer.drain()


def _response(status: str, content_type: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def _forward(
    request: Head,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    from_target: asyncio.StreamReader,
    to_target: asyncio.StreamWriter,
) -> bool:
    """Returns whether both connections can be used for another request."""
    to_target.write(request.raw)
    body = asyncio.create_task(_copy_body(request, reader, to_target))
    try:
        response = await _read_head(from_target)
        while response is not None and response.first_line.split(" ")[1].startswith("1"):
            writer.write(response.raw)
            response = await _read_head(from_target)
        if response is None:
            writer.transport.abort()
            return False
        writer.write(response.raw)
        if _has_body(request, response):
            await _copy_body(response, from_target, writer)
        await writer.drain()
        is_reusable = body.done() and not response.closes and not request.closes
    finally:
        if not body.done():
            body.cancel()
    return is_reusable


def _has_body(request: Head, response: Head) -> bool:
    status = response.first_line.split(" ")[1]
    return not request.first_line.startswith("HEAD") and status not in ("204", "304")


async def _copy_body(head: Head, source: asyncio.StreamReader, target: asyncio.StreamWriter | None) -> None:
    if head.is_chunked:
        await _copy_chunks(source, target)
    else:
        await _copy_bytes(head.content_length, source, target)


async def _copy_chunks(source: asyncio.StreamReader, target: asyncio.StreamWriter | None) -> None:
    while True:
        line = await source.readuntil(b"\r\n")
        if target is not None:
            target.write(line)
        size = int(line.split(b";")[0], 16)
        await _copy_bytes(size + 2, source, target)
        if size == 0:
            return


async def _copy_bytes(count: int, source: asyncio.StreamReader, target: asyncio.StreamWriter | None) -> None:
    while count:
        data = await source.read(min(count, CHUNK_BYTES))
        if not data:
            raise asyncio.IncompleteReadError(b"", count)
        count -= len(data)
        if target is not None:
            target.write(data)
            await target.drain()


@contextmanager
def run_fault_proxy(target_port: int, faults: Faults | None = None, *, seed: int = 7) -> Iterator[FaultProxy]:
    """Runs the proxy in a thread; its faults can be changed while it runs."""
    proxy = FaultProxy(target_port, faults=faults or Faults(), seed=seed)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="fault-proxy", daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(proxy.start(), loop).result(10)
    try:
        yield proxy
    finally:
        asyncio.run_coroutine_threadsafe(proxy.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


async def _run_forever(proxy: FaultProxy) -> None:
    await proxy.start()
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--target-port", type=int, required=True)
    for name in ("fail_percent", "reset_percent", "delay_percent", "delay_seconds", "latency_seconds"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, default=0)
    options = vars(parser.parse_args())
    ports = {"port": options.pop("port"), "target_port": options.pop("target_port")}
    asyncio.run(_run_forever(FaultProxy(**ports, faults=Faults(**options))))


if __name__ == "__main__":
    main()
