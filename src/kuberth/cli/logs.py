"""Log formats of `kuberth run`: klog's text lines and JSON.

In: log records, plain or with the fields of `kuberth.observe.verbosity`. Out: lines in kube-scheduler's exact
format, so that its log parsers work.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from pathlib import PurePath
from typing import Any, Final

from kuberth.observe import verbosity

_OF_EVERY_POD: Final = 2
"""The level of an INFO line of a layer that pods pass through,"""
_DETAIL: Final = 4
"""and of a DEBUG line."""
_OF_THE_PROCESS: Final = ("kuberth.cli", "kuberth.programs.run", "kuberth.serving")
"""Loggers whose INFO lines are always written: they are about the process, not about pods."""
_REPEATED: Final = {"kuberth.outcomes.failure_handling": 5}
"""Loggers whose INFO lines repeat lines of `verbosity`, with the level from which both are written."""
_SEVERITIES: Final = {logging.WARNING: "W", logging.ERROR: "E", logging.CRITICAL: "F"}


def set_up_logging(level: int, logging_format: str) -> None:
    """Log to standard error what belongs to `-v level`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if logging_format == "json" else TextFormatter())
    lowest = (
        logging.DEBUG if level >= _DETAIL else logging.INFO if level >= _OF_EVERY_POD else logging.WARNING
    )
    logging.basicConfig(level=lowest, handlers=[handler], force=True)
    for name in (*_OF_THE_PROCESS, verbosity.__name__):
        logging.getLogger(name).setLevel(min(logging.INFO, lowest))
    for name, at_level in _REPEATED.items():
        logging.getLogger(name).setLevel(lowest if level >= at_level else logging.WARNING)
    verbosity.level = level


class TextFormatter(logging.Formatter):
    """klog's line: severity and date, time, process, source, message; fields behind a quoted message."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%m%d %H:%M:%S", time.localtime(record.created))
        micros = int(record.created % 1 * 1_000_000)
        severity = _SEVERITIES.get(record.levelno, "I")
        source = f"{record.filename}:{record.lineno}"
        message = record.getMessage()
        fields = _fields(record)
        if fields:
            message = " ".join((_quoted(message), *(f"{key}={_text(fields[key])}" for key in fields)))
        line = f"{severity}{moment}.{micros:06d} {os.getpid():>7} {source}] {message}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """One JSON object a line, with the keys of Kubernetes components."""

    def format(self, record: logging.LogRecord) -> str:
        path = PurePath(record.pathname)
        line: dict[str, Any] = {
            "ts": round(record.created * 1000, 3),
            "caller": f"{path.parent.name}/{path.name}:{record.lineno}",
            "msg": record.getMessage(),
        }
        # Errors have no level: that is how klog's JSON marks them.
        if record.levelno < logging.ERROR:
            line["v"] = _level_of(record)
        line |= {key: _tree(value) for key, value in _fields(record).items()}
        if record.exc_info and record.exc_info[1] is not None:
            line.setdefault("err", f"{type(record.exc_info[1]).__name__}: {record.exc_info[1]}")
            line["stacktrace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, separators=(",", ":"), default=str)


def _level_of(record: logging.LogRecord) -> int:
    explicit: int | None = getattr(record, "v", None)
    if explicit is not None:
        return explicit
    if record.levelno >= logging.WARNING or record.name.startswith(_OF_THE_PROCESS):
        return 0
    return _OF_EVERY_POD if record.levelno >= logging.INFO else _DETAIL


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields: dict[str, Any] = getattr(record, "fields", {})
    return fields


def _tree(value: Any) -> Any:
    """An object is logged by name, as klog does."""
    metadata = getattr(value, "metadata", None)
    if metadata is None:
        return value
    named = {"name": metadata.name}
    return {**named, "namespace": metadata.namespace} if metadata.namespace else named


def _text(value: Any) -> str:
    metadata = getattr(value, "metadata", None)
    if metadata is not None:
        value = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    if "\n" not in value:
        return _quoted(value)
    lines = "".join(f"\t{line}\n" for line in value.splitlines())
    return f"<\n{lines} >"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
