"""Options and parameter types that commands share; `@options.plugin` adds `--plugin` to a command."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import reduce
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from kuberth.text.durations import parse_duration

Command = TypeVar("Command", bound=Callable[..., Any])

FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
FILE_OR_FOLDER: Final = click.Path(exists=True, path_type=Path)
NEW_FILE: Final = click.Path(dir_okay=False, path_type=Path)


class DurationType(click.ParamType[timedelta]):
    """A duration as Kubernetes writes it: `90s`, `10m`."""

    name = "duration"

    def __init__(self, *, positive: bool = False) -> None:
        self._positive = positive

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        try:
            found = value if isinstance(value, timedelta) else parse_duration(str(value))
        except ValueError as exc:
            self.fail(str(exc), param, ctx)
        if self._positive and found <= timedelta():
            self.fail("expected a duration above zero", param, ctx)
        return found


plugin = click.option(
    "--plugin",
    "plugin_references",
    metavar="MODULE:CLASS",
    multiple=True,
    help="Add a plugin class; repeatable. The configuration has to enable it.",
)

queue = click.option(
    "--queue",
    "queue_reference",
    metavar="MODULE:FACTORY",
    help="Replace the scheduling queue, e.g. kuberth.queue:FairShareQueue. Arguments go in parentheses: "
    "'my_queues:Mine(share=0.25)'.",
)

reload = click.option(
    "--reload",
    "reload_modules",
    is_flag=True,
    help="Re-import the modules of --plugin, --queue and installed plugins when their files change.",
)

feature_gates = click.option(
    "--feature-gates", default="", metavar="A=true,B=false", help="Feature gates to enable or disable."
)


def with_default(
    name: str, kind: Any, default: Any, text: str, **settings: Any
) -> Callable[[Command], Command]:
    """An option with a default, which the help shows."""
    return click.option(name, type=kind, default=default, show_default=True, help=text, **settings)


def output(*formats: str, text: str = "Output format.") -> Callable[[Command], Command]:
    """`--output`; the first format is the default."""
    choice = click.Choice(formats)
    return click.option("-o", "--output", type=choice, default=formats[0], show_default=True, help=text)


def group(*decorators: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options that commands share, in the order in which the help shows them."""
    return lambda command: reduce(lambda inner, decorator: decorator(inner), reversed(decorators), command)


parallel = group(
    click.option(
        "--processes", type=click.IntRange(1, 4096), help="Number of processes.  [default: one per core]"
    ),
    click.option(
        "--dask", default="", metavar="ADDRESS", help="Scheduler address of a Dask cluster to run on instead."
    ),
)
"""Where simulations run."""

connection = group(
    click.option(
        "--kubeconfig",
        metavar="FILE",
        help="Path to a kubeconfig.  [default: $KUBECONFIG, ~/.kube/config, or in-cluster]",
    ),
    click.option("--context", metavar="NAME", help="Kubeconfig context to use."),
)
"""The API server of a cluster."""

server = group(
    click.option(
        "--server",
        metavar="URL",
        help="Ask a running Kuberth at this address (https://host:10259) with the same credentials.",
    ),
    click.option("--certificate-authority", metavar="FILE", help="CA certificate to verify --server."),
    click.option(
        "--insecure-skip-tls-verify",
        "insecure",
        is_flag=True,
        help="Skip TLS verification for --server (insecure).",
    ),
)
"""A running Kuberth that serves pages."""
