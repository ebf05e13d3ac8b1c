from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import Callable, Coroutine
from typing import Any
from unittest.mock import patch

import pytest

from kuberth.api.core import Pod, PodCondition
from kuberth.client.adaptive_limit import FLOOR, AdaptiveLimit
from kuberth.client.writes import Write
from kuberth.clock import NANOSECONDS, Clock, LoopClock
from kuberth.errors import ApiError, KuberthError
from kuberth.framework.handle import Spawner
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.outcomes.status_writer import MAX_REWORDINGS, REWORDINGS_PER_SECOND, PodStatusWriter
from kuberth.testing import FakeClock, MemoryApi, make_pod, run_in_virtual_time
from tests.unit.framework.harness import Outside

NOON = datetime.datetime(2025, 1, 1, 12, tzinfo=datetime.UTC)
EARLIER = "2025-01-01T09:00:00Z"
METRICS = SchedulerMetrics()
NO_QUEUE = PodCondition(
    type="PodScheduled", status="False", reason="Unschedulable", message="no room", observed_generation=3
)


class Broken(MemoryApi):
    async def write(self, write: Write) -> Any:
        raise ApiError("the server is on fire", code=500)


def clock() -> FakeClock:
    return FakeClock(int(NOON.timestamp()) * NANOSECONDS)


def writer_of(
    api: MemoryApi, spawn: Spawner, clock: Clock, *, metrics: SchedulerMetrics = METRICS
) -> PodStatusWriter:
    return PodStatusWriter(api, spawn, clock, metrics=metrics, limit=AdaptiveLimit(clock))


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
    writer_of(api, outside.spawn, clock()).write(pod, condition=condition, nomination=nomination)
    requests = settled(outside)
    return api.read(Pod, "default/p"), requests


def test_a_condition_is_written_with_its_time() -> None:
    pod, _ = written(make_pod("p"), condition=NO_QUEUE)
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
    after, sent = written(pod, condition=NO_QUEUE)
    assert sent == requests
    (condition,) = after.status.conditions
    assert condition.last_transition_time is not None
    assert condition.last_transition_time.hour == since
    assert condition.message == "no room"


def test_other_conditions_stay() -> None:
    pod = make_pod("p", status={"conditions": [{"type": "Ready", "status": "True"}]})
    after, _ = written(pod, condition=NO_QUEUE)
    assert [condition.type for condition in after.status.conditions] == ["PodScheduled", "Ready"]


@pytest.mark.parametrize(
    "before, nomination, after, requests",
    [
        pytest.param("", "n1", "n1", 1, id="nominated"),
        pytest.param("n1", "n2", "n2", 1, id="nominated-another"),
        pytest.param("n1", "", "", 1, id="taken-back"),
        pytest.param("n1", None, "n1", 0, id="left-as-it-is"),
        pytest.param("n1", "n1", "n1", 0, id="the-same"),
        pytest.param("", "", "", 0, id="never-was"),
    ],
)
def test_nominations(before: str, nomination: str | None, after: str, requests: int) -> None:
    pod, sent = written(make_pod("p", status={"nominatedNodeName": before}), nomination=nomination)
    assert (pod.status.nominated_node_name, sent) == (after, requests)


def test_both_go_in_one_request() -> None:
    pod, sent = written(make_pod("p"), condition=NO_QUEUE, nomination="n1")
    assert (len(pod.status.conditions), pod.status.nominated_node_name, sent) == (1, "n1", 1)


def test_a_pod_made_again_under_the_same_name_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    api = MemoryApi()
    api.put(make_pod("p", uid="new"))
    with caplog.at_level(logging.WARNING):
        after, _ = written(make_pod("p", uid="old"), condition=NO_QUEUE, api=api)
    assert after.status.conditions == ()
    assert caplog.text == ""


