from __future__ import annotations

import pytest

from icepack.engine.actions.options import check_options, parse_count
from icepack.errors import InvalidOption


def test_an_unknown_option_is_rejected_with_the_supported_options() -> None:
    with pytest.raises(InvalidOption, match=r"expire has no option 'c'\. Supported options: a, b\."):
        check_options({"a": "1", "c": "2"}, frozenset({"a", "b"}), "expire")


def test_the_error_says_if_an_action_has_no_options() -> None:
    with pytest.raises(InvalidOption, match=r"compute_stats has no option 'x'\. It has no options\."):
        check_options({"x": "1"}, frozenset(), "compute_stats")


def test_a_count_is_an_integer_of_at_least_one() -> None:
    assert parse_count({"threads": " 4 "}, "threads") == 4
    assert parse_count({}, "threads") == 1
    for text in ("0", "-1", "many", "1.5", ""):
        with pytest.raises(InvalidOption, match="threads must be an integer of at least 1"):
            parse_count({"threads": text}, "threads")
