"""The pods behind a service, as Endpoints and as EndpointSlices."""

from __future__ import annotations

from typing import Any

from kuberth.local.apiserver.objects import Obj
from tests.manifests import deployment_manifest, template_manifest
from tests.unit.local.hollow.harness import World, playing, virtual


def service(name: str = "web", **spec: Any) -> Obj:
    ports = [{"name": "http", "port": 80, "targetPort": "web"}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default", "labels": {"tier": "front"}},
        "spec": {"selector": {"app": name}, "ports": ports, **spec},
    }


PORTS = [{"name": "web", "containerPort": 8080}]
TEMPLATE = template_manifest("web", containers=[{"name": "main", "image": "nginx", "ports": PORTS}])


async def slices(world: World, name: str = "web") -> list[Obj]:
    return await world.all("EndpointSlice", labels=f"kubernetes.io/service-name={name}")


async def addresses(world: World) -> set[str]:
    return {
        address
        for each in await slices(world)
        for endpoint in each.get("endpoints", ())
        for address in endpoint["addresses"]
        if endpoint["conditions"]["ready"]
    }


async def ready_ips(world: World) -> set[str]:
    return {pod["status"]["podIP"] for pod in await world.all("Pod") if pod["status"].get("podIP")}


def test_pods_come_and_go() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(service())
            await world.quiet()
            assert [each.get("endpoints", []) for each in await slices(world)] == [[]]
            await world.create(deployment_manifest(replicas=3, template=TEMPLATE))
            await world.status("Deployment", "web", readyReplicas=3)
            await world.quiet()
            (found,) = await slices(world)
            assert found["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
            assert found["metadata"]["labels"]["tier"] == "front"
            assert await addresses(world) == await ready_ips(world)
            assert len(await addresses(world)) == 3
            first = found["endpoints"][0]
            assert first["conditions"] == {"ready": True, "serving": True, "terminating": False}
            assert first["targetRef"]["kind"] == "Pod"
            old = await world.get("Endpoints", "web")
            assert {each["ip"] for each in old["subsets"][0]["addresses"]} == await ready_ips(world)
            await world.patch("Deployment", "web", {"spec": {"replicas": 1}})
            await world.status("Deployment", "web", replicas=1)
            await world.quiet(seconds=60)
            assert await addresses(world) == await ready_ips(world)
            assert len(await addresses(world)) == 1
            await world.delete("Service", "web")
            await world.gone("Endpoints", "web")
            await world.quiet()
            assert await slices(world) == []

    virtual(main)


def test_an_address_that_is_none_is_left_out() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(service())
            await world.create(deployment_manifest(replicas=2, template=TEMPLATE))
            await world.status("Deployment", "web", readyReplicas=2)
            name = (await world.all("Pod"))[0]["metadata"]["name"]
            await world.patch("Pod", name, {"status": {"podIP": "here"}}, sub="status")
            await world.quiet()
            assert len(await addresses(world)) == 1

    virtual(main)


def test_many_pods_need_many_slices() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(service())
            await world.create(deployment_manifest(replicas=230, template=TEMPLATE))
            await world.status("Deployment", "web", readyReplicas=230)
            await world.quiet(seconds=10)
            assert sorted(len(each["endpoints"]) for each in await slices(world)) == [30, 100, 100]
            assert len(await addresses(world)) == 230

    virtual(main)


def test_services_without_selector_are_left_alone() -> None:
    async def main() -> None:
        async with playing() as world:
            body = service()
            del body["spec"]["selector"]
            await world.create(body)
            await world.create(
                {
                    "kind": "Endpoints",
                    "metadata": {"name": "web", "namespace": "default"},
                    "subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}],
                }
            )
            await world.quiet()
            assert await slices(world) == []
            assert (await world.get("Endpoints", "web"))["subsets"][0]["addresses"] == [{"ip": "10.1.2.3"}]

    virtual(main)
