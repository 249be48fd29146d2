"""Where files are read and written: the local file system, or S3 by Iceberg's own property names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from icepack.kernel.arrow_schema import Uncovered

S3_SCHEMES = ("s3", "s3a", "s3n")
S3_ERROR = "AWS Error"
"""In every message that PyArrow has for a failed request."""
FETCHED_BYTES = 8 * 2**20
"""Up to this size a file is fetched with one request instead of one for each column."""
LOADED_BYTES = 2 * 2**20
"""The same on a disk, where a read costs nothing: only small files, of which too many would be open at once. With the
other limit a task with 100 files of 4 MB took 490 MB instead of 390."""


class StorageFault(OSError):
    """The storage did not do what it was asked for; nothing is said about the files."""


def is_storage_fault(error: BaseException) -> bool:
    """Whether an error came from the storage. PyArrow raises OSError for pages that it cannot decode, too.

    A file that is open is read by PyArrow itself. Then the operating system's errors have a number, and those of S3
    name the service; errors of decoding have neither.
    """
    if isinstance(error, StorageFault | ConnectionError | TimeoutError):
        return True
    return isinstance(error, OSError) and (error.errno is not None or S3_ERROR in str(error))


@contextmanager
def _storage_faults() -> Iterator[None]:
    """A missing file stays what it is: another writer may have removed it."""
    try:
        yield
    except (FileNotFoundError, StorageFault):
        raise
    except OSError as exc:
        raise StorageFault(str(exc)) from exc


class Storage:
    """Opens locations as the table's metadata spells them."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties
        self._s3: fs.FileSystem | None = None
        self.requests = 0

    def open(self, location: str, size: int) -> Any:
        """A file to read from; small ones are in memory already."""
        with _storage_faults():
            system, path = self._resolve(location)
            file = system.open_input_file(path)
            self.requests += 1
            if size > (LOADED_BYTES if isinstance(system, fs.LocalFileSystem) else FETCHED_BYTES):
                return file
            with file:
                return pa.BufferReader(file.read_buffer(size))

    def is_remote(self, location: str) -> bool:
        """Whether every read is a request."""
        system, _ = self._resolve(location)
        return not isinstance(system, fs.LocalFileSystem)

    def read(self, location: str, offset: int, length: int) -> bytes:
        self.requests += 1
        with _storage_faults():
            system, path = self._resolve(location)
            with system.open_input_file(path) as file:
                data: bytes = file.read_at(length, offset)
            return data

    def create(self, location: str) -> Any:
        with _storage_faults():
            system, path = self._resolve(location)
            if isinstance(system, fs.LocalFileSystem):
                system.create_dir(path.rpartition("/")[0], recursive=True)
            return system.open_output_stream(path)

    def remove(self, location: str) -> None:
        """Of what this very task has begun and will not finish."""
        with _storage_faults():
            system, path = self._resolve(location)
            if system.get_file_info(path).type is not fs.FileType.NotFound:
                system.delete_file(path)

    def _resolve(self, location: str) -> tuple[fs.FileSystem, str]:
        parts = urlsplit(location, allow_fragments=False)
        if parts.scheme in S3_SCHEMES:
            return self._s3_system(), location.split("://", 1)[1]
        if parts.scheme == "file":
            return fs.LocalFileSystem(), _local_path(location)
        if not parts.scheme or location.startswith("/"):
            return fs.LocalFileSystem(), location
        raise Uncovered(f"{parts.scheme} storage")

    def _s3_system(self) -> fs.FileSystem:
        if self._s3 is None:
            self._s3 = fs.S3FileSystem(**s3_arguments(self._properties))
        return self._s3


def _local_path(location: str) -> str:
    """Of `file:/a` and `file:///a`; what looks like an escape is part of the name, as it is for Hadoop."""
    return "/" + location.removeprefix("file:").lstrip("/")


def s3_arguments(properties: Mapping[str, str]) -> dict[str, Any]:
    """What Iceberg's S3FileIO calls its settings, for PyArrow; without keys, the machine's own are used."""
    found: dict[str, Any] = {}
    if endpoint := properties.get("s3.endpoint"):
        scheme, _, host = endpoint.rpartition("://")
        found |= {"endpoint_override": host.rstrip("/"), "scheme": scheme or "https"}
    names = {
        "access_key": "s3.access-key-id",
        "secret_key": "s3.secret-access-key",
        "session_token": "s3.session-token",
        "region": "client.region",
        "role_arn": "client.assume-role.arn",
        "session_name": "client.assume-role.session-name",
    }
    found |= {name: properties[java] for name, java in names.items() if java in properties}
    if "s3.path-style-access" in properties:
        found["force_virtual_addressing"] = properties["s3.path-style-access"].lower() != "true"
    if properties.get("client.credentials-provider", "").endswith("AnonymousCredentialsProvider"):
        found["anonymous"] = True
    return found
