"""Answers a case with Kuberth and compares with what kube-scheduler answered.

In: a case. Out: the differences as readable lines; none means that the answers are equal.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from kuberth.api import wire
from kuberth.api.kinds import KINDS
from kuberth.cluster.pod_info import PodInfo
from kuberth.config import FeatureGates, KubeSchedulerConfiguration, load
from kuberth.errors import KuberthError
from kuberth.evaluation import Answer, Evaluator
from kuberth.framework.cluster_events import Action, ClusterEvent
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.diagnosis import Diagnosis
from kuberth.framework.status import Status
from kuberth.scheduling.cycle import SchedulingCycle
from kuberth.scheduling.sampling import Sampler
from tests.conformance.cases import Case
from tests.conformance.devices import devices_answer, without_cel_texts, without_empty_conditions
from tests.conformance.queue_trace import replay_queue
from tests.conformance.selectors import differing_answers

_OBJECTS = {
    "nodes": "Node",
    "pods": "Pod",
    "namespaces": "Namespace",
    "services": "Service",
    "replicaSets": "ReplicaSet",
    "persistentVolumes": "PersistentVolume",
    "persistentVolumeClaims": "PersistentVolumeClaim",
    "storageClasses": "StorageClass",
    "csiNodes": "CSINode",
    "csiDrivers": "CSIDriver",
    "csiStorageCapacities": "CSIStorageCapacity",
    "podDisruptionBudgets": "PodDisruptionBudget",
    "resourceClaims": "ResourceClaim",
    "resourceSlices": "ResourceSlice",
    "deviceClasses": "DeviceClass",
    "deviceTaintRules": "DeviceTaintRule",
    "podGroups": "PodGroup",
}


def differences(case: Case) -> list[str]:
    """What Kuberth answers otherwise."""
    if case["kind"] == "cel":
        return differing_answers(case)
    answer = _ANSWERS[case["kind"]]
    expected = case["expect"]
    if case["kind"] == "large":
        # How many nodes were begun with before a parallel search ended says nothing about a serial one.
        steps = [{key: step[key] for key in step if key != "examined"} for step in expected["steps"]]
        expected = {"steps": steps}
    try:
        given = answer(case)
    except KuberthError as exc:
        return [f"failed: {exc}"]
    if case["kind"] == "dra":
        # Steps of a search that tries what cannot succeed say nothing about one that does not.
        dra = {key: value for key, value in expected["dra"].items() if key != "searchSteps"}
        expected = without_empty_conditions(without_cel_texts({**expected, "dra": dra}))
        given = without_cel_texts(given)
    return _compare("", expected, given)


def object_of(kind: str, tree: dict[str, Any]) -> Any:
    return wire.convert(KINDS[kind].type, tree)


def objects_of(case: Case) -> list[Any]:
    return [object_of(kind, tree) for field, kind in _OBJECTS.items() for tree in case.get(field) or ()]


def evaluator_of(case: Case) -> Evaluator:
    objects = objects_of(case)
    config: KubeSchedulerConfiguration | None = load(case["config"]) if case.get("config") else None
    gates = FeatureGates(case["featureGates"]) if case.get("featureGates") else None
    return Evaluator(objects, config=config, feature_gates=gates)


def warmed_evaluator_of(case: Case) -> Evaluator:
    """One that has met pods like the case's before, in a cluster that changed meanwhile and changed back."""
    evaluator = evaluator_of(case)
    cluster, pod = evaluator.cluster, object_of("Pod", case["pod"])
    with suppress(KuberthError):  # the case's own question will meet it again
        for _ in range(2):  # the second makes a plan, the case's own uses it
            evaluator.evaluate(pod)
    for node in list(cluster.all_nodes()):
        real = node.node
        spec = replace(real.spec, taints=(), unschedulable=not real.spec.unschedulable)
        cluster.set_node(replace(real, spec=spec))
        guest = PodInfo(pod).placed_on(node.name)
        guest.uid = f"guest of {node.name}"
        cluster.add_pod(guest)
        with suppress(KuberthError):
            evaluator.evaluate(pod, score=False)
        cluster.remove_pod(guest.uid)
        cluster.set_node(real)
    return evaluator


def _status(status: Status) -> dict[str, Any]:
    result: dict[str, Any] = {"plugin": status.plugin, "code": status.code.label}
    if status.reasons:
        result["reasons"] = sorted(status.reasons)
    return {key: value for key, value in result.items() if value}


