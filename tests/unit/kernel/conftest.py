from __future__ import annotations

from pathlib import Path

import pytest

from .harness import KernelHarness


@pytest.fixture
def harness(tmp_path: Path) -> KernelHarness:
    return KernelHarness(tmp_path)
