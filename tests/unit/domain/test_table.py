from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from icepack.domain.serialization import from_json, to_json
from icepack.domain.table import TableId, TablePattern, is_internal, join_name, select_tables, split_name
from icepack.errors import AmbiguousTable, IcepackError, InvalidTableName, TableNotFound

ORDERS = TableId("lake", ("sales",), "orders")
EVENTS = TableId("lake", ("web",), "events")
OLD_EVENTS = TableId("lake", ("web", "archive"), "events")
OTHER_ORDERS = TableId("prod", ("sales",), "orders")
ALL = [ORDERS, EVENTS, OLD_EVENTS, OTHER_ORDERS]

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(st.builds(TableId, names, st.lists(names, min_size=1, max_size=3).map(tuple), names))
@example(TableId("a.b", ('say "hi"',), "drop table; --"))
@example(TableId("", ("", '"'), '""'))
@example(TableId("läke", ("销售",), "\n\t *?[x]"))
def test_every_name_survives_its_text_form(table):
    assert TableId.parse(str(table)) == table
    assert from_json(TableId, to_json(table)) == table


@given(st.builds(TableId, names, st.lists(names, min_size=1, max_size=2).map(tuple), names))
def test_the_text_form_of_a_name_selects_that_table_and_no_other(table):
    neighbours = [TableId(table.catalog, table.namespace, f"{table.name}x"), ORDERS]
    assert select_tables([str(table)], [table, *neighbours]) == [table]


@given(st.text(max_size=30))
@example('"')
@example('a."b')
def test_any_text_is_a_name_or_an_invalid_table_name(text):
    try:
        parts = split_name(text)
    except InvalidTableName:
        return
    assert parts


def test_plain_parts_are_printed_without_quotes_and_odd_ones_with():
    assert str(TableId("lake", ("web", "a b"), 'say "hi".')) == 'lake.web."a b"."say ""hi""."'
    assert TableId("lake", ("web",), "events").short == "web.events"
    assert join_name(["plain", "with-dash", "ünïcode", "*"]) == 'plain.with-dash.ünïcode."*"'


@pytest.mark.parametrize("text", ["", "orders", "sales.orders", '"lake.sales".orders'])
def test_a_table_id_needs_catalog_namespace_and_name(text):
    with pytest.raises(InvalidTableName):
        TableId.parse(text)


@pytest.mark.parametrize("text", ["a..b", ".a", "a.", 'a."b', 'a"b".c', '"a"b.c.d', '"a" .b.c'])
def test_a_malformed_name_is_refused_and_quoted_back(text):
    with pytest.raises(InvalidTableName) as refused:
        split_name(text)
    assert text in str(refused.value)


def test_a_bare_name_selects_the_one_table_of_that_name():
    assert select_tables(["orders"], [ORDERS, EVENTS]) == [ORDERS]


def test_a_bare_name_that_several_tables_have_is_ambiguous_and_lists_them():
    with pytest.raises(AmbiguousTable) as refused:
        select_tables(["orders"], ALL)
    assert "lake.sales.orders, prod.sales.orders" in str(refused.value)


def test_a_full_name_is_never_ambiguous():
    assert select_tables(["prod.sales.orders"], ALL) == [OTHER_ORDERS]


def test_a_table_that_is_listed_twice_is_still_one_table():
    assert select_tables(["orders"], [ORDERS, ORDERS]) == [ORDERS]


def test_a_name_may_leave_out_the_catalog():
    assert select_tables(["web.archive.events"], ALL) == [OLD_EVENTS]


def test_a_full_name_wins_over_a_name_without_catalog():
    shadow = TableId("x", ("lake", "sales"), "orders")
    assert select_tables(["lake.sales.orders"], [ORDERS, shadow]) == [ORDERS]


def test_an_unknown_name_says_how_to_list_tables():
    with pytest.raises(TableNotFound) as refused:
        select_tables(["orders", "nowhere"], [ORDERS])
    assert "nowhere" in str(refused.value)
    assert "icepack tables" in str(refused.value)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*", ALL),
        ("lake.*", [ORDERS, EVENTS, OLD_EVENTS]),
        ("lake.web.*", [EVENTS, OLD_EVENTS]),
        ("web.*", [EVENTS, OLD_EVENTS]),
        ("lake.*.events", [EVENTS]),
        ("*.sales.orders", [ORDERS, OTHER_ORDERS]),
        ("ord?rs", [ORDERS, OTHER_ORDERS]),
        ("[eo]*", ALL),
        ("sales.ord*", [ORDERS, OTHER_ORDERS]),
        ("lake.web.archive.events", [OLD_EVENTS]),
    ],
)
def test_a_glob_selects_what_it_fits(pattern, found):
    assert select_tables([pattern], ALL) == sorted(found)


def test_a_star_stays_within_one_part_unless_it_is_the_last():
    assert not TablePattern.parse("lake.*.events").matches(OLD_EVENTS)
    assert TablePattern.parse("lake.*").matches(OLD_EVENTS)


def test_globs_respect_case():
    assert not TablePattern.parse("ORD*").matches(ORDERS)


def test_a_quoted_star_is_a_name_and_no_glob():
    odd = TableId("lake", ("sales",), "*")
    pattern = TablePattern.parse('lake.sales."*"')
    assert not pattern.is_glob
    assert pattern.plain_parts == ("lake", "sales", "*")
    assert pattern.matches(odd)
    assert not pattern.matches(ORDERS)


def test_several_patterns_select_each_table_once_in_the_order_asked_for():
    assert select_tables(["web.*", "lake.*"], ALL) == [EVENTS, OLD_EVENTS, ORDERS]


def test_a_pattern_knows_how_many_parts_it_leaves_out():
    assert TablePattern.parse("lake.*").omitted_parts(ORDERS) == 0
    assert TablePattern.parse("sales.*").omitted_parts(ORDERS) == 1
    assert TablePattern.parse("orders").omitted_parts(ORDERS) == 2
    assert TablePattern.parse("events").omitted_parts(ORDERS) is None


@given(st.text(max_size=20), st.lists(st.sampled_from(ALL)))
def test_selecting_with_any_text_fails_only_with_usage_errors(text, tables):
    try:
        assert set(select_tables([text], tables)) <= set(tables)
    except IcepackError as refused:
        assert refused.exit_code == 2


def test_a_table_is_internal_when_its_own_name_starts_with_an_underscore():
    assert is_internal(TableId("lake", ("sales",), "_staging"))
    assert not is_internal(TableId("_lake", ("_sales",), "orders"))
