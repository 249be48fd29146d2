"""The demo's tables: what ails each of them, and what Spark did to them last."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from icepack.config.folders import LAKE
from icepack.demo import scenarios
from icepack.demo.sample_rows import Dice
from icepack.demo.scenarios import Scene
from icepack.domain.table import TableId


@dataclass(frozen=True, slots=True)
class DemoTable:
    """A table of the demo."""

    name: str
    ailment: str
    build: Callable[[Scene, str, Dice], None]
    updates: tuple[str, ...] = ()
    """Spark's statements, run once the table is there: they leave the delete files behind."""

    @property
    def id(self) -> TableId:
        namespace, _, name = self.name.partition(".")
        return TableId(LAKE, (namespace,), name)


TABLES = (
    DemoTable(
        "shop.orders",
        "position deletes from merge-on-read updates",
        scenarios.merge_on_read_updates,
        (
            "UPDATE lake.shop.orders SET status = 'delivered' WHERE status = 'shipped' AND order_id % 2 = 0",
            "DELETE FROM lake.shop.orders WHERE status = 'placed' AND order_id % 3 = 0",
        ),
    ),
    DemoTable(
        "app.sessions",
        "deletion vectors from merge-on-read deletes",
        scenarios.merge_on_read_deletes,
        (
            "ALTER TABLE lake.app.sessions SET TBLPROPERTIES ('format-version' = '3')",
            "DELETE FROM lake.app.sessions WHERE visitor % 9 = 0",
        ),
    ),
    DemoTable("web.page_views", "hundreds of small files from streaming appends", scenarios.streaming_appends),
    DemoTable("crm.customers", "a long snapshot history, with a branch and a tag", scenarios.long_history),
    DemoTable("finance.payments", "a fragmented manifest list", scenarios.single_file_loads),
    DemoTable("shop.shipments", "orphan files that failed writes left behind", scenarios.failed_writes),
    DemoTable("iot.sensor_readings", "small files, but only in its recent days", scenarios.recent_days),
    DemoTable("shop.products", "none, it is healthy", scenarios.well_kept),
)
