from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberth.api import Pod, PodRequest, compute_pod_request, convert, parse, pod_priority, pod_requests
from kuberth.api.core import PodSpec
from kuberth.api.pod_resources import (
    DEFAULT_MEMORY,
    NON_MISSING_DEFAULTS,
    is_extended_resource,
    is_pod_level_resource,
    is_scalar_resource,
)
from tests.unit.api import facts

FACTS = facts.load("pod_requests")
MI = 1024 * 1024


@pytest.mark.parametrize("fact", FACTS, ids=range(len(FACTS)))
def test_requests_as_upstream(fact: dict[str, Any]) -> None:
    requests = pod_requests(convert(Pod, fact["pod"]))
    rows = [f"{name}={amount.value()}/{amount.milli_value()}" for name, amount in requests.items()]
    assert sorted(rows) == fact["requests"]


def _container(name: str, requests: dict[str, object], **more: object) -> dict[str, object]:
    return {"name": name, "resources": {"requests": requests}, **more}


def _pod(*containers: object, status: object = None, **spec: object) -> Pod:
    return convert(Pod, {"spec": {"containers": containers, **spec}, "status": status})


@pytest.mark.parametrize(
    ("pod", "request_"),
    [
        (_pod(_container("c", {})), PodRequest(0, 0, 0, {}, 100, 200 * MI)),
        (_pod(_container("c", {"cpu": 0, "memory": "0"})), PodRequest(0, 0, 0, {}, 0, 0)),
        (
            _pod(
                _container(
                    "c",
                    {
                        "cpu": "0.5",
                        "memory": "1Mi",
                        "ephemeral-storage": "1k",
                        "nvidia.com/gpu": 2,
                        "storage": "9",
                        "pods": 3,
                    },
                )
            ),
            PodRequest(500, MI, 1000, {"nvidia.com/gpu": 2}, 500, MI),
        ),
        (_pod(), PodRequest(0, 0, 0, {}, 0, 0)),
        (
            _pod(_container("a", {"cpu": "1"}), _container("b", {"memory": "1Mi"})),
            PodRequest(1000, MI, 0, {}, 1100, 201 * MI),
        ),
        (
            _pod(_container("a", {"memory": "0.5"}), _container("b", {"memory": "0.5", "cpu": "100u"})),
            PodRequest(1, 1, 0, {}, 101, 1),
        ),
        (
            _pod(_container("c", {"cpu": 1}), initContainers=[_container("i", {"cpu": 3})]),
            PodRequest(3000, 0, 0, {}, 3000, 200 * MI),
        ),
        (
            _pod(
                _container("c", {"cpu": 1, "memory": 1}),
                initContainers=[
                    _container("before", {"cpu": 2, "memory": 1}),
                    _container("side", {"cpu": 1, "memory": 1}, restartPolicy="Always"),
                    _container("after", {"cpu": 2, "memory": 1}),
                ],
            ),
            PodRequest(3000, 2, 0, {}, 3000, 2),
        ),
        (
            _pod(_container("c", {"cpu": 1}), overhead={"cpu": "250m", "memory": "1Mi"}),
            PodRequest(1250, MI, 0, {}, 1250, 201 * MI),
        ),
        (
            _pod(
                _container("c", {"cpu": 1, "hugepages-2Mi": "2Mi", "nvidia.com/gpu": 1}),
                resources={"requests": {"cpu": 4, "nvidia.com/gpu": 9, "hugepages-2Mi": "4Mi"}},
            ),
            PodRequest(4000, 0, 0, {"nvidia.com/gpu": 1, "hugepages-2Mi": 4 * MI}, 4000, 200 * MI),
        ),
        (
            _pod(_container("a", {"memory": "1Mi"}), _container("b", {}), resources={"requests": {"cpu": 4}}),
            PodRequest(4000, MI, 0, {}, 4000, MI),
        ),
        (
            _pod(_container("a", {}), resources={"limits": {"cpu": 4}}),
            PodRequest(0, 0, 0, {}, 100, 200 * MI),
        ),
        (
            _pod(_container("a", {}), resources={"requests": {"nvidia.com/gpu": 4}}),
            PodRequest(0, 0, 0, {}, 100, 200 * MI),
        ),
    ],
    ids=[
        "nothing-asked", "zero-is-asked", "one-container", "no-containers", "two-containers",
        "sum-then-round", "init-max", "sidecar", "overhead", "pod-level", "pod-level-covers-gaps",
        "pod-level-limits-only",
        "pod-level-unsupported",
    ],
)  # fmt: skip
def test_pod_requests_in_columns(pod: Pod, request_: PodRequest) -> None:
    assert compute_pod_request(pod) == request_


