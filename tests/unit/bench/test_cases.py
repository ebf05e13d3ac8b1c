"""Reading files of test cases: everything scheduler_perf writes, and a place for everything that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from kuberth.bench.cases import (
    ThresholdMetricSelector,
    Workload,
    matches_labels,
    read_cases,
    read_workloads,
    select,
    shipped,
)
from kuberth.bench.operations import (
    OPCODES,
    Barrier,
    Churn,
    CreateAny,
    CreateNodes,
    CreatePods,
    CreateResourceDriver,
    UpdateAny,
)
from kuberth.errors import ConfigError

WHOLE = """
- name: Whole
  featureGates: {A: true, B: true}
  labels: [performance]
  schedulerConfigPath: scheduler.yaml
  defaultPodTemplatePath: ../templates/pod.yaml
  defaultThresholdMetricSelector: {name: some_seconds, dataBucket: Perc99, expectLower: true, labels: {a: b}}
  metricsCollectorConfig:
    metrics:
      some_seconds: [{label: a, values: [b, c]}]
      other_seconds: null
  workloadTemplate:
  - {opcode: createNodes, countParam: $nodes, uniqueNodeLabelStrategy: {labelKey: id}}
  - opcode: createNodes
    count: 2
    nodeTemplatePath: node.yaml
    nodeAllocatableStrategy:
      nodeAllocatable: {example.com/x: "3"}
      csiNodeAllocatable: {driver: {count: 5}}
      migratedPlugins: [kubernetes.io/aws-ebs]
  - {opcode: createNamespaces, prefix: ns, count: 2, namespaceTemplatePath: ns.yaml}
  - opcode: createPodSets
    countParam: $sets
    namespacePrefix: ns
    createPodsOp: {opcode: createPods, countParam: $pods, skipWaitToCompletion: true}
  - {opcode: createPods, count: 3, steadyStateParam: $steady, durationParam: $long, collectMetrics: true}
  - {opcode: createAny, templatePath: any.yaml}
  - {opcode: updateAny, templatePath: any.yaml, countParam: $pods, updatePerSecond: 5, subresources: [resize]}
  - {opcode: deletePods, namespace: ns-0, labelSelector: {a: b}, deletePodsPerSecond: 50}
  - {opcode: churn, mode: create, templatePaths: [a.yaml]}
  - {opcode: barrier, namespaces: [ns-1], stageRequirement: Attempted}
  - {opcode: sleep, duration: 1s500ms}
  - {opcode: startCollectingMetrics, name: x, namespaces: [ns-0]}
  - {opcode: stopCollectingMetrics}
  - {opcode: createResourceDriver, driverName: d, nodes: "*", maxClaimsPerNodeParam: $pods}
  - {opcode: createResourceClaims, namespace: x, templatePath: c.yaml, count: 1}
  - {opcode: allocResourceClaims, namespace: x}
  workloads:
  - name: a/b
    featureGates: {B: false}
    labels: [short]
    threshold: {misc: 12.5, other: 3}
    params: {nodes: 5, sets: 2, pods: 4, steady: true, long: 10s}
  - name: plain
    threshold: 30
    thresholdMetricSelector: {name: SchedulingThroughput, dataBucket: Average}
    params: {nodes: 5, sets: 0, pods: 4, steady: false, long: 10s}
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "misc" / "performance-config.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def test_everything_that_can_be_written(tmp_path: Path) -> None:
    (case,) = read_cases(written(tmp_path, WHOLE))
    assert {operation.opcode for operation in case.operations} == set(OPCODES)
    assert case.default_pod_template == case.file.parent / "../templates/pod.yaml"
    assert case.scheduler_config == case.file.parent / "scheduler.yaml"
    first, second = case.workloads
    assert str(first) == "Whole/a/b"
    assert first.gates == {"A": True, "B": False}
    assert first.labels == {"performance", "short"}
    assert first.threshold == 12.5, "of the topic, which is the folder"
    assert first.selector == ThresholdMetricSelector(
        name="some_seconds", data_bucket="Perc99", expect_lower=True, labels={"a": "b"}
    )
    assert second.threshold == 30
    assert second.selector == ThresholdMetricSelector()
    assert first.has_devices
    assert first.refusal() is None


def test_parameters_are_filled_in_and_sets_taken_apart(tmp_path: Path) -> None:
    first, second = read_cases(written(tmp_path, WHOLE))[0].workloads
    steps = first.steps()
    nodes, sets, steady = steps[0], steps[3:5], steps[5]
    assert isinstance(nodes, CreateNodes)
    assert nodes.count == 5
    assert [each.namespace for each in sets if isinstance(each, CreatePods)] == [
        "ns-0",
        "ns-1",
    ]
    assert isinstance(steady, CreatePods)
    assert (steady.steady_state, steady.seconds) == (True, 10.0)
    assert len(second.steps()) == len(steps) - 2, "no sets"


