from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from kuberth.errors import ConfigError
from kuberth.programs.up.kubeconfig_files import merge_into, temporary_kubeconfig


def ours() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "kuberth", "cluster": {"server": "https://new"}}],
        "users": [{"name": "kuberth-admin", "user": {"token": "new"}}],
        "contexts": [{"name": "kuberth", "context": {"cluster": "kuberth", "user": "kuberth-admin"}}],
        "current-context": "kuberth",
    }


OTHERS = """
apiVersion: v1
kind: Config
preferences: {colors: true}
clusters:
- {name: work, cluster: {server: "https://work"}}
- {name: kuberth, cluster: {server: "https://old", insecure-skip-tls-verify: true}}
users:
- {name: me, user: {token: mine}}
contexts:
- {name: work, context: {cluster: work, user: me}}
- {name: kuberth, context: {cluster: kuberth, user: kuberth-admin, namespace: mine}}
current-context: work
"""


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_what_others_have_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(OTHERS, encoding="utf-8")
    file.chmod(0o644)
    merge_into(file, ours())
    assert read(file) == {
        **ours(),
        "preferences": {"colors": True},
        "clusters": [{"name": "work", "cluster": {"server": "https://work"}}, *ours()["clusters"]],
        "users": [{"name": "me", "user": {"token": "mine"}}, *ours()["users"]],
        "contexts": [
            {"name": "work", "context": {"cluster": "work", "user": "me"}},
            # The namespace that a user chose stays.
            {
                "name": "kuberth",
                "context": {"cluster": "kuberth", "user": "kuberth-admin", "namespace": "mine"},
            },
        ],
    }
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("before", [None, "", "# nothing\n", "clusters: null\n"])
def test_a_file_without_anything(tmp_path: Path, before: str | None) -> None:
    file = tmp_path / "deep" / "config"
    if before is not None:
        file.parent.mkdir()
        file.write_text(before, encoding="utf-8")
    merge_into(file, ours())
    assert read(file) == ours()


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text(OTHERS, encoding="utf-8")
    link = tmp_path / "config"
    link.symlink_to("real")
    merge_into(link, ours())
    assert link.is_symlink()
    assert read(tmp_path / "real")["current-context"] == "kuberth"


@pytest.mark.parametrize(
    "content",
    [
        b"hello: world",
        b"just text",
        b"[1, 2]",
        b"kind: Pod",
        b"clusters: 5",
        b"clusters: [5]",
        b"kind: Config\nkind: Config",
        b"a: [",
        b"\xff\xfe",
    ],
)
def test_what_is_no_kubeconfig_is_left_alone(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "notes"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"is not a kubeconfig and was not changed.*--kubeconfig-out"):
        merge_into(file, ours())
    assert file.read_bytes() == content


def test_a_process_has_one_file_while_it_lives(tmp_path: Path) -> None:
    with (
        temporary_kubeconfig(ours(), folder=tmp_path) as first,
        temporary_kubeconfig(ours(), folder=tmp_path) as other,
    ):
        assert read(first) == read(other) == ours()
        assert first.stat().st_mode & 0o777 == 0o600
        assert sorted(tmp_path.iterdir()) == sorted([first, other])
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    program = f"""
        import os, signal
        from pathlib import Path
        from kuberth.programs.up.kubeconfig_files import temporary_kubeconfig
        with temporary_kubeconfig({ours()!r}, folder=Path({str(tmp_path)!r})):
            os.kill(os.getpid(), signal.SIGKILL)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False, timeout=60)
    [left] = tmp_path.iterdir()
    with temporary_kubeconfig(ours(), folder=tmp_path) as path:
        assert list(tmp_path.iterdir()) == [path]
        assert path != left


def test_the_folder_is_of_the_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with temporary_kubeconfig(ours()) as path:
        assert path.parent == tmp_path / "kuberth"
        assert path.parent.stat().st_mode & 0o777 == 0o700
    path.parent.chmod(0o777)
    with pytest.raises(ConfigError, match="is accessible to other users"), temporary_kubeconfig(ours()):
        pass
