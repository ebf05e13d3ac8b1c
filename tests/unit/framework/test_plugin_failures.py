"""At every extension point a plugin that raises, or answers nonsense, is named with the point."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from kuberth.api.core import Pod
from kuberth.cluster.pod_info import PodInfo
from kuberth.errors import ConfigError, ExtenderError, PluginError
from kuberth.framework import (
    SKIP,
    SUCCESS,
    Action,
    BindPlugin,
    ClusterEvent,
    Code,
    Diagnosis,
    EnqueueExtensions,
    EventWithHint,
    FilterPlugin,
    Hint,
    PermitPlugin,
    PermitResult,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    QueuedPod,
    QueueSortPlugin,
    ReservePlugin,
    Resource,
    ScorePlugin,
    Status,
    Verdict,
)
from kuberth.queue.hints import Hints, QueueingStrategy
from kuberth.queue.sub_queues import OrderedSubQueue, sort_value_of
from kuberth.testing import make_pod, run_in_virtual_time
from tests.unit.framework.harness import Framework, build, framework, plugin, state_of

POD = make_pod("p")


def outcome_of_filter(made: Framework) -> Status:
    passing = made.runner.filtering.run(state_of(POD), POD, made.nodes, Diagnosis())
    assert isinstance(passing, Status), "the search must be aborted"
    return passing


def outcome_of_score(made: Framework) -> Status:
    scores = made.runner.scoring.run(state_of(POD), POD, made.nodes)
    assert isinstance(scores, Status), "the cycle must be aborted"
    return scores


class Point(NamedTuple):
    """How one extension point is served and run."""

    label: str
    interface: type[Plugin]
    method: str
    run: Callable[[Framework], Status]
    rest: tuple[tuple[str, Any], ...] = ()


POINTS = {
    "pre_enqueue": Point(
        "PreEnqueue", PreEnqueuePlugin, "pre_enqueue", lambda made: made.runner.run_pre_enqueue(POD)
    ),
    "pre_filter": Point(
        "PreFilter",
        PreFilterPlugin,
        "pre_filter",
        lambda made: made.runner.pre_filtering.run(state_of(POD), POD, made.nodes).status,
    ),
    "filter": Point("Filter", FilterPlugin, "filter", outcome_of_filter),
    "filter_nodes": Point("Filter", FilterPlugin, "filter_nodes", outcome_of_filter),
    "filter_of_one_node": Point(
        "Filter",
        FilterPlugin,
        "filter_nodes",
        lambda made: made.runner.filtering.status(state_of(POD), POD, made.node("n1")),
    ),
    "post_filter": Point(
        "PostFilter",
        PostFilterPlugin,
        "post_filter",
        lambda made: made.runner.post_filtering.run(state_of(POD), POD, Diagnosis())[1],
    ),
    "pre_score": Point(
        "PreScore",
        PreScorePlugin,
        "pre_score",
        lambda made: made.runner.scoring.run_pre_score(state_of(POD), POD, made.nodes),
    ),
    "score": Point("Score", ScorePlugin, "score", outcome_of_score),
    "score_nodes": Point("Score", ScorePlugin, "score_nodes", outcome_of_score),
    "normalize_scores": Point(
        "ScoreExtensionNormalize", ScorePlugin, "normalize_scores", outcome_of_score, (("score", 1),)
    ),
    "reserve": Point(
        "Reserve",
        ReservePlugin,
        "reserve",
        lambda made: made.runner.reserving.run_reserve(state_of(POD), POD, "n1"),
        (("unreserve", None),),
    ),
    "permit": Point(
        "Permit",
        PermitPlugin,
        "permit",
        lambda made: made.runner.reserving.run_permit(state_of(POD), POD, "n1")[0],
    ),
    "pre_bind_pre_flight": Point(
        "PreBindPreFlight",
        PreBindPlugin,
        "pre_bind_pre_flight",
        lambda made: made.runner.binding.run_pre_bind_pre_flights(state_of(POD), POD, "n1"),
        (("pre_bind", None),),
    ),
    "pre_bind": Point(
        "PreBind",
        PreBindPlugin,
        "pre_bind",
        lambda made: run_in_virtual_time(lambda: made.runner.binding.run_pre_bind(state_of(POD), POD, "n1")),
    ),
    "bind": Point(
        "Bind",
        BindPlugin,
        "bind",
        lambda made: run_in_virtual_time(lambda: made.runner.binding.run_bind(state_of(POD), POD, "n1")),
    ),
}


def outcome(point: Point, answer: Any) -> Status:
    made = plugin("Bad", point.interface, **{**dict(point.rest), point.method: answer})
    return point.run(framework(made))


def expect_error(status: Status, point: str, problem: str) -> None:
    assert status.code is Code.ERROR
    assert status.plugin == "Bad"
    assert isinstance(status.cause, PluginError)
    assert (status.cause.plugin, status.cause.point) == ("Bad", point)
    assert status.message.startswith(f"plugin 'Bad' at {point}: {problem}")


@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS)
def test_a_plugin_that_raises(point: Point, caplog: pytest.LogCaptureFixture) -> None:
    mistake = RuntimeError("boom")
    status = outcome(point, mistake)
    expect_error(status, point.label, "RuntimeError: boom")
    assert status.cause is not None
    assert status.cause.__cause__ is mistake
    assert f"plugin 'Bad' failed at {point.label}" in caplog.text
    assert "RuntimeError: boom" in caplog.text, "the traceback is for the plugin's author"


@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS)
def test_a_plugin_that_raises_without_words(point: Point) -> None:
    expect_error(outcome(point, KeyError()), point.label, "KeyError")


@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS)
def test_a_plugin_that_says_error(point: Point) -> None:
    answer = (None, Status.error("lost")) if point.label == "PostFilter" else Status.error("lost")
    expect_error(outcome(point, answer), point.label, "lost")


@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS)
def test_a_plugin_that_makes_a_broken_status(point: Point) -> None:
    expect_error(
        outcome(point, lambda *_: Status.unschedulable(["no"])),  # type: ignore[arg-type]  # meant
        point.label,
        "TypeError: a reason of a Status is a string, not ['no']",
    )


def test_an_error_of_ours_needs_no_type() -> None:
    answer = ExtenderError("http://x", "it is down")
    status = outcome(POINTS["reserve"], answer)
    expect_error(status, "Reserve", str(answer))


class Exotic(BaseException):
    pass


@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS)
@pytest.mark.parametrize("raised", [SystemExit, asyncio.CancelledError, GeneratorExit, Exotic])
def test_no_exception_of_a_plugin_ends_the_scheduler(point: Point, raised: type[BaseException]) -> None:
    expect_error(outcome(point, raised("enough")), point.label, f"{raised.__name__}: enough")


def test_ctrl_c_is_the_users_and_an_interrupt_of_the_plugins_own_is_its_failure() -> None:
    before = signal.getsignal(signal.SIGINT)
    try:
        # Python's own handler: the exception is what a user's Ctrl-C looks like.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with pytest.raises(KeyboardInterrupt):
            outcome(POINTS["filter"], KeyboardInterrupt())
        # A handler of the program: then Ctrl-C comes as no exception, and this one is the plugin's.
        signal.signal(signal.SIGINT, lambda *_: None)
        expect_error(outcome(POINTS["filter"], KeyboardInterrupt()), "Filter", "KeyboardInterrupt")
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS)
@pytest.mark.parametrize("answer", ["yes", {"node": "n1"}, object()], ids=["text", "dict", "object"])
def test_a_plugin_that_answers_nonsense(point: Point, answer: Any) -> None:
    expect_error(outcome(point, answer), point.label, f"returned {answer!r}"[:60])


SYNCHRONOUS = {name: point for name, point in POINTS.items() if name not in ("pre_bind", "bind")}


@pytest.mark.parametrize("point", SYNCHRONOUS.values(), ids=SYNCHRONOUS)
def test_a_coroutine_where_none_is_awaited(point: Point) -> None:
    async def answer(*_: object) -> None: ...

    expect_error(outcome(point, answer), point.label, "returned <coroutine object")


ALLOWED = {
    "PreEnqueue": "Unschedulable UnschedulableAndUnresolvable Pending",
    "PreFilter": "Unschedulable UnschedulableAndUnresolvable Pending Skip",
    "Filter": "Unschedulable UnschedulableAndUnresolvable Pending",
    "PostFilter": "Unschedulable UnschedulableAndUnresolvable Pending",
    "PreScore": "Skip",
    "Reserve": "Unschedulable UnschedulableAndUnresolvable Pending",
    "Permit": "Unschedulable UnschedulableAndUnresolvable Pending Wait",
    "PreBindPreFlight": "Skip",
    "PreBind": "Unschedulable UnschedulableAndUnresolvable Pending",
    "Bind": "Unschedulable UnschedulableAndUnresolvable Pending Skip",
}
BY_STATUS = {
    name: point
    for name, point in POINTS.items()
    if point.label in ALLOWED and name not in ("filter", "filter_nodes")
}


@pytest.mark.parametrize("point", BY_STATUS.values(), ids=BY_STATUS)
@pytest.mark.parametrize("code", [code for code in Code if code not in (Code.SUCCESS, Code.ERROR)], ids=str)
def test_a_point_allows_only_its_own_codes(point: Point, code: Code) -> None:
    answer: Any = Status(code, "why")
    if code is Code.WAIT and point.label == "Permit":
        answer = PermitResult.wait(1, "why")
    if point.label == "Filter":
        answer = lambda _s, _p, nodes: Verdict.rejecting(np.ones(len(nodes), np.bool_), Status(code, "why"))  # noqa: E731 - short
    status = outcome(point, answer)
    if code.label in ALLOWED[point.label].split():
        assert status.code is not Code.ERROR
    else:
        allowed = ", ".join(("Success", "Error", *ALLOWED[point.label].split()[:1]))
        expect_error(status, point.label, f"returned {code.label!r} where a Status with code Success")
        assert all(label in status.message for label in allowed.split(", "))


# Where only some answers are nonsense


@pytest.mark.parametrize("node_names", [5, "n1", b"n1"], ids=["number", "text", "bytes"])
def test_pre_filter_narrowing_to_nonsense(node_names: Any) -> None:
    expect_error(
        outcome(POINTS["pre_filter"], PreFilterResult(node_names)),
        "PreFilter",
        f"returned PreFilterResult(node_names={node_names!r})",
    )


def codes(*numbers: Any, **options: Any) -> Callable[..., Verdict]:
    return lambda *_: Verdict.choosing(np.array(numbers, **options), Status.unschedulable("no"))


@pytest.mark.parametrize(
    "answer, problem",
    [
        pytest.param(SUCCESS, "returned <Success> where a Verdict over 3 nodes", id="success"),
        pytest.param(SKIP, "returned <Skip> where a Verdict over 3 nodes", id="skip"),
        pytest.param(
            Status.unschedulable("no"), "returned <Unschedulable: no> where a Verdict", id="one-status"
        ),
        pytest.param(codes(1, 0), "returned <kuberth.framework.verdict.Verdict", id="too-few-nodes"),
        pytest.param(codes(1, 0, 0, 0), "returned <kuberth.framework.verdict.Verdict", id="too-many-nodes"),
        pytest.param(codes(1.0, 0, 0), "returned <kuberth.framework.verdict.Verdict", id="floats"),
        pytest.param(
            lambda *_: Verdict([1, 0, 0], lambda _: Status.unschedulable("no")),  # type: ignore[arg-type]  # meant
            "returned <kuberth.framework.verdict.Verdict",
            id="a-list",
        ),
        pytest.param(codes(7, 0, 0), "IndexError: tuple index out of range", id="a-code-without-a-status"),
        pytest.param(
            lambda *_: Verdict(np.array([1, 0, 0]), lambda _: "no"),  # type: ignore[arg-type,return-value]  # meant
            "AttributeError: 'str' object has no attribute",
            id="a-code-for-a-text",
        ),
        pytest.param(
            lambda *_: Verdict(np.array([1, 0, 0]), lambda _: "no", may_fail=True),  # type: ignore[arg-type,return-value]  # meant
            "returned 'no' where a Status",
            id="a-code-for-a-text-looked-at",
        ),
        pytest.param(
            lambda *_: Verdict.rejecting(np.array([True, False, False]), SUCCESS),
            "returned <Success> where a rejection for code 1 is expected",
            id="rejecting-with-success",
        ),
        pytest.param(
            lambda *_: Verdict.rejecting(np.array([True, False, False]), Status.error("lost")),
            "lost",
            id="rejecting-with-an-error",
        ),
    ],
)
def test_a_verdict_that_makes_no_sense(answer: Any, problem: str) -> None:
    expect_error(outcome(POINTS["filter_nodes"], answer), "Filter", problem)


@pytest.mark.parametrize(
    "answer",
    [None, (None,), (PostFilterResult("n1"), None, None), ("n1", None), PostFilterResult("n1")],
    ids=["nothing", "one", "three", "a-bare-name", "a-bare-result"],
)
def test_a_post_filter_answer_that_makes_no_sense(answer: Any) -> None:
    expect_error(
        outcome(POINTS["post_filter"], answer),
        "PostFilter",
        f"returned {answer!r} where a tuple (PostFilterResult",
    )


def test_a_long_answer_is_shortened() -> None:
    assert len(outcome(POINTS["reserve"], "x" * 10_000).message) < 400


# Where no answer is expected


@pytest.mark.parametrize(
    "interface, point, rest",
    [(ReservePlugin, "Unreserve", {"reserve": None}), (PostBindPlugin, "PostBind", {})],
    ids=["unreserve", "post_bind"],
)
@pytest.mark.parametrize(
    "answer, expected",
    [
        pytest.param(RuntimeError("boom"), "plugin 'Bad' failed at {point}", id="raises"),
        pytest.param(
            "yes", "plugin 'Bad' at {point}: returned 'yes' where nothing is expected", id="nonsense"
        ),
    ],
)
def test_it_is_logged(
    interface: type[Plugin],
    point: str,
    rest: dict[str, Any],
    answer: Any,
    expected: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    method = {"Unreserve": "unreserve", "PostBind": "post_bind"}[point]
    made = framework(plugin("Bad", interface, **rest, **{method: answer}))
    run = {"Unreserve": made.runner.reserving.run_unreserve, "PostBind": made.runner.binding.run_post_bind}[
        point
    ]
    with caplog.at_level(logging.ERROR):
        run(state_of(POD), POD, "n1")
    assert expected.format(point=point) in caplog.text


# Outside the cycles


def test_a_queue_sort_that_raises_gives_arrival_order(caplog: pytest.LogCaptureFixture) -> None:
    queue = OrderedSubQueue(sort_value_of(plugin("Bad", QueueSortPlugin, less=RuntimeError("boom"))()))  # type: ignore[arg-type]  # it is one
    for name, arrived in (("late", 2), ("early", 1)):
        queue.add(QueuedPod(PodInfo(make_pod(name)), timestamp_ns=arrived))
    first = queue.pop()
    assert first is not None
    assert first.key == "default/early"
    assert "plugin 'Bad' failed at QueueSort" in caplog.text


@pytest.mark.parametrize("answer", [RuntimeError("boom"), "yes", None], ids=["raises", "nonsense", "nothing"])
def test_a_hint_that_fails_counts_as_queue(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    def hint(*_: object) -> Hint:
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]  # that is the point

    event = ClusterEvent(Resource.NODE, Action.ADD)
    bad = plugin(
        "Bad", FilterPlugin, EnqueueExtensions, filter=None, events_to_register=[EventWithHint(event, hint)]
    )
    made = framework(bad)
    queued = QueuedPod(PodInfo(POD), timestamp_ns=0)
    queued.unschedulable_plugins = {"Bad"}
    hints = Hints({"default-scheduler": made.profile.hints}, made.metrics)
    assert hints.strategy_for(queued, event, None, None) is QueueingStrategy.AFTER_BACKOFF
    assert "plugin 'Bad' failed in its hint for event NodeAdd and pod default/p" in caplog.text


@pytest.mark.parametrize(
    "interface, methods, message",
    [
        pytest.param(
            FilterPlugin,
            {"filter": None, "__init__": RuntimeError("boom")},
            "plugin 'Bad' cannot be initialized: RuntimeError: boom",
            id="constructor",
        ),
        pytest.param(
            EnqueueExtensions,
            {"events_to_register": RuntimeError("boom"), "pre_enqueue": None},
            "plugin 'Bad' failed in events_to_register: RuntimeError: boom",
            id="events_to_register",
        ),
    ],
)
def test_a_plugin_that_fails_at_the_start(
    interface: type[Plugin], methods: dict[str, Any], message: str
) -> None:
    points = (interface, PreEnqueuePlugin) if "pre_enqueue" in methods else (interface,)
    with pytest.raises(ConfigError, match=message):
        build(plugin("Bad", *points, **methods))


def test_a_gate_that_fails_is_a_closed_gate_with_a_name() -> None:
    made = framework(
        plugin("Fine", PreEnqueuePlugin, pre_enqueue=None),
        plugin("Bad", PreEnqueuePlugin, pre_enqueue=RuntimeError("boom")),
    )
    expect_error(made.runner.run_pre_enqueue(POD), "PreEnqueue", "RuntimeError: boom")


# PreEnqueue


def _gate(log: list[str]) -> type[Plugin]:
    return plugin("A", PreEnqueuePlugin, pre_enqueue=Status.unresolvable("closed"), log=log)


def _stating(log: list[str], *fields: str) -> type[Plugin]:
    made = _gate(log)
    made.gates_only_with = fields  # type: ignore[attr-defined]
    return made


def _overriding(log: list[str]) -> type[Plugin]:
    class Own(_stating([], "spec.scheduling_gates")):  # type: ignore[misc]  # mypy wants a name
        def pre_enqueue(self, _pod: object) -> Status:
            log.append("A.pre_enqueue")
            return Status.unresolvable("closed")

    return Own


GATED = make_pod("gated", schedulingGates=[{"name": "wait"}])


@pytest.mark.parametrize(
    "make, pod, is_asked",
    [
        (_gate, POD, True),
        (lambda log: _stating(log, "spec.scheduling_gates"), POD, False),
        (lambda log: _stating(log, "spec.scheduling_gates"), GATED, True),
        (lambda log: _stating(log, "spec.scheduling_gates", "spec.resource_claims"), POD, False),
        (lambda log: _stating(log, "spec.scheduling_gates", "spec.resource_claims"), GATED, True),
        (_overriding, POD, True),
    ],
    ids=["no statement", "without", "with", "without either", "with one", "a subclass with its own gate"],
)
def test_a_gate_is_not_asked_about_pods_without_what_it_states(
    make: Callable[[list[str]], type[Plugin]], pod: Pod, is_asked: bool
) -> None:
    log: list[str] = []
    made = framework(make(log))
    assert made.runner.run_pre_enqueue(pod).is_success is not is_asked
    assert log == ["A.pre_enqueue"] * is_asked


def test_a_gate_names_fields_that_pods_have() -> None:
    with pytest.raises(ConfigError, match="`gates_only_with` names 'spec\\.gates'"):
        framework(_stating([], "spec.gates"))


def test_the_first_refusal_ends_pre_enqueue() -> None:
    log: list[str] = []
    made = framework(
        plugin("A", PreEnqueuePlugin, pre_enqueue=Status.unresolvable("closed"), log=log),
        plugin("B", PreEnqueuePlugin, pre_enqueue=Status.unresolvable("closed"), log=log),
    )
    assert made.runner.run_pre_enqueue(POD) == Status.unresolvable("closed").by("A")
    assert made.runner.run_pre_enqueue(POD, first="B") == Status.unresolvable("closed").by("B")
    assert log == ["A.pre_enqueue", "B.pre_enqueue"], "the plugin that rejected last time is called first"
