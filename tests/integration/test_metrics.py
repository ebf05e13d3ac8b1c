"""Every metric family that is exposed is fed by something that happens; one that nothing feeds misleads."""

from __future__ import annotations

from typing import Any

from kuberth.api.core import Pod
from kuberth.framework import EnqueueExtensions, PermitPlugin, PermitResult, PreFilterExtensions, Status
from kuberth.observe.metrics import ComputedGauge, Family
from kuberth.testing import make_node, make_pod, run_in_virtual_time, running

FED_ELSEWHERE = {
    "scheduler_resourceclaim_creates_total",  # these three in tests/integration/test_devices.py
    "scheduler_dra_bindingconditions_allocations_total",
    "scheduler_dra_bindingconditions_wait_duration_seconds",
    "kuberth_repeated_rejections_total",  # tests/unit/scheduling/test_repeating.py
    "kuberth_plan_differences_total",  # tests/unit/scheduling/test_statements.py
    "kuberth_configuration_reloads_total",  # tests/unit/programs/test_reloading.py
    "scheduler_volume_scheduling_stage_error_total",  # tests/unit/plugins/test_volume_binding_binding.py
}


class Slow(PermitPlugin, PreFilterExtensions, EnqueueExtensions):
    """Holds pods that say so for a second, follows what-ifs, and hears of no event."""

    name = "Slow"
    closed = True

    def permit(self, _state: Any, pod: Pod, _node: str) -> Any:
        if self.closed and pod.metadata.labels.get("later"):
            return Status.unschedulable("not yet")
        return PermitResult.wait(1.0) if pod.metadata.labels.get("slow") else None

    def pre_filter(self, *_: Any) -> Status | None:
        return None

    def add_pod(self, *_: Any) -> Status | None:
        return None

    def remove_pod(self, *_: Any) -> Status | None:
        return None

    def events_to_register(self) -> Any:
        return []


def values(family: Family) -> Any:
    return family.compute() if isinstance(family, ComputedGauge) else family.values


def test_every_family_is_fed() -> None:
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": "Slow"}]}}}

    async def scenario() -> None:
        nodes = [make_node(name, cpu="2", labels={"zone": name}) for name in ("n1", "n2")]
        slow = Slow()
        async with running(*nodes, profiles=[profile], plugins={"Slow": lambda _a, _h: slow}) as world:
            world.scheduler.loop.cycle._rng.random = lambda: 0.0  # type: ignore[method-assign]  # times all
            put = world.api.put
            for name in ("low-1", "low-2"):
                put(make_pod(name, cpu="2", priority=1))
            await world.bound("low-1", "low-2")
            put(make_pod("gated", gates=["wait"]))
            put(make_pod("slow", labels={"slow": "yes"}))
            await world.in_queue("slow", "unschedulable", seconds=120)
            put(make_pod("high", cpu="2", priority=9))
            await world.until(lambda: bool(world.pod("high").status.nominated_node_name))
            victim = next(name for name in ("low-1", "low-2") if world.pod(name).metadata.deletion_timestamp)
            world.api.remove(Pod, f"default/{victim}")
            await world.bound("high", seconds=600)
            put(make_pod("never", cpu="64"))
            await world.in_queue("never", "unschedulable")
            put(make_node("n3", cpu="2"))
            put(make_pod("later", labels={"later": "yes"}))
            await world.in_queue("later", "unschedulable")
            slow.closed = False
            await world.bound("later", seconds=900)
            metrics = world.scheduler.metrics
            unfed = {
                family.name
                for family in metrics.families()
                if not values(family) and family.name not in FED_ELSEWHERE
            }
            assert not unfed
            timed = {
                point for _plugin, point, _status in world.scheduler.metrics.plugin_execution_duration.values
            }
            assert timed >= {
                "PreEnqueue",
                "PreFilter",
                "PreFilterExtensionAddPod",
                "PreFilterExtensionRemovePod",
                "Filter",
                "PostFilter",
                "PreScore",
                "Score",
                "ScoreExtensionNormalize",
                "Reserve",
                "Permit",
                "Bind",
            }

    run_in_virtual_time(scenario)
