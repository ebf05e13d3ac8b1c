"""What others write into the status of a quota does not last."""

from __future__ import annotations

from kuberth.local.apiserver.objects import Obj
from tests.unit.local.hollow.harness import playing, virtual

QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "few", "namespace": "default"},
    "spec": {"hard": {"configmaps": "3", "cpu": "1"}},
}
COUNTED = {"hard": {"configmaps": "3", "cpu": "1"}, "used": {"configmaps": "1", "cpu": "0"}}


def test_a_status_written_by_another_client_is_corrected_within_five_minutes() -> None:
    async def main() -> None:
        async with playing(nodes=0, controllers=["resourcequota"]) as world:
            await world.create(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": "default"}}
            )
            await world.create(QUOTA)

            async def status() -> Obj:
                found: Obj = (await world.get("ResourceQuota", "few"))["status"]
                return found

            for wrong in ({"hard": {"cpu": "2"}}, {"used": {"configmaps": "7"}}):
                await world.patch("ResourceQuota", "few", {"status": wrong}, sub="status")
                assert (await status()) != COUNTED
                await world.quiet(seconds=301)
                assert await status() == COUNTED

    virtual(main)


def test_what_is_right_is_not_written_again() -> None:
    async def main() -> None:
        async with playing(nodes=0, controllers=["resourcequota"]) as world:
            await world.create(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": "default"}}
            )
            await world.create(QUOTA)
            before = await world.get("ResourceQuota", "few")
            await world.quiet(seconds=1000)
            assert await world.get("ResourceQuota", "few") == before
            assert before["status"] == COUNTED

    virtual(main)
