"""Small scenarios for the tests of simulations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kuberth.local.manifests import Manifest
from kuberth.simulation.arrivals import Arrival
from kuberth.simulation.clusters import from_shapes
from kuberth.simulation.generating import MIXES, generate
from kuberth.simulation.running import Scenario
from kuberth.text.documents import read_documents


def scene(*arrivals: Arrival, nodes: int = 1, cpu: str = "4", **more: Any) -> Scenario:
    """Nodes of one size, and these arrivals."""
    shape = {"name": "node", "count": nodes, "capacity": {"cpu": cpu, "memory": "64Gi"}}
    return Scenario(from_shapes([shape], count=0).nodes, arrivals, **more)


def pod(at: float, duration: float | None = None, *, cpu: str = "1", **more: Any) -> Arrival:
    return Arrival(at, duration, requests={"cpu": cpu}, **more)


def managed(text: str) -> list[Manifest]:
    """Manifests for controllers."""
    documents, errors = read_documents(text.encode())
    assert not errors
    return [Manifest(document.tree) for document in documents]


def template(*, name: str, cpu: str = "1", more: str = "", notes: str = "{}") -> str:
    """A pod template in one line of YAML."""
    container = f'{{name: c, image: x, resources: {{requests: {{cpu: "{cpu}"}}}}}}'
    metadata = f"{{labels: {{app: {name}}}, annotations: {notes}}}"
    return f"{{metadata: {metadata}, spec: {{containers: [{container}]{more}}}}}"


def crowd(*, pods: int = 200, nodes: int = 6, seed: int = 1) -> Scenario:
    """More than fits at once, of several priorities and tenants."""
    arrivals: Sequence[Arrival] = generate(MIXES["services"], pods=pods, seconds=7200, seed=seed)
    return scene(*arrivals, nodes=nodes, cpu="8")
