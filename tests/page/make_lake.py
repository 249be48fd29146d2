"""Makes the lake that the page is tested with; a process of its own, so that its JVM is gone before a worker's starts.

The tables, what ails them and the runs that healed two of them are real. Their figures of earlier days are made up:
nobody waits a month for a chart.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml

from icepack.config import CompactionConfig, EmbeddedLake, LoadedConfig
from icepack.demo.lake import build_lake
from icepack.domain.observability.fleet_trend import fleet_lines
from icepack.domain.ports.queue import StatusPoint
from icepack.domain.run import Totals, totals
from icepack.service.service import Advice
from icepack.wiring import App, build_app

SCALE = 0.1
HEALED = ("finance.payments", "shop.shipments")
SHORT_LIVED = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}
DAYS = 30


def main(folder: Path) -> None:
    lake = EmbeddedLake(folder / "lake")
    settings = {
        "catalogs": {"lake": lake.properties},
        "state": {"url": f"sqlite:///{folder / 'state.db'}"},
        "spark": {"master": "local[2]", "driver_memory": "1g", "conf": SHORT_LIVED},
    }
    config = CompactionConfig.model_validate(settings)
    app = build_app(LoadedConfig(config=config, source=None, lake=lake), environ=os.environ)
    try:
        build_lake(lake, scale=SCALE, query=lambda: app.engine, now=datetime.now(UTC))
        remember(app)
        steps = app.service.maintain([app.service.table(name) for name in HEALED])
        failed = [step for step in steps if step.error]
        assert not failed, failed
        app.health_sync.run_once()
    finally:
        app.close()
    (folder / "settings.yaml").write_text(yaml.safe_dump(settings))


def remember(app: App) -> None:
    """A month that went slowly downhill."""
    now = datetime.now(UTC)
    advice = {table: app.service.advise(table) for table in app.service.tables()}
    for day in range(1, DAYS):
        then = {table: earlier(item, 1 - day / DAYS) for table, item in advice.items()}
        at = now - timedelta(days=day)
        app.stores.history.save_day(at.date(), fleet_lines(then))
        app.stores.history.save_status(
            [StatusPoint(table=table, observed_at=at, totals=totals) for table, totals in then.items()]
        )


def earlier(advice: Advice, share: float) -> Totals:
    """When only this share of what is there now had come to be."""
    status, lost = advice.status, 100 - advice.health.score
    return replace(
        totals(status, round(100 - lost * share * share)),
        data_files=round(status.data.count * (0.3 + 0.7 * share)),
        bytes=round(status.data.bytes * (0.6 + 0.4 * share)),
        records=round(status.data.records * (0.6 + 0.4 * share)),
        delete_files=round(status.deletes.files * share),
        snapshots=max(round(status.snapshots.count * share), 1),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
