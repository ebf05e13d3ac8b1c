"""Replica sets: counts, adoption, and the order of deletion."""

from __future__ import annotations

from typing import Any

import pytest

from kuberth.local.apiserver.objects import Obj
from kuberth.local.hollow.pod_states import deletion_order
from tests.manifests import template_manifest
from tests.unit.local.hollow.harness import playing, virtual


def replica_set(name: str = "web", *, replicas: int = 3) -> Obj:
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template_manifest(name),
        },
    }


def test_pods_that_end_or_vanish_are_replaced() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(replica_set())
            await world.status("ReplicaSet", "web", replicas=3, availableReplicas=3, fullyLabeledReplicas=3)
            first, second, _ = await world.all("Pod")
            await world.delete("Pod", first["metadata"]["name"])
            await world.patch(
                "Pod", second["metadata"]["name"], {"status": {"phase": "Failed"}}, sub="status"
            )
            await world.quiet()
            await world.status("ReplicaSet", "web", replicas=3, availableReplicas=3)
            running = [pod for pod in await world.all("Pod") if pod["status"]["phase"] == "Running"]
            assert len(running) == 3
            assert first["metadata"]["uid"] not in {pod["metadata"]["uid"] for pod in running}

    virtual(main)


def test_exactly_as_many_as_asked_for_are_made() -> None:
    async def main() -> None:
        async with playing(binder=False) as world:
            await world.create(replica_set(replicas=1200))
            await world.status("ReplicaSet", "web", replicas=1200)
            await world.quiet()
            assert len(await world.all("Pod")) == 1200
            await world.patch("ReplicaSet", "web", {"spec": {"replicas": 5}})
            await world.status("ReplicaSet", "web", replicas=5)
            await world.quiet()
            assert len(await world.all("Pod")) == 5

    virtual(main)


def test_orphans_that_match_are_adopted_and_pods_that_do_not_are_released() -> None:
    async def main() -> None:
        async with playing() as world:
            orphan = {"apiVersion": "v1", "kind": "Pod", **template_manifest()}
            orphan["metadata"] = {"name": "alone", "namespace": "default", "labels": {"app": "web"}}
            await world.create(orphan)
            await world.create(replica_set(replicas=2))
            await world.status("ReplicaSet", "web", availableReplicas=2)
            names = [pod["metadata"]["name"] for pod in await world.all("Pod")]
            assert len(names) == 2
            assert "alone" in names
            (owner,) = (await world.get("Pod", "alone"))["metadata"]["ownerReferences"]
            assert (owner["kind"], owner["controller"]) == ("ReplicaSet", True)
            await world.patch("Pod", "alone", {"metadata": {"labels": {"app": "other"}}})
            await world.quiet()
            assert not (await world.get("Pod", "alone"))["metadata"].get("ownerReferences")
            assert len(await world.all("Pod", labels="app=web")) == 2

    virtual(main)


def pod(**changed: Any) -> Obj:
    obj: Obj = {
        "metadata": {"name": "pod", "creationTimestamp": "2024-01-01T00:00:00Z", "annotations": {}},
        "spec": {"nodeName": "node-1"},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2024-01-01T00:01:00Z"}],
            "containerStatuses": [{"name": "main", "restartCount": 0}],
        },
    }
    for path, value in changed.items():
        *way, last = path.split("__")
        tree: Any = obj
        for step in way:
            tree = tree[step]
        tree[last] = value
    return obj


@pytest.mark.parametrize(
    ("first", "doubled"),
    [
        (pod(spec__nodeName=""), 1),
        (pod(status__phase="Pending"), 1),
        (pod(status__conditions=[]), 1),
        (pod(metadata__annotations={"controller.kubernetes.io/pod-deletion-cost": "-5"}), 1),
        (pod(), 2),
        (
            pod(
                status__conditions=[
                    {"type": "Ready", "status": "True", "lastTransitionTime": "2024-01-01T00:02:00Z"}
                ]
            ),
            1,
        ),
        (pod(status__containerStatuses=[{"name": "main", "restartCount": 4}]), 1),
        (pod(metadata__creationTimestamp="2024-01-01T00:00:30Z"), 1),
    ],
    ids=("unassigned", "pending", "not ready", "cheap", "doubled", "ready later", "restarted", "newer"),
)
def test_the_order_of_deletion(first: Obj, doubled: int) -> None:
    assert deletion_order(first, doubled=doubled) < deletion_order(pod(), doubled=1)
