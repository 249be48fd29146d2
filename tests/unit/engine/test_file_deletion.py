from __future__ import annotations

from threading import Barrier

from icepack.engine.actions.file_deletion import _delete_singly


class BarrierStorage:
    """Deletes files only while the given number of deletions run at the same time."""

    def __init__(self, parallel_deletions: int) -> None:
        self._barrier = Barrier(parallel_deletions, timeout=20)
        self.deleted: set[str] = set()

    def deleteFile(self, path: str) -> None:
        self._barrier.wait()
        self.deleted.add(path)


def test_files_are_deleted_in_the_requested_number_of_threads() -> None:
    storage = BarrierStorage(parallel_deletions=3)
    paths = [f"file-{number}" for number in range(6)]
    assert _delete_singly(storage, paths, threads=3) == {}
    assert storage.deleted == set(paths)
