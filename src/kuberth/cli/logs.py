"""Logging as the flags ask for it: text for people, JSON for machines."""

from __future__ import annotations

import json
import logging
import sys
import time

_LEVELS = {0: logging.WARNING, 1: logging.WARNING, 2: logging.INFO, 3: logging.INFO}


class JsonFormatter(logging.Formatter):
    """One JSON object a line, with the field names of Kubernetes components."""

    def format(self, record: logging.LogRecord) -> str:
        told = {
            "ts": round(record.created * 1000, 3),
            "logger": record.name,
            "level": record.levelname.lower(),
            "msg": record.getMessage(),
        }
        if record.exc_info:
            told["err"] = self.formatException(record.exc_info)
        return json.dumps(told)


class TextFormatter(logging.Formatter):
    """The line format of Kubernetes components: level, date, time, source, message."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%m%d %H:%M:%S", time.localtime(record.created))
        micros = int(record.created % 1 * 1_000_000)
        source = f"{record.module}:{record.lineno}"
        line = f"{record.levelname[0]}{moment}.{micros:06d} {source}] {record.getMessage()}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def set_up_logging(verbosity: int, logging_format: str) -> None:
    """`-v 0` tells of trouble and of the process itself, 2 of every pod that fails, 4 of everything."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if logging_format == "json" else TextFormatter())
    logging.basicConfig(level=_LEVELS.get(verbosity, logging.DEBUG), handlers=[handler], force=True)
    for name in ("kuberth.programs.run.daemon", "kuberth.serving", "kuberth.programs.run.leader_election"):
        logging.getLogger(name).setLevel(min(logging.INFO, logging.getLogger().level))
