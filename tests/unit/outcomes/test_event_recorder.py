from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from kuberth.api.events import Event
from kuberth.api.meta import ObjectMeta
from kuberth.api.wire import decode
from kuberth.client.writes import Write
from kuberth.clock import LoopClock, run_in_virtual_time
from kuberth.errors import AnswerLostError, ApiError
from kuberth.framework.handle import PodEvent
from kuberth.outcomes import event_recorder as events
from kuberth.outcomes.event_recorder import ApiEventRecorder
from kuberth.testing import MemoryApi, make_pod
from kuberth.text.names import subdomain_problems

POD = make_pod("web", uid="u1")


def recording(
    script: Callable[[ApiEventRecorder], Any], *, api: MemoryApi | None = None
) -> tuple[list[Event], ApiEventRecorder]:
    """Run `script` with a recorder that writes, and return what the API holds afterwards."""
    api = MemoryApi() if api is None else api

    async def main() -> ApiEventRecorder:
        recorder = ApiEventRecorder(
            api, LoopClock(asyncio.get_running_loop()), controllers=["kuberth", "second"]
        )
        writing = asyncio.ensure_future(recorder.run())
        answer = script(recorder)
        if asyncio.iscoroutine(answer):
            await answer
        await recorder.drain()
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        return recorder

    recorder = run_in_virtual_time(main)
    return list(api.all(Event)), recorder


def record_failure(
    recorder: ApiEventRecorder, note: str = "no room", reason: str = "FailedScheduling"
) -> None:
    recorder.record(PodEvent(POD, reason, "Scheduling", note, warning=True))


def test_an_event_names_its_object_and_reason() -> None:
    (event,), _ = recording(record_failure)
    assert (event.reason, event.action, event.note, event.type) == (
        "FailedScheduling",
        "Scheduling",
        "no room",
        "Warning",
    )
    assert (event.regarding.kind, event.regarding.namespace, event.regarding.name) == (
        "Pod",
        "default",
        "web",
    )
    assert event.event_time is not None
    assert event.series is None
    assert event.metadata.namespace == "default"


@pytest.mark.parametrize(
    "times, seconds, count",
    [(2, 0, 2), (9, 0, 2), (9, 2 * events.SERIES_SECONDS, 9)],
    ids=["the second is written", "further ones are counted", "the count is written at the end"],
)
def test_the_same_news_becomes_a_series(times: int, seconds: int, count: int) -> None:
    async def repeatedly(recorder: ApiEventRecorder) -> None:
        for number in range(times):
            record_failure(recorder, f"note {number}")
            await asyncio.sleep(30)
        await asyncio.sleep(seconds)

    (event,), _ = recording(repeatedly)
    assert event.note == "note 0"
    assert event.series is not None
    assert event.series.count == count


