"""Overrides: versions, authors and concurrent changes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine

from icepack.domain.ports.overrides import VersionConflict
from icepack.store.admin.overrides import SqlOverrideStore


@pytest.fixture
def overrides(engine: Engine) -> SqlOverrideStore:
    return SqlOverrideStore(engine)


class TestOverrides:
    def test_without_overrides_the_version_is_zero(self, overrides: SqlOverrideStore) -> None:
        found = overrides.read("policies")
        assert (found.version, found.entries) == (0, ())

    def test_each_change_increments_the_version_and_records_the_author(self, overrides: SqlOverrideStore) -> None:
        overrides.replace("policies", [{"match": "a.*"}], expected=0, by="ann")
        found = overrides.replace("policies", [{"match": "b.*"}], expected=None, by="bob")
        assert overrides.read("policies") == found
        assert (found.version, found.changed_by, found.entries) == (2, "bob", ({"match": "b.*"},))
        assert overrides.read("schedules").version == 0

    def test_a_change_of_an_old_version_is_rejected(self, overrides: SqlOverrideStore) -> None:
        overrides.replace("policies", [{"match": "a.*"}], expected=0, by="ann")
        with pytest.raises(VersionConflict, match="version 1"):
            overrides.replace("policies", [], expected=0, by="bob")
        assert overrides.read("policies").entries == ({"match": "a.*"},)

    def test_only_one_of_concurrent_changes_wins(self, overrides: SqlOverrideStore) -> None:
        overrides.replace("policies", [], expected=0, by="ann")

        def change(number: int) -> bool:
            try:
                overrides.replace("policies", [{"match": f"t{number}"}], expected=1, by=str(number))
            except VersionConflict:
                return False
            return True

        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(change, range(8))) == 1
        assert overrides.read("policies").version == 2
