"""What `kuberth run` writes is what kube-scheduler would have written."""

from __future__ import annotations

import json
import logging
import os
import re
from typing import Any

import pytest

from kuberth.cli.run import JsonFormatter, TextFormatter, set_up_logging
from kuberth.observe import verbosity
from kuberth.testing import make_node, make_pod

POD, NODE = make_pod("web", namespace="shop"), make_node("n1")


def record(
    level: int = logging.INFO, message: str = "pod %s waits", name: str = "kuberth.x", **more: Any
) -> Any:
    args = ("a/b",) if "%s" in message else ()
    made = logging.LogRecord(name, level, "/src/kuberth/queue/queues.py", 64, message, args, None)
    made.created = 1794770051.582389
    for key, value in more.items():
        setattr(made, key, value)
    return made


def test_a_line_is_klogs_to_the_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 20114)
    monkeypatch.setenv("TZ", "UTC")
    line = TextFormatter().format(record())
    assert re.fullmatch(r"I\d{4} \d\d:\d\d:11\.58238\d   20114 queues\.py:64] pod a/b waits", line)


@pytest.mark.parametrize(
    "level, letter",
    [(logging.DEBUG, "I"), (logging.INFO, "I"), (logging.WARNING, "W"), (logging.ERROR, "E")],
)
def test_severities(level: int, letter: str) -> None:
    assert TextFormatter().format(record(level)).startswith(letter)


@pytest.mark.parametrize(
    "fields, text",
    [
        pytest.param({"pod": POD}, 'pod="shop/web"', id="pod"),
        pytest.param({"node": NODE}, 'node="n1"', id="cluster-wide"),
        pytest.param({"node": "n1", "evaluatedNodes": 3}, 'node="n1" evaluatedNodes=3', id="plain"),
        pytest.param({"err": 'say "no"'}, r'err="say \"no\""', id="quotes"),
        pytest.param({"plugins": ["A"], "on": True}, 'plugins=["A"] on=true', id="trees"),
        pytest.param({"status": "a\nb"}, "status=<\n\ta\n\tb\n >", id="lines"),
    ],
)
def test_fields_follow_a_quoted_message(fields: dict[str, Any], text: str) -> None:
    line = TextFormatter().format(record(message="Did it", v=2, fields=fields))
    assert line.partition("] ")[2] == f'"Did it" {text}'


def test_json_has_kubernetes_keys() -> None:
    fields = {"pod": POD, "node": "n1", "plugin": "NodeName", "score": 3}
    line = JsonFormatter().format(record(message="Did it", v=4, fields=fields))
    assert line == (
        '{"ts":1794770051582.389,"caller":"queue/queues.py:64","msg":"Did it","v":4,'
        '"pod":{"name":"web","namespace":"shop"},"node":"n1","plugin":"NodeName","score":3}'
    )


@pytest.mark.parametrize(
    "made, level",
    [
        (record(name="kuberth.informers.reflector"), 2),
        (record(name="kuberth.programs.run.daemon"), 0),
        (record(logging.WARNING), 0),
        (record(logging.DEBUG), 4),
        (record(logging.ERROR), None),
    ],
)
def test_json_has_the_level_of_a_plain_line(made: logging.LogRecord, level: int | None) -> None:
    assert json.loads(JsonFormatter().format(made)).get("v") == level


def test_json_keeps_a_failure_in_one_line() -> None:
    try:
        raise ValueError("no")
    except ValueError as error:
        made = record(logging.ERROR, exc_info=(type(error), error, error.__traceback__))
    logged = json.loads(JsonFormatter().format(made))
    assert logged["err"] == "ValueError: no"
    assert "Traceback" in logged["stacktrace"]


@pytest.mark.parametrize(
    "level, logged",
    [
        (0, {"process"}),
        (2, {"process", "pod"}),
        (4, {"process", "pod", "detail"}),
        (5, {"process", "pod", "detail", "again"}),
    ],
)
def test_lines_by_verbosity_level(level: int, logged: set[str], capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(level, "text")
    logging.getLogger("kuberth.programs.run.daemon").info("process")
    logging.getLogger("kuberth.informers.reflector").info("pod")
    logging.getLogger("kuberth.informers.reflector").debug("detail")
    logging.getLogger("kuberth.outcomes.failure_handling").info("again")
    assert {line.partition("] ")[2] for line in capsys.readouterr().err.splitlines()} == logged
    assert verbosity.level == level


def test_verbosity_logs_the_line_of_the_caller(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(3, "text")
    verbosity.log(3, "Attempting to schedule pod", pod=POD)
    line = capsys.readouterr().err
    assert re.search(r' test_logs\.py:\d+] "Attempting to schedule pod" pod="shop/web"\n$', line)
