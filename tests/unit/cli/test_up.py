"""What `kuberth up` says when something is wrong: one line with the file or the flag, and an exit code."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from kuberth.cli import main

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: ok}\nspec: {containers: [{name: c, image: x}]}\n"
FILES = {
    "syntax.yaml": "kind: Pod\nmetadata: {name: a\nspec: [",
    "invalid.yaml": f"{POD}---\n{POD.replace('ok', 'bad').replace('{name: c, image: x}', '')}",
    "kind.yaml": "apiVersion: v1\nkind: Podd\nmetadata: {name: a}\n",
    "field.yaml": POD.replace("containers", "containerz"),
    "nameless.yaml": "apiVersion: v1\nkind: Pod\nmetadata: [1]\n",
    "doubled.yaml": "kind: Pod\nkind: Pod\n",
    "list.yaml": "kind: List\nitems: [{kind: Pod}, 5]\n",
    "devices.yaml": "drivers: [{name: a.example, pools: [{device: [], devices: [{name: d}]}]}]",
    "refused.yaml": "drivers: [{name: a.example, pools: [{devices: [{name: A_B}]}]}]",
    "shapes.yaml": "- name: gpu\n  colour: red\n",
    "config.yaml": "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nfoo: 1\n",
    "notes.txt": "nothing: here\n",
    "folder/cluster.sqlite": "x" * 5000,
    "a_bad_queue.py": "def five(context): return 5\ndef boom(context): raise RuntimeError('boom')\n",
}


def failure(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as exit_:
        main(args=["up", "--port", "0", "--nodes", "1", *args])
    assert isinstance(exit_.value.code, int)
    error = capsys.readouterr().err
    assert "Traceback" not in error
    return exit_.value.code, error


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (
            "-f syntax.yaml",
            "syntax.yaml cannot be read as YAML or JSON: not valid YAML at line 3, column 5: ",
        ),
        ("-f invalid.yaml", 'invalid.yaml:6: Pod bad: Pod "bad" is invalid: spec.containers: Required value'),
        ("-f kind.yaml", "kind.yaml: Podd a: the server has no kind Podd in v1; is it spelled right"),
        (
            "-f field.yaml",
            "field.yaml: Pod ok: failed to create typed patch object (/ok; /v1, Kind=Pod): .spec.containerz:",
        ),
        ("-f nameless.yaml", "nameless.yaml: Pod without a name: it needs metadata.name"),
        ("-f doubled.yaml", "doubled.yaml: kind: given more than once, on lines 1 and 2"),
        ("-f list.yaml", "list.yaml: item 2: expected Kubernetes objects"),
        ("-f empty", "empty: there are no manifests in this folder"),
        ("--shapes shapes.yaml", "shapes.yaml: shape[0].colour: unknown field; known are name, count"),
        (
            "--devices devices.yaml",
            "devices.yaml: drivers[0].pools[0].device: unknown field; known are name, nodes,",
        ),
        (
            "--devices refused.yaml",
            'refused.yaml: drivers[0].pools[0]: ResourceSlice.resource.k8s.io "checked" is invalid: ',
        ),
        ("--config config.yaml", "config.yaml: foo: "),
        ("--queue a_bad_queue:nothing", "--queue a_bad_queue:nothing: module 'a_bad_queue' has no 'nothing'"),
        (
            "--queue a_bad_queue:five",
            "--queue a_bad_queue:five returned 5, which is not a kuberth.queue.interface.",
        ),
        ("--queue a_bad_queue:boom", "--queue a_bad_queue:boom failed: RuntimeError: boom"),
        ("--plugin nowhere:Plugin", "--plugin nowhere:Plugin: module 'nowhere' cannot be imported"),
        ("--data notes.txt/x", "notes.txt/x: Not a directory; choose other places with --data"),
        ("--data folder", "folder/cluster.sqlite is damaged: file is not a database"),
        ("--kubeconfig-out notes.txt", "notes.txt is not a kubeconfig and was not changed"),
        ("--host münchen", "--host münchen: expected a host name or an address"),
    ],
)
def test_what_is_wrong_is_one_line(capsys: pytest.CaptureFixture[str], args: str, line: str) -> None:
    memory = [] if "--data" in args else ["--memory"]
    code, error = failure(capsys, *memory, *args.split())
    assert code == 1
    [message] = [each for each in error.splitlines() if each.startswith("Error: ")]
    assert line in message
    assert message.split()[1].startswith((line.split()[0], str(Path.cwd())))


def test_a_port_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, error = failure(capsys, "--memory", "--port", str(port))
    assert code == 1
    assert error.splitlines()[-1] == (
        f"Error: cannot serve on 127.0.0.1 port {port}: the port is in use; stop what listens there, or "
        "choose another with --port"
    )


def test_a_wrong_flag_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(args=["up", "--memory", "--remove-nodes"])
    assert exit_.value.code == 2
    assert "--remove-nodes needs --nodes or --shapes" in capsys.readouterr().err
