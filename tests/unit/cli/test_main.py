"""The program: what it lists, and `main(plugins=..., queue=...)`, whose additions the commands use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from kuberth.cli import cli, main
from kuberth.programs.run.daemon import Settings
from kuberth.queue import PriorityQueue, QueueContext

SMALL = ["--nodes", "2", "--generate", "services", "--pods", "5", "--days", "0.01"]


class Noted(PriorityQueue):
    """Counts how many of it were made, and how many pods they gave out."""

    made = popped = 0

    def __init__(self, context: QueueContext) -> None:
        super().__init__(context)
        Noted.made += 1

    def pop_nowait(self):  # type: ignore[no-untyped-def]  # as the base class
        queued = super().pop_nowait()
        Noted.popped += queued is not None
        return queued


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Noted.made = Noted.popped = 0


CONTEXT = click.Context(cli)
COMMANDS = [cli.get_command(CONTEXT, name) for name in cli.list_commands(CONTEXT)]
GROUPS = [cli, *(command for command in COMMANDS if isinstance(command, click.Group))]


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_summaries_of_commands_fit_a_terminal(group: click.Group) -> None:
    listed = group.get_help(click.Context(group, terminal_width=80)).rpartition("Commands:\n")[2]
    assert listed
    assert "..." not in listed


def test_the_queue_schedules_the_pods_of_a_command() -> None:
    with pytest.raises(SystemExit) as ended:
        main(queue=Noted, args=["simulate", *SMALL])
    assert not ended.value.code
    assert Noted.made == 1
    assert Noted.popped >= 5


def test_the_queue_reaches_the_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Settings] = []

    async def program(settings: Settings) -> int:
        seen.append(settings)
        return 0

    monkeypatch.setattr("kuberth.cli.run_settings.run_daemon", program)
    words = ["run", "--master", "http://127.0.0.1:1", "--secure-port", "0"]
    with pytest.raises(SystemExit) as ended:
        main(queue=Noted, args=words)
    assert not ended.value.code
    assert [settings.queue for settings in seen] == [Noted]


def test_a_queue_on_the_command_line_goes_before_the_one_in_code() -> None:
    with pytest.raises(SystemExit) as ended:
        main(queue=Noted, args=["simulate", *SMALL, "--queue", "kuberth.queue.fair_share:FairShareQueue"])
    assert not ended.value.code
    assert Noted.made == 0


def test_the_queue_is_checked_with_the_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")

    def broken(_context: QueueContext) -> PriorityQueue:
        raise ValueError("no such tenant")

    with pytest.raises((SystemExit, ValueError)) as ended:
        main(queue=broken, args=["config", "validate", str(file)])
    assert "no such tenant" in capsys.readouterr().err + str(ended.value)


def test_letters_that_the_terminal_lacks_are_shown_as_numbers(tmp_path: Path) -> None:
    spec, status = {"nodeSelector": {"a": "\u4eac"}}, {"allocatable": {"pods": "9"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": status}
    (tmp_path / "dump.yaml").write_text(f"{json.dumps(pod)}\n---\n{json.dumps(node)}\n")
    command = [sys.executable, "-m", "kuberth", "explain", "pod", "p", "--cluster", "dump.yaml"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=True)
    assert b"label node n1 with a=\\u4eac" in done.stdout
