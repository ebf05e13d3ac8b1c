from __future__ import annotations

import contextlib
import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from kuberth.config import InvalidConfiguration, load, resolve_profile
from kuberth.config.in_tree import IN_TREE_POINTS
from kuberth.config.plugin_args import InterPodAffinityArgs
from kuberth.config.types import KubeSchedulerConfiguration, PluginRef, PluginSet
from kuberth.errors import ConfigError
from tests.unit.config.harness import decoded, document, errors_of, one_profile, with_args, with_plugins

TEXT = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelism: 4
extenders:
- urlPrefix: https://example.com/scheduler
  filterVerb: filter
  preemptVerb: preempt
  prioritizeVerb: prioritize
  weight: 5
  bindVerb: bind
  enableHTTPS: true
  tlsConfig:
    insecure: false
    serverName: example.com
    certFile: /cert
    keyFile: /key
    caFile: /ca
    caData: aGVsbG8=
  httpTimeout: 2.5s
  nodeCacheCapable: true
  managedResources:
  - name: example.com/gpu
    ignoredByScheduler: true
  ignorable: true
"""


def test_sources(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(TEXT)
    config = load(path)
    assert config.parallelism == 4
    assert (
        load(TEXT)
        == load(TEXT.encode())
        == load(yaml.safe_load(TEXT))
        == load(json.dumps(yaml.safe_load(TEXT)))
    )
    assert load(TEXT) == config
    extender = config.extenders[0]
    assert extender.enable_https
    assert extender.tls_config is not None
    assert extender.tls_config.ca_data == b"hello"
    assert extender.http_timeout.total_seconds() == 2.5
    assert extender.managed_resources[0].ignored_by_scheduler


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration, match=r"nope.yaml: .* cannot be read: No such file"):
        load(tmp_path / "nope.yaml")


def test_every_problem_of_a_file_has_its_name(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("{apiVersion: v1, kind: ConfigMap}")
    with pytest.raises(InvalidConfiguration) as caught:
        load(file)
    lines = str(caught.value).splitlines()
    assert len(lines) == len(caught.value.errors) == 2
    assert all(line.startswith(f"{file}: ") for line in lines)


def test_decoding_adds_no_defaults() -> None:
    assert decoded(document()) == KubeSchedulerConfiguration()
    with pytest.raises(InvalidConfiguration):
        load(document(x=1))


@pytest.mark.parametrize(
    "tree, errors",
    [
        pytest.param(
            {},
            [
                "apiVersion: required, but missing; write apiVersion: kubescheduler.config.k8s.io/v1",
                "kind: required, but missing; write kind: KubeSchedulerConfiguration",
            ],
            id="nothing",
        ),
        pytest.param(
            {**document(oldField=1), "apiVersion": "kubescheduler.config.k8s.io/v1beta3"},
            [
                'apiVersion: "kubescheduler.config.k8s.io/v1beta3" is not supported,'
                " only kubescheduler.config.k8s.io/v1 is; convert the file to v1"
            ],
            id="older-version",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "Pod"},
            [
                'apiVersion: "v1" is not supported, only kubescheduler.config.k8s.io/v1 is',
                'kind: "Pod" is not supported, only KubeSchedulerConfiguration is',
            ],
            id="another-kind",
        ),
        pytest.param(
            {**document(), "kind": 3},
            ["kind: 3 is not supported, only KubeSchedulerConfiguration is"],
            id="no-text",
        ),
        pytest.param(
            "[]",
            [
                "expected a mapping with apiVersion kubescheduler.config.k8s.io/v1"
                " and kind KubeSchedulerConfiguration, got an empty list"
            ],
            id="a-list",
        ),
        pytest.param(
            "# empty",
            [
                "expected a mapping with apiVersion kubescheduler.config.k8s.io/v1"
                " and kind KubeSchedulerConfiguration, got nothing"
            ],
            id="an-empty-file",
        ),
    ],
)
def test_version_and_kind(tree: Any, errors: list[str]) -> None:
    assert errors_of(tree) == errors


def test_every_decoding_error_has_its_path() -> None:
    tree = document(
        parallelism="x",
        profiles=[
            {
                "schedulerName": "a",
                "plugins": {
                    "score": {
                        "enabled": [
                            {"name": "ImageLocality"},
                            {"name": "NodeAffinity"},
                            {"name": "TaintToleration", "weight": "x"},
                        ]
                    }
                },
            },
            {
                "schedulerName": "b",
                "pluginConfig": [
                    {"name": "InterPodAffinity", "args": {"hardPodAffinityWeigh": 2}},
                    {"args": 3},
                ],
            },
        ],
    )
    assert errors_of(tree) == [
        'parallelism: expected an integer, got "x"',
        'profiles[0].plugins.score.enabled[2].weight: expected an integer, got "x"',
        "profiles[1].pluginConfig[0].args.hardPodAffinityWeigh: unknown field;"
        ' did you mean "hardPodAffinityWeight"?',
        "profiles[1].pluginConfig[1].name: required, but missing",
        "profiles[1].pluginConfig[1].args: expected a mapping, got 3",
    ]


def test_a_wrong_type_does_not_hide_what_else_is_wrong() -> None:
    tree = document(parallelism="x", podInitialBackoffSeconds=0, profiles=[{"percentageOfNodesToScore": 101}])
    assert errors_of(tree) == [
        'parallelism: expected an integer, got "x"',
        "podInitialBackoffSeconds: must be greater than 0, got 0",
        "profiles[0].percentageOfNodesToScore: must be from 0 to 100, got 101",
    ]


def test_duplicate_keys_are_found_with_the_rest() -> None:
    assert errors_of(TEXT + "parallelism: 0\n") == [
        "parallelism: given more than once, on lines 4 and 26; keep one",
        "parallelism: must be greater than 0, got 0",
    ]


@pytest.mark.parametrize(
    "meta, errors",
    [
        pytest.param({}, [], id="none"),
        pytest.param(
            {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "InterPodAffinityArgs"}, [], id="right"
        ),
        pytest.param(
            {"kind": "NodeAffinityArgs"},
            [
                'profiles[0].pluginConfig[0].args.kind: expected "InterPodAffinityArgs",'
                ' got "NodeAffinityArgs"'
            ],
            id="of-another-plugin",
        ),
        pytest.param(
            {"apiVersion": "kubescheduler.config.k8s.io/v1beta2"},
            [
                "profiles[0].pluginConfig[0].args.apiVersion:"
                ' expected "kubescheduler.config.k8s.io/v1", got "kubescheduler.config.k8s.io/v1beta2"'
            ],
            id="of-another-version",
        ),
    ],
)
def test_args_may_name_their_kind(meta: dict[str, str], errors: list[str]) -> None:
    tree = with_args("InterPodAffinity", {"hardPodAffinityWeight": 5, **meta})
    assert errors_of(tree) == errors
    if not errors:
        assert load(tree).profiles[0].plugin_config[0].args == InterPodAffinityArgs(
            hard_pod_affinity_weight=5
        )


class Colors(Struct, frozen=True, kw_only=True):
    favorite_color: str = "#326CE5"
    favorite_number: int = 7


def test_args_of_a_plugin_outside_the_tree() -> None:
    tree = one_profile(
        plugins={"score": {"enabled": [{"name": "PluginX"}]}},
        pluginConfig=[{"name": "PluginX", "args": {"favorite_number": 3, "apiVersion": "x/v1", "kind": "K"}}],
    )
    plain = load(tree).profiles[0].plugin_config[0].args
    assert plain == {"favorite_number": 3, "apiVersion": "x/v1", "kind": "K"}
    typed = load(tree, args_types={"PluginX": Colors}).profiles[0].plugin_config[0].args
    assert typed == Colors(favorite_number=3)


def test_a_typed_plugin_without_plugin_config_gets_its_defaults() -> None:
    tree = with_plugins(score={"enabled": [{"name": "PluginX"}]})
    config = load(tree, args_types={"PluginX": Colors})
    assert resolve_profile(config.profiles[0], IN_TREE_POINTS).args["PluginX"] == Colors()


def test_flags_override_the_files_gates() -> None:
    tree = document(featureGates={"OpportunisticBatching": False, "GenericWorkload": True})
    config = load(tree, feature_gates={"OpportunisticBatching": True, "GangScheduling": True})
    assert config.feature_gates == {
        "OpportunisticBatching": True,
        "GenericWorkload": True,
        "GangScheduling": True,
    }
    assert "GangScheduling" in [ref.name for ref in config.profiles[0].plugins.multi_point.enabled]


KEP_624 = """
{
  "plugins": {
    "preFilter": [{"name": "PluginA"}, {"name": "PluginB"}, {"name": "PluginC"}],
    "score": [
      {"name": "PluginA", "weight": 30},
      {"name": "PluginX", "weight": 50},
      {"name": "PluginY", "weight": 10}
    ]
  },
  "pluginConfig": [
    {
      "name": "PluginX",
      "args": {"favorite_color": "#326CE5", "favorite_number": 7, "thanks_to": "thockin"}
    }
  ]
}
"""


def test_the_example_of_kep_624() -> None:
    profile = load(KEP_624).profiles[0]
    everything = (PluginRef(name="*"),)
    assert profile.scheduler_name == "default-scheduler"
    assert profile.plugins.pre_filter == PluginSet(
        disabled=everything, enabled=tuple(PluginRef(name=f"Plugin{letter}") for letter in "ABC")
    )
    resolved = resolve_profile(profile, IN_TREE_POINTS)
    assert resolved.plugins["preFilter"] == ("PluginA", "PluginB", "PluginC")
    assert resolved.score_weights == {"PluginA": 30, "PluginX": 50, "PluginY": 10}
    assert resolved.plugins["bind"] == ("DefaultBinder",)
    assert resolved.args["PluginX"]["favorite_number"] == 7


@pytest.mark.parametrize(
    "tree, errors",
    [
        pytest.param(
            document(plugins={"filter": []}, pluginConfig=[], profiles=[{}]),
            [
                "plugins: cannot stand beside profiles; move it into the profile it is meant for",
                "pluginConfig: cannot stand beside profiles; move it into the profile it is meant for",
            ],
            id="both-forms",
        ),
        pytest.param(
            document(
                plugins={"preFilter": [{"name": "NodeName"}, {"nam": "x"}, {"name": "x", "weight": "y"}]}
            ),
            [
                'plugins.preFilter[1].nam: unknown field; did you mean "name"?',
                "plugins.preFilter[1].name: required, but missing",
                'plugins.preFilter[2].weight: expected an integer, got "y"',
            ],
            id="decoding-errors-where-they-were-written",
        ),
        pytest.param(
            document(plugins={"preFilter": [{"name": "NodeName"}]}, pluginConfig=[{"name": "Foo"}]),
            [
                'plugins.preFilter[0].name: plugin "NodeName" does not implement preFilter, only filter',
                'pluginConfig[0].name: unknown plugin "Foo";'
                " if it is your own, name it with --plugin module:Class",
            ],
            id="validation-errors-where-they-were-written",
        ),
        pytest.param(
            with_plugins(filter=[{"name": "Foo"}]),
            [
                'profiles[0].plugins.filter[0].name: unknown plugin "Foo";'
                " if it is your own, name it with --plugin module:Class"
            ],
            id="list-inside-a-profile",
        ),
        pytest.param(
            document(plugins=None, pluginConfig=None, profiles=[{"schedulerName": "a"}]),
            [],
            id="nulls-are-nothing",
        ),
        pytest.param(document(plugins=3), ["plugins: expected a mapping, got 3"], id="no-mapping"),
    ],
)
def test_the_older_form(tree: Any, errors: list[str]) -> None:
    assert errors_of(tree) == errors


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.sampled_from(
    [
        *(
            "parallelism",
            "profiles",
            "plugins",
            "pluginConfig",
            "extenders",
            "featureGates",
            "leaderElection",
        ),
        *("schedulerName", "score", "multiPoint", "enabled", "disabled", "name", "weight", "args", "shape"),
        *("clientConnection", "percentageOfNodesToScore", "tlsConfig", "httpTimeout", "addedAffinity"),
        *("NodeResourcesFit", "NodeAffinity", "*", "5s", "apiVersion", "kind", "GangScheduling"),
    ]
)
NEARLY = st.recursive(
    st.none() | st.booleans() | st.integers() | FIELDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(FIELDS, inner, max_size=5),
    max_leaves=25,
)


@given(
    JSON
    | NEARLY
    | NEARLY.map(lambda tree: document(**tree) if isinstance(tree, dict) else document(profiles=tree))
)
def test_no_tree_crashes_the_loader(tree: Any) -> None:
    for source in (json.dumps(tree), yaml.safe_dump(tree), tree if isinstance(tree, dict) else "x"):
        with contextlib.suppress(ConfigError):
            load(source, known_plugins=IN_TREE_POINTS)


@given(st.text() | st.binary())
def test_no_text_crashes_the_loader(text: str | bytes) -> None:
    with pytest.raises(ConfigError):
        load(text)


def conformance_configurations() -> list[dict[str, Any]]:
    """The configurations kube-scheduler itself ran with when the conformance cases were recorded."""
    folders = [Path(__file__).parents[2] / "conformance"]
    if "KUBERTH_CONFORMANCE" in os.environ:
        folders.insert(0, Path(os.environ["KUBERTH_CONFORMANCE"]))
    for folder in folders:
        for path in sorted(folder.rglob("schedule.jsonl.gz")):
            with gzip.open(path, "rt") as lines:
                cases = [json.loads(line) for line in lines]
            return list(
                {json.dumps(case["config"]): case["config"] for case in cases if case.get("config")}.values()
            )
    return []


def test_what_kube_scheduler_ran_with_loads() -> None:
    configurations = conformance_configurations()
    if not configurations:
        pytest.skip("the recorded cases are not on this machine; set KUBERTH_CONFORMANCE to their folder")
    for tree in configurations:
        assert errors_of(tree) == [], tree
