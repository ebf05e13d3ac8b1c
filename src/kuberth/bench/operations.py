"""The operations of a workload: one struct per opcode of scheduler_perf, as of Kubernetes v1.36.

In: the mapping of one operation, and a workload's parameters. Out: the operation with its parameters filled
in, or an error message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypeVar, cast, dataclass_transform

import msgspec

from kuberth.text.decoding import decode_tree
from kuberth.text.durations import parse_duration
from kuberth.text.field_errors import InvalidConfiguration, did_you_mean, show

Scalar = bool | int | float | str
Labels = dict[str, str]
Number = Annotated[int, msgspec.Meta(ge=0)]
Name = Annotated[str, msgspec.Meta(min_length=1)]
Names = Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]


# For type checkers: a struct inherits being frozen but would have to repeat it.
@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Operation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A step. A field `x` with a companion `x_param` may take its value from the workload's parameters.

    A subclass checks in `__post_init__` how its fields fit together; ValueError if they do not.
    """

    opcode: str

    @property
    def measures(self) -> bool:
        """Whether the operation produces measurements."""
        return False

    def params_problem(self) -> str | None:
        """The problem of the operation once its parameters are known; None if it has none."""
        return None


Op = TypeVar("Op", bound=Operation)


class VolumeLimits(msgspec.Struct, frozen=True):
    count: int | None = None


class NodeAllocatableStrategy(msgspec.Struct, frozen=True, rename="camel"):
    """Gives a node more resources, and a CSINode with limits of volumes a driver."""

    node_allocatable: dict[str, str] = {}
    csi_node_allocatable: dict[str, VolumeLimits] = {}
    migrated_plugins: tuple[str, ...] = ()


class LabelNodePrepareStrategy(msgspec.Struct, frozen=True, rename="camel"):
    """A label whose values are assigned to nodes in turn."""

    label_key: str
    label_values: Names


class UniqueNodeLabelStrategy(msgspec.Struct, frozen=True, rename="camel"):
    """A label with another value on every node."""

    label_key: str


class CreateNodes(Operation):
    count: Number = 0
    count_param: str = ""
    node_template_path: str = ""
    node_allocatable_strategy: NodeAllocatableStrategy | None = None
    label_node_prepare_strategy: LabelNodePrepareStrategy | None = None
    unique_node_label_strategy: UniqueNodeLabelStrategy | None = None


class CreateNamespaces(Operation):
    prefix: Name
    count: Number = 0
    count_param: str = ""
    namespace_template_path: str = ""


class CreatePods(Operation):
    count: Number = 0
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

    def __post_init__(self) -> None:
        _seconds(self.duration)
        if self.collect_metrics and self.skip_wait_to_completion:
            raise ValueError("collectMetrics and skipWaitToCompletion cannot both be true")
        if self.skip_wait_to_completion and self.steady_state:
            raise ValueError("skipWaitToCompletion and steadyState cannot both be true")
        if bool(self.persistent_volume_template_path) != bool(self.persistent_volume_claim_template_path):
            raise ValueError("persistentVolumeTemplatePath and persistentVolumeClaimTemplatePath go together")

    def params_problem(self) -> str | None:
        if self.steady_state and self.seconds <= 0:
            return "a steady state needs a duration above zero"
        if self.steady_state and not self.count:
            return "a steady state needs a count above zero"
        return None


class CreatePodSets(Operation):
    namespace_prefix: Name
    create_pods_op: CreatePods
    count: Number = 0
    count_param: str = ""

    @property
    def measures(self) -> bool:
        return self.create_pods_op.collect_metrics


class CreateAny(Operation):
    template_path: Name
    namespace: str = ""
    count: Number = 1
    count_param: str = ""


class UpdateAny(Operation):
    template_path: Name
    namespace: str = ""
    count: Number = 1
    count_param: str = ""
    update_per_second: Number = 0
    subresources: tuple[str, ...] = ()


class DeletePods(Operation):
    namespace: Name
    label_selector: Labels = {}
    skip_wait_to_completion: bool = False
    delete_pods_per_second: Number = 0


class Churn(Operation):
    mode: Literal["create", "recreate"]
    template_paths: Names
    number: Number = 0
    interval_milliseconds: Number = 0
    namespace: str = ""

    def __post_init__(self) -> None:
        if self.mode == "recreate" and not self.number:
            raise ValueError("the mode recreate needs a number of objects")


