from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

import kuberth
from kuberth.cli.run import run
from kuberth.cli.run_flags import FLAGS, Flags
from kuberth.programs.run.daemon import Settings


def invoke(*args: str) -> Result:
    return CliRunner().invoke(run, list(args))


def written_config(tmp_path: Path, *args: str) -> dict[str, object]:
    target = tmp_path / "out.yaml"
    result = invoke("--write-config-to", str(target), *args)
    assert result.exit_code == 0, result.output
    tree: dict[str, object] = yaml.safe_load(target.read_text())
    return tree


@pytest.mark.parametrize(
    ("args", "field", "expected"),
    [
        (["--leader-elect=false"], "leaderElect", False),
        (["--leader-elect"], "leaderElect", True),
        (["--leader-elect-lease-duration=30s"], "leaseDuration", "30s"),
        (["--leader-elect-renew-deadline", "7s"], "renewDeadline", "7s"),
        (["--leader-elect-retry-period", "1s500ms"], "retryPeriod", "1.5s"),
        (["--leader-elect-resource-name", "mine"], "resourceName", "mine"),
        (["--leader-elect-resource-namespace", "default"], "resourceNamespace", "default"),
    ],
)
def test_leader_election_flags_go_over_the_file(
    tmp_path: Path, args: list[str], field: str, expected: object
) -> None:
    file = tmp_path / "in.yaml"
    file.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    for given in (args, ["--config", str(file), *args]):
        election = written_config(tmp_path, *given)["leaderElection"]
        assert isinstance(election, dict)
        assert election[field] == expected


def test_rate_flags_count_only_without_a_file(tmp_path: Path) -> None:
    file = tmp_path / "in.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "clientConnection: {qps: 7, burst: 8}\n"
    )
    rates = ["--kube-api-qps", "500", "--kube-api-burst", "1000"]
    alone = written_config(tmp_path, *rates)["clientConnection"]
    beside = written_config(tmp_path, "--config", str(file), *rates)["clientConnection"]
    assert isinstance(alone, dict)
    assert isinstance(beside, dict)
    assert (alone["qps"], alone["burst"]) == (500, 1000)
    assert (beside["qps"], beside["burst"]) == (7, 8)


@pytest.mark.parametrize(
    "args, election",
    [
        pytest.param(["--authentication-skip-lookup", "--leader-elect=false"], False, id="switch-then-flag"),
        pytest.param(["--authentication-skip-lookup=true", "--leader-elect=false"], False, id="switch-value"),
        pytest.param(["--cert-dir", "--leader-elect=false"], True, id="a-string-takes-the-next-word"),
        pytest.param(["--tls-min-version=VersionTLS12", "--leader-elect=false"], False, id="equals"),
        pytest.param(["--leader-elect=false", "--profiling"], False, id="switch-at-the-end"),
        pytest.param(["--leader_elect=false"], False, id="underscores"),
        pytest.param(["--vmodule", "a=1", "-v=1", "--leader-elect=false"], False, id="one-dash"),
        pytest.param(
            ["--authentication-kubeconfig=", "--tls-cert-file=", "--leader-elect"], True, id="empty"
        ),
    ],
)
def test_a_flag_takes_the_words_that_are_its_own(tmp_path: Path, args: list[str], election: bool) -> None:
    tree = written_config(tmp_path, *args)["leaderElection"]
    assert isinstance(tree, dict)
    assert tree["leaderElect"] is election


def test_flags_without_effect_are_named_once_each(tmp_path: Path) -> None:
    ignored = ["--profiling=false", "--cert-dir", "/x", "--tls-sni-cert-key=a,b", "--tls-sni-cert-key=c,d"]
    result = invoke("--write-config-to", str(tmp_path / "out.yaml"), *ignored)
    logged = [line.partition("] ")[2] for line in result.stderr.splitlines()]
    assert sorted(logged) == [
        f"flag --{name} has no effect here" for name in ("cert-dir", "profiling", "tls-sni-cert-key")
    ]


