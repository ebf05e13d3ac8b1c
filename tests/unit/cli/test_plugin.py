"""A new plugin package works as it is; plugins are listed and checked."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
from click.testing import CliRunner, Result

from kuberth.cli import cli
from kuberth.cli.plugin_description import type_in_words
from kuberth.cli.plugin_scaffold import POINTS, scaffold
from kuberth.config.types import Int64
from kuberth.errors import ConfigError
from kuberth.testing import assert_keeps_contract

EXAMPLE = "examples.prefer_quiet_nodes:PreferQuietNodes"


def invoke(*args: str) -> Result:
    return CliRunner().invoke(cli, ["plugin", *args])


def declare(folder: Path, group: str, entry_point: str) -> None:
    """An installed distribution called broken, with an entry point."""
    info = folder / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{entry_point}\n")


# New


@pytest.mark.parametrize("points", [*((point,) for point in POINTS), POINTS], ids="-".join)
def test_every_scaffold_keeps_the_contract_and_is_formatted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, points: tuple[str, ...]
) -> None:
    name = f"my-{points[0]}" if len(points) == 1 else "my-all"
    made = scaffold(name, points)
    for path, text in made.files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    ruff = [sys.executable, "-m", "ruff"]
    rules = "E4,E7,E9,F,I,UP,B"
    for command in (["check", f"--select={rules}"], ["format", "--diff"]):
        subprocess.run([*ruff, *command, "--quiet", "--isolated", "."], check=True, cwd=tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "src"))
    module = __import__(made.module)
    try:
        assert_keeps_contract(getattr(module, made.class_name), clusters=4)
    finally:
        sys.modules.pop(made.module)
        sys.modules.pop(f"{made.module}.plugin")


@pytest.mark.parametrize("points", ["filter,score", ",".join(POINTS)], ids=["default", "all"])
def test_the_tests_of_a_new_package_pass(tmp_path: Path, points: str) -> None:
    folder = tmp_path / "package"
    result = invoke("new", "QuietNodes", "--points", points, "--directory", str(folder))
    assert result.exit_code == 0, result.output
    assert "kuberth plugin check quiet_nodes:QuietNodes" in result.output
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "tests"],
        cwd=folder,
        env={"PYTHONPATH": "src", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    config = CliRunner().invoke(cli, ["config", "print", str(folder / "config.yaml"), "--plugin", EXAMPLE])
    assert "unknown plugin" in config.output or config.exit_code, (
        "it names the new plugin, which is not installed"
    )


def test_names_of_a_new_plugin() -> None:
    for name in ("quiet-nodes", "QuietNodes", "quiet_nodes"):
        made = scaffold(name, ["filter"])
        assert (made.distribution, made.module, made.class_name) == (
            "quiet-nodes",
            "quiet_nodes",
            "QuietNodes",
        )


@pytest.mark.parametrize(
    "name, points, problem",
    [
        pytest.param("9lives", "filter", "is not a valid plugin name", id="digit-first"),
        pytest.param("../evil", "filter", "is not a valid plugin name", id="path"),
        pytest.param("class", "filter", "is a Python keyword", id="keyword"),
        pytest.param("quiet", "filtr", "there is no extension point 'filtr'", id="unknown-point"),
        pytest.param("quiet", " , ", "name at least one", id="no-point"),
        pytest.param("quiet", "filter,Filter", "filter is named twice", id="point-twice"),
        pytest.param("None", "filter", "is a Python keyword", id="keyword-class"),
        pytest.param("kuberth", "filter", "kuberth plugin new my-kuberth", id="kuberth"),
        pytest.param("kuberth-plugins", "filter", "there is a module", id="our-plugins"),
        pytest.param("json", "filter", "module of Python's standard library", id="standard-library"),
        pytest.param("numpy", "filter", "'numpy' is installed already (version ", id="installed-package"),
        pytest.param("Pyyaml", "filter", "'pyyaml' is installed already", id="other-spelling"),
        pytest.param("yaml", "filter", "there is a module 'yaml' already", id="installed-module"),
        pytest.param("NodeName", "filter", "there is a plugin called 'NodeName' already", id="in-tree"),
        pytest.param("load-aware", "filter", "there is a plugin called 'LoadAware'", id="installed-plugin"),
        pytest.param("status", "filter", "'Status' is a name that the plugin's own", id="imported-name"),
    ],
)
def test_what_a_new_plugin_cannot_be(tmp_path: Path, name: str, points: str, problem: str) -> None:
    result = invoke("new", name, "--points", points, "--directory", str(tmp_path / "new"))
    assert isinstance(result.exception, ConfigError)
    assert problem in str(result.exception)
    assert not (tmp_path / "new").exists()


def test_points_are_taken_in_the_spellings_of_the_docs(tmp_path: Path) -> None:
    result = invoke("new", "quiet", "--points", "Filter,PreFilter,post_bind", "--directory", str(tmp_path))
    assert "Quiet (preFilter, filter, postBind)" in result.output


@pytest.mark.parametrize("inner", ["", "deeper/still"])
def test_a_folder_that_cannot_be_created(tmp_path: Path, inner: str) -> None:
    (tmp_path / "file").write_text("")
    result = invoke("new", "quiet", "--directory", str(tmp_path / "file" / "new" / inner))
    assert isinstance(result.exception, ConfigError)
    assert "Not a directory" in str(result.exception)
    assert "choose another --directory" in str(result.exception)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    result = invoke("new", "quiet", "--directory", str(tmp_path))
    assert "is not empty" in str(result.exception)
    assert [each.name for each in tmp_path.iterdir()] == ["README.md"]


# List


def test_list_shows_every_plugin_and_where_it_comes_from() -> None:
    result = invoke("list", "--plugin", EXAMPLE)
    assert result.exit_code == 0, result.output
    lines = {line.split()[0]: line for line in result.output.splitlines() if line[:1].strip()}
    assert lines["PrioritySort"].endswith("queueSort")
    assert "filter, score (--plugin" in lines["PreferQuietNodes"]
    assert EXAMPLE in result.output
    assert len(lines) > 20
    assert max(map(len, result.output.splitlines())) <= 80


def test_list_of_one_shows_arguments_events_and_statement() -> None:
    result = invoke("list", "PreferQuietNodes", "NodeName", "--plugin", EXAMPLE)
    assert 'quietLabel: string = "quiet"' in result.output
    assert "Node: Add, UpdateNodeLabel, UpdateNodeTaint" in result.output
    assert "statement  none" in result.output
    assert "filter: node object" in result.output
    assert max(map(len, result.output.splitlines())) <= 80


def test_list_as_json() -> None:
    found = json.loads(invoke("list", "-o", "json").output)
    by_name = {each["name"]: each for each in found}
    assert by_name["NodeResourcesFit"]["origin"] == "in-tree"
    assert "resource.k8s.io/DeviceClass: Add, Update" in by_name["NodeResourcesFit"]["events"]
    assert by_name["TaintToleration"]["statement"][0] == "pod: spec.tolerations"
    assert not any(each["problem"] for each in found)


def test_queues_are_listed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(tmp_path, "kuberth.queues", "FifoQueue = no_such_module:FifoQueue")
    monkeypatch.syspath_prepend(str(tmp_path))
    lines = invoke("list").output.splitlines()
    queues = {line.split()[0]: line.split()[1:] for line in lines if line.split()[1:2] and "queue" in line}
    assert {"PriorityQueue", "FairShareQueue", "ReservedShareQueue", "FifoQueue"} <= set(queues)
    assert "cannot be loaded" in " ".join(queues["FifoQueue"])
    shown = invoke("list", "ReservedShareQueue", "FairShareQueue").output
    assert "class      kuberth.queue.reserved_share:ReservedShareQueue" in shown
    assert "share: number (0 to 1) = 0.1" in shown
    assert "weights: mapping of number (optional)" in shown


@pytest.mark.parametrize(
    "kind, words",
    [
        pytest.param(int, "integer", id="int"),
        pytest.param(Annotated[int, msgspec.Meta(ge=0, le=100)], "integer (0 to 100)", id="range"),
        pytest.param(Annotated[float, msgspec.Meta(ge=0)], "number (at least 0)", id="low"),
        pytest.param(Annotated[int, msgspec.Meta(le=9)], "integer (at most 9)", id="high"),
        pytest.param(Int64, "integer", id="a-machine's-range"),
        pytest.param(bool | None, "boolean", id="optional"),
        pytest.param(int | str, "integer or string", id="either"),
        pytest.param(Literal["a", "b"], "a or b", id="choice"),
        pytest.param(tuple[str, ...], "list of string", id="tuple"),
        pytest.param(Mapping[str, list[int]], "mapping of list of integer", id="mapping"),
        pytest.param(timedelta, "duration", id="duration"),
        pytest.param(Path, "Path", id="any-class"),
    ],
)
def test_types_in_words(kind: Any, words: str) -> None:
    assert type_in_words(kind) == words


def test_one_broken_installed_plugin_stops_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(tmp_path, "kuberth.plugins", "Broken = no_such_module:Broken")
    monkeypatch.syspath_prepend(str(tmp_path))
    listed = invoke("list")
    assert listed.exit_code == 0, listed.output
    words = " ".join(listed.output.split())
    assert "Broken plugin 'Broken' of package broken cannot be loaded from no_such_module:Broken" in words
    assert max(map(len, listed.output.splitlines())) <= 80
    assert "fix or uninstall the package" in " ".join(invoke("list", "Broken").output.split())
    assert invoke("check", EXAMPLE, "--clusters", "1").exit_code == 0
    config = tmp_path / "config.yaml"
    config.write_text("{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration}")
    printed = CliRunner().invoke(cli, ["config", "print", str(config)])
    assert printed.exit_code == 0, printed.output
    validated = CliRunner().invoke(cli, ["config", "validate", str(config)])
    assert validated.exit_code == 0
    assert "ignoring an installed plugin: plugin 'Broken' of package broken" in validated.stderr


def test_arguments_of_no_struct_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loose_arguments.py").write_text(
        "from kuberth.framework import PreEnqueuePlugin\n\n\n"
        "class Loose(PreEnqueuePlugin):\n    name = 'Loose'\n    args_type = dict\n\n"
        "    def pre_enqueue(self, pod):\n        return None\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    listed = invoke("list", "--plugin", "loose_arguments:Loose")
    assert isinstance(listed.exception, ConfigError)
    assert "derive it from msgspec.Struct" in str(listed.exception)
    checked = invoke("check", "loose_arguments:Loose")
    assert checked.exit_code == 1
    assert "derive it from msgspec.Struct" in " ".join(checked.output.split())


def test_list_of_an_unknown_plugin() -> None:
    assert "there is no plugin 'Nope'" in str(invoke("list", "Nope").exception)


# Check


def test_check_prints_every_rule(tmp_path: Path) -> None:
    pods = tmp_path / "pods.yaml"
    pods.write_text("{apiVersion: v1, kind: Pod, metadata: {name: mine, labels: {guest: 'true'}}, spec: {}}")
    args = tmp_path / "args.yaml"
    args.write_text("quietLabel: noiseless")
    result = invoke("check", EXAMPLE, "--clusters", "3", "--pods", str(pods), "--args", str(args))
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[-1] == "PreferQuietNodes: keeps the contract"
    assert "µs a node of 5,000 (NodeResourcesFit: " in result.output
    assert max(map(len, result.output.splitlines())) <= 80


def test_check_of_a_broken_plugin_exits_with_1() -> None:
    result = invoke("check", "tests.unit.testing.test_plugin_contract:Deaf", "--clusters", "8", "-o", "json")
    assert result.exit_code == 1
    report = json.loads(result.output)
    assert not report["kept"]
    assert [each["rule"] for each in report["findings"] if each["outcome"] == "failed"] == ["hints"]


def test_check_of_a_broken_queue_names_the_rules() -> None:
    result = invoke("check", "tests.unit.testing.test_plugin_contract:EmptyHanded")
    assert result.exit_code == 1
    assert "FAILED   queue         queue contract broken: a new pod is popped once" in result.output
    assert re.search(r"EmptyHanded: \d+ broken rules", result.output)


@pytest.mark.parametrize(
    "reference, problem",
    [
        pytest.param("examples.nope:Nope", "cannot be imported", id="no-module"),
        pytest.param("examples.prefer_quiet_nodes:QuietArgs", "is not a class derived from", id="no-plugin"),
        pytest.param("examples", "must look like module:Name", id="no-colon"),
    ],
)
def test_check_of_what_is_no_plugin(reference: str, problem: str) -> None:
    assert problem in str(invoke("check", reference).exception)


@pytest.mark.parametrize(
    "option, text, problem",
    [
        pytest.param(
            "--pods", "{apiVersion: v1, kind: Node, metadata: {name: n1}}", "has no pods", id="no-pods"
        ),
        pytest.param("--args", "- 1", "expected a mapping", id="no-mapping"),
    ],
)
def test_files_that_will_not_do(tmp_path: Path, option: str, text: str, problem: str) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(text)
    assert problem in str(invoke("check", EXAMPLE, option, str(file)).exception)
