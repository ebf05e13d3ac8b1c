"""The subresource `resize` of pods."""

from __future__ import annotations

from typing import Any

import pytest

from kuberth.local.apiserver.objects import Obj
from tests.unit.local.apiserver.harness import CoreHarness, refused, run

STRATEGIC = "application/strategic-merge-patch+json"


def containers(*resources: Obj, **more: Any) -> list[Obj]:
    return [
        {"name": f"c{number}", "image": "x", "resources": each, **more}
        for number, each in enumerate(resources)
    ]


async def resize(harness: CoreHarness, spec: Obj) -> Obj:
    patched, _ = await harness.core.patch(
        "pods", "p", {"spec": spec}, content_type=STRATEGIC, namespace="default", subresource="resize"
    )
    return patched


def test_cpu_and_memory_change_in_place() -> None:
    async def main(harness: CoreHarness) -> None:
        before = await harness.pod(containers=containers({"requests": {"cpu": "1", "memory": "1Gi"}}))
        spec = {
            "containers": [{"name": "c0", "image": "y", "resources": {"requests": {"cpu": "500m"}}}],
            "nodeName": "n",
        }
        after = await resize(harness, spec)
        [container] = after["spec"]["containers"]
        assert container["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}
        assert (container["image"], "nodeName" in after["spec"]) == ("x", False), "nothing else does"
        assert after["metadata"]["generation"] == before["metadata"]["generation"] + 1
        direct = harness.core.patch("pods", "p", {"spec": spec}, content_type=STRATEGIC, namespace="default")
        assert "pod updates may not change" in str(await refused(direct, 422))

    run(main)


@pytest.mark.parametrize(
    ("resources", "change", "words"),
    [
        pytest.param(
            {"requests": {"cpu": "1", "memory": "1Gi"}},
            [{"name": "c0", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}],
            "Pod QOS Class may not change",
            id="another-class",
        ),
        pytest.param(
            {"requests": {"cpu": "1", "memory": "1Gi"}},
            [{"name": "c0", "resources": {"requests": {"memory": None}}}],
            "resource requests cannot be removed",
            id="removed",
        ),
        pytest.param(
            {"requests": {"cpu": "1", "ephemeral-storage": "1Gi"}},
            [{"name": "c0", "resources": {"requests": {"ephemeral-storage": "2Gi"}}}],
            "only cpu and memory resources are mutable",
            id="another-resource",
        ),
        pytest.param(
            {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}},
            [{"name": "c0", "resources": {"requests": {"cpu": "3"}}}],
            "must be less than or equal to cpu limit",
            id="beyond-its-limit",
        ),
        pytest.param(
            {"requests": {"cpu": "1"}},
            [{"name": "new", "image": "x"}],
            "containers may not be added or removed on resize",
            id="another-container",
        ),
    ],
)
def test_what_a_resize_may_not_change(resources: Obj, change: list[Obj], words: str) -> None:
    async def main(harness: CoreHarness) -> None:
        await harness.pod(containers=containers(resources))
        assert words in str(await refused(resize(harness, {"containers": change}), 422))

    run(main)


def test_a_quota_counts_the_new_size() -> None:
    async def main(harness: CoreHarness) -> None:
        quota = {"metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "2"}}}
        await harness.core.create("resourcequotas", quota, namespace="default")
        await harness.pod(containers=containers({"requests": {"cpu": "1"}}))
        larger = {"containers": [{"name": "c0", "resources": {"requests": {"cpu": "3"}}}]}
        assert "exceeded quota" in str(await refused(resize(harness, larger), 403))
        larger["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
        await resize(harness, larger)
        found = await harness.core.get("resourcequotas", "q", namespace="default")
        assert found["status"]["used"]["requests.cpu"] == "2"

    run(main)
