"""The tutorial, command by command, as its reader types it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Callable
from pathlib import Path

import pytest
from hack.walkthrough import commands

from tests.e2e.assets import REPOSITORY
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ADMIN
from tests.e2e.objects import node

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("kuberth_only")]

COMMANDS = [command for block in commands("first-plugin.md") for command in block]
SCRIPT = """#!{python}
import sys
from {module} import {function}
sys.exit({function}())
"""
MOST_COMMANDS = 15


def test_the_page_has_few_commands() -> None:
    assert 0 < len(COMMANDS) <= MOST_COMMANDS


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A virtual environment that has Kuberth and pytest, and into which the tutorial may install."""
    folder = tmp_path / "venv"
    venv.create(folder, with_pip=True, symlinks=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    paths = [sysconfig.get_path("purelib"), str(REPOSITORY / "src")]
    site = folder / "lib" / version / "site-packages"
    (site / "kuberth-of-the-test.pth").write_text("\n".join(paths), encoding="utf-8")
    for program, module, function in (
        ("kuberth", "kuberth.cli", "main"),
        ("pytest", "pytest", "main"),
    ):
        script = folder / "bin" / program
        text = SCRIPT.format(python=folder / "bin" / "python", module=module, function=function)
        script.write_text(text, encoding="utf-8")
        script.chmod(0o755)
    return folder


def test_the_tutorial(
    cluster: Cluster, environment: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    cluster.create(*(node(f"worker-{index}") for index in (1, 2, 3)))
    home = tmp_path / "home"
    (home / ".kube").mkdir(parents=True)
    shutil.copy(cluster.control_plane.kubeconfig(ADMIN), home / ".kube" / "config")
    programs = [environment / "bin", cluster.control_plane.assets.kubectl.parent]
    search = [*map(str, programs), os.environ["PATH"]]
    script = "\n".join(["set -e -o pipefail", "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT", *COMMANDS])
    keep = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "HTTP"))}
    began = time.monotonic()
    try:
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=home,
            env={**keep, "HOME": str(home), "PATH": os.pathsep.join(search), "LANG": "C.UTF-8"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        logs = [file.read_text(encoding="utf-8") for file in home.glob("quiet-nodes/*.log")]
        assert done.returncode == 0, "\n".join([done.stdout, done.stderr, *logs])
        assert "keeps the contract" in done.stdout
        assert done.stdout.count("pod/sleeper condition met") == 2
        record_property("walked", f"{len(COMMANDS)} commands, {time.monotonic() - began:.1f} s")
    finally:
        cluster.control_plane.kubectl("delete", "pod", "sleeper", "--ignore-not-found", "--force")
