"""The API server that docs/deploying.md starts by hand, command by command, on free ports."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hack.walkthrough import commands

from tests.e2e.assets import REPOSITORY, Assets
from tests.e2e.control_plane import free_port

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("kuberth_only")]

PORTS = ("2379", "2380", "6443")


def test_an_api_server_by_hand(assets: Assets, tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl")
    script = "\n".join(
        [
            "set -e -m",
            # Nothing outlives the script, also if it ends early or has to be stopped.
            "trap 'kill -KILL $(jobs -p) 2> /dev/null || true' EXIT TERM",
            *(
                command
                for block in commands("deploying.md", "A real API server by hand")
                for command in block
            ),
        ]
    )
    for port in PORTS:
        script = script.replace(f":{port}", f":{(free := free_port())}").replace(
            f"port={port}", f"port={free}"
        )
    programs = tmp_path / "bin"
    programs.mkdir()
    kuberth = programs / "kuberth"
    kuberth.write_text(f'#!/bin/sh\nexec {sys.executable} -m kuberth "$@"\n', encoding="utf-8")
    kuberth.chmod(0o755)
    build = tmp_path / "hack" / "envtest" / "build"
    build.parent.mkdir(parents=True)
    build.write_text(f"#!/bin/sh\necho {assets.etcd.parent}\n", encoding="utf-8")
    build.chmod(0o755)
    running = subprocess.Popen(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={
            **os.environ,
            "HOME": str(tmp_path),
            "PATH": os.pathsep.join([str(programs), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY / "src"), *sys.path]),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        output, _ = running.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        running.terminate()  # its trap ends the others
        output, _ = running.communicate()
    logs = [file.read_text(encoding="utf-8")[-2000:] for file in tmp_path.glob("by-hand/*.log")]
    assert running.returncode == 0, "\n".join([output, *logs])
    assert "pod/hello condition met" in output