class Barrier(Operation):
    namespaces: tuple[str, ...] = ()
    label_selector: Labels = {}
    stage_requirement: Literal["", "Scheduled", "Attempted"] = ""


class Sleep(Operation):
    duration: str = ""
    duration_param: str = ""

    @property
    def seconds(self) -> float:
        return _seconds(self.duration)

    def __post_init__(self) -> None:
        _seconds(self.duration)


class StartCollectingMetrics(Operation):
    namespaces: Names
    name: str = ""
    label_selector: Labels = {}


class StopCollectingMetrics(Operation):
    @property
    def measures(self) -> bool:
        return True


class CreateResourceClaims(Operation):
    namespace: Name
    template_path: Name
    count: Number = 0
    count_param: str = ""


class CreateResourceDriver(Operation):
    driver_name: Name
    nodes: Name
    max_claims_per_node: Number = 0
    max_claims_per_node_param: str = ""


class AllocResourceClaims(Operation):
    namespace: str = ""


OPCODES: Final[Mapping[str, type[Operation]]] = {
    kind.__name__[0].lower() + kind.__name__[1:]: kind
    for kind in sorted(Operation.__subclasses__(), key=lambda kind: kind.__name__)
}
DEVICE_OPERATIONS: Final = (AllocResourceClaims, CreateResourceClaims, CreateResourceDriver)


def read_operation(tree: Any) -> Operation:
    """Decode an operation; ValueError or InvalidConfiguration for an invalid one."""
    opcode = tree.get("opcode") if isinstance(tree, dict) else None
    if not isinstance(opcode, str):
        raise ValueError("an operation is a mapping with an opcode")
    kind = OPCODES.get(opcode)
    if kind is None:
        hint = did_you_mean(opcode, OPCODES) or f"; known are {', '.join(OPCODES)}"
        raise ValueError(f"unknown opcode {show(opcode)}{hint}")
    operation = decode_tree(tree, kind)
    if problem := _bad_param_name(operation):
        raise ValueError(problem)
    return operation


def with_params(operation: Op, params: Params) -> Op:
    """The operation with the workload's parameters in their places; ValueError with a sentence."""
    if names := _given_params(operation):
        params_by_field = {name.removesuffix("_param"): getattr(operation, name) for name in names}
        filled = {
            field.encode_name: params.take(params_by_field[field.name][1:])
            for field in msgspec.structs.fields(operation)
            if field.name in params_by_field
        }
        try:
            operation = decode_tree({**msgspec.to_builtins(operation), **filled}, type(operation))
        except InvalidConfiguration as error:
            raise ValueError(f"{error}; from {', '.join(params_by_field.values())}") from error
    if problem := operation.params_problem():
        raise ValueError(problem)
    return operation


class Params:
    """The parameters of a workload, which record which of them were used."""

    def __init__(self, values: Mapping[str, Scalar]) -> None:
        self._values = values
        self._taken: set[str] = set()

    def take(self, name: str) -> Scalar:
        self._taken.add(name)
        if name not in self._values:
            hint = (
                did_you_mean(name, self._values) or f"; the workload has {', '.join(self._values) or 'none'}"
            )
            raise ValueError(f"the parameter ${name} is not given{hint}")
        value = self._values[name]
        return int(value) if isinstance(value, float) and value.is_integer() else value

    def unused(self) -> Sequence[str]:
        return [name for name in self._values if name not in self._taken]


def _given_params(operation: Operation) -> list[str]:
    return [
        name for name in operation.__struct_fields__ if name.endswith("_param") and getattr(operation, name)
    ]


def _bad_param_name(operation: Operation) -> str | None:
    for name in _given_params(operation):
        if not cast(str, getattr(operation, name)).startswith("$"):
            return f"a parameter is written with a dollar sign: ${getattr(operation, name)}"
    return _bad_param_name(operation.create_pods_op) if isinstance(operation, CreatePodSets) else None


def _seconds(text: str) -> float:
    try:
        return parse_duration(text).total_seconds() if text else 0.0
    except ValueError as error:
        raise ValueError(f"the duration {show(text)}: {error}") from error
