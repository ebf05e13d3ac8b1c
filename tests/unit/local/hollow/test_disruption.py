"""Disruption budgets, and evictions that honour them."""

from __future__ import annotations

from typing import Any

import pytest

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.status_errors import StatusError
from tests.manifests import deployment_manifest
from tests.unit.local.hollow.harness import World, playing, virtual


def budget(**spec: Any) -> Obj:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }


async def evict(world: World, name: str) -> None:
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": "default"},
    }
    await world.core.create("pods", body, namespace="default", name=name, subresource="eviction")


@pytest.mark.parametrize(
    ("spec", "expected", "desired", "allowed"),
    [
        ({"minAvailable": 4}, 5, 4, 1),
        ({"minAvailable": "50%"}, 5, 3, 2),
        ({"maxUnavailable": 1}, 5, 4, 1),
        ({"maxUnavailable": "30%"}, 5, 3, 2),
        ({"minAvailable": 9}, 5, 9, 0),
        ({"maxUnavailable": 0}, 5, 5, 0),
    ],
    ids=str,
)
def test_status(spec: Obj, expected: int, desired: int, allowed: int) -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(deployment_manifest(replicas=5))
            await world.status("Deployment", "web", availableReplicas=5)
            await world.create(budget(**spec))
            found = await world.status(
                "PodDisruptionBudget",
                "web",
                expectedPods=expected,
                currentHealthy=5,
                desiredHealthy=desired,
                disruptionsAllowed=allowed,
                observedGeneration=1,
            )
            (condition,) = found["status"]["conditions"]
            assert condition["reason"] == ("SufficientPods" if allowed else "InsufficientPods")

    virtual(main)


def test_evictions_use_the_budget_up_until_pods_are_replaced() -> None:
    async def main() -> None:
        async with playing(binder=True) as world:
            await world.create(deployment_manifest(replicas=3))
            await world.create(budget(minAvailable=2))
            await world.status("PodDisruptionBudget", "web", disruptionsAllowed=1, currentHealthy=3)
            first, second, _ = (pod["metadata"]["name"] for pod in await world.all("Pod"))
            await evict(world, first)
            with pytest.raises(StatusError) as refused:
                await evict(world, second)
            assert refused.value.code == 429
            await world.status("PodDisruptionBudget", "web", disruptionsAllowed=1, currentHealthy=3)
            await evict(world, second)
            await world.status("Deployment", "web", availableReplicas=3)
            await world.quiet()
            found = await world.get("PodDisruptionBudget", "web")
            assert not found["status"].get("disruptedPods")

    virtual(main)