def test_a_pod_that_is_gone_is_no_trouble(caplog: pytest.LogCaptureFixture) -> None:
    outside = Outside()
    with caplog.at_level(logging.WARNING):
        writer_of(MemoryApi(), outside.spawn, clock()).write(
            make_pod("p"), condition=NO_QUEUE, nomination=None
        )
        settled(outside)
    assert caplog.text == ""


def test_a_write_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    outside = Outside()
    writer_of(Broken(), outside.spawn, clock()).write(make_pod("p"), condition=NO_QUEUE, nomination=None)
    settled(outside)
    assert "the status of pod default/p could not be written" in caplog.text
    assert "the server is on fire" in caplog.text


@pytest.mark.parametrize("api, result", [(Broken, "error"), (MemoryApi, "success")], ids=["lost", "written"])
def test_every_write_is_counted_with_its_result(api: type[MemoryApi], result: str) -> None:
    metrics, outside, pod = SchedulerMetrics(), Outside(), make_pod("p")
    server = api()
    server.put(pod)
    writer_of(server, outside.spawn, clock(), metrics=metrics).write(pod, condition=NO_QUEUE, nomination=None)
    settled(outside)
    label = ("pod_status_patch", result)
    assert metrics.async_api_calls.values == {label: 1}
    assert list(metrics.async_api_call_duration.values) == [label]
    assert metrics.pending_async_api_calls.values == {("pod_status_patch",): 0}


# Several writes of one pod


class Late(MemoryApi):
    """Takes its time for patches, longest for the first; `fault` may fail that one."""

    def __init__(self, fault: Exception | None = None) -> None:
        super().__init__()
        self.fault = fault
        self.patches: list[dict[str, Any]] = []

    async def write(self, write: Write) -> Any:
        self.patches.append(write.body["status"])
        number = len(self.patches)
        await asyncio.sleep(10 / number)
        if self.fault is not None and number == 1:
            raise self.fault
        return await super().write(write)


def saying(message: str, **fields: Any) -> PodCondition:
    return PodCondition(type=fields.pop("type", "PodScheduled"), status="False", message=message, **fields)


def writing(script: Callable[[PodStatusWriter], Any], api: MemoryApi) -> float:
    """Run `script` with a writer whose tasks run; how long it took until all was written."""

    async def main() -> float:
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as tasks:

            def spawn(work: Any, *, name: str) -> None:
                tasks.create_task(work, name=name)

            await script(writer_of(api, spawn, LoopClock(loop)))
        return loop.time()

    return run_in_virtual_time(main)


@pytest.mark.parametrize(
    "writes, message, nomination, requests",
    [
        pytest.param([(saying("one"), None), (saying("two"), None)], "two", "", 2, id="conditions"),
        pytest.param([(None, "n1"), (None, "n2")], "old", "n2", 2, id="nominations"),
        pytest.param([(None, "n1"), (None, "")], "old", "", 2, id="a-cleared-nomination"),
        pytest.param([(saying("one"), None), (saying("old"), None)], "old", "", 2, id="as-it-was-before"),
        pytest.param([(saying("one"), None), (None, "n1")], "one", "n1", 2, id="one-of-each"),
        pytest.param(
            [(None, "n1"), (saying("one"), None), (saying("two"), "n2"), (saying("three"), None)],
            "three",
            "n2",
            2,
            id="what-waits-goes-together",
        ),
        pytest.param(
            [(saying(f"number {number}"), None) for number in range(1000)],
            "number 999",
            "",
            2,
            id="one-waits-however-many-come",
        ),
        pytest.param([(saying("one"), None), (None, None)], "one", "", 1, id="nothing-more"),
    ],
)
def test_what_was_written_last_stays(
    writes: list[tuple[PodCondition | None, str | None]], message: str, nomination: str, requests: int
) -> None:
    old = {"type": "PodScheduled", "status": "False", "message": "old"}
    pod, api = make_pod("p", status={"conditions": [old]}), Late()
    api.put(pod)

    async def script(writer: PodStatusWriter) -> None:
        for condition, nominated in writes:
            writer.write(pod, condition=condition, nomination=nominated)
            await asyncio.sleep(0.001)

    writing(script, api)
    status = api.read(Pod, "default/p").status
    assert ([each.message for each in status.conditions], status.nominated_node_name) == (
        [message],
        nomination,
    )
    assert len(api.patches) == requests


