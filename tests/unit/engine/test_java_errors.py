from __future__ import annotations

import pytest

from icepack.engine.java.errors import classify
from icepack.errors import CommitConflict, EngineFault, IcepackError, InvalidOption

TRACEBACK = """Traceback (most recent call last):
  File "worker.py", line 2100, in main
    process()
OSError: No space left on device

"""


@pytest.mark.parametrize(
    ("chain", "kind", "text"),
    [
        (
            [("org.apache.spark.SparkException", "Job aborted"), ("org.apache.spark.PythonException", TRACEBACK)],
            EngineFault,
            "compact failed in a task: OSError: No space left on device",
        ),
        (
            [("java.lang.RuntimeException", "outer"), ("java.lang.ArithmeticException", "by zero\n\tat Some.java")],
            EngineFault,
            "compact failed: ArithmeticException: by zero",
        ),
        (
            [("org.apache.iceberg.exceptions.ValidationException", "Missing required files to delete: a.parquet")],
            CommitConflict,
            "compact: another writer changed the same files. Missing required files to delete: a.parquet",
        ),
        ([("java.lang.IllegalArgumentException", "")], InvalidOption, "compact: no message"),
    ],
)
def test_exceptions_are_converted_to_icepack_errors(
    chain: list[tuple[str, str]], kind: type[IcepackError], text: str
) -> None:
    found = classify(chain, "compact")
    assert type(found) is kind
    assert str(found) == text
