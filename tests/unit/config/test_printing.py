from __future__ import annotations

import json
import string
from datetime import timedelta
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from kuberth.config import (
    KubeSchedulerConfiguration,
    apply_defaults,
    default_configuration,
    load,
    to_json,
    to_yaml,
)
from kuberth.config.in_tree import IN_TREE_ARGS
from kuberth.config.types import (
    ClientConnectionConfiguration,
    Extender,
    ExtenderManagedResource,
    ExtenderTLSConfig,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    PluginConfig,
    PluginRef,
    Plugins,
    PluginSet,
)
from tests.unit.config.harness import decoded, document, one_profile

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
name = st.text(string.ascii_letters + "*é-. 0", min_size=1, max_size=8)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
durations = st.timedeltas(min_value=timedelta(days=-1000), max_value=timedelta(days=1000))
plain = st.recursive(
    st.none() | st.booleans() | int64 | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)


def tuples(of: st.SearchStrategy[Any], largest: int = 3) -> st.SearchStrategy[Any]:
    return st.lists(of, max_size=largest).map(tuple)


plugin_sets = st.builds(
    PluginSet,
    enabled=tuples(st.builds(PluginRef, name=name, weight=int32)),
    disabled=tuples(st.builds(PluginRef, name=name)),
)
plugin_configs = st.builds(
    PluginConfig,
    name=name.filter(lambda one: one not in IN_TREE_ARGS),
    args=st.none() | st.dictionaries(text, plain),
)
configurations = st.builds(
    KubeSchedulerConfiguration,
    parallelism=int32,
    leader_election=st.builds(
        LeaderElectionConfiguration,
        leader_elect=st.booleans(),
        lease_duration=durations,
        renew_deadline=durations,
        retry_period=durations,
        resource_lock=text,
        resource_name=text,
        resource_namespace=text,
    ),
    client_connection=st.builds(
        ClientConnectionConfiguration,
        kubeconfig=text,
        accept_content_types=text,
        content_type=text,
        qps=st.floats(allow_nan=False, allow_infinity=False),
        burst=int32,
    ),
    enable_profiling=st.booleans(),
    enable_contention_profiling=st.none() | st.booleans(),
    percentage_of_nodes_to_score=int32,
    pod_initial_backoff_seconds=int64,
    pod_max_backoff_seconds=int64,
    profiles=tuples(
        st.builds(
            KubeSchedulerProfile,
            scheduler_name=name,
            percentage_of_nodes_to_score=st.none() | int32,
            plugins=st.builds(Plugins, multi_point=plugin_sets, score=plugin_sets, bind=plugin_sets),
            plugin_config=tuples(plugin_configs),
        ),
        2,
    ),
    extenders=tuples(
        st.builds(
            Extender,
            url_prefix=text,
            weight=int64,
            enable_https=st.booleans(),
            tls_config=st.none()
            | st.builds(ExtenderTLSConfig, insecure=st.booleans(), key_data=st.binary(max_size=5)),
            http_timeout=durations,
            managed_resources=tuples(st.builds(ExtenderManagedResource, name=text)),
        ),
        2,
    ),
    delay_cache_until_active=st.booleans(),
    feature_gates=st.dictionaries(text, st.booleans(), max_size=3),
)


@given(configurations)
def test_what_is_printed_is_read_back(config: KubeSchedulerConfiguration) -> None:
    assert decoded(to_yaml(config)) == config
    assert decoded(to_json(config)) == config


class OwnArgs(Struct, frozen=True, kw_only=True):
    period: timedelta = timedelta(seconds=3)
    label: str = "x"
    values: tuple[int, ...] = (1,)
    limit: int | None = 5


@pytest.mark.parametrize(
    "tree",
    [
        pytest.param(document(), id="defaults"),
        pytest.param(
            document(featureGates={"AllAlpha": True, "DRAAdminAccess": False}, enableProfiling=False),
            id="gates",
        ),
        pytest.param(
            one_profile(
                plugins={
                    "multiPoint": {
                        "disabled": [{"name": "NodeName"}, {"name": "NodePorts"}],
                        "enabled": [{"name": "NodeName"}, {"name": "ImageLocality", "weight": 9}],
                    },
                    "filter": [{"name": "NodePorts"}],
                },
                pluginConfig=[
                    {
                        "name": "NodeAffinity",
                        "args": {
                            "addedAffinity": {
                                "requiredDuringSchedulingIgnoredDuringExecution": {
                                    "nodeSelectorTerms": [
                                        {
                                            "matchExpressions": [
                                                {"key": "a", "operator": "In", "values": ["b"]}
                                            ]
                                        }
                                    ]
                                }
                            }
                        },
                    },
                    {
                        "name": "PodTopologySpread",
                        "args": {
                            "defaultingType": "List",
                            "defaultConstraints": [
                                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
                            ],
                        },
                    },
                    {"name": "Own", "args": {"period": "5s", "label": "", "values": [], "limit": None}},
                ],
            ),
            id="everything",
        ),
    ],
)
def test_a_loaded_configuration_loads_again(tree: Any) -> None:
    config = load(tree, args_types={"Own": OwnArgs})
    assert load(to_yaml(config), args_types={"Own": OwnArgs}) == config
    assert load(to_json(config), args_types={"Own": OwnArgs}) == config


def test_order_and_spelling() -> None:
    printed = to_yaml(default_configuration())
    tree = yaml.safe_load(printed)
    assert list(tree) == [
        "apiVersion",
        "kind",
        "parallelism",
        "leaderElection",
        "clientConnection",
        "enableProfiling",
        "enableContentionProfiling",
        "percentageOfNodesToScore",
        "podInitialBackoffSeconds",
        "podMaxBackoffSeconds",
        "profiles",
        "delayCacheUntilActive",
    ]
    assert list(tree["profiles"][0]) == ["schedulerName", "plugins", "pluginConfig"]
    assert "leaseDuration: 15s\n" in printed
    assert tree["profiles"][0]["plugins"]["bind"] == {}
    assert tree["profiles"][0]["pluginConfig"][0] == {
        "name": "DefaultPreemption",
        "args": {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "DefaultPreemptionArgs",
            "minCandidateNodesPercentage": 10,
            "minCandidateNodesAbsolute": 100,
        },
    }
    assert json.loads(to_json(default_configuration())) == tree


def test_defaults_are_printed_the_same_after_defaulting_again() -> None:
    config = default_configuration()
    assert to_yaml(apply_defaults(decoded(to_yaml(config)))) == to_yaml(config)
