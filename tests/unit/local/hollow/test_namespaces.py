"""Namespaces go with all they hold."""

from __future__ import annotations

from typing import Any

from kuberth.local.apiserver.objects import Obj
from tests.unit.local.hollow.harness import deployment, playing, virtual


def in_namespace(body: Obj, namespace: str = "team") -> Obj:
    return {**body, "metadata": {**body["metadata"], "namespace": namespace}}


def config_map(name: str, **metadata: Any) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}


NAMESPACE: Obj = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}


def test_a_namespace_goes_after_its_contents() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(NAMESPACE)
            await world.create(in_namespace(deployment(replicas=4)))
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
            (condition,) = found["status"]["conditions"]
            assert "configmaps has 1 resource instances" in condition["message"]
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
