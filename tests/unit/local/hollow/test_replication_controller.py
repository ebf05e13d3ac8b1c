"""Replication controllers do as replica sets do."""

from __future__ import annotations

from tests.manifests import template_manifest
from tests.unit.local.hollow.harness import playing, virtual


def test_as_many_pods_as_asked_for() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(
                {
                    "apiVersion": "v1",
                    "kind": "ReplicationController",
                    "metadata": {"name": "web", "namespace": "default"},
                    "spec": {"replicas": 3, "template": template_manifest("web")},
                }
            )
            found = await world.status("ReplicationController", "web", readyReplicas=3, availableReplicas=3)
            assert found["spec"]["selector"] == {"app": "web"}
            owner = (await world.all("Pod"))[0]["metadata"]["ownerReferences"][0]
            assert (owner["apiVersion"], owner["kind"]) == ("v1", "ReplicationController")
            await world.patch("ReplicationController", "web", {"spec": {"replicas": 1}})
            await world.status("ReplicationController", "web", replicas=1)
            await world.delete("ReplicationController", "web", propagationPolicy="Background")
            await world.quiet(seconds=60)
            assert await world.all("Pod") == []

    virtual(main)
