from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from kuberth.cli.logs import JsonFormatter, TextFormatter
from kuberth.cli.run import run
from kuberth.programs.run.daemon import Settings


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    yield
    root.setLevel(level)
    root.handlers[:] = handlers


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


def test_flags_of_kube_scheduler_without_meaning_here_are_taken(tmp_path: Path) -> None:
    written_config(
        tmp_path, "--profiling=false", "--cert-dir", "/tmp/x", "--tls-min-version=VersionTLS12", "--profiling"
    )


@pytest.mark.parametrize(
    ("args", "told"),
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
def test_a_wrong_flag_gets_a_clear_line(args: list[str], told: str) -> None:
    result = invoke(*args)
    assert result.exit_code != 0
    assert told in result.output + str(result.exception)


def test_logs_for_machines_and_for_people() -> None:
    record = logging.LogRecord("kuberth.x", logging.WARNING, "x.py", 7, "pod %s waits", ("a/b",), None)
    told = json.loads(JsonFormatter().format(record))
    assert (told["level"], told["msg"], told["logger"]) == ("warning", "pod a/b waits", "kuberth.x")
    line = TextFormatter().format(record)
    assert line.startswith("W")
    assert line.endswith(" x:7] pod a/b waits")


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

    monkeypatch.setattr("kuberth.programs.run.daemon.run", program)
    result = invoke("--master", "http://127.0.0.1:1", "--secure-port", "0", *args)
    assert result.exit_code == 0, result.output
    assert [settings.max_unschedulable_seconds for settings in seen] == [seconds]
