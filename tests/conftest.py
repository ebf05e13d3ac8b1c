"""What holds for all tests: hypothesis judges answers, never how long a busy machine took for them."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("kuberth", deadline=None)
settings.load_profile("kuberth")
