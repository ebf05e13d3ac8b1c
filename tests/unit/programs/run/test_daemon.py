"""What the command line decided reaches the scheduler."""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn

import pytest

from kuberth.config import default_configuration
from kuberth.framework import Registry
from kuberth.programs.run import daemon
from kuberth.programs.run.daemon import Settings
from kuberth.queue.fair_share import FairShareQueue


class Asked(Exception):  # noqa: N818  # no error: it ends the program where the test has seen enough
    """How a scheduler was asked for."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options


def test_settings_reach_the_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    async def reachable(_api: object) -> None:
        pass

    def scheduler(_api: object, **options: Any) -> NoReturn:
        raise Asked(**options)

    monkeypatch.setattr(daemon, "_check_reachable", reachable)
    monkeypatch.setattr(daemon, "Scheduler", scheduler)
    config, registry = default_configuration(), Registry()
    settings = Settings(
        config=config,
        registry=registry,
        queue=FairShareQueue,
        master="http://127.0.0.1:1",
        max_unschedulable_seconds=90.0,
    )
    with pytest.raises(Asked) as asked:
        asyncio.run(daemon.run(settings))
    options = asked.value.options
    assert options["config"] is config
    assert options["registry"] is registry
    assert options["queue"] is FairShareQueue
    assert options["max_unschedulable_seconds"] == 90.0
