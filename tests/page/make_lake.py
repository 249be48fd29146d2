"""Builds the lake for the page tests, in a process of its own so that its JVM has exited before a worker starts one.

The tables, their issues and the runs that fixed two of them are real. The figures of earlier days are made up, because
a trend chart needs a month of them.
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
from icepack.domain.observability.fleet_trend import sum_by_namespace
from icepack.domain.ports.history import StatusPoint
from icepack.domain.run import Totals, compute_totals
from icepack.service.advice import Advice
from icepack.wiring import App, build_app

SCALE = 0.1
MAINTAINED = ("finance.payments", "shop.shipments")
SPARK_CONF = {
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
        "spark": {"master": "local[2]", "driver_memory": "1g", "conf": SPARK_CONF},
    }
    config = CompactionConfig.model_validate(settings)
    app = build_app(LoadedConfig(config=config, source=None, lake=lake), environ=os.environ)
    try:
        build_lake(lake, scale=SCALE, query=lambda: app.query_engine, now=datetime.now(UTC))
        write_history(app)
        steps = app.service.maintain([app.service.table(name) for name in MAINTAINED])
        failed = [step for step in steps if step.error]
        assert not failed, failed
        app.health_sync.run_once()
    finally:
        app.close()
    (folder / "settings.yaml").write_text(yaml.safe_dump(settings))


def write_history(app: App) -> None:
    """Writes a month of history in which the scores slowly fall."""
    now = datetime.now(UTC)
    advice = {table: app.service.advise(table) for table in app.service.tables()}
    for day in range(1, DAYS):
        then = {table: earlier_totals(item, 1 - day / DAYS) for table, item in advice.items()}
        at = now - timedelta(days=day)
        app.stores.history.save_day(at.date(), sum_by_namespace(then))
        app.stores.history.save_status(
            [StatusPoint(table=table, observed_at=at, totals=compute_totals) for table, compute_totals in then.items()]
        )


def earlier_totals(advice: Advice, share: float) -> Totals:
    """Totals of an earlier day, when only this share of the current files existed."""
    status, lost = advice.status, 100 - advice.health.score
    return replace(
        compute_totals(status, round(100 - lost * share * share)),
        data_files=round(status.data.count * (0.3 + 0.7 * share)),
        bytes=round(status.data.bytes * (0.6 + 0.4 * share)),
        records=round(status.data.records * (0.6 + 0.4 * share)),
        delete_files=round(status.deletes.files * share),
        snapshots=max(round(status.snapshots.count * share), 1),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
