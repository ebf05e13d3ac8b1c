"""The recorder names what a plugin reads and does not state, and sees every way to read it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import pytest

from kuberth.api.core import Pod
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.framework import (
    Action,
    ClusterEvent,
    CycleState,
    DependsOn,
    EnqueueExtensions,
    EventWithHint,
    FilterPlugin,
    Hint,
    Inputs,
    PreFilterPlugin,
    PreScorePlugin,
    Resource,
    ScorePlugin,
    Status,
    Verdict,
)
from kuberth.testing import assert_reads_only, make_node, make_pod

NODE_ADD = ClusterEvent(Resource.NODE, Action.ADD)
Read = Callable[[CycleState, Pod, Any], object]


def nothing(*_: object) -> object:
    return None


class Reader(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, EnqueueExtensions):
    """Reads given fields at a given extension point."""

    name = "Reader"
    inputs: Inputs | None = Inputs(
        {"metadata.labels"},
        pre_filter=DependsOn.POD,
        filter=DependsOn.NODE_OBJECT,
        pre_score=DependsOn.POD,
        score=DependsOn.REQUESTS,
    )
    reads_at: ClassVar[dict[str, Read]] = {}

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> None:
        self.reads_at.get("pre_filter", nothing)(state, pod, nodes)

    def filter(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        self.reads_at.get("filter", nothing)(state, pod, node)
        return None

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict | None:
        self.reads_at.get("filter_nodes", nothing)(state, pod, nodes)
        return None

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> None:
        self.reads_at.get("pre_score", nothing)(state, pod, nodes)

    def score(self, state: CycleState, pod: Pod, node: NodeRow) -> int:
        self.reads_at.get("score", nothing)(state, pod, node)
        return 0

    def normalize_scores(self, state: CycleState, pod: Pod, scores: Any) -> None:
        self.reads_at.get("normalize_scores", nothing)(state, pod, scores)

    def events_to_register(self) -> Iterable[EventWithHint]:
        return [EventWithHint(NODE_ADD, self._hint)]

    def _hint(self, pod: Pod, _old: object, new: object) -> Hint:
        self.reads_at.get("its hint", nothing)(CycleState(), pod, new)
        return Hint.SKIP


def reading(method: str, read: Read, **attributes: Any) -> type[Reader]:
    return type("Reader", (Reader,), {"reads_at": {method: read}, **attributes})


def asserted(plugin: type[Reader], *, nodes: int = 3) -> None:
    pods = [make_pod(f"p{number}", labels={"app": "a"}, cpu="1") for number in range(2)]
    objects = [make_node(f"n{number}") for number in range(nodes)]
    assert_reads_only(plugin, *pods, objects=objects, events=[(NODE_ADD, None, make_node("new"))])


METHODS = ["pre_filter", "filter", "pre_score", "score", "normalize_scores", "its hint"]


@pytest.mark.parametrize("method", METHODS)
def test_what_is_stated_may_be_read(method: str) -> None:
    asserted(reading(method, lambda _state, pod, _nodes: pod.metadata.labels["app"]))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "field, read",
    [
        ("metadata.annotations", lambda _state, pod, _nodes: pod.metadata.annotations),
        ("spec.tolerations", lambda _state, pod, _nodes: pod.spec.tolerations),
        ("status.phase", lambda _state, pod, _nodes: pod.status.phase),
        ("spec.priority", lambda _state, pod, _nodes: getattr(pod.spec, "priority", None)),
        ("spec as a whole", lambda _state, pod, _nodes: pod.spec == pod.spec),
        ("metadata.name", lambda _state, pod, _nodes: f"{pod.metadata.name}"),
    ],
)
def test_what_is_not_stated_is_named(method: str, field: str, read: Read) -> None:
    with pytest.raises(AssertionError) as failed:
        asserted(reading(method, read))
    assert f"plugin 'Reader' reads {field!r} in {method}" in str(failed.value)


def test_the_whole_table_form_is_watched_too() -> None:
    with pytest.raises(AssertionError, match=r"'spec\.affinity' in filter_nodes"):
        asserted(reading("filter_nodes", lambda _state, pod, _nodes: pod.spec.affinity), nodes=20)


@pytest.mark.parametrize(
    "stated, is_enough",
    [
        ({"info.request"}, True),
        ({"spec.containers"}, False),
        (
            {
                "spec.containers",
                "spec.init_containers",
                "spec.overhead",
                "spec.resources",
                "status.container_statuses",
                "status.init_container_statuses",
                "status.resources",
            },
            True,
        ),
    ],
    ids=["itself", "a part of its sources", "all its sources"],
)
def test_what_is_derived_counts_as_what_it_is_derived_from(stated: set[str], is_enough: bool) -> None:
    def read(state: CycleState, _pod: Pod, _nodes: object) -> object:
        assert state.pod_info is not None
        return state.pod_info.request

    inputs = Inputs(
        stated,
        pre_filter=DependsOn.POD,
        filter=DependsOn.NODE,
        pre_score=DependsOn.POD,
        score=DependsOn.NODE,
    )
    plugin = reading("pre_filter", read, inputs=inputs)
    if is_enough:
        asserted(plugin)
    else:
        with pytest.raises(AssertionError, match=r"'info\.request' in pre_filter"):
            asserted(plugin)


@pytest.mark.parametrize(
    "method, field, read",
    [
        ("pre_filter", "table.pod_count", lambda _state, _pod, nodes: nodes.take(nodes.table.pod_count)),
        ("pre_score", "table.terms", lambda _state, _pod, nodes: nodes.table.terms),
        ("filter", "table.pods_at", lambda _state, _pod, node: node.pods),
        ("filter", "table.pod_count", lambda _state, _pod, node: node.pod_count),
        ("filter", "table.requested", lambda _state, _pod, node: node.requested("cpu")),
        ("score", "table.pods_at", lambda _state, _pod, node: node.pods),
        ("score", "table.placed_count", lambda _state, _pod, node: node.table.placed_count),
    ],
)
def test_what_a_phase_reads_of_nodes_beyond_what_is_stated_is_named(
    method: str, field: str, read: Read
) -> None:
    with pytest.raises(AssertionError, match=f"'{field}' in {method}"):
        asserted(reading(method, read))


@pytest.mark.parametrize(
    "method, read",
    [
        ("filter", lambda _state, _pod, node: (node.labels, node.name, node.allocatable("cpu"))),
        ("score", lambda _state, _pod, node: (node.pod_count, node.requested("cpu"), node.node)),
    ],
)
def test_what_a_phase_states_of_nodes_may_be_read(method: str, read: Read) -> None:
    asserted(reading(method, read))


def test_a_hint_may_compare_the_pod_with_that_of_the_event() -> None:
    asserted(reading("its hint", lambda _state, pod, _new: pod.metadata.uid))


def test_a_plugin_without_a_statement_is_refused() -> None:
    with pytest.raises(AssertionError, match="plugin 'Reader' gives no statement"):
        asserted(reading("filter", nothing, inputs=None))


def test_without_a_pod_nothing_would_be_shown() -> None:
    with pytest.raises(AssertionError, match="at least one pod"):
        assert_reads_only(Reader)


def test_a_method_that_asks_another_reads_no_more_than_that_one() -> None:
    class Asking(Reader):
        def score(self, state: CycleState, pod: Pod, node: NodeRow) -> int:
            return 0 if self.filter(state, pod, node) is None else int(pod.metadata.labels["app"])

    assert_reads_only(Asking, make_pod("p", labels={"app": "1"}), objects=[make_node("n1"), make_node("n2")])
