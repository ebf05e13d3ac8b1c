from __future__ import annotations

import datetime
import logging
from typing import Any

import pytest

from kuberth.api.core import Pod, PodCondition
from kuberth.clock import NANOSECONDS
from kuberth.errors import ApiError
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.outcomes.status_writer import PodStatusWriter
from kuberth.testing import FakeClock, MemoryApi, make_pod, run_in_virtual_time
from tests.unit.framework.rig import Outside

NOON = datetime.datetime(2025, 1, 1, 12, tzinfo=datetime.UTC)
EARLIER = "2025-01-01T09:00:00Z"
METRICS = SchedulerMetrics()
NO_ROOM = PodCondition(
    type="PodScheduled", status="False", reason="Unschedulable", message="no room", observed_generation=3
)


class Broken(MemoryApi):
    async def patch(self, *_: Any, **__: Any) -> Any:
        raise ApiError("the server is on fire", code=500)


def clock() -> FakeClock:
    return FakeClock(int(NOON.timestamp()) * NANOSECONDS)


def settled(outside: Outside) -> int:
    """Run what was spawned; how much that was."""
    number = len(outside.spawned)

    async def main() -> None:
        while outside.spawned:
            await outside.spawned.pop(0)

    run_in_virtual_time(main)
    return number


def written(
    pod: Pod,
    *,
    condition: PodCondition | None = None,
    nomination: str | None = None,
    api: MemoryApi | None = None,
) -> tuple[Pod, int]:
    """The pod after the write, and the number of requests it took."""
    api = MemoryApi() if api is None else api
    outside = Outside()
    if not api.all(Pod):
        api.put(pod)
    PodStatusWriter(api, outside.spawn, clock(), metrics=METRICS).write(
        pod, condition=condition, nomination=nomination
    )
    requests = settled(outside)
    return api.read(Pod, "default/p"), requests


def test_a_condition_is_written_with_its_time() -> None:
    pod, _ = written(make_pod("p"), condition=NO_ROOM)
    (condition,) = pod.status.conditions
    assert (condition.type, condition.status, condition.reason, condition.message) == (
        "PodScheduled",
        "False",
        "Unschedulable",
        "no room",
    )
    assert condition.observed_generation == 3
    assert condition.last_transition_time == NOON


def with_condition(**fields: str) -> Pod:
    return make_pod(
        "p", status={"conditions": [{"type": "PodScheduled", "lastTransitionTime": EARLIER, **fields}]}
    )


@pytest.mark.parametrize(
    "pod, requests, since",
    [
        pytest.param(
            with_condition(status="False", reason="Unschedulable", message="no room"), 0, 9, id="nothing-new"
        ),
        pytest.param(
            with_condition(status="False", reason="Unschedulable", message="no nodes"),
            1,
            9,
            id="another-message",
        ),
        pytest.param(with_condition(status="False", reason="SchedulerError"), 1, 9, id="another-reason"),
        pytest.param(with_condition(status="True"), 1, 12, id="another-status-another-time"),
    ],
)
def test_a_condition_is_written_when_it_changed(pod: Pod, requests: int, since: int) -> None:
    after, sent = written(pod, condition=NO_ROOM)
    assert sent == requests
    (condition,) = after.status.conditions
    assert condition.last_transition_time is not None
    assert condition.last_transition_time.hour == since
    assert condition.message == "no room"


def test_other_conditions_stay() -> None:
    pod = make_pod("p", status={"conditions": [{"type": "Ready", "status": "True"}]})
    after, _ = written(pod, condition=NO_ROOM)
    assert [condition.type for condition in after.status.conditions] == ["PodScheduled", "Ready"]


@pytest.mark.parametrize(
    "before, nomination, after, requests",
    [
        pytest.param("", "n1", "n1", 1, id="promised"),
        pytest.param("n1", "n2", "n2", 1, id="promised-another"),
        pytest.param("n1", "", "", 1, id="taken-back"),
        pytest.param("n1", None, "n1", 0, id="left-as-it-is"),
        pytest.param("n1", "n1", "n1", 0, id="the-same"),
        pytest.param("", "", "", 0, id="never-was"),
    ],
)
def test_promises(before: str, nomination: str | None, after: str, requests: int) -> None:
    pod, sent = written(make_pod("p", status={"nominatedNodeName": before}), nomination=nomination)
    assert (pod.status.nominated_node_name, sent) == (after, requests)


def test_both_go_in_one_request() -> None:
    pod, sent = written(make_pod("p"), condition=NO_ROOM, nomination="n1")
    assert (len(pod.status.conditions), pod.status.nominated_node_name, sent) == (1, "n1", 1)


def test_a_pod_made_again_under_the_same_name_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    api = MemoryApi()
    api.put(make_pod("p", uid="new"))
    with caplog.at_level(logging.WARNING):
        after, _ = written(make_pod("p", uid="old"), condition=NO_ROOM, api=api)
    assert after.status.conditions == ()
    assert caplog.text == ""


def test_a_pod_that_is_gone_is_no_trouble(caplog: pytest.LogCaptureFixture) -> None:
    outside = Outside()
    with caplog.at_level(logging.WARNING):
        PodStatusWriter(MemoryApi(), outside.spawn, clock(), metrics=METRICS).write(
            make_pod("p"), condition=NO_ROOM, nomination=None
        )
        settled(outside)
    assert caplog.text == ""


def test_a_write_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    outside = Outside()
    PodStatusWriter(Broken(), outside.spawn, clock(), metrics=METRICS).write(
        make_pod("p"), condition=NO_ROOM, nomination=None
    )
    settled(outside)
    assert "the status of pod default/p could not be written" in caplog.text
    assert "the server is on fire" in caplog.text


@pytest.mark.parametrize("api, result", [(Broken, "error"), (MemoryApi, "success")], ids=["lost", "written"])
def test_every_write_is_counted_with_its_result(api: type[MemoryApi], result: str) -> None:
    metrics, outside, pod = SchedulerMetrics(), Outside(), make_pod("p")
    server = api()
    server.put(pod)
    PodStatusWriter(server, outside.spawn, clock(), metrics=metrics).write(
        pod, condition=NO_ROOM, nomination=None
    )
    settled(outside)
    label = ("pod_status_patch", result)
    assert metrics.async_api_calls.values == {label: 1}
    assert list(metrics.async_api_call_duration.values) == [label]
    assert metrics.pending_async_api_calls.values == {("pod_status_patch",): 0}
