"""What `kuberth shadow` says when something is wrong: one line, and an exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from kuberth.cli import main

FILES = {
    "syntax.yaml": "profiles: [x",
    "unknown.yaml": "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nfoo: 1\n",
    "several.yaml": "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    "profiles: [{schedulerName: a}, {schedulerName: b}]\n",
    "empty.kubeconfig": "apiVersion: v1\nkind: Config\n",
    "some.kubeconfig": "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
    "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}]\n"
    "contexts: [{name: c, context: {cluster: c, user: ''}}]\n",
}


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        ("--kubeconfig nowhere", 1, "kubeconfig nowhere: there is no such file"),
        ("--kubeconfig empty.kubeconfig", 1, "has no clusters; is this the right file?"),
        ("--kubeconfig some.kubeconfig --context x", 1, "x"),
        ("", 1, "no cluster to connect to"),
        ("--config nowhere.yaml", 2, "'nowhere.yaml' does not exist"),
        ("--config syntax.yaml", 1, "syntax.yaml: not valid YAML"),
        ("--config unknown.yaml", 1, "unknown.yaml: foo"),
        (
            "--config several.yaml --kubeconfig some.kubeconfig",
            1,
            "no profile for scheduler 'default-scheduler', but several others: a, b",
        ),
        ("--plugin nowhere:Plugin", 1, "module 'nowhere' cannot be imported"),
        ("--feature-gates Nonsense=true", 1, "Nonsense"),
        ("--kubeconfig some.kubeconfig --for 50ms", 1, "did not answer within 0.05 s"),
        ("--for 10", 2, "expected a duration such as"),
        ("--for -5s", 2, "expected a duration above zero"),
        ("--settle 0", 2, "expected a duration above zero"),
        ("--pods 0", 2, "0 is not in the range"),
    ],
)
def test_bad_input(args: str, code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(args=["shadow", *args.split()])
    error = capsys.readouterr().err
    assert "Traceback" not in error
    assert (exit_.value.code, said in error) == (code, True), error
