"""Tiny workloads on the embedded server in process, with the real scheduler."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from kuberth.assembly import full_registry
from kuberth.bench.arenas import IN_PROCESS, Arena, arena
from kuberth.bench.cases import read_workloads
from kuberth.bench.contenders import OwnScheduler
from kuberth.bench.executor import Executor, Pace
from kuberth.bench.measurements import Measurement
from kuberth.bench.running import controlled_claims

PACE = Pace(sample_seconds=0.02, poll_seconds=0.01, patience_seconds=30.0)
FILES = {
    "pod.yaml": "kind: Pod\napiVersion: v1\nmetadata: {generateName: p-, labels: {app: web}}\n"
    "spec: {containers: [{name: c, image: i}]}\n",
    "large.yaml": "kind: Pod\napiVersion: v1\nmetadata: {generateName: large-, labels: {app: large}}\n"
    'spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "99"}}}]}\n',
    "gated.yaml": "kind: Pod\napiVersion: v1\nmetadata: {generateName: gated-}\n"
    "spec: {schedulingGates: [{name: example.com/x}], containers: [{name: c, image: i}]}\n",
    "held.yaml": "kind: Pod\napiVersion: v1\nmetadata: {name: pod-{{.Index}}}\n"
    "spec: {schedulingGates: [{name: example.com/x}], containers: [{name: c, image: i}]}\n",
    "freed.yaml": "kind: Pod\napiVersion: v1\n"
    'metadata: {name: pod-{{.Index}}, labels: {seen: "yes"}}\n'
    "spec: {containers: [{name: c, image: i}]}\n",
    "node.yaml": "kind: Node\napiVersion: v1\nmetadata: {name: node-{{.Index}}}\n"
    'status: {capacity: {cpu: "2", memory: 4Gi, pods: "10"}}\n',
    "node-labelled.yaml": "kind: Node\napiVersion: v1\n"
    'metadata: {name: node-{{.Index}}, labels: {seen: "yes"}}\n'
    'status: {capacity: {cpu: "{{AddInt .Index 5}}", memory: 4Gi, pods: "10"}}\n',
    "service.yaml": "kind: Service\napiVersion: v1\nmetadata: {generateName: s-}\n"
    "spec: {selector: {a: b}, ports: [{port: 80}]}\n",
    "config-map.yaml": "kind: ConfigMap\napiVersion: v1\nmetadata: {name: c-{{.Index}}}\n"
    'data: {of: "{{.Count}}"}\n',
    "brief.yaml": "kind: Pod\napiVersion: v1\nmetadata: {generateName: b-}\n"
    "spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: i}]}\n",
    "namespace.yaml": "kind: Namespace\napiVersion: v1\nmetadata: {labels: {team: blue}}\n",
    "class.yaml": "kind: DeviceClass\napiVersion: resource.k8s.io/v1\nmetadata: {name: gpu}\n"
    "spec: {selectors: [{cel: {expression: 'device.driver == \"d.example.com\"'}}]}\n",
    "claim.yaml": "kind: ResourceClaim\napiVersion: resource.k8s.io/v1beta2\nmetadata: {generateName: c-}\n"
    "spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}\n",
    "claim-template.yaml": "kind: ResourceClaimTemplate\napiVersion: resource.k8s.io/v1\n"
    "metadata: {name: one}\n"
    "spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}}\n",
    "claiming.yaml": "kind: Pod\napiVersion: v1\nmetadata: {generateName: p-}\nspec: {containers: "
    "[{name: c, image: i, resources: {claims: [{name: g}]}}], "
    "resourceClaims: [{name: g, resourceClaimTemplateName: one}]}\n",
    "priority.yaml": "kind: Pod\napiVersion: v1\nmetadata: {generateName: high-}\n"
    "spec: {priority: 50, containers: [{name: c, image: i}]}\n",
    "pv.yaml": "kind: PersistentVolume\napiVersion: v1\nspec: {accessModes: [ReadOnlyMany], "
    "capacity: {storage: 1Gi}, csi: {driver: d.example.com}, persistentVolumeReclaimPolicy: Retain}\n",
    "pvc.yaml": "kind: PersistentVolumeClaim\napiVersion: v1\n"
    'metadata: {annotations: {pv.kubernetes.io/bind-completed: "true"}}\n'
    "spec: {accessModes: [ReadOnlyMany], resources: {requests: {storage: 1Gi}}}\n",
}
MEASURED = "{opcode: createPods, count: 3, namespace: measured, collectMetrics: true}"


class Ran:
    """What a workload left behind."""

    def __init__(self, measurements: list[Measurement], objects: dict[str, list[Any]]) -> None:
        self.measurements = measurements
        self._objects = objects

    def objects(self, resource: str, namespace: str = "") -> list[Any]:
        return [
            each for each in self._objects[resource] if each["metadata"].get("namespace", "") == namespace
        ]


LOOKED_AT = (
    "configmaps",
    "csinodes.storage.k8s.io",
    "resourceclaims.resource.k8s.io",
    "resourceslices.resource.k8s.io",
    "namespaces",
    "nodes",
    "persistentvolumeclaims",
    "persistentvolumes",
    "pods",
    "priorityclasses.scheduling.k8s.io",
    "services",
)


def run(folder: Path, *operations: str, pace: Pace = PACE, **more: str) -> Ran:
    """Run these operations as one workload; `more` are fields of the workload."""
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    lines = "".join(f"  - {operation}\n" for operation in operations)
    fields = "".join(f"    {name}: {value}\n" for name, value in more.items())
    file = folder / "cases.yaml"
    file.write_text(
        f"- name: C\n  workloadTemplate:\n{lines}  workloads:\n  - name: w\n{fields}", encoding="utf-8"
    )
    (workload,) = read_workloads(file)

    async def main() -> Ran:
        async with arena(IN_PROCESS, gates={}, folder=folder, assets=None) as place:
            own = OwnScheduler(full_registry(entry_points=False))
            claims = controlled_claims(place.server) if workload.has_devices else nullcontext()
            async with claims, own.running(place, workload, {}) as meter:
                found = await Executor(workload, place, meter, pace=pace).run()
            return Ran(list(found), await everything(place))

    return asyncio.run(main())


async def everything(place: Arena) -> dict[str, list[Any]]:
    assert place.core is not None
    return {resource: (await place.core.list(resource))["items"] for resource in LOOKED_AT}
