from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from msgspec.structs import fields

from kuberth.cli.config import config_group
from kuberth.config.types import KubeSchedulerConfiguration
from tests.unit.config.harness import document, with_plugins


def run(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(config_group, list(arguments), input=text)


def written(path: Path, tree: Any) -> str:
    path.write_text(yaml.safe_dump(tree))
    return str(path)


def test_validate_says_what_is_there(tmp_path: Path) -> None:
    file = written(tmp_path / "a.yaml", document(profiles=[{"schedulerName": "a"}, {"schedulerName": "b"}]))
    result = run("validate", file)
    assert (result.exit_code, result.stdout, result.stderr) == (
        0,
        f"{file}: valid, 2 profiles, 20 plugins\n",
        "",
    )


def test_validate_reads_standard_input() -> None:
    result = run("validate", "-", text=json.dumps(document()))
    assert (result.exit_code, result.stdout) == (0, "<stdin>: valid, 1 profile, 20 plugins\n")


def test_validate_lists_every_problem(tmp_path: Path) -> None:
    file = written(tmp_path / "a.yaml", document(parallelism=0, podInitialBackoffSeconds=0, x=1))
    result = run("validate", file)
    assert (result.exit_code, result.stdout) == (1, "")
    names = [field.encode_name for field in fields(KubeSchedulerConfiguration)]
    assert result.stderr.splitlines() == [
        f"{file}: x: unknown field; known are {', '.join(names)}",
        f"{file}: parallelism: must be greater than 0, got 0",
        f"{file}: podInitialBackoffSeconds: must be greater than 0, got 0",
    ]


@pytest.mark.parametrize("command", ["validate", "print"])
@pytest.mark.parametrize(
    "arguments, message",
    [
        pytest.param(
            ["/no/such/file"],
            "/no/such/file: the configuration file cannot be read: No such file",
            id="no-file",
        ),
        pytest.param(["-", "--feature-gates", "X"], "--feature-gates: expected X=true", id="gates-no-value"),
        pytest.param(
            ["-", "--feature-gates", "X=true"], "featureGates.X: unknown feature gate", id="gates-unknown"
        ),
        pytest.param(["-", "--plugin", "nonsense"], "must look like module:Name", id="plugin-reference"),
        pytest.param(["-", "--plugin", "no_such_module:X"], "cannot be imported", id="plugin-module"),
    ],
)
def test_failures(command: str, arguments: list[str], message: str) -> None:
    result = run(command, *arguments, text=yaml.safe_dump(document()))
    assert result.exit_code == 1
    assert message in result.stderr
    assert result.stdout == ""


def test_print_without_a_file_shows_the_defaults() -> None:
    result = run("print")
    assert result.exit_code == 0
    tree = yaml.safe_load(result.stdout)
    assert tree["leaderElection"]["leaseDuration"] == "15s"
    assert tree["profiles"][0]["schedulerName"] == "default-scheduler"


def test_print_as_json_and_with_gates() -> None:
    gates = "NodeDeclaredFeatures=false,InPlacePodLevelResourcesVerticalScaling=false"
    result = run("print", "-", "-o", "json", "--feature-gates", gates, text=yaml.safe_dump(document()))
    tree = json.loads(result.stdout)
    assert tree["profiles"][0]["plugins"]["multiPoint"]["enabled"][-1] == {"name": "DefaultBinder"}
    assert tree["featureGates"] == {
        "NodeDeclaredFeatures": False,
        "InPlacePodLevelResourcesVerticalScaling": False,
    }


def test_a_gate_brings_its_plugin() -> None:
    result = run("print", "-o", "json", "--feature-gates", "GenericWorkload=true,GangScheduling=true")
    enabled = json.loads(result.stdout)["profiles"][0]["plugins"]["multiPoint"]["enabled"]
    assert enabled[-1] == {"name": "GangScheduling"}


def test_a_gate_without_the_one_it_needs_is_refused() -> None:
    result = run("print", "--feature-gates", "GangScheduling=true")
    assert result.exit_code == 1
    assert "GangScheduling: needs GenericWorkload, which is off" in result.stderr


PLUGIN = """
import msgspec
from kuberth.framework.extension_points import FilterPlugin


class Args(msgspec.Struct):
    limit: int = 3


class Own(FilterPlugin):
    name = "Own"
    args_type = Args

    def filter(self, state, pod, node):
        return None
"""


def test_plugins_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("kuberth.framework.registry")
    (tmp_path / "own_plugin_module.py").write_text(PLUGIN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    file = written(tmp_path / "a.yaml", with_plugins(multiPoint={"enabled": [{"name": "Own"}]}))
    assert 'unknown plugin "Own"' in run("validate", file).stderr
    result = run("validate", file, "--plugin", "own_plugin_module:Own")
    assert (result.exit_code, result.stdout) == (0, f"{file}: valid, 1 profile, 21 plugins\n")
    printed = yaml.safe_load(run("print", file, "--plugin", "own_plugin_module:Own").stdout)
    assert {"name": "Own", "args": {"limit": 3}} in printed["profiles"][0]["pluginConfig"]
    wrong = written(tmp_path / "b.yaml", with_plugins(score={"enabled": [{"name": "Own"}]}))
    assert (
        "does not implement score, only filter"
        in run("validate", wrong, "--plugin", "own_plugin_module:Own").stderr
    )


OWN = """
from kuberth.framework import Action, ClusterEvent, EnqueueExtensions, EventWithHint, FilterPlugin, Resource
from kuberth.queue import PriorityQueue


class Own(FilterPlugin, EnqueueExtensions):
    name = "Own"

    def __init__(self, args, handle):
        {constructor}

    def filter(self, state, pod, node):
        return None

    def events_to_register(self):
        return [EventWithHint(ClusterEvent({event}))]


class Queue(PriorityQueue):
    def close(self):
        print("closed")


def no_queue(context):
    return 5


def sized(context, *, size, names=()):
    print(size, names)
    return Queue(context)
"""


@pytest.mark.parametrize(
    "number, constructor, event, queue, code, message",
    [
        (1, "pass", "Resource.NODE, Action.ADD", "Queue", 0, "closed"),
        (
            2,
            "1 / 0",
            "Resource.NODE, Action.ADD",
            "Queue",
            1,
            "'Own' cannot be initialized: ZeroDivisionError",
        ),
        (3, "pass", "'no.v1.kind', Action.ADD", "Queue", 1, "plugin 'Own' registers events of 'no.v1.kind'"),
        (4, "pass", "Resource.NODE, Action.ADD", "no_queue", 1, "is not a kuberth.queue.interface"),
        (5, "pass", "Resource.UNSCHEDULABLE_POD, Action.ADD", "Queue", 0, "an event that never comes"),
        (6, "pass", "Resource.NODE, Action.ADD", "sized(size=3, names=['a'])", 0, "3 ['a']"),
        (7, "pass", "Resource.NODE, Action.ADD", "sized(3)", 1, "only keyword arguments are allowed"),
        (8, "pass", "Resource.NODE, Action.ADD", "sized(size=open('x'))", 1, "write them as Python literals"),
        (9, "pass", "Resource.NODE, Action.ADD", "sized(size=3", 1, "cannot read its arguments"),
        (10, "pass", "Resource.NODE, Action.ADD", "sized(width=3)", 1, "unexpected keyword argument 'width'"),
    ],
)
def test_validate_makes_plugins_and_the_queue(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    constructor: str,
    event: str,
    queue: str,
    code: int,
    message: str,
) -> None:
    module = f"made_by_validate_{number}"
    (tmp_path / f"{module}.py").write_text(OWN.format(constructor=constructor, event=event))
    monkeypatch.syspath_prepend(tmp_path)
    file = written(tmp_path / "a.yaml", with_plugins(multiPoint={"enabled": [{"name": "Own"}]}))
    result = run("validate", file, "--plugin", f"{module}:Own", "--queue", f"{module}:{queue}")
    assert result.exit_code == code, result.output
    assert message in result.output
