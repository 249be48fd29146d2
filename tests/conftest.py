"""For all tests: no deadlines, because a busy machine is not a bug."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("icepack", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("icepack")
