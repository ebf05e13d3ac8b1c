"""What may change in a pod while scheduling gates hold it back, and what may not (KEP-3521)."""

from __future__ import annotations

from typing import Any

import pytest

from kuberth.local.apiserver.objects import Obj
from tests.unit.local.apiserver.harness import CoreHarness, refused, run

GATES = [{"name": "a.example/one"}, {"name": "two"}]
NEAR: Obj = {
    "requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone"}
    ]
}
FAR: Obj = {
    "requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "y"}}, "topologyKey": "zone"}
    ]
}


def term(*keys: str) -> Obj:
    return {"matchExpressions": [{"key": key, "operator": "Exists"} for key in keys]}


def required(*terms: Obj) -> Obj:
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}


def preferred(key: str) -> Obj:
    return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term(key)}]}


def affinity(nodes: Obj | None = None, pods: Obj | None = None, anti: Obj | None = None) -> Obj:
    parts = {"nodeAffinity": nodes, "podAffinity": pods, "podAntiAffinity": anti}
    return {name: part for name, part in parts.items() if part is not None}


async def change(harness: CoreHarness, spec: Obj) -> Obj:
    pod = await harness.core.get("pods", "p", namespace="default")
    changed = {**pod, "spec": {**pod["spec"], **spec}}
    return await harness.core.update("pods", "p", changed, namespace="default")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(affinity(required(term("a"))), affinity(required(term("a", "b"))), id="narrower-term"),
        pytest.param(
            affinity(required(term("a"), term("b"))),
            affinity(required(term("a", "c"), term("b", "d"))),
            id="both-terms-narrower",
        ),
        pytest.param(affinity(pods=NEAR), affinity(required(term("a")), NEAR), id="terms-beside-podAffinity"),
        pytest.param(
            affinity(required(term("a")), NEAR),
            affinity(required(term("a", "b")), NEAR),
            id="narrower-beside-podAffinity",
        ),
        pytest.param(
            affinity(required(term("a")), anti=FAR),
            affinity(required(term("a", "b")), anti=FAR),
            id="narrower-beside-podAntiAffinity",
        ),
        pytest.param(
            affinity(preferred("a"), NEAR), affinity(preferred("b"), NEAR), id="preferences-are-free"
        ),
        pytest.param(affinity(preferred("a"), NEAR), affinity(pods=NEAR), id="preferences-may-go"),
    ],
)
def test_placement_can_be_narrowed(old: Obj, new: Obj) -> None:
    async def main(harness: CoreHarness) -> None:
        await harness.pod(schedulingGates=GATES, affinity=old)
        pod = await change(harness, {"affinity": new})
        assert pod["spec"]["affinity"] == new
        await change(harness, {"schedulingGates": []})
        await refused(change(harness, {"affinity": affinity(required(term("a", "b", "z")), NEAR)}), 422)

    run(main)


TERMS = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"


@pytest.mark.parametrize(
    ("old", "new", "fields"),
    [
        pytest.param(
            affinity(required(term("a"))),
            affinity(required(term("a"), term("b"))),
            {TERMS},
            id="a-further-term-is-ORed",
        ),
        pytest.param(
            affinity(required(term("a"))),
            affinity(required(term("a", "b"), term("c"))),
            {TERMS},
            id="a-narrower-term-and-one-more",
        ),
        pytest.param(
            affinity(required(term("a"), term("b"))), affinity(required(term("a"))), {TERMS}, id="a-term-less"
        ),
        pytest.param(
            affinity(required(term("a"))), affinity(required(term("b"))), {f"{TERMS}[0]"}, id="another-term"
        ),
        pytest.param(
            affinity(required({})),
            affinity(required(term("a"))),
            {f"{TERMS}[0]"},
            id="from-a-term-that-matches-no-node",
        ),
        pytest.param(affinity(pods=NEAR), affinity(pods=FAR), {"spec"}, id="another-podAffinity"),
        pytest.param(
            affinity(required(term("a")), NEAR),
            affinity(required(term("a", "b")), FAR),
            {"spec"},
            id="narrower-with-another-podAffinity",
        ),
        pytest.param(
            affinity(required(term("a"))),
            affinity(required(term("a", "b")), NEAR),
            {"spec"},
            id="narrower-with-a-new-podAffinity",
        ),
        pytest.param(
            affinity(required(term("a")), NEAR),
            affinity(required(term("a", "b"))),
            {"spec"},
            id="narrower-without-the-podAffinity",
        ),
        pytest.param(
            affinity(required(term("a")), NEAR),
            affinity(required(term("a"), term("b")), FAR),
            {TERMS, "spec"},
            id="wider-with-another-podAffinity",
        ),
        pytest.param(None, affinity(required(term("a")), NEAR), {"spec"}, id="podAffinity-from-nothing"),
    ],
)
def test_placement_cannot_be_widened(old: Obj | None, new: Obj, fields: set[str]) -> None:
    async def main(harness: CoreHarness) -> None:
        spec: dict[str, Any] = {} if old is None else {"affinity": old}
        before = await harness.pod(schedulingGates=GATES, **spec)
        error = await refused(change(harness, {"affinity": new}), 422)
        assert {cause.field for cause in error.causes} == fields
        assert await harness.core.get("pods", "p", namespace="default") == before

    run(main)


@pytest.mark.parametrize(
    "spec",
    [{"schedulingGates": GATES}, {"nodeSelector": {"a": "b"}}, {"affinity": affinity(required(term("a")))}],
    ids=["gates", "nodeSelector", "affinity"],
)
def test_a_scheduled_pod_gets_no_gates_and_no_other_place(spec: Obj) -> None:
    async def main(harness: CoreHarness) -> None:
        await harness.pod(schedulingGates=GATES)
        await change(harness, {"schedulingGates": []})
        assert (await harness.bind("p", "n1"))["status"] == "Success"
        await refused(change(harness, spec), 422)
        pod = await harness.core.get("pods", "p", namespace="default")
        assert "schedulingGates" not in pod["spec"]

    run(main)