BASE = "{opcode: createPods, count: 1, collectMetrics: true}"


def case_with(operation: str = BASE, workload: str = "{name: w}", more: str = "") -> str:
    return (
        f"- name: C\n{more}  workloadTemplate:\n  - {operation}\n  - {BASE}\n  workloads:\n  - {workload}\n"
    )


@pytest.mark.parametrize(
    "text, expected",
    [
        ("5", "expected a list of test cases"),
        ("[]", "expected a list of test cases"),
        ("a: [", "is no YAML"),
        ("- name: C\n  name: D\n", "performance-config.yaml"),
        (case_with("{opcode: fly}"), 'case C: op 0 (fly): unknown opcode "fly"'),
        (case_with("{opcode: creatPods}"), 'did you mean "createPods"?'),
        (case_with("{count: 1}"), "op 0 (without an opcode): an operation is a mapping with an opcode"),
        (case_with("5"), "op 0 (without an opcode)"),
        (
            case_with("{opcode: sleep, second: 1}"),
            "op 0 (sleep): second: unknown field; known are duration, durationParam, opcode",
        ),
        (case_with("{opcode: sleep, duration: soon}"), "op 0 (sleep): the duration"),
        (
            case_with("{opcode: createPods, count: two}"),
            'op 0 (createPods): count: expected an integer, got "two"',
        ),
        (case_with("{opcode: createPods, count: -1}"), "count: expected an integer >= 0, got -1"),
        (
            case_with("{opcode: createPods, countParam: many}"),
            "a parameter is written with a dollar sign: $many",
        ),
        (
            case_with("{opcode: createPods, collectMetrics: true, skipWaitToCompletion: true}"),
            "collectMetrics and skipWaitToCompletion cannot both be true",
        ),
        (
            case_with("{opcode: createPods, steadyState: true, skipWaitToCompletion: true}"),
            "skipWaitToCompletion and steadyState cannot both be true",
        ),
        (case_with("{opcode: createPods, persistentVolumeTemplatePath: a}"), "go together"),
        (case_with("{opcode: createPodSets, namespacePrefix: a}"), "createPodsOp: required, but missing"),
        (
            case_with(
                "{opcode: createPodSets, namespacePrefix: a, createPodsOp: {opcode: createPods, many: 1}}"
            ),
            "createPodsOp.many: unknown field",
        ),
        (case_with("{opcode: createNamespaces}"), "prefix: required, but missing"),
        (case_with("{opcode: createAny}"), "templatePath: required, but missing"),
        (
            case_with("{opcode: updateAny, templatePath: a, updatePerSecond: -2}"),
            "updatePerSecond: expected an integer >= 0, got -2",
        ),
        (case_with("{opcode: deletePods}"), "namespace: required, but missing"),
        (
            case_with("{opcode: churn, mode: shake}"),
            'mode: expected one of "create", "recreate"',
        ),
        (case_with("{opcode: churn, mode: recreate, templatePaths: [a]}"), "needs a number"),
        (case_with("{opcode: churn, mode: create}"), "templatePaths: required, but missing"),
        (
            case_with("{opcode: barrier, stageRequirement: Done}"),
            'stageRequirement: expected one of ""',
        ),
        (case_with("{opcode: startCollectingMetrics}"), "namespaces: required, but missing"),
        (
            case_with("{opcode: createNodes, labelNodePrepareStrategy: {labelKey: a, labelValues: []}}"),
            "labelNodePrepareStrategy.labelValues: expected",
        ),
        (case_with("{opcode: createResourceDriver, nodes: a}"), "driverName: required, but missing"),
        (case_with("{opcode: createResourceClaims, namespace: a}"), "templatePath: required, but missing"),
        (
            case_with(workload="{name: w, size: 5}"),
            "case C: workload w: size: unknown field; known are name, params",
        ),
        (case_with(workload="{}"), "case C: workload 0: name: required, but missing"),
        (case_with(workload="{name: w, threshold: -1}"), "a threshold cannot be below zero, but is -1"),
        (case_with(workload="{name: w, threshold: fast}"), "workload w: "),
        (case_with(workload="{name: w}\n  - {name: w}"), "the workload w is defined twice"),
        (case_with() + case_with(), "the case C is defined twice"),
        (case_with(more="  speed: 1\n"), "case C: speed: unknown field"),
        ("- name: C\n  workloadTemplate: [{opcode: sleep}]\n  workloads: [{name: w}]", "nothing is measured"),
        (f"- name: C\n  workloadTemplate: [{BASE}]\n", "the case has no workloads"),
    ],
    ids=lambda text: text[-50:].strip().replace("\n", " "),
)
def test_problems_are_reported_with_their_place(tmp_path: Path, text: str, expected: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(ConfigError) as error:
        read_cases(file)
    assert str(file) in str(error.value)
    assert expected in str(error.value)


@pytest.mark.parametrize(
    "operation, workload, expected",
    [
        (
            "{opcode: createPods, countParam: $many}",
            "{name: w}",
            "the parameter $many is not given; the workload has none",
        ),
        ("{opcode: createPods, countParam: $nods}", "{name: w, params: {nodes: 1}}", 'did you mean "nodes"?'),
        (
            "{opcode: createPods, countParam: $many}",
            "{name: w, params: {many: 1.5}}",
            "count: expected an integer, got 1.5; from $many",
        ),
        (
            "{opcode: createPods, countParam: $many}",
            "{name: w, params: {many: true}}",
            "count: expected an integer, got true; from $many",
        ),
        (
            "{opcode: createPods, countParam: $many}",
            "{name: w, params: {many: -1}}",
            "count: expected an integer >= 0, got -1; from $many",
        ),
        (
            "{opcode: sleep, durationParam: $d}",
            "{name: w, params: {d: 5}}",
            "duration: expected a string, got 5; from $d",
        ),
        ("{opcode: sleep, durationParam: $d}", "{name: w, params: {d: soon}}", "the duration"),
        ("{opcode: createPods, steadyState: true, count: 1}", "{name: w}", "a duration above zero"),
        ("{opcode: createPods, steadyState: true, duration: 1s}", "{name: w}", "a count above zero"),
    ],
)
def test_parameters_that_do_not_fit(tmp_path: Path, operation: str, workload: str, expected: str) -> None:
    (found,) = read_workloads(written(tmp_path, case_with(operation, workload)))
    with pytest.raises(ConfigError) as error:
        found.steps()
    assert "case C: workload w: op 0" in str(error.value)
    assert expected in str(error.value)


def test_workloads_with_devices_are_known_by_gate_operation_or_object(tmp_path: Path) -> None:
    of_class = case_with("{opcode: createAny, templatePath: class.yaml}")
    (found,) = read_workloads(written(tmp_path, of_class))
    assert not found.has_devices
    found.case.path("class.yaml").write_text(
        "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\n", encoding="utf-8"
    )
    (found,) = read_workloads(written(tmp_path, of_class))
    assert found.has_devices
    (found,) = read_workloads(written(tmp_path, case_with("{opcode: allocResourceClaims}")))
    assert found.has_devices
    gates = "{name: w, featureGates: {DynamicResourceAllocation: true}}"
    (found,) = read_workloads(written(tmp_path, case_with(workload=gates)))
    assert found.has_devices


def test_an_unused_parameter_is_refused(tmp_path: Path) -> None:
    (found,) = read_workloads(written(tmp_path, case_with(workload="{name: w, params: {nodes: 1}}")))
    assert str(found.refusal()).startswith("no operation takes $nodes; a name may be misspelled")


@pytest.mark.parametrize(
    "labels, present, passes",
    [
        ("", [], True),
        ("performance", ["performance", "short"], True),
        ("performance", ["short"], False),
        ("performance,-short", ["performance", "short"], False),
        ("+performance, !short", ["performance"], True),
        ("-fast", [], True),
    ],
)
def test_filters_of_labels(labels: str, present: list[str], passes: bool) -> None:
    assert matches_labels(labels, present) is passes


def test_choosing_by_name(tmp_path: Path) -> None:
    workloads = read_workloads(written(tmp_path, WHOLE))
    assert [str(each) for each in select(workloads, "Whole")] == ["Whole/a/b", "Whole/plain"]
    assert [str(each) for each in select(workloads, "Whole/a/b")] == ["Whole/a/b"]
    assert [str(each) for each in select(workloads, labels="short")] == ["Whole/a/b"]
    for name, expected in (
        ("Whol", 'there is no case Whol; did you mean "Whole"?'),
        ("Zzz", "there is no case Zzz; there are Whole; --list shows all"),
        ("Whole/plane", 'has no workload plane; did you mean "plain"?'),
    ):
        with pytest.raises(ConfigError) as error:
            select(workloads, name)
        assert expected in str(error.value)
    with pytest.raises(ConfigError, match="no workload passes the filter of labels 'slow'"):
        select(workloads, labels="slow")


@pytest.mark.parametrize("workload", shipped(), ids=str)
def test_what_ships_can_be_run(workload: Workload) -> None:
    assert workload.refusal() is None
    for step in workload.steps():
        for path in templates(step):
            assert workload.case.path(path).is_file(), path


def templates(operation: object) -> list[str]:
    if isinstance(operation, CreatePods):
        return [path for path in [operation.pod_template_path] if path]
    if isinstance(operation, CreateNodes):
        return [path for path in [operation.node_template_path] if path]
    if isinstance(operation, CreateAny):
        return [operation.template_path]
    if isinstance(operation, Churn):
        return list(operation.template_paths)
    assert isinstance(operation, Barrier | UpdateAny | CreateResourceDriver)
    return []
