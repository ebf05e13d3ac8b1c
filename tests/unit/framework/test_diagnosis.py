"""What FailedScheduling says, and the status of single nodes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kuberth.framework.diagnosis import ABSENT, Diagnosis, FitError
from kuberth.framework.status import Code, Status
from kuberth.framework.verdict import Verdict

CPU = Status.unschedulable("Insufficient cpu")
CPU_AND_MEMORY = Status.unschedulable("Insufficient cpu", "Insufficient memory")
TAINT = Status.unresolvable("node(s) had untolerated taint(s)")
NOT_HELPFUL = "preemption: 0/{0} nodes are available: {0} Preemption is not helpful for scheduling."


def diagnosis_of(
    *statuses: Status, pre_filter: str = "", post_filter: str = "", absent: Status | None = None
) -> Diagnosis:
    """A diagnosis of nodes node-0, node-1 and so on."""
    diagnosis = Diagnosis()
    for index, status in enumerate(statuses):
        diagnosis.set(f"node-{index}", status)
    if pre_filter:
        diagnosis.reject_all(Status.unschedulable(pre_filter))
    if post_filter:
        diagnosis.post_filter = Status.unschedulable(post_filter)
    if absent is not None:
        diagnosis.absent_status = absent
    return diagnosis


@pytest.mark.parametrize(
    ("diagnosis", "nodes", "message"),
    [
        pytest.param(diagnosis_of(CPU), 1, "0/1 nodes are available: 1 Insufficient cpu.", id="one node"),
        pytest.param(
            diagnosis_of(CPU_AND_MEMORY),
            1,
            "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory.",
            id="one node, two reasons",
        ),
        pytest.param(
            diagnosis_of(CPU, TAINT, CPU),
            3,
            "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu.",
            id="reasons are counted and sorted",
        ),
        pytest.param(
            diagnosis_of(*[CPU] * 10, *[TAINT] * 9),
            19,
            "0/19 nodes are available: 10 Insufficient cpu, 9 node(s) had untolerated taint(s).",
            id="sorted as text, not as numbers",
        ),
        pytest.param(
            diagnosis_of(CPU_AND_MEMORY, CPU),
            2,
            "0/2 nodes are available: 1 Insufficient memory, 2 Insufficient cpu.",
            id="a node counts for each of its reasons",
        ),
        pytest.param(
            diagnosis_of(CPU),
            3,
            "0/3 nodes are available: 1 Insufficient cpu.",
            id="nodes not looked at have no reason",
        ),
        pytest.param(
            diagnosis_of(CPU, absent=Status.unresolvable("node(s) didn't satisfy plugin(s) [NodeAffinity]")),
            3,
            "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity].",
            id="nodes that PreFilter ruled out",
        ),
        pytest.param(
            diagnosis_of(pre_filter='persistentvolumeclaim "data" not found'),
            4,
            '0/4 nodes are available: persistentvolumeclaim "data" not found.',
            id="PreFilter rejected the pod",
        ),
        pytest.param(
            diagnosis_of(pre_filter="no node will do", absent=Status.unresolvable("no node will do")),
            4,
            "0/4 nodes are available: no node will do.",
            id="the reason of PreFilter is stated once, not by node",
        ),
        pytest.param(diagnosis_of(), 2, "0/2 nodes are available:", id="no reason at all"),
        pytest.param(
            diagnosis_of(CPU, post_filter=NOT_HELPFUL.format(1)),
            1,
            "0/1 nodes are available: 1 Insufficient cpu. "
            "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
            id="one node, and preemption",
        ),
        pytest.param(
            diagnosis_of(
                CPU, TAINT, CPU, post_filter="no new claims to deallocate, " + NOT_HELPFUL.format(3)
            ),
            3,
            "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. "
            "no new claims to deallocate, "
            "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
            id="many nodes, and two PostFilter plugins",
        ),
        pytest.param(
            diagnosis_of(pre_filter="no", post_filter=NOT_HELPFUL.format(2)),
            2,
            "0/2 nodes are available: no. "
            "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
            id="PreFilter, and preemption",
        ),
    ],
)
def test_the_message(diagnosis: Diagnosis, nodes: int, message: str) -> None:
    assert diagnosis.message(nodes) == message
    assert str(FitError(diagnosis, nodes)) == message


def test_a_rejection_by_no_plugin_names_no_plugin() -> None:
    """An extender's, or what plugins left nothing of together: any event may help, not only some hint's."""
    diagnosis = diagnosis_of(CPU, Status.pending("soon"))
    diagnosis.reject_all(TAINT)
    assert diagnosis.unschedulable_plugins == set()
    assert diagnosis.pending_plugins == set()


def blocks() -> Diagnosis:
    """Rows 3, 5 and 9 rejected by one plugin with two codes, row 4 by another, node-x by name."""
    diagnosis = Diagnosis()
    rows, codes = np.array([3, 5, 9]), np.array([1, 2, 1])
    diagnosis.add_block("NodeResourcesFit", rows, Verdict.choosing(codes, CPU, CPU_AND_MEMORY), codes)
    one = np.array([1])
    diagnosis.add_block("TaintToleration", np.array([4]), Verdict.choosing(one, TAINT), one)
    diagnosis.set("node-x", Status.pending("soon").by("Gang"))
    return diagnosis


def test_blocks_are_counted_like_single_nodes() -> None:
    assert len(blocks()) == 5
    assert blocks().message(6) == (
        "0/6 nodes are available: 1 Insufficient memory, 1 node(s) had untolerated taint(s), 1 soon, "
        "3 Insufficient cpu."
    )


def test_rejecting_plugins_are_recorded_for_the_hints() -> None:
    diagnosis = blocks()
    assert diagnosis.unschedulable_plugins == {"NodeResourcesFit", "TaintToleration", "Gang"}
    assert diagnosis.pending_plugins == {"Gang"}
    diagnosis.set("n9", Status.error("broken").by("Failing"))
    assert "Failing" not in diagnosis.unschedulable_plugins


@pytest.mark.parametrize(
    ("name", "row", "expected"),
    [
        pytest.param("node-3", 3, CPU.by("NodeResourcesFit"), id="in a block"),
        pytest.param("node-5", 5, CPU_AND_MEMORY.by("NodeResourcesFit"), id="with another code"),
        pytest.param("node-4", 4, TAINT.by("TaintToleration"), id="in another block"),
        pytest.param("node-x", 3, Status.pending("soon").by("Gang"), id="by name, whatever its row"),
        pytest.param("node-8", 8, ABSENT, id="not looked at"),
        pytest.param("gone", None, ABSENT, id="not in the table"),
    ],
)
def test_the_status_of_one_node(name: str, row: int | None, expected: Status) -> None:
    assert blocks().status_of(name, row=row) == expected


def test_a_node_not_looked_at_is_out_of_reach_for_preemption() -> None:
    assert Diagnosis().status_of("any", row=0).code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_nodes_that_pre_filter_left_out_are_reported_with_its_plugins() -> None:
    diagnosis = diagnosis_of(CPU)
    diagnosis.narrow(frozenset({"node-0"}), by={"NodeAffinity", "Mine"})
    assert diagnosis.considered == frozenset({"node-0"})
    left_out = "node(s) didn't satisfy plugin(s) [Mine NodeAffinity]"
    assert diagnosis.status_of("node-1", row=1) == Status.unresolvable(left_out)
    assert diagnosis.message(3) == f"0/3 nodes are available: 1 Insufficient cpu, 2 {left_out}."


@pytest.mark.parametrize(
    "many",
    [
        pytest.param(lambda d: list(d.rows()), id="rows"),
        pytest.param(lambda d: list(d.counts()), id="counts"),
    ],
)
def test_every_status_names_its_plugin(many: Callable[[Diagnosis], list[tuple[object, object]]]) -> None:
    found = {part for pair in many(blocks()) for part in pair if isinstance(part, Status)}
    assert {
        CPU.by("NodeResourcesFit"),
        CPU_AND_MEMORY.by("NodeResourcesFit"),
        TAINT.by("TaintToleration"),
    } <= found
