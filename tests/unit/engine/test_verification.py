"""Digests, bounds and SQL expressions, without Spark."""

from __future__ import annotations

import struct
from base64 import b64encode
from uuid import UUID

import pytest

from icepack.engine.verification.bounds import FileMetrics, build_outside_condition, parse_metrics
from icepack.engine.verification.digest import ColumnDigest, Digest, find_differences, sum_digests
from icepack.engine.verification.expressions import LeafColumn, build_value_hash, find_leaves, is_readable_by_spark

SCHEMA = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "type": "long"},
        {"id": 2, "name": "s", "type": {"type": "struct", "fields": [{"id": 3, "name": "a.b", "type": "double"}]}},
        {"id": 4, "name": "l", "type": {"type": "list", "element-id": 5, "element": "int"}},
    ],
}


def column(first: int = 1, second: int = 2, nulls: int = 0) -> ColumnDigest:
    return ColumnDigest(hash_1=first, hash_2=second, nulls=nulls)


class TestDigests:
    def test_digests_add_up_and_wrap_around(self) -> None:
        maximum = 2**64 - 1
        one = Digest(rows=2, columns={"a": column(maximum, 5, 1)}, nans={"a": 1})
        other = Digest(rows=3, columns={"a": column(2, 6)}, nans={"a": 2})
        assert sum_digests([one, other]) == Digest(rows=5, columns={"a": column(1, 11, 1)}, nans={"a": 3})

    def test_equal_digests_have_no_differences(self) -> None:
        digest = Digest(rows=2, columns={"a": column()}, nans={"a": 1})
        assert find_differences(digest, digest) == []

    def test_an_empty_digest_equals_one_without_rows(self) -> None:
        assert find_differences(Digest(rows=0, columns={"a": column(0, 0)}), sum_digests([])) == []

    @pytest.mark.parametrize(
        ("after", "measures"),
        [
            (Digest(rows=2, columns={"a": column(7)}), ["hash_1", "hash_2"]),
            (Digest(rows=2, columns={"a": column(1, 7)}), ["hash_1", "hash_2"]),
            (Digest(rows=2, columns={"a": column(1, 2, 1)}), ["nulls", "hash_1", "hash_2"]),
            (Digest(rows=2, columns={}), ["hash_1", "hash_2"]),
            (Digest(rows=2, columns={"a": column()}, nans={"a": 1}), ["nans"]),
            (Digest(rows=3, columns={"a": column()}), ["rows"]),
        ],
    )
    def test_every_measure_is_compared(self, after: Digest, measures: list[str]) -> None:
        found = find_differences(Digest(rows=2, columns={"a": column()}), after)
        assert [difference.measure for difference in found] == measures


class TestExpressions:
    def test_leaf_columns_are_those_with_bounds_in_manifests(self) -> None:
        assert [(leaf.id, leaf.sql) for leaf in find_leaves(SCHEMA)] == [(1, "`id`"), (3, "`s`.`a.b`")]

    @pytest.mark.parametrize("kind", ["time", "timestamp_ns", "timestamptz_ns", "unknown"])
    def test_types_that_spark_does_not_support_at_any_depth(self, kind: str) -> None:
        assert not is_readable_by_spark(kind)
        assert not is_readable_by_spark({"type": "list", "element": kind})
        assert not is_readable_by_spark({"type": "map", "key": "int", "value": kind})
        assert is_readable_by_spark(SCHEMA)

    @pytest.mark.parametrize("kind", ["timestamp", "timestamptz", "decimal(9,2)", "fixed[4]", "uuid", "variant"])
    def test_types_that_spark_supports(self, kind: str) -> None:
        assert is_readable_by_spark(kind)

    def test_nested_containers_have_different_variables(self) -> None:
        nested = {"type": "list", "element": {"type": "list", "element": "int"}}
        text = build_value_hash("`c`", nested)
        assert "__icepack_item_0 ->" in text
        assert "__icepack_item_1 ->" in text

    def test_an_unknown_container_is_rejected(self) -> None:
        with pytest.raises(ValueError, match="cannot hash a column"):
            build_value_hash("`c`", {"type": "tensor"})


def leaf(kind: str) -> LeafColumn:
    return LeafColumn(id=1, path=("c",), type=kind)


class TestBounds:
    @pytest.mark.parametrize(
        ("kind", "raw", "literal"),
        [
            ("int", struct.pack("<i", -5), "cast('-5' AS INT)"),
            ("long", struct.pack("<i", 7), "cast('7' AS BIGINT)"),
            ("long", struct.pack("<q", -(2**63)), "cast('-9223372036854775808' AS BIGINT)"),
            ("boolean", b"\1", "true"),
            ("date", struct.pack("<i", -1), "date_from_unix_date(-1)"),
            ("timestamptz", struct.pack("<q", 1), "timestamp_micros(1)"),
            ("timestamp", struct.pack("<q", 1), "cast(timestamp_micros(1) AS TIMESTAMP_NTZ)"),
            ("string", "ü'".encode(), "decode(X'c3bc27', 'UTF-8')"),
            ("binary", b"\xff", "X'ff'"),
            ("fixed[2]", b"\x00\x01", "X'0001'"),
            ("uuid", UUID(int=1).bytes, "'00000000-0000-0000-0000-000000000001'"),
            ("decimal(9,2)", b"\xff", "cast('-1E-2' AS DECIMAL(9,2))"),
        ],
    )
    def test_bounds_become_literals_of_their_type(self, kind: str, raw: bytes, literal: str) -> None:
        metrics = FileMetrics(record_count=1, lower_bounds={1: raw})
        assert build_outside_condition(leaf(kind), metrics) == f"(`c` < {literal})"

    def test_nans_are_not_outside_of_bounds(self) -> None:
        metrics = FileMetrics(record_count=1, upper_bounds={1: struct.pack("<d", 1.5)})
        assert build_outside_condition(leaf("double"), metrics) == "(`c` > cast('1.5' AS DOUBLE)) AND NOT isnan(`c`)"

    def test_there_is_no_condition_without_bounds(self) -> None:
        assert build_outside_condition(leaf("int"), FileMetrics(record_count=1)) is None
        assert build_outside_condition(leaf("other"), FileMetrics(record_count=1, lower_bounds={1: b"1"})) is None

    def test_metrics_are_parsed_from_json(self) -> None:
        metrics = {
            "record_count": 3,
            "null_value_counts": {"1": 2},
            "nan_value_counts": {},
            "lower_bounds": {"1": b64encode(b"a").decode()},
            "upper_bounds": {},
        }
        expected = FileMetrics(record_count=3, null_value_counts={1: 2}, lower_bounds={1: b"a"})
        assert parse_metrics(metrics) == expected
