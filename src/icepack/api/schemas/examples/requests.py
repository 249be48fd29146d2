"""An example of every request body."""

from __future__ import annotations

from typing import Any

POLICY_OVERRIDE = {"match": "sales.*", "settings": {"target_file_size": "256MB"}}
SCHEDULE_OVERRIDE = {"match": "sales.orders", "schedule": "0 2 * * *", "options": {"strategy": "small_files"}}
REQUESTS: dict[str, Any] = {
    "compact": {
        "catalog": "lake",
        "namespace": "sales",
        "table": "orders",
        "strategy": "small_files",
        "options": {"target_file_size": "1GB", "max_cost": 10.0, "partition_filter": "day = '2026-01-14'"},
    },
    "action": {"options": {"older_than": "7d", "retain_last": 5}},
    "maintain": {"tables": ["lake.sales.*"], "dry_run": True},
    "policies": {"overrides": [POLICY_OVERRIDE], "version": 2},
    "schedules": {"overrides": [SCHEDULE_OVERRIDE], "version": 2},
    "session": {"key": "ipk_0123456789abcdef_…"},
    "key": {"name": "ci", "role": "operator", "scopes": ["lake.sales*"], "expires_in": "90d"},
}
