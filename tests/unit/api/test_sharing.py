from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberth.api import sharing
from kuberth.api.core import Pod
from kuberth.api.sharing import MAX_BYTES, PodSharing
from kuberth.api.wire import decode, encode
from kuberth.testing import make_pod

PODS: list[dict[str, Any]] = [
    {},
    {"cpu": "1", "labels": {"app": "web"}},
    {"cpu": "1", "labels": {"app": "db"}, "tolerations": [{"key": "a"}]},
    {
        "cpu": "1000m",
        "metadata": {"annotations": {"x": "y"}, "ownerReferences": [{"name": "rs", "uid": "o"}]},
    },
    {"requests": {"cpu": 1}},
    {"requests": {"cpu": "1"}, "node": "n1", "initContainers": [{"name": "main"}]},
    {"schedulingGates": [{"name": "main"}], "containers": [{"name": "main"}]},
    {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}},
    {"status": {"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}},
]


def fresh(kind: dict[str, Any], name: str = "p") -> Pod:
    """As the wire brings it: with nothing that another one has."""
    return decode(Pod, encode(make_pod(name, uid=f"uid-of-{name}", **kind)))


@given(st.lists(st.tuples(st.sampled_from(PODS), st.sampled_from("abc")), max_size=12))
def test_a_pod_stays_what_it_was(steps: list[tuple[dict[str, Any], str]]) -> None:
    share = PodSharing()
    last: dict[str, Pod] = {}
    for kind, name in steps:
        pod, untouched = fresh(kind, name), fresh(kind, name)
        share(pod, last.get(name))
        last[name] = pod
        assert pod == untouched
        for part in ("metadata", "spec", "status"):
            for field in msgspec.structs.fields(type(getattr(pod, part))):
                ours, theirs = (
                    getattr(getattr(pod, part), field.name),
                    getattr(getattr(untouched, part), field.name),
                )
                assert type(ours) is type(theirs)


def test_replicas_share_what_is_equal_and_nothing_else() -> None:
    share = PodSharing()
    kind = {"cpu": "1", "labels": {"app": "web"}, "tolerations": [{"key": "a"}], "node": "node-1"}
    first, second, other = fresh(kind, "a"), fresh(kind, "b"), fresh({**kind, "cpu": "2"}, "c")
    for pod in (first, second, other):
        share(pod, None)
    assert first.spec.containers is second.spec.containers
    assert first.metadata.labels is second.metadata.labels is other.metadata.labels
    assert first.spec.tolerations is other.spec.tolerations
    assert first.spec.node_name is second.spec.node_name
    assert first.spec.containers != other.spec.containers


def test_a_new_version_takes_the_parts_of_the_last_one() -> None:
    share = PodSharing()
    kind = {"cpu": "1", "labels": {"app": "web"}}
    old, new = fresh(kind), fresh({**kind, "node": "n1"})
    share(new, old)
    assert new.spec.containers is old.spec.containers
    assert new.metadata.labels is old.metadata.labels
    assert new.spec.node_name == "n1"


def test_what_is_remembered_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "MAX_KEPT", 3)
    share = PodSharing()
    pods = [fresh({"labels": {"app": str(number % 5)}}) for number in range(20)]
    for number, pod in enumerate(pods):
        share(pod, None)
        assert pod.metadata.labels == {"app": str(number % 5)}
    assert all(len(kept) <= 3 for kept in share._kept.values())


def test_what_is_remembered_is_bounded_in_bytes() -> None:
    sharing = PodSharing()
    for number in range(400):
        sharing(make_pod("p", metadata={"annotations": {"a": f"{number}" * 4000}}), None)
    for kept in sharing._kept.values():
        assert sum(map(len, kept)) <= MAX_BYTES
    large = {"a": "x" * MAX_BYTES}
    first, second = (make_pod("p", metadata={"annotations": dict(large)}) for _ in range(2))
    for pod in (first, second):
        sharing(pod, None)
    assert first.metadata.annotations == second.metadata.annotations == large
    assert first.metadata.annotations is not second.metadata.annotations
