"""What `kuberth up` shows of pods that have no node yet."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from kuberth.api.core import Pod
from kuberth.api.wire import convert
from kuberth.framework.waiting_pods import WaitingPods
from kuberth.programs.up.cluster import EmbeddedCluster
from tests.unit.local.apiserver.core_rig import Rig, run


def test_every_waiting_pod_tells_why() -> None:
    async def main(rig: Rig) -> None:
        async def report(name: str, status: dict[str, Any]) -> None:
            body = await rig.core.get("pods", name, namespace="default")
            body = {**body, "status": status}
            await rig.core.update("pods", name, body, namespace="default", subresource="status")

        held = convert(Pod, await rig.pod("held"))
        await rig.pod("misfit")
        full = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available: too full."}
        await report("misfit", {"conditions": [full], "nominatedNodeName": "n1"})
        await rig.pod("slow")
        await report("slow", {"nominatedNodeName": "n1"})
        await rig.pod("new")
        await rig.pod("gated", schedulingGates=[{"name": "example.com/gate"}])
        await rig.pod("placed", bound="n1")
        waiting = WaitingPods()
        waiting.add(held, {"Gang": 600.0, "Quota": 600.0})
        scheduler = cast(Any, SimpleNamespace(waiting_pods=waiting))
        summary = await EmbeddedCluster(rig.core, "", Path(), scheduler).summary()
        assert summary.pods == {"Waiting": 4, "SchedulingGated": 1, "Pending": 1}
        reasons = dict(summary.reasons)
        reasons = {reason: count for reason, count in reasons.items() if "gate" not in reason}
        assert reasons == {
            "Permit: waiting for Gang, Quota": 1,
            "0/3 nodes are available: too full.": 1,
            "PreBind: placed, not bound yet": 1,
        }

    run(main)