def test_conditions_of_different_types_wait_together() -> None:
    pod, api = make_pod("p"), Late()
    api.put(pod)

    async def script(writer: PodStatusWriter) -> None:
        for type_ in ("First", "Second", "Third"):
            writer.write(pod, condition=saying("said", type=type_), nomination=None)

    writing(script, api)
    conditions = api.read(Pod, "default/p").status.conditions
    assert sorted(condition.type for condition in conditions) == ["First", "Second", "Third"]


def test_since_when_it_is_so_is_known_before_it_was_written() -> None:
    pod, api = make_pod("p"), Late()
    api.put(pod)

    async def script(writer: PodStatusWriter) -> None:
        for message in ("one", "two", "three"):
            writer.write(pod, condition=saying(message), nomination=None)
            await asyncio.sleep(2)

    writing(script, api)
    first, second = (patch["conditions"][0] for patch in api.patches)
    assert (first["message"], second["message"]) == ("one", "three")
    assert first["lastTransitionTime"] == second["lastTransitionTime"]


@pytest.mark.parametrize("fault", [ApiError("on fire", code=500), RuntimeError("a defect")], ids=repr)
def test_a_write_that_fails_does_not_take_the_next_one_with_it(fault: Exception) -> None:
    pod, api = make_pod("p"), Late(fault)
    api.put(pod)

    async def script(writer: PodStatusWriter) -> None:
        writer.write(pod, condition=saying("one"), nomination=None)
        await asyncio.sleep(1)
        writer.write(pod, condition=None, nomination="n1")

    writing(script, api)
    status = api.read(Pod, "default/p").status
    assert (status.conditions, status.nominated_node_name) == ((), "n1")


def test_different_pods_do_not_wait_for_each_other() -> None:
    api = MemoryApi()
    pods = [make_pod(f"p{number}") for number in range(FLOOR)]
    for pod in pods:
        api.put(pod)
    real = api.write

    async def slow(*arguments: Any, **options: Any) -> Any:
        await asyncio.sleep(5)
        return await real(*arguments, **options)

    api.write = slow  # type: ignore[method-assign]

    async def script(writer: PodStatusWriter) -> None:
        for pod in pods:
            writer.write(pod, condition=NO_QUEUE, nomination=None)

    assert writing(script, api) == pytest.approx(5)
    assert all(pod.status.conditions for pod in api.all(Pod))


def test_a_pod_is_written_again_after_all_was_written() -> None:
    pod, api = make_pod("p"), Late()
    api.put(pod)

    async def script(writer: PodStatusWriter) -> None:
        for message in ("one", "two"):
            writer.write(pod, condition=saying(message), nomination=None)
            await asyncio.sleep(60)

    writing(script, api)
    assert [patch["conditions"][0]["message"] for patch in api.patches] == ["one", "two"]


def test_a_write_that_cannot_start_is_not_waited_for() -> None:
    pod, outside = make_pod("p"), Outside()
    refuses = True

    def spawn(work: Any, *, name: str) -> None:
        if refuses:
            work.close()
            raise KuberthError("the scheduler is not running")
        outside.spawn(work, name=name)

    api = MemoryApi()
    api.put(pod)
    writer = writer_of(api, spawn, clock())
    with pytest.raises(KuberthError):
        writer.write(pod, condition=NO_QUEUE, nomination=None)
    refuses = False
    writer.write(pod, condition=NO_QUEUE, nomination=None)
    assert settled(outside) == 1