def test_level_1_logs_every_flag(tmp_path: Path) -> None:
    result = invoke("--write-config-to", str(tmp_path / "out.yaml"), "-v1", "--leader-elect=false")
    logged = [line.partition("] ")[2] for line in result.stderr.splitlines()]
    assert 'FLAG: --leader-elect="false"' in logged
    assert 'FLAG: --secure-port="10259"' in logged
    assert len(logged) == len(FLAGS) + 2


def test_feature_gates_can_be_given_again(tmp_path: Path) -> None:
    gates = ("--feature-gates=OpportunisticBatching=false", "--feature-gates", "AllBeta=true,NodeSwap=true")
    assert written_config(tmp_path, *gates)["featureGates"] == {
        "OpportunisticBatching": False,
        "AllBeta": True,
        "NodeSwap": True,
    }


def test_every_flag_is_shown_as_kube_scheduler_shows_it() -> None:
    given = {
        "leader-elect": False,
        "leader-elect-lease-duration": timedelta(seconds=90),
        "kube-api-qps": 12.5,
        "feature-gates": ("AllBeta=true", "NodeSwap=true"),
        "authorization-always-allow-paths": ("/a", "/b"),
        "v": 3,
    }
    shown = Flags(given).shown()
    assert list(shown) == sorted(shown)
    assert len(shown) == len(FLAGS) + 2
    assert {name: shown[name] for name in given} == {
        "leader-elect": "false",
        "leader-elect-lease-duration": "1m30s",
        "kube-api-qps": "12.5",
        "feature-gates": ":AllBeta=true,:NodeSwap=true",
        "authorization-always-allow-paths": "[/a,/b]",
        "v": "3",
    }
    assert (shown["kube-api-burst"], shown["pod-max-in-unschedulable-pods-duration"]) == ("100", "5m0s")
    assert (shown["config"], shown["help"], shown["version"]) == ("", "false", "false")


def test_a_default_shows_as_it_is_written() -> None:
    for flag in FLAGS:
        value = flag.kind.parse(flag.default)
        assert flag.default == ("" if value is None else flag.kind.show(value)), flag.name


def test_version_says_both() -> None:
    for args in (["--version"], ["--version=raw"], ["--version", "--leader-elect"]):
        result = invoke(*args)
        assert result.exit_code == 0
        assert result.output == f"Kuberth {kuberth.__version__} (as Kubernetes v1.36)\n"


@pytest.mark.parametrize(
    ("args", "logged"),
    [
        (["--leader-elekt=false"], "unknown flag --leader-elekt; did you mean --leader-elect?"),
        (["--konfig", "x"], "did you mean --config?"),
        (["--qqqqqqqqqq"], "see kuberth run --help"),
        (["--config", "/no/such/file"], "does not exist"),
        (["--leader-elect-lease-duration", "soon"], "expected a duration such as"),
        (["--secure-port", "99999"], "99999"),
        (["--feature-gates", "Nonsense=true", "--write-config-to", "/dev/null"], "Nonsense"),
    ],
)
def test_a_wrong_flag_gets_a_clear_line(args: list[str], logged: str) -> None:
    result = invoke(*args)
    assert result.exit_code != 0
    assert logged in result.output + str(result.exception)


@pytest.mark.parametrize(
    ("args", "seconds"),
    [([], 300.0), (["--pod-max-in-unschedulable-pods-duration=90s"], 90.0)],
    ids=["default", "given"],
)
def test_how_long_a_pod_may_wait_reaches_the_program(
    args: list[str], seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Settings] = []

    async def program(settings: Settings) -> int:
        seen.append(settings)
        return 0

    monkeypatch.setattr("kuberth.cli.run_settings.run_daemon", program)
    result = invoke("--master", "http://127.0.0.1:1", "--secure-port", "0", *args)
    assert result.exit_code == 0, result.output
    assert [settings.max_unschedulable_seconds for settings in seen] == [seconds]
