"""The folder of a cluster has to be the user's own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kuberth.errors import ConfigError
from kuberth.programs.up.cluster import expect_owned


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pki").mkdir()
    (tmp_path / "pki" / "token").write_text("t" * 40)
    (tmp_path / "cluster.sqlite").touch()
    return tmp_path


def test_ones_own_folder(folder: Path) -> None:
    expect_owned(folder)


def test_other_files_do_not_matter(folder: Path) -> None:
    (folder / "notes").touch()
    (folder / "notes").chmod(0o777)
    (folder / "pki" / "old").symlink_to("nowhere")
    expect_owned(folder)


@pytest.mark.parametrize("part", [".", "pki", "pki/token", "cluster.sqlite"])
def test_what_everybody_can_write_is_refused(folder: Path, part: str) -> None:
    (folder / part).chmod(0o777)
    with pytest.raises(ConfigError, match="can be written by every user"):
        expect_owned(folder)


@pytest.mark.parametrize("part", [".", "pki", "pki/token", "cluster.sqlite"])
def test_what_belongs_to_another_user_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    if os.geteuid() == 0:
        os.chown(folder / part, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: (folder / part).stat().st_uid + 1)
    with pytest.raises(ConfigError, match="belongs to another user"):
        expect_owned(folder)
