"""Help, version and completion come at once: nothing that schedules or serves is imported for them; and
`kuberth run` imports nothing of the local cluster."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import kuberth

HEAVY = ("numpy", "uvicorn", "cryptography", "msgspec", "re2", "rich", "uvloop", "yaml")
SCRIPT = """
import json, sys
from kuberth.cli import main
try:
    main(args=json.loads(sys.argv[1]))
except SystemExit as end:
    assert not end.code, end.code
print("\\nMODULES", json.dumps(sorted(sys.modules)))
"""


def modules_after(arguments: list[str], **environment: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.rpartition("MODULES")[2]))


@pytest.mark.parametrize(
    "arguments, environment",
    [
        pytest.param(["--help"], {}, id="help"),
        pytest.param(["--version"], {}, id="version"),
        pytest.param(["version", "-o", "json"], {}, id="version-command"),
        pytest.param(["completion", "fish"], {}, id="completion-command"),
        pytest.param(["run", "--help"], {}, id="run-help"),
        pytest.param(["run", "--version"], {}, id="run-version"),
        pytest.param(["up", "--help"], {}, id="up-help"),
        pytest.param(["bench", "--help"], {}, id="bench-help"),
        pytest.param(["config", "print", "--help"], {}, id="config-help"),
        pytest.param([], {"_KUBERTH_COMPLETE": "zsh_source"}, id="completion-script"),
        pytest.param(
            [],
            {"_KUBERTH_COMPLETE": "zsh_complete", "COMP_WORDS": "kuberth run --lead", "COMP_CWORD": "2"},
            id="completion-of-a-flag",
        ),
        pytest.param(
            [],
            {
                "_KUBERTH_COMPLETE": "zsh_complete",
                "COMP_WORDS": "kuberth run --logging-format ",
                "COMP_CWORD": "3",
            },
            id="completion-of-a-choice",
        ),
    ],
)
def test_nothing_heavy_is_imported(arguments: list[str], environment: dict[str, str]) -> None:
    modules = modules_after(arguments, **environment)
    assert "kuberth.cli" in modules
    assert not {module for module in modules if module.split(".")[0] in HEAVY}


def test_help_reads_all_commands_and_little_else() -> None:
    modules = modules_after(["--help"])
    assert {"kuberth.cli.bench", "kuberth.cli.version"} <= modules
    assert not modules & {"asyncio", "importlib.metadata", "ssl", "socket"}


def test_the_scheduler_runs_without_the_local_cluster(tmp_path: Path) -> None:
    modules = modules_after(["run", "--write-config-to", str(tmp_path / "config.yaml")])
    assert "kuberth.programs.run.daemon" in modules
    assert not {module for module in modules if module.startswith("kuberth.local")}


def test_the_version_stands_in_one_place() -> None:
    root = Path(__file__).parents[3]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in project["project"]
    assert "version" in project["project"]["dynamic"]
    source = (root / project["tool"]["hatch"]["version"]["path"]).read_text(encoding="utf-8")
    assert re.findall(r'^__version__ = "(.+)"$', source, re.M) == [kuberth.__version__]
