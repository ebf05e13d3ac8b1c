"""Namespaces go with all they hold."""

from __future__ import annotations

from typing import Any

from kuberth.local.apiserver.objects import Obj
from tests.manifests import deployment_manifest
from tests.unit.local.hollow.harness import playing, virtual


def in_namespace(body: Obj, namespace: str = "team") -> Obj:
    return {**body, "metadata": {**body["metadata"], "namespace": namespace}}


def config_map(name: str, **metadata: Any) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}


NAMESPACE: Obj = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}


def test_a_namespace_goes_after_its_contents() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(NAMESPACE)
            await world.create(in_namespace(deployment_manifest(replicas=4)))
            await world.create(in_namespace(config_map("settings")))

            async def four() -> bool:
                return len(await world.all("Pod", namespace="team")) == 4

            await world.until(four)
            await world.delete("Namespace", "team", namespace="")
            assert (await world.get("Namespace", "team", namespace=""))["status"]["phase"] == "Terminating"
            await world.gone("Namespace", "team", namespace="")
            for kind in ("Pod", "Deployment", "ReplicaSet", "ConfigMap"):
                assert await world.all(kind, namespace="team") == []
            await world.create(NAMESPACE)

    virtual(main)


def test_a_finalizer_inside_holds_it() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(NAMESPACE)
            await world.create(in_namespace(config_map("held", finalizers=["example.com/wait"])))
            await world.delete("Namespace", "team", namespace="")
            await world.quiet(seconds=30)
            found = await world.get("Namespace", "team", namespace="")
            conditions = {
                one["type"]: (one["status"], one["message"]) for one in found["status"]["conditions"]
            }
            assert conditions == {
                "NamespaceDeletionDiscoveryFailure": ("False", "All resources successfully discovered"),
                "NamespaceDeletionGroupVersionParsingFailure": (
                    "False",
                    "All legacy kube types successfully parsed",
                ),
                "NamespaceDeletionContentFailure": (
                    "False",
                    "All content successfully deleted, may be waiting on finalization",
                ),
                "NamespaceContentRemaining": (
                    "True",
                    "Some resources are remaining: configmaps. has 1 resource instances",
                ),
                "NamespaceFinalizersRemaining": (
                    "True",
                    "Some content in the namespace has finalizers remaining: "
                    "example.com/wait in 1 resource instances",
                ),
            }
            await world.patch("ConfigMap", "held", {"metadata": {"finalizers": None}}, namespace="team")
            await world.gone("Namespace", "team", namespace="", seconds=10)

    virtual(main)


def test_turned_off_nothing_happens() -> None:
    async def main() -> None:
        async with playing(controllers=("deployment",)) as world:
            await world.create(NAMESPACE)
            await world.delete("Namespace", "team", namespace="")
            await world.quiet(seconds=30)
            assert await world.there("Namespace", "team", namespace="")

    virtual(main)


def test_pods_go_first() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(NAMESPACE)
            body = in_namespace(deployment_manifest(replicas=1))
            notes = {"kuberth.dev/stop-seconds": "20"}
            body["spec"]["template"]["metadata"]["annotations"] = notes
            await world.create(body)
            await world.create(in_namespace(config_map("settings")))
            await world.quiet(seconds=3)
            await world.delete("Namespace", "team", namespace="")
            await world.quiet(seconds=15)
            assert await world.there("ConfigMap", "settings", namespace="team")
            found = await world.get("Namespace", "team", namespace="")
            conditions = {one["type"]: one["message"] for one in found["status"]["conditions"]}
            expected = "Some resources are remaining: pods. has 1 resource instances"
            assert conditions["NamespaceContentRemaining"] == expected
            await world.gone("Namespace", "team", namespace="", seconds=20)

    virtual(main)


def test_a_finalizer_of_its_own_holds_it() -> None:
    async def main() -> None:
        async with playing() as world:
            own = {"name": "team", "finalizers": ["example.com/wait"]}
            await world.create({**NAMESPACE, "metadata": own})
            await world.delete("Namespace", "team", namespace="")
            await world.quiet(seconds=10)
            found = await world.get("Namespace", "team", namespace="")
            assert not found["spec"].get("finalizers")
            assert {one["status"] for one in found["status"]["conditions"]} == {"False"}
            await world.patch("Namespace", "team", {"metadata": {"finalizers": None}}, namespace="")
            await world.gone("Namespace", "team", namespace="", seconds=5)

    virtual(main)
