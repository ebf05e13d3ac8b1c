"""What is committed as built is what the sources build."""

from __future__ import annotations

import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from tests.e2e.assets import REPOSITORY

pytestmark = pytest.mark.browser

SOURCES = REPOSITORY / "page"


def test_the_built_files_are_those_of_the_sources(tmp_path: Path) -> None:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("no Node")
    if not (SOURCES / "node_modules").is_dir():
        subprocess.run(
            [npm, "ci", "--prefer-offline", "--no-audit", "--no-fund"], cwd=SOURCES, check=True, timeout=300
        )
    subprocess.run([npm, "run", "--silent", "check"], cwd=SOURCES, check=True, timeout=300)
    subprocess.run([node, "build.mjs", str(tmp_path)], cwd=SOURCES, check=True, timeout=300)
    built = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    committed = {file.name: file.read_bytes() for file in (files("kuberth") / "page").iterdir()}
    assert built == committed, "run `make page` and commit what it builds"
