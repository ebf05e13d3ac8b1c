"""The operations of a workload: one struct per opcode of scheduler_perf, as of Kubernetes v1.36.

In: the mapping of one operation, and a workload's parameters. Out: the operation with its parameters filled
in, or an error message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar, cast, dataclass_transform

import msgspec

from kuberth.text.durations import parse_duration
from kuberth.text.field_errors import did_you_mean, show

Scalar = bool | int | float | str
Labels = dict[str, str]


# For type checkers: a struct inherits being frozen but would have to repeat it.
@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Operation(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A step. A field `x` with a companion `x_param` may take its value from the workload's parameters."""

    opcode: str

    @property
    def measures(self) -> bool:
        """Whether figures come out of it."""
        return False

    def problem(self) -> str | None:
        """The problem of the operation as written, without its parameters; None if it has none."""
        return None

    def settled_problem(self) -> str | None:
        """The problem of the operation once its parameters are known; None if it has none."""
        return self.problem()


Op = TypeVar("Op", bound=Operation)


class VolumeLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    count: int | None = None


class NodeAllocatableStrategy(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Gives a node more resources, and a CSINode with limits of volumes a driver."""

    node_allocatable: dict[str, str] = {}
    csi_node_allocatable: dict[str, VolumeLimits] = {}
    migrated_plugins: tuple[str, ...] = ()


class LabelNodePrepareStrategy(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A label whose values are assigned to nodes in turn."""

    label_key: str
    label_values: tuple[str, ...]


class UniqueNodeLabelStrategy(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A label with another value on every node."""

    label_key: str


class CreateNodes(Operation):
    count: int = 0
    count_param: str = ""
    node_template_path: str = ""
    node_allocatable_strategy: NodeAllocatableStrategy | None = None
    label_node_prepare_strategy: LabelNodePrepareStrategy | None = None
    unique_node_label_strategy: UniqueNodeLabelStrategy | None = None

    def problem(self) -> str | None:
        labels = self.label_node_prepare_strategy
        if labels is not None and not labels.label_values:
            return "labelNodePrepareStrategy needs at least one of labelValues"
        return _negative(count=self.count)


class CreateNamespaces(Operation):
    prefix: str = ""
    count: int = 0
    count_param: str = ""
    namespace_template_path: str = ""

    def problem(self) -> str | None:
        return _missing(prefix=self.prefix) or _negative(count=self.count)


class CreatePods(Operation):
    count: int = 0
    count_param: str = ""
    steady_state: bool = False
    steady_state_param: str = ""
    duration: str = ""
    duration_param: str = ""
    collect_metrics: bool = False
    namespace: str = ""
    pod_template_path: str = ""
    skip_wait_to_completion: bool = False
    persistent_volume_template_path: str = ""
    persistent_volume_claim_template_path: str = ""

    @property
    def measures(self) -> bool:
        return self.collect_metrics

    @property
    def seconds(self) -> float:
        return _seconds(self.duration)

    def problem(self) -> str | None:
        if self.collect_metrics and self.skip_wait_to_completion:
            return "collectMetrics and skipWaitToCompletion cannot both be true"
        if self.skip_wait_to_completion and self.steady_state:
            return "skipWaitToCompletion and steadyState cannot both be true"
        if bool(self.persistent_volume_template_path) != bool(self.persistent_volume_claim_template_path):
            return "persistentVolumeTemplatePath and persistentVolumeClaimTemplatePath go together"
        return _negative(count=self.count) or _no_duration(self.duration)

    def settled_problem(self) -> str | None:
        if self.steady_state and self.seconds <= 0:
            return "a steady state needs a duration above zero"
        if self.steady_state and not self.count:
            return "a steady state needs a count above zero"
        return self.problem()


class CreatePodSets(Operation, kw_only=True):
    count: int = 0
    count_param: str = ""
    namespace_prefix: str = ""
    create_pods_op: CreatePods

    @property
    def measures(self) -> bool:
        return self.create_pods_op.collect_metrics

    def problem(self) -> str | None:
        own = _missing(namespacePrefix=self.namespace_prefix) or _negative(count=self.count)
        return own or self.create_pods_op.problem()


class CreateAny(Operation):
    namespace: str = ""
    template_path: str = ""
    count: int = 1
    count_param: str = ""

    def problem(self) -> str | None:
        return _missing(templatePath=self.template_path) or _negative(count=self.count)


class UpdateAny(Operation):
    namespace: str = ""
    template_path: str = ""
    count: int = 1
    count_param: str = ""
    update_per_second: int = 0
    subresources: tuple[str, ...] = ()

    def problem(self) -> str | None:
        return _missing(templatePath=self.template_path) or _negative(
            count=self.count, updatePerSecond=self.update_per_second
        )


class DeletePods(Operation):
    namespace: str = ""
    label_selector: Labels = {}
    skip_wait_to_completion: bool = False
    delete_pods_per_second: int = 0

    def problem(self) -> str | None:
        return _missing(namespace=self.namespace) or _negative(
            deletePodsPerSecond=self.delete_pods_per_second
        )


class Churn(Operation):
    mode: str = ""
    number: int = 0
    interval_milliseconds: int = 0
    namespace: str = ""
    template_paths: tuple[str, ...] = ()

    def problem(self) -> str | None:
        if self.mode not in ("create", "recreate"):
            return f"the mode is create or recreate, not {show(self.mode)}"
        if self.mode == "recreate" and not self.number:
            return "the mode recreate needs a number of objects"
        if not self.template_paths:
            return "it needs at least one of templatePaths"
        return _negative(number=self.number, intervalMilliseconds=self.interval_milliseconds)


class Barrier(Operation):
    namespaces: tuple[str, ...] = ()
    label_selector: Labels = {}
    stage_requirement: str = ""

    def problem(self) -> str | None:
        if self.stage_requirement not in ("", "Scheduled", "Attempted"):
            return f"stageRequirement is Scheduled or Attempted, not {show(self.stage_requirement)}"
        return None


class Sleep(Operation):
    duration: str = ""
    duration_param: str = ""

    @property
    def seconds(self) -> float:
        return _seconds(self.duration)

    def problem(self) -> str | None:
        return _no_duration(self.duration)


class StartCollectingMetrics(Operation):
    name: str = ""
    namespaces: tuple[str, ...] = ()
    label_selector: Labels = {}

    def problem(self) -> str | None:
        return None if self.namespaces else "it needs at least one of namespaces"


class StopCollectingMetrics(Operation):
    @property
    def measures(self) -> bool:
        return True


class CreateResourceClaims(Operation):
    count: int = 0
    count_param: str = ""
    namespace: str = ""
    template_path: str = ""

    def problem(self) -> str | None:
        missing = _missing(namespace=self.namespace, templatePath=self.template_path)
        return missing or _negative(count=self.count)


class CreateResourceDriver(Operation):
    driver_name: str = ""
    max_claims_per_node: int = 0
    max_claims_per_node_param: str = ""
    nodes: str = ""

    def problem(self) -> str | None:
        missing = _missing(driverName=self.driver_name, nodes=self.nodes)
        return missing or _negative(maxClaimsPerNode=self.max_claims_per_node)


class AllocResourceClaims(Operation):
    namespace: str = ""


OPCODES: Final[Mapping[str, type[Operation]]] = {
    kind.__name__[0].lower() + kind.__name__[1:]: kind
    for kind in sorted(Operation.__subclasses__(), key=lambda kind: kind.__name__)
}
OF_DEVICES: Final = (AllocResourceClaims, CreateResourceClaims, CreateResourceDriver)


def read_operation(tree: Any) -> Operation:
    """ValueError for invalid text."""
    opcode = tree.get("opcode") if isinstance(tree, dict) else None
    if not isinstance(opcode, str):
        raise ValueError("an operation is a mapping with an opcode")
    kind = OPCODES.get(opcode)
    if kind is None:
        hint = did_you_mean(opcode, OPCODES) or f"; known are {', '.join(OPCODES)}"
        raise ValueError(f"unknown opcode {show(opcode)}{hint}")
    operation = read_strictly(kind, tree)
    problem = operation.problem() or _bad_param_name(operation)
    if problem:
        raise ValueError(problem)
    return operation


S = TypeVar("S", bound=msgspec.Struct)


def read_strictly(kind: type[S], tree: Any) -> S:
    """ValueError for a field that is unknown, missing or of another type; the known ones are named."""
    try:
        return msgspec.convert(tree, kind)
    except msgspec.ValidationError as error:
        message = str(error).replace(" - at `$.", ", at `").removeprefix("Object ").removeprefix("contains ")
        if "unknown field" in message and isinstance(tree, dict):
            names = [field.encode_name for field in msgspec.structs.fields(kind)]
            message += f"; known are {', '.join(names)}"
        raise ValueError(message) from error


def settled(operation: Op, params: Params) -> Op:
    """The operation with the workload's parameters in their places; ValueError with a sentence."""
    kinds = {field.name: field.type for field in msgspec.structs.fields(operation)}
    values = {
        name.removesuffix("_param"): params.take(
            getattr(operation, name)[1:], kinds[name.removesuffix("_param")]
        )
        for name in _given_params(operation)
    }
    filled = msgspec.structs.replace(operation, **values) if values else operation
    # A pod set's inner operation gets its parameters when the set is taken apart.
    problem = filled.problem() if isinstance(filled, CreatePodSets) else filled.settled_problem()
    if problem:
        raise ValueError(problem)
    return filled


class Params:
    """The parameters of a workload, which record which of them were used."""

    def __init__(self, values: Mapping[str, Scalar]) -> None:
        self._values = values
        self._taken: set[str] = set()

    def take(self, name: str, kind: type[Any]) -> Scalar:
        self._taken.add(name)
        if name not in self._values:
            hint = (
                did_you_mean(name, self._values) or f"; the workload has {', '.join(self._values) or 'none'}"
            )
            raise ValueError(f"the parameter ${name} is not given{hint}")
        value: Scalar = self._values[name]
        if kind is int and isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise ValueError(f"the parameter ${name} is {show(value)}; expected {_WORDS[kind]}")
        return cast(Scalar, value)

    def unused(self) -> Sequence[str]:
        return [name for name in self._values if name not in self._taken]


_WORDS: Final[Mapping[Any, str]] = {int: "a whole number", bool: "true or false", str: 'text such as "10s"'}


def _given_params(operation: Operation) -> list[str]:
    return [
        name for name in operation.__struct_fields__ if name.endswith("_param") and getattr(operation, name)
    ]


def _bad_param_name(operation: Operation) -> str | None:
    for name in _given_params(operation):
        if not cast(str, getattr(operation, name)).startswith("$"):
            return f"a parameter is written with a dollar sign: ${getattr(operation, name)}"
    return _bad_param_name(operation.create_pods_op) if isinstance(operation, CreatePodSets) else None


def _negative(**numbers: int) -> str | None:
    return next(
        (f"{name} cannot be below zero, but is {number}" for name, number in numbers.items() if number < 0),
        None,
    )


def _missing(**texts: str) -> str | None:
    return next((f"{name} must be set" for name, text in texts.items() if not text), None)


def _no_duration(text: str) -> str | None:
    try:
        _seconds(text)
    except ValueError as error:
        return f"the duration {show(text)}: {error}"
    return None


def _seconds(text: str) -> float:
    return parse_duration(text).total_seconds() if text else 0.0