RESIZED = {
    "containerStatuses": [
        {"name": "c", "resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "2"}}
    ]
}


def test_a_resize_under_way_counts_the_larger() -> None:
    pod = _pod(_container("c", {"cpu": "1", "memory": "1Mi"}), status=RESIZED)
    assert compute_pod_request(pod).milli_cpu == 3000
    assert compute_pod_request(pod).memory == MI
    assert compute_pod_request(pod, use_status=False).milli_cpu == 1000


def test_an_infeasible_resize_does_not_count() -> None:
    condition = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    pod = _pod(_container("c", {"cpu": "9", "memory": "1Mi"}), status={**RESIZED, "conditions": [condition]})
    assert compute_pod_request(pod).milli_cpu == 3000
    assert compute_pod_request(pod).memory == 0


def test_pod_level_gates() -> None:
    pod = _pod(
        _container("c", {"cpu": "1"}),
        resources={"requests": {"cpu": "4"}},
        status={"resources": {"requests": {"cpu": "6"}}, "allocatedResources": {"cpu": "5"}},
    )
    assert compute_pod_request(pod).milli_cpu == 6000
    assert compute_pod_request(pod, in_place_pod_level_resize=False).milli_cpu == 4000
    assert compute_pod_request(pod, pod_level_resources=False).milli_cpu == 1000


def test_overhead_can_be_left_out_and_defaults_put_in() -> None:
    pod = _pod(_container("c", {"cpu": "1"}), overhead={"cpu": "1"})
    assert pod_requests(pod, exclude_overhead=True) == {"cpu": parse("1")}
    assert pod_requests(pod, container_defaults=NON_MISSING_DEFAULTS) == {
        "cpu": parse("2"),
        "memory": parse(DEFAULT_MEMORY),
    }


@pytest.mark.parametrize(
    ("name", "scalar", "extended"),
    [
        ("nvidia.com/gpu", True, True),
        ("hugepages-2Mi", True, False),
        ("attachable-volumes-csi-x", True, False),
        ("kubernetes.io/batch-cpu", True, False),
        ("x.kubernetes.io/y", True, False),
        ("cpu", False, False),
        ("storage", False, False),
        ("requests.nvidia.com/gpu", False, False),
        ("Nvidia.com/gpu", False, False),
        ("a/b/c", False, False),
    ],
)
def test_scalar_resources(name: str, scalar: bool, extended: bool) -> None:
    assert is_scalar_resource(name) is scalar
    assert is_extended_resource(name) is extended


def test_pod_level_resource_names() -> None:
    names = ["cpu", "memory", "hugepages-1Gi", "ephemeral-storage", "nvidia.com/gpu"]
    assert [name for name in names if is_pod_level_resource(name)] == names[:3]


def test_priority() -> None:
    assert pod_priority(Pod()) == 0
    assert pod_priority(Pod(spec=PodSpec(priority=-5))) == -5


_amounts = st.sampled_from(["0", "1", "100m", "1.5", "3Mi", "250u", "10E", 7])
_names = st.sampled_from(["cpu", "memory", "ephemeral-storage", "nvidia.com/gpu", "foo"])


@given(st.dictionaries(_names, _amounts))
def test_the_short_way_equals_the_long_way(requests: dict[str, object]) -> None:
    plain = _pod(_container("c", requests))
    # An empty container status forces the long way without changing the sums.
    long_way = _pod(_container("c", requests), status={"containerStatuses": [{"name": "c"}]})
    assert compute_pod_request(plain) == compute_pod_request(long_way)


def test_what_devices_take_counts_beside_the_containers_but_within_the_pods_own_figure() -> None:
    taken = [{"resourceClaimName": "c", "resources": {"cpu": "2", "memory": "1Gi"}}] * 2
    status = {"nodeAllocatableResourceClaimStatuses": taken}
    init = [_container("i", {"cpu": "3"})]
    pod = _pod(_container("c", {"cpu": "1"}), initContainers=init, status=status, overhead={"cpu": "100m"})
    assert pod_requests(pod, with_devices=True) == {"cpu": parse("7100m"), "memory": parse("2Gi")}
    assert pod_requests(pod) == {"cpu": parse("3100m")}
    whole = _pod(_container("c", {"cpu": "1"}), status=status, resources={"requests": {"cpu": "6"}})
    request = compute_pod_request(whole, with_devices=True)
    assert (request.milli_cpu, request.memory) == (6000, 2048 * MI)
    plain = _pod(_container("c", {"cpu": "1"}), status=status)
    counted = compute_pod_request(plain, with_devices=True)
    # A container that asks for no memory still counts with the default beside what its devices take.
    assert (counted.milli_cpu, counted.nonzero_memory) == (5000, 2048 * MI + DEFAULT_MEMORY)
    assert compute_pod_request(plain).milli_cpu == 1000
