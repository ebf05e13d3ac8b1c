"""A shadow beside a whole scheduler, on virtual time: the same code must come to the same decisions."""

from __future__ import annotations

import asyncio
from typing import Any

from kuberth.assembly.profiles import full_registry
from kuberth.config import default_configuration
from kuberth.programs.shadow.decisions import ShadowReport
from kuberth.programs.shadow.program import ShadowRun, ShadowSettings
from kuberth.testing import MemoryApi, make_node, make_pod, run_in_virtual_time, running

PODS = 120


class ReadOnly:
    """The API as the shadow may use it: everything but reading is missing."""

    def __init__(self, api: MemoryApi) -> None:
        self.list, self.watch, self.get = api.list, api.watch, api.get
        self.steady, self.share = api.steady, api.share


def kinds(i: int) -> dict[str, Any]:
    selector = {"labelSelector": {"matchLabels": {"app": f"a{i % 4}"}}}
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", **selector}
    apart = {**selector, "topologyKey": "kubernetes.io/hostname"}
    return (
        {},
        {"topologySpreadConstraints": [spread]},
        {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}},
        {"nodeSelector": {"zone": "z1"}, "priority": i},
    )[i % 4]


def test_it_agrees_with_a_scheduler_of_the_same_rules() -> None:
    async def scenario() -> ShadowReport:
        nodes = [make_node(f"n{i:02d}", cpu=str(2 + i % 3), labels={"zone": f"z{i % 3}"}) for i in range(40)]
        async with running(*nodes) as world:
            settings = ShadowSettings(config=default_configuration(), registry=full_registry())
            run = ShadowRun(
                settings,
                ReadOnly(world.api),  # type: ignore[arg-type]  # what is missing must not be missed
                on_decision=lambda _decision: None,
                on_message=lambda _sentence: None,
            )
            ending = asyncio.ensure_future(run.until_end())
            await run.shadow.synced.wait()
            for i in range(PODS):
                labels = {"app": f"a{i % 4}"}
                world.api.put(make_pod(f"p{i:03d}", cpu=f"{100 + i % 5 * 50}m", labels=labels, **kinds(i)))
                if i % 10 == 9:
                    await asyncio.sleep(0.05)
            world.api.put(make_pod("huge", cpu="100"))
            await asyncio.sleep(10)
            run.shadow.stop()
            return await ending

    report = run_in_virtual_time(scenario)
    assert report.placed == PODS
    assert report.tree()["agreements"]["rejected by both"] == 1
    assert report.agreeing == report.decisions, report.tree()
