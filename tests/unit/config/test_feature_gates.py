from __future__ import annotations

import pytest

from kuberth.config import FeatureGates, InvalidConfiguration
from kuberth.config.feature_gates import ELSEWHERE, GATES, Stage, parse_settings


@pytest.mark.parametrize(
    "name, stage, on",
    [
        ("SchedulerQueueingHints", "GA", True),
        ("PodSchedulingReadiness", "GA", True),
        ("SchedulerPopFromBackoffQ", "beta", True),
        ("SchedulerAsyncPreemption", "beta", True),
        ("SchedulerAsyncAPICalls", "beta", False),
        ("OpportunisticBatching", "beta", True),
        ("NominatedNodeNameForExpectation", "beta", True),
        ("ClearingNominatedNodeNameAfterBinding", "beta", True),
        ("NodeInclusionPolicyInPodTopologySpread", "GA", True),
        ("MatchLabelKeysInPodTopologySpread", "beta", True),
        ("MatchLabelKeysInPodAffinity", "GA", True),
        ("PodLevelResources", "beta", True),
        ("InPlacePodVerticalScaling", "GA", True),
        ("NodeDeclaredFeatures", "beta", True),
        ("DynamicResourceAllocation", "GA", True),
        ("DRADeviceTaintRules", "beta", False),
        ("GenericWorkload", "alpha", False),
        ("GangScheduling", "alpha", False),
        ("TaintTolerationComparisonOperators", "alpha", False),
        ("StorageCapacityScoring", "alpha", False),
        ("VolumeLimitScaling", "alpha", False),
        ("MutableCSINodeAllocatableCount", "GA", True),
    ],
)
def test_defaults_of_kubernetes_1_36(name: str, stage: str, on: bool) -> None:
    assert GATES[name].stage == Stage(stage)
    assert FeatureGates().enabled(name) is on


def test_the_table_is_sound() -> None:
    for name, gate in GATES.items():
        assert all(need in GATES for need in gate.requires), name
        assert not (gate.stage is Stage.ALPHA and gate.default), name
        assert not gate.locked or gate.stage is Stage.GA, name
    assert not ELSEWHERE & GATES.keys()


def test_a_gate_locked_upstream_but_free_here() -> None:
    assert not FeatureGates(parse_settings("SchedulerQueueingHints=false")).enabled("SchedulerQueueingHints")


@pytest.mark.parametrize(
    "text, error",
    [
        pytest.param("Nope=true", "Nope: unknown feature gate", id="unknown"),
        pytest.param(
            "schedulerPopFromBackOffQ=false",
            'schedulerPopFromBackOffQ: unknown feature gate; did you mean "SchedulerPopFromBackoffQ"?',
            id="misspelt",
        ),
        pytest.param(
            "SidecarContainers=false",
            "SidecarContainers: cannot set feature gate SidecarContainers to false, "
            "feature is locked to true",
            id="locked",
        ),
        pytest.param(
            "GangScheduling=true",
            "GangScheduling: needs GenericWorkload, which is off; set it to true",
            id="dependency",
        ),
        pytest.param("A", 'A: expected A=true or =false, got "A"', id="no-value"),
        pytest.param(
            "kube:AllAlpha=true,AllBeta=true",
            "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use",
            id="mixed-prefixes",
        ),
        pytest.param("wardle:A=true", 'A: there is no component "wardle", only kube', id="other-component"),
        pytest.param("A=maybe", 'A: expected A=true or =false, got "A=maybe"', id="no-boolean"),
    ],
)
def test_refused(text: str, error: str) -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        FeatureGates(parse_settings(text))
    assert str(caught.value) == error


@pytest.mark.parametrize(
    "text, expected",
    [
        pytest.param("SidecarContainers=true", {"SidecarContainers": True}, id="locked-to-its-default"),
        pytest.param(
            "kube:OpportunisticBatching=false", {"OpportunisticBatching": False}, id="with-component"
        ),
        pytest.param(":OpportunisticBatching=false", {"OpportunisticBatching": False}, id="empty-component"),
        pytest.param("KubeletPSI=true", {}, id="of-another-component"),
        pytest.param(
            "AllAlpha=true", {"GangScheduling": True, "SchedulerAsyncAPICalls": False}, id="all-alpha"
        ),
        pytest.param(
            "AllAlpha=true,GangScheduling=false",
            {"GangScheduling": False, "GenericWorkload": True},
            id="named-wins",
        ),
        pytest.param(
            "SchedulerAsyncAPICalls=true,AllBeta=false",
            {"SchedulerAsyncAPICalls": True, "OpportunisticBatching": False, "SchedulerQueueingHints": True},
            id="all-beta",
        ),
        pytest.param(
            "DynamicResourceAllocation=false",
            {
                "DRADeviceTaints": False,
                "DRADeviceBindingConditions": False,
                "DRAResourceClaimDeviceStatus": True,
            },
            id="dependents-go-with-it",
        ),
        pytest.param(
            " OpportunisticBatching = f , ", {"OpportunisticBatching": False}, id="spaces-and-short"
        ),
        pytest.param("", {}, id="empty"),
    ],
)
def test_effect(text: str, expected: dict[str, bool]) -> None:
    gates = FeatureGates(parse_settings(text))
    assert {name: gates[name] for name in expected} == expected


def test_merge_keeps_what_was_set() -> None:
    file = FeatureGates({"GenericWorkload": True, "OpportunisticBatching": False})
    merged = file.merge(parse_settings("GangScheduling=true")).merge(
        FeatureGates({"OpportunisticBatching": True})
    )
    assert merged.explicit == {"GenericWorkload": True, "OpportunisticBatching": True, "GangScheduling": True}
    assert merged.enabled("GangScheduling")
    assert not file.enabled("GangScheduling")


def test_it_is_a_mapping_of_all_gates() -> None:
    gates = FeatureGates()
    assert set(gates) == set(GATES)
    assert len(gates) == len(GATES)
    with pytest.raises(KeyError, match="no feature gate 'Typo'"):
        gates.enabled("Typo")
