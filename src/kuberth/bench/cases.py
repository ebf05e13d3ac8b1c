"""Reads files of test cases in the format of scheduler_perf.

In: a YAML file, or names and a label filter. Out: its cases, every workload with its steps, labels, gates and
threshold; or an error that names the file, the case, the workload and the operation. Paths of templates are
those of the file's folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from kuberth.bench.operations import (
    DEVICE_OPERATIONS,
    CreateAny,
    CreatePods,
    CreatePodSets,
    Operation,
    Params,
    Scalar,
    read_operation,
    with_params,
)
from kuberth.errors import ConfigError
from kuberth.text.decoding import decode_tree
from kuberth.text.documents import read_file
from kuberth.text.field_errors import InvalidConfiguration, did_you_mean

THROUGHPUT: Final = "SchedulingThroughput"


class ThresholdMetricSelector(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The figure that a threshold limits."""

    name: str = THROUGHPUT
    labels: dict[str, str] = {}
    data_bucket: str = "Average"
    expect_lower: bool = False


class LabelValues(msgspec.Struct, frozen=True):
    label: str
    values: tuple[str, ...]


class MetricsCollectorConfig(msgspec.Struct, frozen=True):
    """The histograms of the scheduler to report, each once for every combination of label values."""

    metrics: dict[str, tuple[LabelValues, ...] | None] = {}


class _CaseFields(msgspec.Struct, kw_only=True, rename="camel"):
    name: str
    feature_gates: dict[str, bool] = {}
    metrics_collector_config: MetricsCollectorConfig | None = None
    workload_template: list[Any] = []
    workloads: list[Any] = []
    scheduler_config_path: str = ""
    default_pod_template_path: str = ""
    labels: tuple[str, ...] = ()
    default_threshold_metric_selector: ThresholdMetricSelector | None = None


class _WorkloadFields(msgspec.Struct, kw_only=True, rename="camel"):
    name: str
    params: dict[str, Scalar] = {}
    labels: tuple[str, ...] = ()
    threshold: float | dict[str, float] = 0.0
    threshold_metric_selector: ThresholdMetricSelector | None = None
    feature_gates: dict[str, bool] = {}


@dataclass(frozen=True)
class TestCase:
    """The parts that the workloads of a test case share."""

    __test__ = False  # pytest collects classes with this name

    file: Path
    name: str
    operations: Sequence[Operation]
    labels: frozenset[str]
    metrics: Mapping[str, tuple[LabelValues, ...] | None]
    scheduler_config: Path | None
    default_pod_template: Path | None
    topic: str
    """The key of the threshold that applies, if a workload has several."""
    workloads: list[Workload] = field(default_factory=list, repr=False)

    def path(self, relative: str) -> Path:
        return self.file.parent / relative


@dataclass(frozen=True)
class Workload:
    """A test case in one size."""

    case: TestCase = field(repr=False)
    name: str
    params: Mapping[str, Scalar]
    labels: frozenset[str]
    """The labels of the workload and of its case."""
    gates: Mapping[str, bool]
    threshold: float
    """The threshold of the throughput, or of the metric in `selector`; 0 if there is none."""
    selector: ThresholdMetricSelector

    def __str__(self) -> str:
        return f"{self.case.name}/{self.name}"

    @property
    def where(self) -> str:
        """The place of the workload, for messages."""
        return f"{self.case.file}: case {self.case.name}: workload {self.name}"

    def steps(self) -> Sequence[Operation]:
        """The operations with their parameters; a set of pods is one operation for each namespace."""
        return self._resolve()[0]

    @property
    def has_devices(self) -> bool:
        """Whether a claim controller is needed."""
        return self.gates.get("DynamicResourceAllocation", False) or any(
            isinstance(each, DEVICE_OPERATIONS)
            or (isinstance(each, CreateAny) and _is_dra_template(self.case.path(each.template_path)))
            for each in self.case.operations
        )

    def refusal(self) -> str | None:
        """Why this workload cannot run here; None if it can."""
        if unused := self._resolve()[1]:
            names = ", ".join(f"${name}" for name in unused)
            return (
                f"no operation takes {names}; a name may be misspelled, or only the Go code of its test "
                "reads it"
            )
        return None

    def _resolve(self) -> tuple[Sequence[Operation], Sequence[str]]:
        """The operations, and the parameters that none of them takes."""
        params = Params(self.params)
        steps: list[Operation] = []
        for index, operation in enumerate(self.case.operations):
            with _problems_at(f"{self.where}: op {index} ({operation.opcode})"):
                steps += _expand_pod_sets(with_params(operation, params), params)
        return steps, params.unused()


