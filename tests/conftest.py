"""Settings for all tests: no deadlines for hypothesis, and a marker on every test that starts PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is not a bug.
settings.register_profile("icepack", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("icepack")


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    for item in items:
        if _uses_postgres(item):
            item.add_marker(pytest.mark.postgres)


def _uses_postgres(item: pytest.Item) -> bool:
    fixtures: Sequence[str] = getattr(item, "fixturenames", ())
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return "postgresql" in parameters or any(name.startswith("postgres") for name in fixtures)
