"""Exit codes that commands share; docs/reference/exit-codes.md lists all of them."""

from __future__ import annotations

SUCCEEDED = 0
FAILED = 1
USAGE_ERROR = 2
# EX_TEMPFAIL of sysexits.h: the job went back to the queue, so that another worker retries it.
JOB_RETURNED = 75
# 128 + SIGINT, as shells report it.
INTERRUPTED = 130
