"""A node with a nominated pod is filtered twice: with that pod and without it."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from kuberth.api.core import Pod
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.framework import (
    Code,
    CycleState,
    DependsOn,
    Diagnosis,
    FilterPlugin,
    Inputs,
    Plugin,
    PreFilterExtensions,
    StateKey,
    Status,
    Verdict,
)
from kuberth.testing import make_node, make_pod
from tests.unit.framework.harness import Framework, framework, plugin, state_of


def fits(_state: object, pod: Pod, node: NodeRow) -> Status | None:
    free = node.allocatable("cpu") - node.requested("cpu")
    return None if PodInfo(pod).request.milli_cpu <= free else Status.unschedulable("no room")


def fits_nodes(state: object, pod: Pod, nodes: Nodes) -> Verdict:
    statuses = [fits(state, pod, nodes.node(position)) for position in range(len(nodes))]
    return Verdict.rejecting(
        np.array([status is not None for status in statuses]), Status.unschedulable("no room")
    )


FORMS = {
    "each": plugin("Fit", FilterPlugin, filter=fits),
    "table": plugin("Fit", FilterPlugin, filter_nodes=fits_nodes),
}


def passing_nodes(made: Framework, pod: Pod, diagnosis: Diagnosis | None = None) -> list[str]:
    passing = made.runner.filtering.run(
        state_of(pod), pod, made.nodes, Diagnosis() if diagnosis is None else diagnosis
    )
    assert not isinstance(passing, Status), passing
    return made.nodes.at(passing).names()


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(
    "priority, counted",
    [
        pytest.param(10, True, id="higher"),
        pytest.param(5, True, id="equal"),
        pytest.param(4, False, id="lower"),
        pytest.param(None, False, id="none-means-zero"),
    ],
)
def test_nominated_pods_of_no_lower_priority_count(
    form: type[Plugin], priority: int | None, counted: bool
) -> None:
    made = framework(form, nodes=[make_node("n1", cpu="2"), make_node("n2", cpu="2")])
    made.nominator.nominate(PodInfo(make_pod("nominated", cpu="1500m", priority=priority)), "n1")
    diagnosis = Diagnosis()
    pod = make_pod("p", cpu="1", priority=5)
    assert passing_nodes(made, pod, diagnosis) == (["n2"] if counted else ["n1", "n2"])
    status = diagnosis.status_of("n1", row=made.cluster.row_of("n1"))
    assert (status.plugin == "Fit") is counted
    # The nominated pod was only added for the filter.
    assert made.node("n1").requested("cpu") == 0
    assert made.node("n1").pod_count == 0


def test_a_pod_does_not_stand_in_its_own_way() -> None:
    made = framework(FORMS["each"], nodes=[make_node("n1", cpu="2")])
    pod = make_pod("p", cpu="1500m", priority=5)
    made.nominator.nominate(PodInfo(pod), "n1")
    assert passing_nodes(made, pod) == ["n1"]


def test_several_nominated_pods_add_up() -> None:
    made = framework(FORMS["table"], nodes=[make_node("n1", cpu="3")])
    for name in ("a", "b"):
        made.nominator.nominate(PodInfo(make_pod(name, cpu="1", priority=9)), "n1")
    assert passing_nodes(made, make_pod("p", cpu="1")) == ["n1"]
    assert passing_nodes(made, make_pod("p", cpu="1500m")) == []


WANTED = StateKey[int]("pods of app=db per cycle")


class NearDatabase(PreFilterExtensions, FilterPlugin):
    """Passes only where PreFilter data contains a database; a nominated one may never come."""

    name = "NearDatabase"

    def pre_filter(self, state: CycleState, _pod: Pod, _nodes: Nodes) -> None:
        state.write(WANTED, 0)

    def add_pod(self, state: CycleState, _pod: Pod, added: PodInfo, _node: NodeRow) -> None:
        state.write(WANTED, state.read(WANTED) + (added.labels.get("app") == "db"))

    def remove_pod(self, state: CycleState, _pod: Pod, removed: PodInfo, _node: NodeRow) -> None:
        state.write(WANTED, state.read(WANTED) - (removed.labels.get("app") == "db"))

    def filter(self, state: CycleState, _pod: Pod, _node: NodeRow) -> Status | None:
        return None if state.read(WANTED) else Status.unschedulable("no database")


class FarFromDatabase(NearDatabase):
    name = "FarFromDatabase"

    def filter(self, state: CycleState, _pod: Pod, _node: NodeRow) -> Status | None:
        return Status.unschedulable("a database") if state.read(WANTED) else None


@pytest.mark.parametrize(
    "made_of, reason",
    [
        pytest.param(NearDatabase, "no database", id="must-pass-without-them-too"),
        pytest.param(FarFromDatabase, "a database", id="must-pass-with-them-too"),
    ],
)
def test_a_node_must_pass_with_and_without_its_nominated_pods(made_of: type[Plugin], reason: str) -> None:
    made = framework(made_of, nodes=["n1"])
    made.nominator.nominate(PodInfo(make_pod("db", labels={"app": "db"}, priority=9)), "n1")
    pod = make_pod("p")
    state, diagnosis = state_of(pod), Diagnosis()
    made.runner.pre_filtering.run(state, pod, made.nodes)
    passing = made.runner.filtering.run(state, pod, made.nodes, diagnosis)
    assert not isinstance(passing, Status)
    assert passing.tolist() == [False]
    assert diagnosis.status_of("n1", row=0).message == reason
    assert made.runner.filtering.status(state, pod, made.node("n1")).message == reason
    assert state.read(WANTED) == 0, "the cycle's own state is not the what-if's"


def test_one_node_can_be_filtered_without_its_nominated_pods() -> None:
    made = framework(FORMS["each"], nodes=[make_node("n1", cpu="2")])
    made.nominator.nominate(PodInfo(make_pod("nominated", cpu="2", priority=9)), "n1")
    pod = make_pod("p", cpu="1")
    state = state_of(pod)
    assert made.runner.filtering.status(state, pod, made.node("n1")).code is Code.UNSCHEDULABLE
    assert made.runner.filtering.status(state, pod, made.node("n1"), with_nominated=False).is_success


@pytest.mark.parametrize(
    "answer, message",
    [
        pytest.param(
            ValueError("lost count"),
            "plugin 'Near' at PreFilterExtensionAddPod: ValueError: lost count",
            id="raises",
        ),
        pytest.param(
            Status.error("lost count"), "plugin 'Near' at PreFilterExtensionAddPod: lost count", id="error"
        ),
        pytest.param(
            Status.unschedulable("x"),
            "plugin 'Near' at PreFilterExtensionAddPod: returned 'Unschedulable'",
            id="rejects",
        ),
        pytest.param("fine", "plugin 'Near' at PreFilterExtensionAddPod: returned 'fine'", id="nonsense"),
    ],
)
def test_a_plugin_that_cannot_follow_aborts_the_search(answer: Any, message: str) -> None:
    near = plugin("Near", PreFilterExtensions, pre_filter=None, add_pod=answer, remove_pod=answer)
    made = framework(near, nodes=["n1"])
    nominated = PodInfo(make_pod("nominated", priority=9))
    made.nominator.nominate(nominated, "n1")
    pod = make_pod("p")
    status = made.runner.filtering.run(state_of(pod), pod, made.nodes, Diagnosis())
    assert isinstance(status, Status)
    assert status.code is Code.ERROR
    assert message in status.message
    assert made.node("n1").pod_count == 0, "the what-if is undone"
    removal = made.runner.filtering.run_remove_pod(state_of(pod), pod, nominated, made.node("n1"))
    assert message.replace("ExtensionAddPod", "ExtensionRemovePod") in removal.message


class FitByStatement(FilterPlugin):
    """Reads the sums of requests alone, as it states."""

    name = "Fit"
    inputs = Inputs({"spec.containers"}, filter=DependsOn.REQUESTS)

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        return fits_nodes(state, pod, nodes)


class OnlyLabelled(FilterPlugin):
    name = "OnlyLabelled"
    inputs = Inputs(set(), filter=DependsOn.NODE_OBJECT)

    def filter(self, _state: CycleState, _pod: Pod, node: NodeRow) -> Status | None:
        return None if "ok" in node.labels else Status.unresolvable("no label")


def crowd(made: Framework, number: int, *, cpu: str = "10m", memory: str | None = None) -> None:
    for index in range(number):
        pod = make_pod(f"nominated-{index}", cpu=cpu, memory=memory, priority=9)
        made.nominator.nominate(PodInfo(pod), f"n{index % 2}")


@pytest.mark.parametrize("number", [4, 100], ids=["few", "many"])
@pytest.mark.parametrize("memory", [None, "9223372036854775807"], ids=["small", "as large as can be"])
def test_many_nominated_pods_count_as_few_do(number: int, memory: str | None) -> None:
    nodes = [make_node(f"n{index}", cpu="1") for index in range(3)]
    made = framework(FitByStatement, nodes=nodes)
    crowd(made, number, memory=memory)
    taken = 10 * number // 2
    assert passing_nodes(made, make_pod("p", cpu=f"{1000 - taken}m")) == ["n0", "n1", "n2"]
    assert passing_nodes(made, make_pod("p", cpu=f"{1001 - taken}m")) == ["n2"]
    assert [made.node(f"n{index}").requested("cpu") for index in range(2)] == [0, 0]
    assert [made.node(f"n{index}").pod_count for index in range(2)] == [0, 0]


def test_many_nominated_pods_are_added_up_not_put_on_their_nodes() -> None:
    made = framework(FitByStatement, nodes=[make_node(f"n{index}", cpu="1") for index in range(3)])
    crowd(made, 100)
    with patch.object(ClusterTable, "put", side_effect=AssertionError("thousands of these take seconds")):
        assert passing_nodes(made, make_pod("p", cpu="501m")) == ["n2"]


def test_nominated_pods_do_not_matter_where_the_node_itself_is_rejected_first() -> None:
    made = framework(
        OnlyLabelled,
        FORMS["table"],
        nodes=[make_node("n0", cpu="1"), make_node("n1", cpu="1", labels={"ok": ""})],
    )
    crowd(made, 10, cpu="500m")
    asked: list[str] = []
    put = ClusterTable.put

    def note(table: ClusterTable, info: PodInfo, row: int) -> None:
        asked.append(table.names[row])
        put(table, info, row)

    diagnosis = Diagnosis()
    with patch.object(ClusterTable, "put", note):
        assert passing_nodes(made, make_pod("p", cpu="1"), diagnosis) == []
    assert set(asked) == {"n1"}
    reasons = {name: diagnosis.status_of(name, row=made.cluster.row_of(name)).plugin for name in ("n0", "n1")}
    assert reasons == {"n0": "OnlyLabelled", "n1": "Fit"}
