"""`kuberth version` and `kuberth completion`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from click.testing import CliRunner

import kuberth
from kuberth.cli import cli

ROOT = Path(__file__).parents[3]


def run(*words: str) -> str:
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    return result.output


def test_json_has_the_version_of_each_direct_dependency() -> None:
    facts = json.loads(run("version", "-o", "json"))
    assert facts["version"] == kuberth.__version__
    assert facts["kubernetes"] == kuberth.KUBERNETES_VERSION
    assert facts["python"].endswith(".".join(map(str, sys.version_info[:3])))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {line.partition(">")[0].lower() for line in project["dependencies"]}
    assert facts["dependencies"] == {name: metadata.version(name) for name in needed}


def test_the_table_has_the_same_facts() -> None:
    facts = json.loads(run("version", "-o", "json"))
    lines = dict(line.split(maxsplit=1) for line in run("version").splitlines())
    dependencies = facts.pop("dependencies")
    assert lines == {name: value or "not recorded" for name, value in (facts | dependencies).items()}


def test_the_commit_is_the_one_of_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "commit.txt").write_text("0123abcd\n", encoding="utf-8")
    monkeypatch.setattr(kuberth, "__file__", str(tmp_path / "__init__.py"))
    assert json.loads(run("version", "-o", "json"))["commit"] == "0123abcd"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_names_the_program(shell: str) -> None:
    script = run("completion", shell)
    assert f"_KUBERTH_COMPLETE={shell}_complete" in script
    assert "kuberth" in script


def test_another_shell_is_refused() -> None:
    result = CliRunner().invoke(cli, ["completion", "tcsh"])
    assert result.exit_code == 2
    assert "'bash', 'zsh', 'fish'" in result.output


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes_commands_with_the_script(tmp_path: Path) -> None:
    program = tmp_path / "kuberth"
    program.write_text(
        f"#!{sys.executable}\nfrom kuberth.cli import main\nmain(prog_name='kuberth')\n", encoding="utf-8"
    )
    program.chmod(0o755)
    asked = f"COMP_WORDS=(kuberth s) COMP_CWORD=1\n_kuberth_completion {program}\necho ${{COMPREPLY[@]}}\n"
    script = run("completion", "bash") + asked
    done = subprocess.run(
        ["bash", "--norc", "-c", script], capture_output=True, text=True, timeout=60, env=os.environ
    )
    assert done.stdout.split() == ["shadow", "simulate"], done.stderr
