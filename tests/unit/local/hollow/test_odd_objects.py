"""Whatever the server accepts: controllers, kubelet and summary go on, and log no failure."""

from __future__ import annotations

import io
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from rich.console import Console

from kuberth.cli.up_display import summary_table
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.schema.catalogue import ROWS
from kuberth.local.apiserver.schema.fields import fields_of
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.programs.up.cluster import EmbeddedCluster
from tests.manifests import deployment_manifest, template_manifest
from tests.unit.local.apiserver.odd_objects import typed
from tests.unit.local.hollow.harness import World, playing, virtual

LABELS = {"matchLabels": {"app": "odd"}}
ONCE = template_manifest("odd", restartPolicy="Never")
# What makes an object of a kind acceptable at all; odd fields come on top of it.
SEEDS: dict[str, Obj] = {
    "pods": {"spec": template_manifest()["spec"]},
    "deployments.apps": {"spec": {"replicas": 1, "selector": LABELS, "template": template_manifest("odd")}},
    "replicasets.apps": {"spec": {"replicas": 1, "selector": LABELS, "template": template_manifest("odd")}},
    "statefulsets.apps": {"spec": {"replicas": 1, "selector": LABELS, "template": template_manifest("odd")}},
    "jobs.batch": {"spec": {"template": ONCE}},
    "nodes": {"metadata": {"annotations": {"kuberth.dev/hollow": "true"}}},
    "persistentvolumes": {
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/x"},
        }
    },
    "persistentvolumeclaims": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
}
KINDS = [row for row in ROWS if row.id not in ("events.events.k8s.io",)]
MARKUP = ["[/nothing]", "[bold", "[red]x[/red]", "\\[", "\x1b[31m", "🚢"]


def merged(seed: Any, odd: Any) -> Any:
    if isinstance(seed, dict) and isinstance(odd, dict):
        return {**seed, **{key: merged(seed.get(key), value) for key, value in odd.items()}}
    return odd


@st.composite
def odd_objects(draw: st.DrawFn) -> tuple[str, Obj, Obj]:
    """A resource, a body to create, and a status to write."""
    row = draw(
        st.sampled_from(KINDS if draw(st.booleans()) else [each for each in KINDS if each.id in SEEDS])
    )
    body = draw(typed(row.schema)) if draw(st.booleans()) else {}
    body = merged(SEEDS.get(row.id, {}), body if isinstance(body, dict) else {})
    metadata = body.get("metadata") if isinstance(body.get("metadata"), dict) else {}
    name = draw(st.sampled_from(["a", "b"]))
    body["metadata"] = {**(metadata or {}), "name": name, "namespace": "default" if row.namespaced else ""}
    status = {}
    if row.has_status and draw(st.booleans()):
        status = draw(typed(fields_of(row.schema)["status"].type))
    if row.id == "pods" and draw(st.booleans()):
        words = st.sampled_from(MARKUP)
        condition = {"type": "PodScheduled", "status": "False", "message": draw(words)}
        status = {"phase": draw(words), "conditions": [condition, {"status": draw(words)}]}
    return row.id, body, status


PDB = {"metadata": {"name": "a", "namespace": "default"}}
CLAIMED = {
    "metadata": {"name": "a", "namespace": ""},
    **merged(SEEDS["persistentvolumes"], {"spec": {"claimRef": {"uid": "u"}}}),
}
GATED = {
    "metadata": {"name": "a", "namespace": "default"},
    "spec": {**template_manifest()["spec"], "schedulingGates": [{"name": "x/y"}]},
}
QUOTA = {"metadata": {"name": "a", "namespace": "default"}, "spec": {"hard": {"cpu": None}}}
WORDS = {"conditions": [{"type": "PodScheduled", "message": "[/x]", "status": "False"}, {"status": "x"}]}


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(odd_objects(), min_size=1, max_size=4))
@example([("poddisruptionbudgets.policy", PDB, {})])
@example([("persistentvolumes", CLAIMED, {})])
@example([("pods", GATED, WORDS)])
@example([("resourcequotas", QUOTA, {})])
def test_the_cluster_survives(objects: list[tuple[str, Obj, Obj]]) -> None:
    async def main() -> None:
        async with playing(nodes=1) as world:
            for resource, body, status in objects:
                await offer(world, resource, body, status)
            await world.quiet(seconds=5)
            await show_summary(world)
            for name in ("a", "b"):  # an odd quota may rightly forbid what follows
                with suppress(StatusError):
                    await world.core.delete("resourcequotas", name, namespace="default")
            await world.create({**deployment_manifest("alive", replicas=2)})
            await world.status("Deployment", "alive", availableReplicas=2)
            budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "alive"}}}
            metadata = {"name": "alive", "namespace": "default"}
            kind = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
            await world.create({**kind, "metadata": metadata, "spec": budget})
            await world.status("PodDisruptionBudget", "alive", currentHealthy=2)
            await world.delete("Deployment", "alive", propagationPolicy="Foreground")
            await world.gone("Deployment", "alive")

    virtual(main)


async def offer(world: World, resource: str, body: Obj, status: Obj) -> None:
    namespace = body["metadata"]["namespace"]
    try:
        made = await world.core.create(resource, body, namespace=namespace)
        if status:
            name = body["metadata"]["name"]
            await world.core.update(
                resource, name, {**made, "status": status}, namespace=namespace, subresource="status"
            )
    except StatusError as error:
        if error.code >= 500:
            raise


async def show_summary(world: World) -> None:
    cluster = EmbeddedCluster(world.core, "", Path(), None)
    console = Console(file=io.StringIO(), force_terminal=True)
    console.print(summary_table(await cluster.summary()))
