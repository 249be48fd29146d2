"""The tables of the demo: the problem that each has, and the statements that Spark runs on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from icepack.config.folders import LAKE
from icepack.demo import scenarios
from icepack.demo.sample_rows import RandomData
from icepack.demo.scenarios import BuildContext
from icepack.domain.table import TableId


@dataclass(frozen=True, slots=True)
class DemoTable:
    """A demo table, and the problem that it demonstrates."""

    name: str
    problem: str
    build: Callable[[BuildContext, str, RandomData], None]
    # Statements that Spark runs after the table is built; they create delete files.
    updates: tuple[str, ...] = ()

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
    DemoTable("shop.shipments", "orphan files left behind by failed writes", scenarios.failed_writes),
    DemoTable("iot.sensor_readings", "small files, but only in recent days", scenarios.recent_days),
    DemoTable("shop.products", "none, it is healthy", scenarios.large_files),
)