class Busy(MemoryApi):
    """Takes a second for every patch, however many there are."""

    def __init__(self) -> None:
        super().__init__()
        self.in_flight = self.most = 0
        self.order: list[str] = []

    async def write(self, write: Write) -> Any:
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        self.order.append(write.name)
        await asyncio.sleep(1)
        self.in_flight -= 1
        return await super().write(write)


def test_a_busy_server_gets_few_patches_at_a_time_and_all_in_the_end() -> None:
    api = Busy()
    pods = [api.put(make_pod(f"p{number}")) for number in range(200)]

    async def script(writer: PodStatusWriter) -> None:
        for pod in pods:
            writer.write(pod, condition=saying("no room"), nomination=None)
        await asyncio.sleep(0.5)
        assert api.in_flight == FLOOR

    writing(script, api)
    assert api.most < 100
    assert api.order == [pod.metadata.name for pod in pods]
    assert {pod.status.conditions[0].message for pod in api.all(Pod)} == {"no room"}


def test_changes_of_a_pod_that_waits_for_its_turn_go_together() -> None:
    api = Busy()
    pods = [api.put(make_pod(f"p{number}")) for number in range(FLOOR + 1)]

    async def script(writer: PodStatusWriter) -> None:
        for message in ("one", "two", "three"):
            for pod in pods:
                writer.write(pod, condition=saying(message), nomination=None)

    writing(script, api)
    assert api.order.count("p0") == 2  # the first was sent
    assert api.order.count(f"p{FLOOR}") == 1
    assert {pod.status.conditions[0].message for pod in api.all(Pod)} == {"three"}


def test_pods_that_wait_are_not_written_after_a_cancellation() -> None:
    api = Busy()
    pods = [api.put(make_pod(f"p{number}")) for number in range(20)]

    async def main() -> None:
        tasks: list[asyncio.Task[None]] = []

        def spawn(work: Any, *, name: str) -> None:
            tasks.append(asyncio.get_running_loop().create_task(work, name=name))

        writer = writer_of(api, spawn, clock())
        for pod in pods:
            writer.write(pod, condition=NO_QUEUE, nomination=None)
        await asyncio.sleep(0.5)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert len(tasks) == FLOOR

    run_in_virtual_time(main)


# Messages that change all the time


def condition_of(message: str, reason: str = "Unschedulable") -> dict[str, str]:
    return {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}


def waiting_pod(number: int, message: str = "before") -> Pod:
    return make_pod(f"p{number}", uid=f"u{number}", status={"conditions": [condition_of(message)]})


class Counting(MemoryApi):
    """Notes which pods were patched."""

    def __init__(self) -> None:
        super().__init__()
        self.patched: list[str] = []

    async def write(self, write: Write) -> Any:
        self.patched.append(write.name)
        return await super().write(write)


def patches_of(script: Callable[[PodStatusWriter], Any], *pods: Pod) -> list[str]:
    api = Counting()
    for pod in pods:
        api.put(pod)

    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:

            def spawn(work: Coroutine[Any, Any, None], *, name: str) -> None:
                tasks.create_task(work, name=name)

            await script(writer_of(api, spawn, LoopClock(asyncio.get_running_loop())))

    run_in_virtual_time(main)
    return api.patched


@pytest.mark.parametrize(
    "seconds, reason, number",
    [
        (0, "Unschedulable", MAX_REWORDINGS),
        (5, "Unschedulable", MAX_REWORDINGS + 5 * REWORDINGS_PER_SECOND),
        (0, "SchedulerError", 1000),
    ],
    ids=["at once", "again later", "another reason"],
)
def test_messages_that_change_all_the_time_are_written_now_and_then(
    seconds: int, reason: str, number: int
) -> None:
    pods = [waiting_pod(index) for index in range(1000)]

    async def script(made: PodStatusWriter) -> None:
        for _ in range(2):
            for pod in pods:
                now = PodCondition(type="PodScheduled", status="False", reason=reason, message="after")
                if pod.metadata.uid not in made._under_way:
                    made.write(pod, condition=now, nomination="")
            if not seconds:
                return
            await asyncio.sleep(seconds)

    assert len(patches_of(script, *pods)) == number


