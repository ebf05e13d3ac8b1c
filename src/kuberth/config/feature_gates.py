"""Feature gates: names, defaults, and settings.

In: settings from the configuration file (`featureGates`) and the flag (`--feature-gates`). Out:
`FeatureGates`, an immutable mapping from every gate's name to whether it is on.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Final, NamedTuple

from kuberth.text.field_errors import FieldError, InvalidConfiguration, child, did_you_mean, show


class Stage(enum.Enum):
    ALPHA = "alpha"
    BETA = "beta"
    GA = "GA"


class Gate(NamedTuple):
    """A gate of Kubernetes 1.36. A locked one can only be set to its default."""

    stage: Stage
    default: bool
    locked: bool = False
    requires: tuple[str, ...] = ()


def _alpha(*requires: str) -> Gate:
    return Gate(Stage.ALPHA, default=False, requires=requires)


def _beta(*requires: str, on: bool = True) -> Gate:
    return Gate(Stage.BETA, default=on, requires=requires)


def _ga(*requires: str, locked: bool = False) -> Gate:
    return Gate(Stage.GA, default=True, locked=locked, requires=requires)


# Kubernetes locks nearly every GA gate. Kuberth locks only those whose older behaviour it does not implement.
# SchedulerQueueingHints, PodSchedulingReadiness, DynamicResourceAllocation and DRAAdminAccess are locked
# there and free here: KEP-4247 describes the scheduler with and without hints, and the others only enable a
# plugin, or a part of it.
GATES: Mapping[str, Gate] = {
    # The queue and the scheduling cycle.
    "PodSchedulingReadiness": _ga(),
    "SchedulerQueueingHints": _ga(),
    "SchedulerPopFromBackoffQ": _beta(),
    "SchedulerAsyncPreemption": _beta(),
    "SchedulerAsyncAPICalls": _beta(on=False),
    "OpportunisticBatching": _beta(),
    "NominatedNodeNameForExpectation": _beta(),
    "ClearingNominatedNodeNameAfterBinding": _beta(),
    # Workloads and gangs.
    "GenericWorkload": _alpha(),
    "GangScheduling": _alpha("GenericWorkload"),
    "TopologyAwareWorkloadScheduling": _alpha("GenericWorkload"),
    "WorkloadAwarePreemption": _alpha("GangScheduling"),
    # Pods and nodes.
    "SidecarContainers": _ga(locked=True),
    "PodLevelResources": _beta(),
    "InPlacePodVerticalScaling": _ga(locked=True),
    "InPlacePodLevelResourcesVerticalScaling": _beta(
        "InPlacePodVerticalScaling", "PodLevelResources", "NodeDeclaredFeatures"
    ),
    "NodeDeclaredFeatures": _beta(),
    "TaintTolerationComparisonOperators": _alpha(),
    # Spreading and affinity.
    "NodeInclusionPolicyInPodTopologySpread": _ga(locked=True),
    "MatchLabelKeysInPodTopologySpread": _beta(),
    "MatchLabelKeysInPodTopologySpreadSelectorMerge": _beta("MatchLabelKeysInPodTopologySpread"),
    "MatchLabelKeysInPodAffinity": _ga(locked=True),
    "PodTopologyLabelsAdmission": _beta(),
    # Volumes.
    "StorageCapacityScoring": _alpha(),
    "VolumeAttributesClass": _ga(locked=True),
    "VolumeLimitScaling": _alpha(),
    "MutableCSINodeAllocatableCount": _ga(locked=True),
    # Devices.
    "DynamicResourceAllocation": _ga(),
    "DRAAdminAccess": _ga("DynamicResourceAllocation"),
    "DRAConsumableCapacity": _beta("DynamicResourceAllocation"),
    "DRADeviceBindingConditions": _beta("DynamicResourceAllocation", "DRAResourceClaimDeviceStatus"),
    "DRADeviceTaints": _beta("DynamicResourceAllocation"),
    "DRADeviceTaintRules": _beta("DRADeviceTaints", on=False),
    "DRAExtendedResource": _beta("DynamicResourceAllocation"),
    "DRAListTypeAttributes": _alpha("DynamicResourceAllocation"),
    "DRANodeAllocatableResources": _alpha("DynamicResourceAllocation"),
    "DRAPartitionableDevices": _beta("DynamicResourceAllocation"),
    "DRAPrioritizedList": _ga("DynamicResourceAllocation"),
    "DRAResourceClaimDeviceStatus": _beta(),
    "DRASchedulerFilterTimeout": _beta("DynamicResourceAllocation"),
    "DRAWorkloadResourceClaims": _alpha("DynamicResourceAllocation", "GenericWorkload"),
    # Pages.
    "CBORServingAndStorage": _alpha(),
}

COMPONENT: Final = "kube"
"""The component in the flag's form `COMPONENT:GATE`."""
_MIXED_PREFIXES: Final = (
    "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use"
)

