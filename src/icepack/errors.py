"""Every error icepack raises on purpose.

IcepackError
├── UsageError               the call or the configuration is wrong; exit code 2
│   ├── ConfigError          a file, key or variable
│   │   └── BadOverride      a policy or schedule set through the API (api.entries)
│   ├── InvalidTableName     a name that cannot be parsed
│   ├── TableNotFound        no table answers to the name
│   ├── AmbiguousTable       several do
│   ├── InvalidFilter        a partition filter that cannot be parsed
│   ├── InvalidOption        an action's option that does not exist or does not fit
│   ├── JobNotFound          no job has the id (domain.job)
│   ├── JobStateConflict     the job's state allows no such move (domain.job)
│   ├── IdempotencyKeyReused  the key belongs to another request (domain.job)
│   ├── KeyNotFound          no valid API key has the name (domain.access_ports)
│   └── KeyExists            a valid API key has the name already (domain.access_ports)
├── EnvironmentFault         Java, jars, Spark or a server is missing
├── CatalogFault             a catalog or its storage did not answer
├── TableUnreadable          a table's metadata is missing, damaged or not supported
├── Refused                  a guard rail said no; nothing was touched
│   ├── TableLocked          another holds the table (domain.queue_ports)
│   ├── RefreshUnderWay      another refreshes the table cache (domain.queue_ports)
│   ├── CostLimitExceeded    an order's estimate is over what it may cost (service.intake)
│   ├── VersionConflict      another has changed it meanwhile (domain.access_ports)
│   ├── Unauthenticated      a request without a valid key, token or session (api.refusals)
│   ├── Forbidden            a request whose role is not enough (api.refusals)
│   ├── TooManyRequests      a caller who asks too often (api.refusals)
│   └── NotAllowed           a request that no honest client makes (api.refusals)
├── ClaimLost                the job has gone to another worker (domain.job)
├── LockLost                 the table's lock has gone to another (domain.queue_ports)
├── RefreshFailed            the table cache could not be refreshed and keeps its age (service.health_sync)
├── RefreshLost              a refresh of the table cache was given up (domain.queue_ports)
├── ApiProblem               the API said no to the client (client)
├── JobTimeout               a job has not ended while the client waited (client)
├── CommitConflict           another writer won; replan and try again
├── CommitStateUnknown       the catalog did not say whether the commit landed
├── EngineFault              the engine failed for any other reason
├── Cancelled                stopped by the user
└── RowsChanged              the proof failed: a commit changed the table's rows
"""

from __future__ import annotations

import re

_SECRET = re.compile(r"(?i)(password|secret|token|credential|access-?key(?:-id)?)(\s*[=:]\s*)[^\s,;&\"']+")
_URL_PASSWORD = re.compile(r"(://[^/\s:@]+:)[^@\s]+@")


class IcepackError(Exception):
    """An error with a sentence for the user and, where there is one, the next thing to do."""

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
    """The text without passwords, tokens and keys: for words of others that end up in a message."""
    return _URL_PASSWORD.sub(r"\1***@", _SECRET.sub(r"\1\2***", text))
