"""The workflows call what a person can run, with no more rights than they need. Pins: test_pinned.py."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hack.dist import PYTHONS
from hack.sbom import components, sbom
from hack.tagged import disagreements, notes

import kuberth

ROOT = Path(__file__).parents[2]
WORKFLOWS = {path.name: path for path in sorted((ROOT / ".github" / "workflows").glob("*.y*ml"))}
TARGETS = set(re.findall(r"^([a-z0-9]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
MAY_WRITE = {
    ("docs.yaml", "publish"): {"pages", "id-token"},
    ("release.yaml", "packages"): {"id-token", "attestations"},
    ("release.yaml", "pypi"): {"id-token"},
    ("release.yaml", "image-and-chart"): {"packages", "id-token"},
    ("release.yaml", "notes"): {"contents"},
}
"""Which job may write what; all others read."""


def workflow(name: str) -> dict[str, Any]:
    tree: dict[str, Any] = yaml.safe_load(WORKFLOWS[name].read_text(encoding="utf-8"))
    return tree


def runs(name: str) -> list[str]:
    jobs = workflow(name)["jobs"].values()
    return [step["run"] for job in jobs for step in job["steps"] if "run" in step]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_make_targets_exist(name: str) -> None:
    lines = [line.strip() for text in runs(name) for line in text.splitlines()]
    called = [line for line in lines if line.startswith("make ")]
    assert called or "bash .ci/run" in lines
    for line in called:
        words = [word for word in line.partition(">")[0].split()[1:] if "=" not in word and word[0] != "-"]
        assert words
        assert set(words) <= TARGETS, line


@pytest.mark.parametrize("name", WORKFLOWS)
def test_scripts_hold_no_expression(name: str) -> None:
    """GitHub would paste a branch's or tag's name into the script as text; variables are safe."""
    assert [text for text in runs(name) if "${{" in text] == []


@pytest.mark.parametrize("name", WORKFLOWS)
def test_jobs_end_and_write_only_what_they_need(name: str) -> None:
    tree = workflow(name)
    assert tree["permissions"] == {"contents": "read"}
    for job_name, job in tree["jobs"].items():
        assert job["timeout-minutes"] <= 90
        writes = {what for what, how in job.get("permissions", {}).items() if how == "write"}
        assert writes == MAY_WRITE.get((name, job_name), set()), job_name


def test_every_python_of_the_classifiers_is_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = [line.rpartition(" ")[2] for line in project["classifiers"] if re.search(r":: 3\.\d+$", line)]
    matrix = workflow("ci.yaml")["jobs"]["pythons"]["strategy"]["matrix"]["python"]
    assert found == matrix == list(PYTHONS)


def test_a_release_waits_for_the_checks() -> None:
    jobs = workflow("release.yaml")["jobs"]
    commands = [step.get("run") for step in jobs["packages"]["steps"]]
    order = ["make tagged", "make check", "make dist", "make imagesteps", "make chart"]
    assert [command for command in commands if command in order] == order
    assert {job.get("needs") for job in (jobs["pypi"], jobs["image-and-chart"])} == {"packages"}


def test_the_released_chart_names_the_released_image() -> None:
    (script,) = (
        step["run"]
        for step in workflow("release.yaml")["jobs"]["image-and-chart"]["steps"]
        if "make chart" in step.get("run", "")
    )
    assert 'make chart REPOSITORY="$IMAGE" DIGEST="$digest"' in script
    values = (ROOT / "deploy/chart/kuberth/values.yaml").read_text(encoding="utf-8")
    assert [len(re.findall(rf"^  {name}: ", values, re.MULTILINE)) for name in ("repository", "digest")] == [
        1,
        1,
    ]


def test_the_tree_agrees_on_its_version(tmp_path: Path) -> None:
    assert disagreements(kuberth.__version__) == []
    assert len(disagreements("9.9.9")) == 4


def test_notes_are_one_section() -> None:
    text = "# Changelog\n\n## Unreleased\n\n- new\n\n## 0.2.0 (2026-11-18)\n\n- second\n\n## 0.1.0\n- first\n"
    assert notes(text, "0.2.0") == "- second"
    assert notes(text, "0.1.0") == "- first"
    assert notes(text, "0.2") == ""


def test_the_bill_of_materials_has_every_pinned_distribution() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    found = components(lock)
    assert len(found) == lock.count("==") - lock.count("python_full_version ==")
    assert {"numpy", "uvicorn", "click"} <= {part["name"] for part in found}
    assert all(part["hashes"] for part in found)
    assert sbom("0.2.0", lock) == sbom("0.2.0", lock)
    with pytest.raises(ValueError, match="pins nothing"):
        components("numpy>=2\n")
