"""What `icepack doctor` finds, for people who have no shell: quick checks at once, slow ones behind their back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from threading import Lock, Thread

from icepack.doctor import Check
from icepack.service.ttl_cache import Remembered

log = logging.getLogger(__name__)
QUICK_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Checked:
    check: Check
    at: datetime


class Checkup:
    """The slow checks reach out to catalogs and storage, so no request waits for them."""

    def __init__(
        self,
        quick: Callable[[], Iterable[Check]],
        slow: Callable[[], Iterable[Check]],
        *,
        clean: Callable[[str], str],
        clock: Callable[[], datetime],
    ) -> None:
        self._quick = quick
        self._slow = slow
        self._clean = clean
        self._clock = clock
        self._busy = Lock()
        self._found: dict[str, Checked] = {}
        self._remembered: Remembered[dict[str, Checked]] = Remembered(QUICK_SECONDS)

    @property
    def running(self) -> bool:
        return self._busy.locked()

    def read(self) -> list[Checked]:
        """The quick ones, and what the slow ones found when they last ran."""
        quick = self._remembered.get("quick", lambda: dict(self._named(self._quick())))
        return list({**self._found, **quick}.values())

    def start(self) -> bool:
        """False while they run already."""
        if not self._busy.acquire(blocking=False):
            return False
        Thread(target=self._run, name="icepack-checkup", daemon=True).start()
        return True

    def _run(self) -> None:
        found: dict[str, Checked] = {}
        try:
            for name, checked in self._named(self._slow()):
                found[name] = checked
        except Exception as exc:
            log.exception("the checks could not be finished")
            said = f"They could not be finished: unexpected {type(exc).__name__}."
            failed = Check(name="checks", ok=False, found=said, remedy="The log of the service says more.")
            found["checks"] = Checked(failed, self._clock())
        finally:
            self._found = found
            self._busy.release()

    def _named(self, checks: Iterable[Check]) -> Iterable[tuple[str, Checked]]:
        for check in checks:
            clean = replace(check, found=self._clean(check.found), remedy=self._clean(check.remedy))
            yield check.name, Checked(clean, self._clock())
