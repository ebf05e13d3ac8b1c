"""Pods that are filed together would each have got the hint that one of them gets."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kuberth.api.core import Pod
from kuberth.cluster.pod_info import PodInfo
from kuberth.evaluation import Evaluator
from kuberth.framework.cluster_events import Action, ClusterEvent, Resource
from kuberth.framework.queued_pod import QueuedPod
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.queue.hints import Hints, QueueingStrategy
from kuberth.queue.unschedulable import EquallyRejected, UnschedulablePods
from kuberth.testing import make_node, make_pod
from tests.unit.scheduling.test_plans import HOST, ZONE, selecting

PLUGINS = ("InterPodAffinity", "PodTopologySpread")


def _placed(data: st.DataObject, name: str) -> Pod:
    pod = make_pod(name, node=data.draw(st.sampled_from(["n1", ""])), **data.draw(selecting()))
    return replace(pod, status=replace(pod.status, nominated_node_name="n1"))


def _event(data: st.DataObject, evaluator: Evaluator, name: str) -> tuple[ClusterEvent, Any, Any]:
    match data.draw(st.sampled_from(["came", "went", "relabelled", "node"])):
        case "came":
            return ClusterEvent(Resource.ASSIGNED_POD, Action.ADD), None, _placed(data, name)
        case "went":
            gone = _placed(data, name)
            if gone.spec.node_name:  # as it was in the table before
                evaluator.cluster.add_pod(PodInfo(gone))
                evaluator.cluster.remove_pod(gone.metadata.uid)
            return ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), gone, None
        case "relabelled":
            old = _placed(data, name)
            new = replace(old, metadata=_placed(data, name).metadata)
            return ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE_POD_LABEL), old, new
    old_node, new_node = (
        make_node("n1", labels={HOST: "n1", ZONE: data.draw(st.sampled_from(["a", "b"]))}) for _ in range(2)
    )
    return ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL), old_node, new_node


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_an_event_moves_the_pods_that_it_would_move_one_by_one(data: st.DataObject) -> None:
    evaluator = Evaluator()
    evaluator.add(make_node("n1", labels={HOST: "n1", ZONE: "a"}))
    profile = evaluator.runner.profile
    hints = Hints({profile.scheduler_name: profile.hints}, SchedulerMetrics())
    waiting = UnschedulablePods(hints)
    pods: list[QueuedPod] = []
    for step in range(20):
        queued = QueuedPod(PodInfo(make_pod(f"p{step}", **data.draw(selecting()))), timestamp_ns=0)
        queued.unschedulable_plugins = {data.draw(st.sampled_from(PLUGINS))}
        waiting.add(queued)
        pods.append(queued)
        event, old, new = _event(data, evaluator, f"other-{step}")
        found = waiting.concerned_by(event, old, new).pods
        worth = {each.key: hints.strategy_for(each, event, old, new) for each in pods}
        assert {each.key for each in found} >= {
            key for key, value in worth.items() if value is not QueueingStrategy.SKIP
        }
        judged: dict[EquallyRejected, QueueingStrategy] = {}
        for each in found:
            assert each.index_entry.equality is not None
            assert judged.get(each.index_entry.equality, worth[each.key]) is worth[each.key]
            if hints.signatures_hold(each.index_entry.equality.plugin_keys, each):
                judged[each.index_entry.equality] = worth[each.key]
