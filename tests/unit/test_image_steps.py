"""`make imagesteps` reads the Dockerfile and its .dockerignore as a builder does."""

from __future__ import annotations

from pathlib import Path

import pytest
from hack.dist import PackageError
from hack.image_steps import DOCKERFILE, IGNORED, Image, Stage, copy_context, instructions


def test_lines_are_joined_and_comments_left_out() -> None:
    text = "# note\nARG A=1\n\nRUN one \\\n    # why\n    && two\n"
    assert [(name, words.split()) for name, words in instructions(text)] == [
        ("ARG", ["A=1"]),
        ("RUN", ["one", "&&", "two"]),
    ]


def test_every_instruction_of_the_dockerfile_is_a_step() -> None:
    names = [name for name, _ in instructions(DOCKERFILE.read_text(encoding="utf-8"))]
    assert {"FROM", "RUN", "COPY", "USER", "ENTRYPOINT"} <= set(names)
    assert [name for name in names if not hasattr(Image, f"_{name.lower()}")] == []


def test_an_unknown_instruction_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="no step for VOLUME /data"):
        Image(tmp_path).build("VOLUME /data", {})


def test_the_context_is_what_the_rules_let_through(tmp_path: Path) -> None:
    image = Image(tmp_path)
    rules = [rule for rule in IGNORED.read_text(encoding="utf-8").split() if rule != "!hatch_build.py"]
    copy_context(image.context, rules)
    assert (image.context / "src/kuberth/py.typed").exists()
    assert not [*image.context.rglob("__pycache__")]
    assert not (image.context / "tests").exists()
    image.stage = Stage(tmp_path / "image", directory="/source")
    image._copy("pyproject.toml README.md ./", {})
    assert (tmp_path / "image/source/pyproject.toml").exists()
    with pytest.raises(PackageError, match=r"COPY hatch_build\.py"):
        image._copy("hatch_build.py ./", {})


def test_a_list_of_what_to_leave_out_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="begin with"):
        copy_context(tmp_path, ["tests"])


def test_paths_are_those_of_the_stage_and_of_its_mounts(tmp_path: Path) -> None:
    image = Image(tmp_path)
    image.context.mkdir()
    (image.context / "lock").write_text("pinned", encoding="utf-8")
    image.stage = Stage(tmp_path / "image")
    (tmp_path / "image/made").mkdir(parents=True)
    image._run("--mount=type=bind,source=lock,target=/a.lock cat /a.lock > /made/file ", {})
    assert (tmp_path / "image/made/file").read_text(encoding="utf-8") == "pinned"
