"""What a run of the differential or corpus test has met, printed at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from icepack.domain.run import RunRecord


@dataclass
class Tally:
    """Tables, groups by the engine that rewrote them, and what went wrong."""

    name: str
    tables: int = 0
    natively_exact: int = 0
    sent_to_spark: Counter[str] = field(default_factory=Counter)
    classes: set[str] = field(default_factory=set)
    proofs: Counter[str] = field(default_factory=Counter)
    groups_compared: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    mismatches: list[str] = field(default_factory=list)

    def count(self, record: RunRecord) -> None:
        """A compaction after which all values were the same."""
        for group in (record.details or {}).get("groups", ()):
            if group["engine"] == "native":
                self.natively_exact += 1
            else:
                self.sent_to_spark[group["why"]] += 1
        if record.value_proof is not None:
            self.classes |= set(record.value_proof.new_classes)
            self.proofs.update(record.value_proof.reasons)
            self.groups_compared += record.value_proof.groups_compared

    @contextmanager
    def printed(self, capsys: pytest.CaptureFixture[str]) -> Iterator[None]:
        """At the end, whatever the end is, past pytest's capturing."""
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
            f"{self.name}: {self.tables} tables tried",
            f"  classes met: {len(self.classes)}; groups compared before their commit: {self.groups_compared}",
            *(f"    {count} × {reason}" for reason, count in self.proofs.most_common()),
            f"  groups natively exact: {self.natively_exact}",
            f"  groups sent to Spark and exact: {self.sent_to_spark.total()}",
            *(f"    {count} × {reason}" for reason, count in self.sent_to_spark.most_common()),
            *(f"  skipped: {count} × {reason}" for reason, count in self.skipped.most_common()),
            *(f"  noted: {count} × {note}" for note, count in self.notes.most_common()),
            f"  mismatches: {len(self.mismatches)}",
            *(f"    {text}" for text in self.mismatches),
        ]
