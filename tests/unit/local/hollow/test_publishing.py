"""What is published for pods about the API server."""

from __future__ import annotations

from kuberth.local.hollow.publishing import ServerIdentity
from tests.unit.local.hollow.harness import World, playing, virtual

IDENTITY = ServerIdentity("127.0.0.1", 6443, "-----BEGIN CERTIFICATE-----")


async def certificate(world: World, namespace: str) -> str:
    found = await world.get("ConfigMap", "kube-root-ca.crt", namespace=namespace)
    return str(found["data"]["ca.crt"])


def test_the_certificate_is_in_every_namespace() -> None:
    async def main() -> None:
        async with playing(server=IDENTITY) as world:
            await world.create({"kind": "Namespace", "metadata": {"name": "new"}})
            await world.quiet()
            for namespace in ("default", "kube-system", "new"):
                assert await certificate(world, namespace) == IDENTITY.ca_certificate
            # It is restored, and leaves with its namespace.
            await world.patch("ConfigMap", "kube-root-ca.crt", {"data": {"ca.crt": "x"}}, namespace="new")
            await world.quiet()
            assert await certificate(world, "new") == IDENTITY.ca_certificate
            await world.delete("Namespace", "new")
            await world.gone("Namespace", "new")

    virtual(main)


def test_the_service_leads_to_the_server() -> None:
    async def main() -> None:
        async with playing(server=IDENTITY) as world:
            await world.quiet()
            found = await world.get("EndpointSlice", "kubernetes")
            assert [each["addresses"] for each in found["endpoints"]] == [["127.0.0.1"]]
            assert found["ports"] == [{"name": "https", "port": 6443, "protocol": "TCP"}]
            old = await world.get("Endpoints", "kubernetes")
            assert old["subsets"][0]["addresses"] == [{"ip": "127.0.0.1"}]

    virtual(main)
