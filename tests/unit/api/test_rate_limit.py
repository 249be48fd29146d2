"""Rate limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.service import serve
from icepack.api.errors import TooManyRequests
from icepack.api.rate_limit import RateLimiter


class TestRateLimit:
    def test_requests_are_rate_limited(self, tmp_path: Path) -> None:
        with serve(tmp_path, server={"requests_per_second": 1}) as found:
            responses = [found.get("/tables").status_code for _ in range(4)]
        assert responses[0] == 200
        assert responses[-1] == 429

    def test_bucket_is_refilled(self) -> None:
        now = [0.0]
        limiter = RateLimiter(2.0, burst=2, elapsed_seconds=lambda: now[0])
        for _ in range(2):
            limiter.acquire("ann")
        with pytest.raises(TooManyRequests):
            limiter.acquire("ann")
        limiter.acquire("bob")
        now[0] = 0.5
        limiter.acquire("ann")