# AllAlpha and AllBeta change the default of all gates of that stage; explicit settings override them.
_ALL = {"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA}


class FeatureGates(Mapping[str, bool]):
    """Every gate and whether it is on. `explicit` are the gates that were set."""

    def __init__(self, explicit: Mapping[str, bool] | None = None) -> None:
        """Raises InvalidConfiguration that names every unknown, locked or conflicting gate."""
        self.explicit: Mapping[str, bool] = dict(explicit or {})
        problems = gate_problems(self.explicit)
        if problems:
            raise InvalidConfiguration(problems)
        self._values = _effective(self.explicit)

    def enabled(self, name: str) -> bool:
        try:
            return self._values[name]
        except KeyError:
            raise KeyError(f"no feature gate {name!r} in kuberth.config.feature_gates.GATES") from None

    def merge(self, other: Mapping[str, bool]) -> FeatureGates:
        """The settings overridden by those of `other`; of another FeatureGates, only explicit ones."""
        settings = other.explicit if isinstance(other, FeatureGates) else other
        return FeatureGates({**self.explicit, **settings})

    def __getitem__(self, name: str) -> bool:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"FeatureGates({dict(self.explicit)!r})"


def parse_settings(text: str) -> dict[str, bool]:
    """`A=true,B=false` as a mapping, without checking whether the gates exist.

    A later setting overrides an earlier one. A gate may be prefixed with its component, `kube:A=true`; then
    all of them must be.
    """
    settings: dict[str, bool] = {}
    problems: list[FieldError] = []
    components: set[str] = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        component, colon, rest = name.partition(":")
        if colon:
            name = rest
        components.add(component if colon else "")
        if colon and component not in ("", COMPONENT):
            problems.append(FieldError(name, f"there is no component {show(component)}, only kube", part))
        elif not equals or value.lower() not in _BOOLEANS:
            problems.append(
                FieldError(name, f"expected {name or 'Name'}=true or =false, got {show(part)}", part)
            )
        else:
            settings[name] = _BOOLEANS[value.lower()]
    if components >= {"", COMPONENT}:
        problems.append(FieldError("", _MIXED_PREFIXES, text))
    if problems:
        raise InvalidConfiguration(problems)
    return settings


_BOOLEANS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


def gate_problems(explicit: Mapping[str, bool], path: str = "") -> list[FieldError]:
    """All problems with these settings; `path` is their place in the file or the flag."""
    problems: list[FieldError] = []
    for name, value in explicit.items():
        where = child(path, name)
        if name in _ALL or name in ELSEWHERE:
            continue
        gate = GATES.get(name)
        if gate is None:
            problems.append(
                FieldError(where, f"unknown feature gate{did_you_mean(name, [*GATES, *_ALL])}", value)
            )
        elif gate.locked and value != gate.default:
            # In kube-scheduler's words, so that users can search for them.
            locked = f"feature is locked to {show(gate.default)}"
            message = f"cannot set feature gate {name} to {show(value)}, {locked}"
            problems.append(FieldError(where, message, value))
    if problems:
        return problems
    own = _own_values(explicit)
    for name, value in explicit.items():
        missing = [need for need in (GATES[name].requires if name in GATES else ()) if not own[need]]
        if value and missing:
            problems.append(
                FieldError(
                    child(path, name), f"needs {' and '.join(missing)}, which is off; set it to true", value
                )
            )
    return problems


def _own_values(explicit: Mapping[str, bool]) -> dict[str, bool]:
    defaults = {stage: explicit[name] for name, stage in _ALL.items() if name in explicit}
    return {
        name: explicit.get(name, gate.default if gate.locked else defaults.get(gate.stage, gate.default))
        for name, gate in GATES.items()
    }


def _effective(explicit: Mapping[str, bool]) -> dict[str, bool]:
    """Turn off gates whose required gate is off.

    Kubernetes rejects such a setting and requires all dependents to be listed; here only explicit settings
    can conflict.
    """
    own = _own_values(explicit)

    def on(name: str) -> bool:
        return own[name] and all(on(need) for need in GATES[name].requires)

    return {name: on(name) for name in GATES}


ELSEWHERE: Final = frozenset(
    files("kuberth.config").joinpath("other_gates.txt").read_text(encoding="utf-8").split()
)
"""Gates of other Kubernetes components. Clusters often pass one list to every component, so these are
accepted without effect."""
