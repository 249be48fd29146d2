"""Reads and writes files on the local file system, or on S3 configured with Iceberg's property names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from icepack.kernel.arrow_schema import UnsupportedByKernel

S3_SCHEMES = ("s3", "s3a", "s3n")
# Part of every message that PyArrow has for a failed S3 request.
S3_ERROR_TEXT = "AWS Error"
# Remote files up to this size are fetched with one request instead of one for each column.
MAX_REMOTE_PREFETCH_BYTES = 8 * 2**20
# The same for local files, where a read costs nothing. Only small files are loaded, so that not too many are open at
# once. With the remote limit a task with 100 files of 4 MB took 490 MB instead of 390.
MAX_LOCAL_PREFETCH_BYTES = 2 * 2**20


class StorageError(OSError):
    """Raised when the storage fails a request. It says nothing about the content of the files."""


def is_storage_error(error: BaseException) -> bool:
    """Whether an error came from the storage. PyArrow raises OSError for pages that it cannot decode, too.

    PyArrow itself reads a file that is open. Then errors of the operating system have an error number, and those of S3
    name the service; decoding errors have neither.
    """
    if isinstance(error, StorageError | ConnectionError | TimeoutError):
        return True
    return isinstance(error, OSError) and (error.errno is not None or S3_ERROR_TEXT in str(error))


@contextmanager
def _convert_storage_errors() -> Iterator[None]:
    """Raises StorageError for every OSError but a missing file, which another writer may have removed."""
    try:
        yield
    except (FileNotFoundError, StorageError):
        raise
    except OSError as exc:
        raise StorageError(str(exc)) from exc


class Storage:
    """Opens locations as the table's metadata spells them."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties
        self._s3: fs.FileSystem | None = None
        self.requests = 0

    def open(self, location: str, size: int) -> Any:
        """Opens a file for reading; small files are loaded into memory."""
        with _convert_storage_errors():
            file_system, path = self._resolve(location)
            file = file_system.open_input_file(path)
            self.requests += 1
            is_local = isinstance(file_system, fs.LocalFileSystem)
            if size > (MAX_LOCAL_PREFETCH_BYTES if is_local else MAX_REMOTE_PREFETCH_BYTES):
                return file
            with file:
                return pa.BufferReader(file.read_buffer(size))

    def is_remote(self, location: str) -> bool:
        """Whether every read is a request."""
        file_system, _ = self._resolve(location)
        return not isinstance(file_system, fs.LocalFileSystem)

    def read(self, location: str, offset: int, length: int) -> bytes:
        self.requests += 1
        with _convert_storage_errors():
            file_system, path = self._resolve(location)
            with file_system.open_input_file(path) as file:
                data: bytes = file.read_at(length, offset)
            return data

    def create(self, location: str) -> Any:
        with _convert_storage_errors():
            file_system, path = self._resolve(location)
            if isinstance(file_system, fs.LocalFileSystem):
                file_system.create_dir(path.rpartition("/")[0], recursive=True)
            return file_system.open_output_stream(path)

    def remove(self, location: str) -> None:
        """Removes a file that this task started and will not finish, if it exists."""
        with _convert_storage_errors():
            file_system, path = self._resolve(location)
            if file_system.get_file_info(path).type is not fs.FileType.NotFound:
                file_system.delete_file(path)

    def _resolve(self, location: str) -> tuple[fs.FileSystem, str]:
        parts = urlsplit(location, allow_fragments=False)
        if parts.scheme in S3_SCHEMES:
            return self._get_s3(), location.split("://", 1)[1]
        if parts.scheme == "file":
            return fs.LocalFileSystem(), _parse_local_path(location)
        if not parts.scheme or location.startswith("/"):
            return fs.LocalFileSystem(), location
        raise UnsupportedByKernel(f"{parts.scheme} storage")

    def _get_s3(self) -> fs.FileSystem:
        if self._s3 is None:
            self._s3 = fs.S3FileSystem(**build_s3_arguments(self._properties))
        return self._s3


def _parse_local_path(location: str) -> str:
    """Returns the path of `file:/a` or `file:///a`. As in Hadoop, percent signs are part of the name."""
    return "/" + location.removeprefix("file:").lstrip("/")


def build_s3_arguments(properties: Mapping[str, str]) -> dict[str, Any]:
    """Translates the properties of Iceberg's S3FileIO for PyArrow; without keys, the machine's own are used."""
    arguments: dict[str, Any] = {}
    if endpoint := properties.get("s3.endpoint"):
        scheme, _, host = endpoint.rpartition("://")
        arguments |= {"endpoint_override": host.rstrip("/"), "scheme": scheme or "https"}
    names = {
        "access_key": "s3.access-key-id",
        "secret_key": "s3.secret-access-key",
        "session_token": "s3.session-token",
        "region": "client.region",
        "role_arn": "client.assume-role.arn",
        "session_name": "client.assume-role.session-name",
    }
    arguments |= {name: properties[iceberg_name] for name, iceberg_name in names.items() if iceberg_name in properties}
    if "s3.path-style-access" in properties:
        arguments["force_virtual_addressing"] = properties["s3.path-style-access"].lower() != "true"
    if properties.get("client.credentials-provider", "").endswith("AnonymousCredentialsProvider"):
        arguments["anonymous"] = True
    return arguments
