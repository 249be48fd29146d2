"""Runs the checks of `icepack doctor` for the settings page.

Fast checks run inline, slow ones in a background thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from threading import Lock, Thread

from icepack.doctor import Check
from icepack.service.ttl_cache import TtlCache

log = logging.getLogger(__name__)
FAST_CACHE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class TimedCheck:
    check: Check
    at: datetime


class DoctorRunner:
    """The slow checks connect to catalogs and storage, so no request waits for them."""

    def __init__(
        self,
        fast_checks: Callable[[], Iterable[Check]],
        slow_checks: Callable[[], Iterable[Check]],
        *,
        mask_secrets: Callable[[str], str],
        clock: Callable[[], datetime],
    ) -> None:
        self._fast_checks = fast_checks
        self._slow_checks = slow_checks
        self._mask_secrets = mask_secrets
        self._clock = clock
        self._running = Lock()
        self._slow_results: dict[str, TimedCheck] = {}
        self._fast_results: TtlCache[dict[str, TimedCheck]] = TtlCache(FAST_CACHE_SECONDS)

    @property
    def is_running(self) -> bool:
        return self._running.locked()

    def read_results(self) -> list[TimedCheck]:
        """Returns the results of the fast checks, and of the last run of the slow ones."""
        fast = self._fast_results.get("fast", lambda: dict(self._run_checks(self._fast_checks())))
        return list({**self._slow_results, **fast}.values())

    def start(self) -> bool:
        """Starts the slow checks; returns False if they are already running."""
        if not self._running.acquire(blocking=False):
            return False
        Thread(target=self._run_slow_checks, name="icepack-doctor", daemon=True).start()
        return True

    def _run_slow_checks(self) -> None:
        results: dict[str, TimedCheck] = {}
        try:
            for name, result in self._run_checks(self._slow_checks()):
                results[name] = result
        except Exception as exc:
            log.exception("doctor checks failed")
            message = f"The checks were aborted by an unexpected {type(exc).__name__}."
            failed = Check(name="checks", ok=False, found=message, remedy="See the log of the service.")
            results["checks"] = TimedCheck(failed, self._clock())
        finally:
            self._slow_results = results
            self._running.release()

    def _run_checks(self, checks: Iterable[Check]) -> Iterator[tuple[str, TimedCheck]]:
        for check in checks:
            masked = replace(check, found=self._mask_secrets(check.found), remedy=self._mask_secrets(check.remedy))
            yield check.name, TimedCheck(masked, self._clock())