def test_a_series_that_goes_on_is_refreshed_now_and_then() -> None:
    api, written = MemoryApi(), list[int]()

    async def all_day(recorder: ApiEventRecorder) -> None:
        for _minute in range(8 * 60):
            record_failure(recorder)
            await asyncio.sleep(60)
            await recorder.drain()
            (event,) = api.all(Event)
            count = 1 if event.series is None else event.series.count
            if written[-1:] != [count]:
                written.append(count)

    recording(all_day, api=api)
    assert written == [1, 2, *range(30, 8 * 60 + 1, events.REFRESH_SECONDS // 60)]


def test_the_same_news_after_a_long_while_is_a_new_event() -> None:
    async def twice(recorder: ApiEventRecorder) -> None:
        record_failure(recorder)
        await asyncio.sleep(events.SERIES_SECONDS + 1)
        record_failure(recorder)

    recorded, _ = recording(twice)
    assert [event.series for event in recorded] == [None, None]


def test_other_news_are_events_of_their_own() -> None:
    def both(recorder: ApiEventRecorder) -> None:
        record_failure(recorder)
        record_failure(recorder, reason="Preempted")

    recorded, _ = recording(both)
    assert sorted(event.reason for event in recorded) == ["FailedScheduling", "Preempted"]


def test_a_series_goes_on_in_a_new_object_when_the_old_one_expired() -> None:
    api = MemoryApi()

    async def script(recorder: ApiEventRecorder) -> None:
        record_failure(recorder)
        await recorder.drain()
        (event,) = api.all(Event)
        api.remove(Event, f"default/{event.metadata.name}")
        record_failure(recorder)

    (event,), _ = recording(script, api=api)
    assert event.series is not None
    assert event.series.count == 2


def test_news_are_dropped_and_counted_beyond_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MAX_WAITING", 10)

    def many(recorder: ApiEventRecorder) -> None:
        for number in range(25):
            record_failure(recorder, reason=f"Reason{number}")

    recorded, recorder = recording(many)
    assert len(recorded) == 10
    assert recorder.dropped == 15


def test_a_failing_api_costs_only_that_event() -> None:
    class Failing(MemoryApi):
        async def create(self, obj: Any) -> Any:
            if obj.reason == "Bad":
                raise ApiError("etcd is away", code=500)
            return await super().create(obj)

    def both(recorder: ApiEventRecorder) -> None:
        record_failure(recorder, reason="Bad")
        record_failure(recorder, reason="Good")

    recorded, _ = recording(both, api=Failing())
    assert [event.reason for event in recorded] == ["Good"]


@pytest.mark.parametrize(
    "regarding, related, controller",
    [
        pytest.param("second", None, "second", id="own-profile"),
        pytest.param("kuberth", None, "kuberth", id="first-profile"),
        pytest.param("elsewhere", None, "kuberth", id="no-component-of-ours"),
        pytest.param("elsewhere", "second", "second", id="victim-of-another-scheduler"),
        pytest.param("kuberth", "second", "second", id="victim-of-another-profile"),
        pytest.param("second", "elsewhere", "second", id="related-to-a-stranger"),
    ],
)
def test_an_event_comes_from_the_profile_that_it_is_about(
    regarding: str, related: str | None, controller: str
) -> None:
    def script(recorder: ApiEventRecorder) -> None:
        pod = make_pod("web", uid="u1", scheduler=regarding)
        other = None if related is None else make_pod("other", uid="u2", scheduler=related)
        recorder.record(PodEvent(pod, "Scheduled", "Binding", "", related=other))

    (event,), _ = recording(script)
    assert event.reporting_controller == controller
    assert event.reporting_instance.startswith(f"{controller}-")


@pytest.mark.parametrize(
    "name, is_kept",
    [
        pytest.param("web", True, id="short"),
        pytest.param("a" * 230, True, id="still-fits"),
        pytest.param("a" * 253, False, id="as-long-as-a-name-may-be"),
        pytest.param("system:web", False, id="no-dns-name"),
    ],
)
def test_an_events_name_is_one_that_the_server_takes(name: str, is_kept: bool) -> None:
    def twice(recorder: ApiEventRecorder) -> None:
        for reason in ("Scheduled", "Preempted"):
            recorder.record(PodEvent(make_pod(name, uid="u1"), reason, "Binding", ""))

    recorded, _ = recording(twice)
    names = [event.metadata.name for event in recorded]
    assert len(set(names)) == 2
    assert [subdomain_problems(each) for each in names] == [[], []]
    assert [each.startswith(f"{name}.") for each in names] == [is_kept, is_kept]
    assert [event.regarding.name for event in recorded] == [name, name]


# An API that takes posts


class Posting(MemoryApi):
    """Takes posts, a second each; `fate` is what becomes of the first one."""

    def __init__(self, fate: str = "written") -> None:
        super().__init__()
        self.fate = fate
        self.posted = 0
        self.created = 0

    def post_nowait(
        self, write: Write, *, check: Callable[[], None] | None = None
    ) -> asyncio.Future[None] | None:
        if self.fate == "busy":
            return None
        self.posted += 1
        return asyncio.ensure_future(self._deliver(decode(write.kind, write.body)))

    async def _deliver(self, event: Event) -> None:
        await asyncio.sleep(1)
        fate, self.fate = self.fate, "written"
        if fate == "refused":
            raise ApiError("etcd is away", code=500)
        if fate != "lost":
            await super().create(event)
        if fate in ("lost", "written-but-lost"):
            raise AnswerLostError("the connection was lost")

    async def create(self, obj: Any) -> Any:
        self.created += 1
        return await super().create(obj)


def test_a_posted_event_is_the_one_that_would_be_created() -> None:
    (posted,), _ = recording(record_failure, api=Posting())
    (created,), _ = recording(record_failure)
    for event in (posted, created):
        assert event.metadata.name.startswith("web.")
    plain = {"metadata": ObjectMeta(), "regarding": created.regarding}
    replace = msgspec.structs.replace
    assert replace(posted, **plain) == replace(created, **plain)


@pytest.mark.parametrize(
    "fate, posted, created, recorded",
    [
        pytest.param("written", 1, 0, 1, id="written"),
        pytest.param("busy", 0, 1, 1, id="the-long-way"),
        pytest.param("lost", 1, 1, 1, id="lost-and-written-again"),
        pytest.param("written-but-lost", 1, 1, 1, id="there-already"),
        pytest.param("refused", 1, 0, 0, id="refused"),
    ],
)
def test_an_event_is_written_once(fate: str, posted: int, created: int, recorded: int) -> None:
    api = Posting(fate)
    found, _ = recording(record_failure, api=api)
    assert (len(found), api.posted, api.created) == (recorded, posted, created)


@pytest.mark.parametrize("fate", ["written", "lost", "written-but-lost", "refused"])
def test_a_series_does_not_overtake_its_posted_event(fate: str) -> None:
    api = Posting(fate)

    def thrice(recorder: ApiEventRecorder) -> None:
        for note in ("first", "second", "third"):
            record_failure(recorder, note)

    (event,), _ = recording(thrice, api=api)
    assert event.note == "first"
    assert event.series is not None
    assert event.series.count == 3
    assert api.posted == 1


def test_posts_count_among_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MAX_WAITING", 10)

    def many(recorder: ApiEventRecorder) -> None:
        for number in range(25):
            record_failure(recorder, reason=f"Reason{number}")

    recorded, recorder = recording(many, api=Posting())
    assert (len(recorded), recorder.dropped) == (10, 15)
