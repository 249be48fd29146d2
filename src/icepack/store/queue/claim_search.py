"""The search for a job to claim: past what others have locked, and past what has yet to wake."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Engine

from icepack.store.queue.claim import MOST_URGENT, Claiming
from icepack.store.queue.wake import Waking
from icepack.store.sql.clock import DatabaseClock
from icepack.store.sql.transaction import reading, writing

WAKE_BATCH = 200
"""Lanes that are woken in one transaction."""
SWEEPS = 2
"""How often to look through all ranks before believing that whatever is left is taken."""


class Searching:
    def __init__(self, engine: Engine, clock: DatabaseClock) -> None:
        self._engine = engine
        self.claiming = Claiming(clock, engine.dialect)
        self._waking = Waking(clock)

    def claim(self, values: dict[str, Any]) -> Mapping[str, Any] | None:
        """The claimed job's row; nearly always the first statement finds it, or that there is none."""
        values = {**values, "wakes_heeded": True}
        for _ in range(SWEEPS):
            values["above"] = MOST_URGENT
            row = self._sweep(values)
            if row is not None or values["above"] == MOST_URGENT:
                return row
        return None

    def _sweep(self, values: dict[str, Any]) -> Mapping[str, Any] | None:
        """From the most urgent rank on; `above` is the last one whose lanes were all locked."""
        while True:
            row = self.claiming.claim(self._engine, values)
            if row is not None:
                return row
            with reading(self._engine) as connection:
                outlook = self.claiming.peek(connection, values["above"])
            if outlook.wakes and values["wakes_heeded"]:
                values["wakes_heeded"] = self._wake()
            elif outlook.rank is None:
                return None
            else:
                values["above"] = outlook.rank

    def _wake(self) -> bool:
        """False when others are at it: then there is no sense in waiting for them."""
        with writing(self._engine) as connection:
            return self._waking.wake(connection, WAKE_BATCH)
