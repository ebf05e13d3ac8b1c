"""What CI and the image are built from is pinned: a moved tag changes neither."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.y*ml"))
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_commits(workflow: Path) -> None:
    used = re.findall(r"uses: *(\S+)(.*)", workflow.read_text(encoding="utf-8"))
    assert used
    assert [action for action, _ in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action)] == []
    assert [action for action, comment in used if not re.fullmatch(r" # v[\d.]+", comment)] == []


def test_the_base_image_is_a_digest() -> None:
    [base] = re.findall(r"^ARG BASE=(\S+)$", DOCKERFILE, re.MULTILINE)
    assert re.fullmatch(r"python:3\.11-slim@sha256:[0-9a-f]{64}", base)
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) == {"${BASE}"}
    assert "syntax=" not in DOCKERFILE, "another image, by a tag"


def test_all_that_pip_fetches_has_a_hash() -> None:
    for command in re.findall(r"pip (?:install|wheel) [^&\n]*", DOCKERFILE):
        is_fetched = "--no-index" not in command and "--no-build-isolation" not in command
        assert not is_fetched or "--require-hashes" in command, command
    locked = (ROOT / "requirements-build.lock").read_text(encoding="utf-8")
    assert re.search(r"^hatchling==[\d.]+ ", locked, re.MULTILINE)
