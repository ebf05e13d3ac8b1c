"""Objects that make no sense: the pod gets a clear reason, the scheduler goes on."""

from __future__ import annotations

from typing import Any

import pytest

from kuberth.api.core import PersistentVolumeClaim
from kuberth.api.wire import convert
from kuberth.clock import run_in_virtual_time
from kuberth.testing import make_node, make_pod
from kuberth.testing.harness import running


def claim(name: str, *, namespace: str = "default", **spec: Any) -> PersistentVolumeClaim:
    return convert(
        PersistentVolumeClaim,
        {
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec},
        },
    )


def uses(claim_name: str) -> list[dict[str, Any]]:
    return [{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}]


def affinity(kind: str, selector: dict[str, Any]) -> dict[str, Any]:
    term = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


BAD_EXPRESSION = {"matchExpressions": [{"key": "app", "operator": "Resembles", "values": ["web"]}]}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"cpu": "a lot"}, "a lot", id="quantity"),
        pytest.param({"affinity": affinity("podAffinity", BAD_EXPRESSION)}, "Resembles", id="pod affinity"),
        pytest.param(
            {"affinity": affinity("podAntiAffinity", BAD_EXPRESSION)}, "Resembles", id="pod anti-affinity"
        ),
        pytest.param(
            {
                "topologySpreadConstraints": [
                    {
                        "maxSkew": 1,
                        "topologyKey": "kubernetes.io/hostname",
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": BAD_EXPRESSION,
                    }
                ]
            },
            "Resembles",
            id="spread selector",
        ),
        pytest.param({"volumes": uses("nowhere")}, '"nowhere" not found', id="missing claim"),
        pytest.param(
            {"volumes": uses("elsewhere")}, '"elsewhere" not found', id="claim of another namespace"
        ),
        pytest.param(
            {"volumes": uses("classless")},
            "unbound immediate PersistentVolumeClaims",
            id="missing storage class",
        ),
        pytest.param(
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [BAD_EXPRESSION]
                        }
                    }
                }
            },
            "didn't match Pod's node affinity/selector",
            id="node affinity",
        ),
    ],
)
def test_an_invalid_pod_is_reported_and_others_are_scheduled(spec: dict[str, Any], expected: str) -> None:
    async def scenario() -> None:
        async with running(
            make_node("n1"),
            claim("elsewhere", namespace="other"),
            claim("classless", storageClassName="no-such-class"),
        ) as world:
            world.api.put(make_pod("bad", **spec))
            await world.until(lambda: bool(world.events("FailedScheduling")))
            assert expected in world.events("FailedScheduling")[0]
            condition = next(c for c in world.pod("bad").status.conditions if c.type == "PodScheduled")
            assert (condition.status, condition.reason) == ("False", "Unschedulable")
            world.api.put(make_pod("good", cpu="1"))
            await world.bound("good", seconds=5)
            assert world.node_of("bad") == ""

    run_in_virtual_time(scenario)


@pytest.mark.parametrize(
    "allocatable",
    [
        pytest.param({"cpu": "-4"}, id="negative"),
        pytest.param({"cpu": "not a number"}, id="unreadable"),
        pytest.param({"memory": "99999999999999999999Ei"}, id="absurd"),
        pytest.param({"pods": "-1"}, id="negative pods"),
        pytest.param({"example.com/x": "1e400"}, id="absurd exponent"),
    ],
)
def test_a_node_that_makes_no_sense_does_not_stop_the_others(allocatable: dict[str, str]) -> None:
    async def scenario() -> None:
        async with running(make_node("odd", allocatable=allocatable), make_node("fine")) as world:
            for number in range(5):
                world.api.put(make_pod(f"p{number}", cpu="500m", memory="64Mi"))
            await world.bound(*(f"p{number}" for number in range(5)), seconds=10)
            if any(value.startswith(("-", "not")) for value in allocatable.values()):
                assert {world.node_of(f"p{number}") for number in range(5)} == {"fine"}

    run_in_virtual_time(scenario)