@contextmanager
def _problems_at(where: str) -> Iterator[None]:
    """Raise problems as ConfigError with their place."""
    try:
        yield
    except (ValueError, InvalidConfiguration) as error:
        raise ConfigError(f"{where}: {error}") from error


def _is_dra_template(template: Path) -> bool:
    try:
        return "apiVersion: resource.k8s.io/" in template.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False  # the error is reported when the file is used


def _expand_pod_sets(operation: Operation, params: Params) -> Iterator[Operation]:
    if not isinstance(operation, CreatePodSets):
        yield operation
        return
    pods: CreatePods = with_params(operation.create_pods_op, params)
    for number in range(operation.count):
        yield msgspec.structs.replace(pods, namespace=f"{operation.namespace_prefix}-{number}")


def read_cases(file: Path, *, topic: str = "") -> Sequence[TestCase]:
    """Read the test cases of a file; ConfigError for any problem of the file."""
    tree = read_file(file, "test cases")
    if not isinstance(tree, list) or not tree:
        raise ConfigError(
            f"{file}: expected a list of test cases, each with a workloadTemplate and workloads"
        )
    cases = [
        _read_case(file, each, number, topic or file.resolve().parent.name)
        for number, each in enumerate(tree)
    ]
    _expect_unique([case.name for case in cases], f"{file}: the case")
    return cases


def _read_case(file: Path, tree: Any, number: int, topic: str) -> TestCase:
    named = tree.get("name") if isinstance(tree, dict) else None
    where = f"{file}: case {named or number}"
    with _problems_at(where):
        fields = decode_tree(tree, _CaseFields)
    operations = []
    for index, each in enumerate(fields.workload_template):
        opcode = each.get("opcode") if isinstance(each, dict) else None
        with _problems_at(f"{where}: op {index} ({opcode or 'without an opcode'})"):
            operations.append(read_operation(each))
    if not any(operation.measures for operation in operations):
        raise ConfigError(
            f"{where}: nothing is measured; set collectMetrics on a createPods, or put "
            "startCollectingMetrics and stopCollectingMetrics around what is to be measured"
        )
    case = TestCase(
        file=file,
        name=fields.name,
        operations=operations,
        labels=frozenset(fields.labels),
        metrics={} if fields.metrics_collector_config is None else fields.metrics_collector_config.metrics,
        scheduler_config=_path(file, fields.scheduler_config_path),
        default_pod_template=_path(file, fields.default_pod_template_path),
        topic=topic,
    )
    for index, each in enumerate(fields.workloads):
        case.workloads.append(_read_workload(case, each, index, fields))
    if not case.workloads:
        raise ConfigError(f"{where}: the case has no workloads")
    _expect_unique([workload.name for workload in case.workloads], f"{where}: the workload")
    return case


def _read_workload(case: TestCase, tree: Any, number: int, shared: _CaseFields) -> Workload:
    named = tree.get("name") if isinstance(tree, dict) else None
    where = f"{case.file}: case {case.name}: workload {named or number}"
    with _problems_at(where):
        fields = decode_tree(tree, _WorkloadFields)
        threshold = _threshold(fields.threshold, case.topic)
    selector = fields.threshold_metric_selector or shared.default_threshold_metric_selector
    return Workload(
        case=case,
        name=fields.name,
        params=fields.params,
        labels=case.labels | set(fields.labels),
        gates={**shared.feature_gates, **fields.feature_gates},
        threshold=threshold,
        selector=selector or ThresholdMetricSelector(),
    )


def _threshold(given: float | Mapping[str, float], topic: str) -> float:
    for value in [given] if isinstance(given, int | float) else given.values():
        if value < 0:
            raise ValueError(f"a threshold cannot be below zero, but is {value:g}")
    return float(given) if isinstance(given, int | float) else given.get(topic, 0.0)