def _filtering(answer: Answer) -> dict[str, Any]:
    result: dict[str, Any] = {"feasible": list(answer.feasible)}
    if answer.pre_filter is not None:
        result["preFilter"] = _status(answer.pre_filter)
    if answer.considered is not None:
        result["preFilterNodes"] = list(answer.considered)
    if answer.rejections:
        result["filter"] = {name: _status(status) for name, status in answer.rejections.items()}
    return result


def _schedule(case: Case) -> dict[str, Any]:
    answer = warmed_evaluator_of(case).evaluate(object_of("Pod", case["pod"]))
    result = _filtering(answer)
    if answer.feasible:
        result["scores"] = {plugin: dict(scores) for plugin, scores in answer.scores.items()}
        result["totals"] = dict(answer.totals)
    return result


def _preempt(case: Case) -> dict[str, Any]:
    answer, preemption = warmed_evaluator_of(case).preempt(object_of("Pod", case["pod"]))
    result = _filtering(answer)
    if preemption is not None:
        result["postFilter"] = {
            key: value for key, value in _status(preemption.status).items() if key != "reasons"
        }
        if preemption.nominated_node:
            result["nominatedNode"] = preemption.nominated_node
        if preemption.victims:
            result["victims"] = list(preemption.victims)
    return result


def _large(case: Case) -> dict[str, Any]:
    """Pods one after the other, searched for as a cycle does: not on all nodes, each time from another on."""
    evaluator = evaluator_of(case)
    cluster, runner, sampler = evaluator.cluster, evaluator.runner, Sampler()
    config = load(case["config"]) if case.get("config") else None
    cycle = SchedulingCycle(
        cluster,
        nominator=evaluator.nominator,
        metrics=runner.metrics,
        sampling=sampler,
        percentage_of_nodes_to_score=None if config is None else config.percentage_of_nodes_to_score,
    )
    steps = []
    for tree in case["podSequence"]:
        pod = object_of("Pod", tree)
        state, diagnosis, start = CycleState(PodInfo(pod)), Diagnosis(), sampler.position
        found = cycle.search(state, pod, runner, diagnosis)
        if isinstance(found, Status):
            raise KuberthError(found.message)
        nodes, evaluated = found
        step: dict[str, Any] = {"pod": pod.metadata.name, "start": start, "next": sampler.position}
        step |= {"evaluated": evaluated, "feasible": nodes.names()}
        if not len(nodes):
            step["message"] = diagnosis.message(cluster.node_count)
        elif len(nodes) > 1:
            scores = cycle.rank(state, pod, runner, nodes)
            if isinstance(scores, Status):
                raise KuberthError(scores.message)
            step["totals"] = dict(zip(nodes.names(), scores.totals.tolist(), strict=True))
        steps.append(step)
    return {"steps": steps}


def _hint(case: Case) -> dict[str, Any]:
    event = case["event"]
    kind = event["resource"].rpartition("/")[2]
    old, new = (object_of(kind, event[which]) if event.get(which) else None for which in ("old", "new"))
    hints = evaluator_of(case).hints(
        object_of("Pod", case["pod"]),
        ClusterEvent(event["resource"], Action.from_label(event["action"])),
        old,
        new,
    )
    return {"hints": {plugin: hint.value for plugin, hint in hints.items()}} if hints else {}


def _devices(case: Case) -> dict[str, Any]:
    return devices_answer(case, objects_of(case))


_ANSWERS = {
    "large": _large,
    "schedule": _schedule,
    "preempt": _preempt,
    "hint": _hint,
    "queue": replay_queue,
    "dra": _devices,
}


def _compare(path: str, expected: Any, given: Any) -> list[str]:
    if isinstance(expected, dict) and isinstance(given, dict):
        lines: list[str] = []
        for key in [*expected, *(key for key in given if key not in expected)]:
            where = f"{path}.{key}" if path else str(key)
            if key not in given:
                lines.append(f"{where}: expected {expected[key]!r}, got nothing")
            elif key not in expected:
                lines.append(f"{where}: expected nothing, got {given[key]!r}")
            else:
                lines += _compare(where, expected[key], given[key])
        return lines
    if isinstance(expected, list) and isinstance(given, list) and len(expected) == len(given):
        return [
            line
            for index, (one, other) in enumerate(zip(expected, given, strict=True))
            for line in _compare(f"{path}[{index}]", one, other)
        ]
    return [] if expected == given else [f"{path}: expected {expected!r}, got {given!r}"]
