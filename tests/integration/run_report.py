"""Counts what a differential or corpus test has covered, and prints it at the end of the test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from icepack.domain.run import RunRecord


@dataclass
class RunReport:
    """Counts tables, groups by the engine that rewrote them, and mismatches."""

    name: str
    tables: int = 0
    native_groups: int = 0
    spark_groups: Counter[str] = field(default_factory=Counter)
    classes: set[str] = field(default_factory=set)
    proofs: Counter[str] = field(default_factory=Counter)
    groups_compared: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    mismatches: list[str] = field(default_factory=list)

    def add(self, record: RunRecord) -> None:
        """Adds a compaction after which all values were equal."""
        for group in (record.details or {}).get("groups", ()):
            if group["engine"] == "native":
                self.native_groups += 1
            else:
                self.spark_groups[group["why"]] += 1
        if record.value_proof is not None:
            self.classes |= set(record.value_proof.new_classes)
            self.proofs.update(record.value_proof.reasons)
            self.groups_compared += record.value_proof.groups_compared

    @contextmanager
    def print_at_end(self, capsys: pytest.CaptureFixture[str]) -> Iterator[None]:
        """Prints the report at the end, also after a failure, bypassing the output capturing of pytest."""
        try:
            yield
        except BaseException as error:
            self.mismatches.append(f"{type(error).__name__}: {str(error)[:300]}")
            raise
        finally:
            with capsys.disabled():
                print("\n" + "\n".join(self.lines()))

    def lines(self) -> list[str]:
        return [
            f"{self.name}: {self.tables} tables",
            f"  file classes: {len(self.classes)}; groups compared before the commit: {self.groups_compared}",
            *(f"    {count} × {reason}" for reason, count in self.proofs.most_common()),
            f"  groups rewritten natively: {self.native_groups}",
            f"  groups rewritten by Spark: {self.spark_groups.total()}",
            *(f"    {count} × {reason}" for reason, count in self.spark_groups.most_common()),
            *(f"  skipped: {count} × {reason}" for reason, count in self.skipped.most_common()),
            *(f"  note: {count} × {note}" for note, count in self.notes.most_common()),
            f"  mismatches: {len(self.mismatches)}",
            *(f"    {text}" for text in self.mismatches),
        ]
