"""metrics.k8s.io over real HTTPS: what `kubectl top` asks for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.local.apiserver.harness import ServerHarness, labelled_pod, run_with_server

NODES = "/apis/metrics.k8s.io/v1beta1/nodes"
PODS = "/apis/metrics.k8s.io/v1beta1/pods"
NAMESPACED = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods"


def container(name: str, **requests: str) -> dict[str, Any]:
    return {"name": name, "image": "x", "resources": {"requests": requests}}


async def run_pod(
    harness: ServerHarness, name: str, node: str, *, phase: str = "Running", **spec: Any
) -> None:
    made = await harness.core.create("pods", labelled_pod(name, nodeName=node, **spec), namespace="default")
    await harness.core.update(
        "pods", name, {**made, "status": {"phase": phase}}, namespace="default", subresource="status"
    )


async def populate(harness: ServerHarness) -> None:
    for name in ("n1", "n2"):
        await harness.core.create("nodes", {"metadata": {"name": name, "labels": {"zone": name}}})
    await run_pod(
        harness,
        "web",
        "n1",
        containers=[container("main", cpu="1500m", memory="1Gi"), container("side", cpu="0.25")],
        initContainers=[
            {**container("proxy", memory="1Mi"), "restartPolicy": "Always"},
            container("setup", cpu="100"),
        ],
    )
    await run_pod(harness, "small", "n1", containers=[container("main", cpu="100m", memory="1k")])
    await run_pod(harness, "done", "n1", phase="Succeeded", containers=[container("main", cpu="7")])


def test_nodes_use_what_their_running_pods_request() -> None:
    async def main(harness: ServerHarness) -> None:
        await populate(harness)
        found = (await harness.fetch("GET", NODES)).json()
        assert (found["kind"], found["apiVersion"]) == ("NodeMetricsList", "metrics.k8s.io/v1beta1")
        assert {item["metadata"]["name"]: item["usage"] for item in found["items"]} == {
            "n1": {"cpu": "1850m", "memory": f"{1024 * 1024 + 1024}Ki"},
            "n2": {"cpu": "0m", "memory": "0Ki"},
        }
        one = (await harness.fetch("GET", f"{NODES}/n2")).json()
        assert (one["kind"], one["window"], one["metadata"]["labels"]) == (
            "NodeMetrics",
            "30s",
            {"zone": "n2"},
        )
        chosen = (await harness.fetch("GET", f"{NODES}?labelSelector=zone%3Dn2")).json()
        assert [item["metadata"]["name"] for item in chosen["items"]] == ["n2"]
        assert (await harness.fetch("GET", f"{NODES}/n3")).status == 404

    run_with_server(main)


def test_pods_use_what_they_request() -> None:
    async def main(harness: ServerHarness) -> None:
        await populate(harness)
        for path in (PODS, NAMESPACED):
            found = (await harness.fetch("GET", path)).json()
            assert [item["metadata"]["name"] for item in found["items"]] == ["small", "web"]
        assert (await harness.fetch("GET", f"{NAMESPACED}/web")).json()["containers"] == [
            {"name": "proxy", "usage": {"cpu": "0m", "memory": "1024Ki"}},
            {"name": "main", "usage": {"cpu": "1500m", "memory": "1048576Ki"}},
            {"name": "side", "usage": {"cpu": "250m", "memory": "0Ki"}},
        ]
        answer = await harness.fetch("GET", f"{NAMESPACED}/done")
        assert (answer.status, answer.json()["message"]) == (404, 'pods.metrics.k8s.io "done" not found')

    run_with_server(main)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", NAMESPACED, 405),
        ("DELETE", f"{NAMESPACED}/web", 405),
        ("GET", f"{NODES}?watch=true", 405),
        ("GET", f"{NODES}?labelSelector=!!", 400),
        ("GET", f"{PODS}/web", 404),
        ("GET", "/apis/metrics.k8s.io/v1beta1/services", 404),
        ("GET", "/apis/metrics.k8s.io/v1/nodes", 404),
    ],
)
def test_nothing_else_is_answered(method: str, path: str, status: int) -> None:
    async def main(harness: ServerHarness) -> None:
        assert (await harness.fetch(method, path)).status == status

    run_with_server(main)


def test_it_can_be_discovered() -> None:
    async def main(harness: ServerHarness) -> None:
        groups = (await harness.fetch("GET", "/apis")).json()["groups"]
        assert "metrics.k8s.io" in {group["name"] for group in groups}
        resources = (await harness.fetch("GET", "/apis/metrics.k8s.io/v1beta1")).json()["resources"]
        assert {(row["name"], row["kind"], tuple(row["verbs"])) for row in resources} == {
            ("nodes", "NodeMetrics", ("get", "list")),
            ("pods", "PodMetrics", ("get", "list")),
        }

    run_with_server(main)