def test_what_is_on_its_way_is_not_written_twice() -> None:
    async def script(made: PodStatusWriter) -> None:
        for _ in range(3):
            made.write(waiting_pod(0), condition=NO_QUEUE, nomination="")

    assert patches_of(script, waiting_pod(0)) == ["p0"]


def test_a_binding_waits_for_the_patch_under_way_and_drops_what_is_not_sent() -> None:
    pod, api = make_pod("p"), Late()
    api.put(pod)

    async def script(writer: PodStatusWriter) -> None:
        uid = pod.metadata.uid
        await writer.finish(uid)
        writer.write(pod, condition=saying("one"), nomination=None)
        writer.write(pod, condition=saying("two"), nomination=None)
        assert writer.is_writing(uid)
        await writer.finish(uid)
        assert not writer.is_writing(uid)
        assert api.read(Pod, "default/p").status.conditions[0].message == "one"

    writing(script, api)
    assert api.read(Pod, "default/p").status.conditions[0].message == "one"


def test_a_binding_does_not_wait_for_a_patch_that_was_not_sent() -> None:
    pods = [waiting_pod(number) for number in range(FLOOR + 1)]
    others = PodCondition(type="PodScheduled", status="False", reason="Other", message="no room")

    async def script(made: PodStatusWriter) -> None:
        for pod in pods:
            made.write(pod, condition=others, nomination="")
        await made.finish(pods[-1].metadata.uid)
        assert not made.is_writing(pods[-1].metadata.uid)

    assert patches_of(script, *pods) == [f"p{number}" for number in range(FLOOR)]


# A watch that is late


def test_what_was_written_is_not_written_again_while_the_watch_is_late() -> None:
    pod = make_pod("p0", uid="u0", metadata={"resourceVersion": "7"})

    async def script(writer: PodStatusWriter) -> None:
        for message in ("no room", "no room", "no nodes", "no room"):
            writer.write(pod, condition=saying(message), nomination="n1")
            await asyncio.sleep(1)

    assert patches_of(script, pod) == ["p0"] * 3, "the second says what the first has said"


def test_a_newer_version_says_what_the_api_has() -> None:
    pod = make_pod("p0", uid="u0", metadata={"resourceVersion": "7"})
    newer = make_pod("p0", uid="u0", metadata={"resourceVersion": "8"})

    async def script(writer: PodStatusWriter) -> None:
        for version in (pod, newer, newer):
            writer.write(version, condition=saying("no room"), nomination=None)
            await asyncio.sleep(1)

    assert patches_of(script, pod) == ["p0"] * 2


def test_what_is_remembered_of_patches_is_bounded() -> None:
    pods = [
        make_pod(f"p{number}", uid=f"u{number}", metadata={"resourceVersion": "7"}) for number in range(3)
    ]

    async def script(writer: PodStatusWriter) -> None:
        for pod in pods:
            writer.write(pod, condition=saying("no room"), nomination=None)
        await asyncio.sleep(1)
        assert list(writer._written) == ["u1", "u2"]
        await writer.finish("u2")
        assert list(writer._written) == ["u1"]

    with patch("kuberth.outcomes.status_writer.MAX_WRITTEN", 2):
        assert patches_of(script, *pods) == ["p0", "p1", "p2"]


def test_the_answer_to_a_patch_is_not_asked_for() -> None:
    wanted = []

    class Asked(MemoryApi):
        async def write(self, write: Write) -> Any:
            wanted.append(write.wants_answer)
            return await super().write(write)

    written(make_pod("p"), condition=NO_QUEUE, api=Asked())
    assert wanted == [False], "that of a pod may be megabytes long"