def _path(file: Path, relative: str) -> Path | None:
    return file.parent / relative if relative else None


def _expect_unique(names: Sequence[str], what: str) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{what} {name} is defined twice; names must be unique")


# Where files are: those that ship with Kuberth, and Kubernetes' own in Go's module cache, where `make
# envtest` downloads them.

SHIPPED: Final = Path(__file__).parent / "workloads"
CONFIG_NAME: Final = "performance-config.yaml"
_SOURCES: Final = Path("test", "integration", "scheduler_perf")
_MODULE: Final = re.compile(r"kubernetes@v(\d+)\.(\d+)\.(\d+)$")


def shipped() -> Sequence[Workload]:
    """The workloads that ship with Kuberth."""
    return [workload for file in sorted(SHIPPED.glob("*.yaml")) for workload in read_workloads(file)]


def upstream() -> Sequence[Workload]:
    """The workloads of Kubernetes, of the newest installed version."""
    folder = upstream_folder()
    if folder is None:
        raise ConfigError(
            "Kubernetes' workloads are not on this machine: `make envtest` brings its sources (it needs Go); "
            "or name a file with workloads: kuberth bench FILE"
        )
    return [
        workload
        for file in sorted(folder.rglob(CONFIG_NAME))
        for workload in read_workloads(file, topic=_topic(file.parent.relative_to(folder)))
    ]


def upstream_folder() -> Path | None:
    """The folder of the newest version's scheduler_perf; None if there is none."""
    versions = []
    for folder in _module_folders():
        for module in folder.glob("kubernetes@v*"):
            version = _MODULE.search(module.name)
            if version is not None and (module / _SOURCES).is_dir():
                versions.append((tuple(int(part) for part in version.groups()), module / _SOURCES))
    return max(versions)[1] if versions else None


def _module_folders() -> Iterator[Path]:
    """Go's module cache."""
    if cache := os.environ.get("GOMODCACHE"):
        yield Path(cache, "k8s.io")
        return
    paths = os.environ.get("GOPATH") or str(Path.home() / "go")
    for path in paths.split(os.pathsep):
        yield Path(path, "pkg", "mod", "k8s.io")


def _topic(folder: Path) -> str:
    """The topic of a folder of test cases, by which upstream's files may give different thresholds."""
    return "_".join(part.replace("_", "") for part in folder.parts)


def read_workloads(file: Path, *, topic: str = "") -> Sequence[Workload]:
    return [workload for case in read_cases(file, topic=topic) for workload in case.workloads]


def select(workloads: Sequence[Workload], name: str = "", *, labels: str = "") -> Sequence[Workload]:
    """Select the workloads of a case, or a single one (`Case/Workload`), that match the label filter."""
    chosen = list(workloads)
    if name:
        case, _, own = name.partition("/")
        of_case = [workload for workload in workloads if workload.case.name == case]
        if not of_case:
            names = list(dict.fromkeys(workload.case.name for workload in workloads))
            raise ConfigError(
                f"there is no case {case}{did_you_mean(case, names) or _listed(names)}; --list shows all"
            )
        chosen = [workload for workload in of_case if own in ("", workload.name)]
        if not chosen:
            names = [workload.name for workload in of_case]
            raise ConfigError(
                f"the case {case} has no workload {own}{did_you_mean(own, names) or _listed(names)}"
            )
    chosen = [workload for workload in chosen if matches_labels(labels, workload.labels)]
    if not chosen:
        raise ConfigError(f"no workload passes the filter of labels {labels!r}; --list shows the labels")
    return chosen


def matches_labels(labels: str, present: Iterable[str]) -> bool:
    """Whether a filter such as `performance,-short` passes; a minus or `!` excludes a label."""
    have = set(present)
    for each in labels.split(","):
        wanted = each.strip()
        if wanted and (wanted.lstrip("+-!") in have) == wanted.startswith(("-", "!")):
            return False
    return True


def _listed(names: Sequence[str]) -> str:
    return f"; there are {', '.join(names[:12])}{' and more' if len(names) > 12 else ''}"
