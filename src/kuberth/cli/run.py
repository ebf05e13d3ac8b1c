"""`kuberth run`: a drop-in for kube-scheduler, with its flags."""

from __future__ import annotations

import difflib
import logging
from typing import Any, NoReturn

import click

import kuberth
from kuberth.cli.context import Extras, plugin_option, queue_option
from kuberth.cli.logs import set_up_logging
from kuberth.cli.run_flags import Flags, options
from kuberth.observe import verbosity

logger = logging.getLogger(__name__)


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
    params=options(),
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
@click.option(
    "--check-plans-every",
    type=click.IntRange(min=0),
    default=1000,
    show_default=True,
    metavar="N",
    help="Decide one cycle in N twice, the second time without plans, to check the plugins' inputs; 0 turns "
    "it off.",
)
@click.option(
    "--page", is_flag=True, help="Serve the web page and the data for `kuberth top` on the secure port."
)
@plugin_option
@queue_option
@click.pass_obj
def run(
    extras: Extras | None,
    /,
    plugin_references: tuple[str, ...],
    queue_reference: str | None,
    check_plans_every: int,
    page: bool,
    **parameters: Any,
) -> None:
    """Run the scheduler for a Kubernetes cluster, instead of or beside kube-scheduler."""
    flags = Flags.taken_from(parameters)
    set_up_logging(flags["v"], flags["logging-format"])
    if verbosity.level >= 1:
        for name, value in flags.shown().items():
            verbosity.log(1, f'FLAG: --{name}="{value}"')
    for name in flags.without_effect():
        logger.info("flag --%s has no effect here", name)

    from kuberth.cli.run_settings import run_scheduler  # heavy: not for --help

    raise SystemExit(
        run_scheduler(
            flags,
            extras or Extras(),
            plugin_references,
            queue_reference,
            check_plans_every=check_plans_every,
            page=page,
        )
    )
