"""What a scheduler logs about a pod at each level, in kube-scheduler's words."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from kuberth.clock import run_in_virtual_time
from kuberth.observe import verbosity
from kuberth.testing import make_node, make_pod
from kuberth.testing.harness import running

Lines = list[tuple[int, str, dict[str, Any]]]


@pytest.fixture
def level() -> Iterator[Any]:
    def change(number: int) -> None:
        verbosity.level = number

    yield change
    verbosity.level = 0


def log_of_two_pods(caplog: pytest.LogCaptureFixture) -> Lines:
    """One pod that fits, one that fits only the node that comes later, and an event that is no help."""

    async def scenario() -> None:
        nodes = [
            make_node(f"n{i}", allocatable={"cpu": "4", "memory": "8Gi", "pods": "110"}) for i in range(2)
        ]
        async with running(*nodes) as world:
            world.api.put(make_pod("fits", requests={"cpu": "1"}))
            await world.bound("fits")
            world.api.put(make_pod("big", requests={"cpu": "64"}))
            await world.in_queue("big", "unschedulable")
            world.api.put(make_node("small", allocatable={"cpu": "1", "memory": "1Gi", "pods": "110"}))
            await world.quiet()

    with caplog.at_level(logging.INFO, logger=verbosity.__name__):
        run_in_virtual_time(scenario)
    return [
        (record.v, record.message, record.fields)  # type: ignore[attr-defined]  # what verbosity adds
        for record in caplog.records
        if record.name == verbosity.__name__
    ]


def messages(lines: Lines) -> set[str]:
    return {message for _, message, _ in lines}


def test_level_0_logs_nothing(level: Any, caplog: pytest.LogCaptureFixture) -> None:
    level(0)
    assert log_of_two_pods(caplog) == []


def test_level_2_logs_results(level: Any, caplog: pytest.LogCaptureFixture) -> None:
    level(2)
    bound, unbound = log_of_two_pods(caplog)
    assert bound[:2] == (2, "Successfully bound pod to node")
    assert bound[2]["pod"].metadata.name == "fits"
    assert bound[2]["node"] in ("n0", "n1")
    assert (bound[2]["evaluatedNodes"], bound[2]["feasibleNodes"]) == (2, 2)
    assert unbound[:2] == (2, "Unable to schedule pod; no fit; waiting")
    assert unbound[2]["err"].startswith("0/2 nodes are available: 2 Insufficient cpu.")


def test_level_3_logs_attempts(level: Any, caplog: pytest.LogCaptureFixture) -> None:
    level(3)
    lines = log_of_two_pods(caplog)
    assert [(message, fields["pod"].metadata.name) for number, message, fields in lines if number == 3] == [
        ("Attempting to schedule pod", "fits"),
        ("Attempting to bind pod to node", "fits"),
        ("Attempting to schedule pod", "big"),
    ]


def test_level_4_logs_the_scores_of_the_chosen_node(level: Any, caplog: pytest.LogCaptureFixture) -> None:
    level(4)
    lines = log_of_two_pods(caplog)
    chosen = next(fields["node"] for _, message, fields in lines if message.startswith("Successfully"))
    by_plugin = {
        fields["plugin"]: fields["score"]
        for _, message, fields in lines
        if message == "Plugin scored node for pod" and fields["node"] == chosen
    }
    finals = [fields for _, message, fields in lines if message == "Calculated node's final score for pod"]
    assert by_plugin["TaintToleration"] == 300
    assert [(final["node"], final["score"]) for final in finals] == [(chosen, sum(by_plugin.values()))]
    assert len(by_plugin) == len([1 for _, message, _ in lines if message == "Plugin scored node for pod"])


def test_level_5_logs_every_hint(level: Any, caplog: pytest.LogCaptureFixture) -> None:
    level(5)
    lines = log_of_two_pods(caplog)
    answers = [fields for _, message, fields in lines if message == "Queueing hint answered"]
    assert {
        (fields["pod"].metadata.name, fields["plugin"], fields["event"], fields["hint"]) for fields in answers
    } >= {("big", "NodeResourcesFit", "NodeAdd", "QueueSkip")}
    assert ("big", "NodeAdd") in {
        (fields["pod"].metadata.name, fields["event"])
        for _, message, fields in lines
        if message == "Event is not making pod schedulable"
    }
    assert "Status after running PostFilter plugins for pod" in messages(lines)


def test_level_10_logs_the_scores_of_all_nodes(level: Any, caplog: pytest.LogCaptureFixture) -> None:
    level(10)
    lines = log_of_two_pods(caplog)
    finals = [fields for _, message, fields in lines if message == "Calculated node's final score for pod"]
    assert {final["node"] for final in finals} == {"n0", "n1"}
