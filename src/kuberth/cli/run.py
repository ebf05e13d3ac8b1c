"""`kuberth run`: a drop-in for kube-scheduler, with its flags and its log formats: klog's text and JSON."""

from __future__ import annotations

import difflib
import json
import logging
import os
import sys
import time
from pathlib import PurePath
from typing import Any, Final, NoReturn

import click

import kuberth
from kuberth.cli import options
from kuberth.cli.context import Extras
from kuberth.cli.run_flags import Flags, click_options
from kuberth.observe import verbosity

logger = logging.getLogger(__name__)

_POD_LEVEL: Final = 2
"""The level of INFO lines of a layer that handles pods."""
_DEBUG_LEVEL: Final = 4
"""The level of DEBUG lines of such a layer."""
_PROCESS_LOGGERS: Final = ("kuberth.cli", "kuberth.programs.run", "kuberth.serving")
"""Loggers whose INFO lines are always written: they concern the process, not pods."""
_REPEATING_LOGGERS: Final = {"kuberth.outcomes.failure_handling": 5}
"""Loggers whose INFO lines repeat lines of `verbosity`, with the level from which both are written."""
_SEVERITIES: Final = {logging.WARNING: "W", logging.ERROR: "E", logging.CRITICAL: "F"}


def set_up_logging(level: int, logging_format: str) -> None:
    """Log the lines of `-v level` to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if logging_format == "json" else TextFormatter())
    lowest = (
        logging.DEBUG if level >= _DEBUG_LEVEL else logging.INFO if level >= _POD_LEVEL else logging.WARNING
    )
    logging.basicConfig(level=lowest, handlers=[handler], force=True)
    for name in (*_PROCESS_LOGGERS, verbosity.__name__):
        logging.getLogger(name).setLevel(min(logging.INFO, lowest))
    for name, at_level in _REPEATING_LOGGERS.items():
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
    """Writes one JSON object a line, with the keys of Kubernetes components."""

    def format(self, record: logging.LogRecord) -> str:
        path = PurePath(record.pathname)
        line: dict[str, Any] = {
            "ts": round(record.created * 1000, 3),
            "caller": f"{path.parent.name}/{path.name}:{record.lineno}",
            "msg": record.getMessage(),
        }
        # Errors have no level in klog's JSON.
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
    if record.levelno >= logging.WARNING or record.name.startswith(_PROCESS_LOGGERS):
        return 0
    return _POD_LEVEL if record.levelno >= logging.INFO else _DEBUG_LEVEL


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields: dict[str, Any] = getattr(record, "fields", {})
    return fields


def _tree(value: Any) -> Any:
    """Log an object by name, as klog does."""
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


class _RunCommand(click.Command):
    """Suggests the nearest flag for an unknown one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as exc:
            self._suggest(exc)

    def _suggest(self, error: click.NoSuchOption) -> NoReturn:
        known = [name for param in self.params for name in param.opts]
        near = difflib.get_close_matches(error.option_name, known, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]}?" if near else "; see kuberth run --help"
        raise click.UsageError(f"unknown flag {error.option_name}{hint}", error.ctx) from None


def _print_version(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
    if value is None or value.lower() == "false":
        return
    click.echo(f"Kuberth {kuberth.__version__} (as Kubernetes v{kuberth.KUBERNETES_VERSION})")
    ctx.exit()


@click.command(
    cls=_RunCommand,
    short_help="Run the scheduler for a Kubernetes cluster.",
    params=click_options(),
    # As kube-scheduler, which takes --leader_elect for --leader-elect.
    context_settings={"token_normalize_func": lambda token: token.replace("_", "-")},
    epilog="All other kube-scheduler flags are accepted, have no effect, and are listed in the log.",
)
@click.option(
    "--version",
    is_flag=False,
    flag_value="true",
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version and exit.",
)
@options.with_default(
    "--check-plans-every",
    click.IntRange(min=0),
    1000,
    "Decide one cycle in N twice, the second time without plans, to check the plugins' inputs; 0 turns "
    "it off.",
    metavar="N",
)
@click.option(
    "--page", is_flag=True, help="Serve the web page and the data for `kuberth top` on the secure port."
)
@options.reload
@options.plugin
@options.queue
@click.pass_obj
def run(extras: Extras | None, /, **parameters: Any) -> None:
    """Run the scheduler for a Kubernetes cluster, instead of or beside kube-scheduler."""
    flags = Flags.taken_from(parameters)
    set_up_logging(flags["v"], flags["logging-format"])
    if verbosity.level >= 1:
        for name, value in flags.shown().items():
            verbosity.log(1, f'FLAG: --{name}="{value}"')
    for name in flags.without_effect():
        logger.info("flag --%s has no effect here", name)

    from kuberth.cli.run_settings import run_scheduler  # heavy: not for --help

    raise SystemExit(run_scheduler(flags, extras or Extras(), **parameters))
