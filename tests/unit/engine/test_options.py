"""Options given by hand: what is known is heeded, what is not is refused."""

from __future__ import annotations

from threading import Barrier

import pytest

from icepack.engine.actions.file_deletion import _delete_singly
from icepack.engine.actions.options import at_least_one, take_known
from icepack.errors import InvalidOption


def test_an_option_that_an_action_does_not_have_is_refused_with_those_it_has() -> None:
    with pytest.raises(InvalidOption, match=r"expire has no option 'c'\. There are: a, b\."):
        take_known({"a": "1", "c": "2"}, frozenset({"a", "b"}), "expire")


def test_an_action_without_options_says_so() -> None:
    with pytest.raises(InvalidOption, match=r"compute_stats has no option 'x'\. It has none\."):
        take_known({"x": "1"}, frozenset(), "compute_stats")


def test_a_count_is_a_whole_number_from_one_on() -> None:
    assert at_least_one({"threads": " 4 "}, "threads") == 4
    assert at_least_one({}, "threads") == 1
    for text in ("0", "-1", "many", "1.5", ""):
        with pytest.raises(InvalidOption, match="threads should be a whole number from 1 on"):
            at_least_one({"threads": text}, "threads")


class MeetingStorage:
    """Deletes a file only when as many are being deleted at once as it was told."""

    def __init__(self, at_once: int) -> None:
        self._meeting = Barrier(at_once, timeout=20)
        self.deleted: set[str] = set()

    def deleteFile(self, path: str) -> None:
        self._meeting.wait()
        self.deleted.add(path)


def test_files_are_deleted_in_as_many_threads_as_asked_for() -> None:
    storage = MeetingStorage(at_once=3)
    paths = [f"file-{number}" for number in range(6)]
    assert _delete_singly(storage, paths, threads=3) == {}
    assert storage.deleted == set(paths)
