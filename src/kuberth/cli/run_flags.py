"""Parses the flags of kube-scheduler, with their types and defaults.

In: the words of a command line. Out: `Flags`, the values with upstream's defaults, also as text as
kube-scheduler shows them. A flag without help has no effect here: it is accepted, so that kube-scheduler's
manifests keep working, and logged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from kuberth.cli import options
from kuberth.text.durations import format_duration


class _Level(click.ParamType[int]):
    """A number, also after one dash and an equals sign, as Go's flags allow: `-v=2`."""

    name = "level"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return int(str(value).removeprefix("="))
        except ValueError:
            self.fail(f"{value!r} is not a number", param, ctx)


class _File(click.Path):
    """A file that must exist; empty means none, as in manifests with unset variables."""

    def __init__(self) -> None:
        super().__init__(exists=True, dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return None if value == "" else super().convert(value, param, ctx)


def _go_gates(values: Iterable[str]) -> str:
    return ",".join(value if ":" in value else f":{value}" for value in values)


class Kind(NamedTuple):
    """How the value of a flag is parsed and shown."""

    type: click.ParamType[Any]
    show: Callable[[Any], str] = str
    is_switch: bool = False
    """Whether it takes no separate value: `--name`, or `--name=false`."""
    is_list: bool = False
    """Whether it takes several values, separated by commas or by repeating the flag."""

    def parse(self, text: str) -> Any:
        """Parse a default from its displayed form."""
        if self.is_list:
            return _split((text.strip("[]"),))
        return self.type.convert(text, None, None) if text else None


TEXT: Final = Kind(click.STRING)
SWITCH: Final = Kind(click.BOOL, lambda value: str(value).lower(), is_switch=True)
DURATION: Final = Kind(options.DurationType(), format_duration)
FILE: Final = Kind(_File())
NEW_FILE: Final = Kind(click.Path(dir_okay=False, path_type=Path))
PORT: Final = Kind(click.IntRange(0, 65535))
INT: Final = Kind(click.INT)
FLOAT: Final = Kind(click.FLOAT, "{:g}".format)
LEVEL: Final = Kind(_Level())
LIST: Final = Kind(click.STRING, lambda values: f"[{','.join(values)}]", is_list=True)
GATES: Final = Kind(click.STRING, _go_gates, is_list=True)
FORMAT: Final = Kind(click.Choice(["text", "json"]))


class Flag(NamedTuple):
    name: str
    kind: Kind
    default: str = ""
    """The default as kube-scheduler shows it."""
    help: str = ""
    """Empty for flags without effect."""
    metavar: str | None = None

    @property
    def parameter(self) -> str:
        """The name of click's parameter."""
        return self.name.replace("-", "_")


FLAGS: Final = (
    Flag("config", FILE, help="Path to a KubeSchedulerConfiguration file."),
    Flag(
        "write-config-to", NEW_FILE, help="Write the configuration with all defaults to this file and exit."
    ),
    Flag("master", TEXT, help="Address of the API server; overrides the kubeconfig."),
    Flag(
        "kubeconfig", TEXT, help="Path to a kubeconfig; otherwise $KUBECONFIG, ~/.kube/config, or in-cluster."
    ),
    # Serving
    Flag("secure-port", PORT, "10259", "HTTPS port for health and metrics; 0 disables serving."),
    Flag("bind-address", TEXT, "0.0.0.0", "Address to listen on."),
    Flag("tls-cert-file", FILE, help="TLS certificate; without it, a self-signed one is generated."),
    Flag("tls-private-key-file", FILE, help="Private key of the TLS certificate."),
    Flag("client-ca-file", FILE, help="CA whose client certificates are accepted."),
    Flag("cert-dir", TEXT),
    Flag("disable-http2-serving", SWITCH, "false"),
    Flag("http2-max-streams-per-connection", INT, "0"),
    Flag("permit-address-sharing", SWITCH, "false"),
    Flag("permit-port-sharing", SWITCH, "false"),
    Flag("tls-cipher-suites", LIST, "[]"),
    Flag("tls-curve-preferences", LIST, "[]"),
    Flag("tls-min-version", TEXT),
    Flag("tls-sni-cert-key", LIST, "[]"),
    # Authentication and authorization
    Flag(
        "authentication-kubeconfig", TEXT, help="Kubeconfig for TokenReviews.  [default: the scheduler's own]"
    ),
    Flag(
        "authorization-kubeconfig",
        TEXT,
        help="Kubeconfig for SubjectAccessReviews.  [default: the scheduler's own]",
    ),
    Flag(
        "authorization-always-allow-paths",
        LIST,
        "[/healthz,/readyz,/livez]",
        "Paths served without authorization.",
    ),
    Flag("authentication-skip-lookup", SWITCH, "false"),
    Flag("authentication-token-webhook-cache-ttl", DURATION, "10s"),
    Flag("authentication-tolerate-lookup-failure", SWITCH, "true"),
    Flag("authorization-webhook-cache-authorized-ttl", DURATION, "10s"),
    Flag("authorization-webhook-cache-unauthorized-ttl", DURATION, "10s"),
    Flag("requestheader-allowed-names", LIST, "[]"),
    Flag("requestheader-client-ca-file", TEXT),
    Flag("requestheader-extra-headers-prefix", LIST, "[x-remote-extra-]"),
    Flag("requestheader-group-headers", LIST, "[x-remote-group]"),
    Flag("requestheader-uid-headers", LIST, "[]"),
    Flag("requestheader-username-headers", LIST, "[x-remote-user]"),
    # Leader election
    Flag("leader-elect", SWITCH, "true", "Schedule only while holding a lease."),
    Flag(
        "leader-elect-lease-duration",
        DURATION,
        "15s",
        "Time after which a lease that was not renewed can be taken over.",
    ),
    Flag(
        "leader-elect-renew-deadline", DURATION, "10s", "Time within which the leader must renew its lease."
    ),
    Flag("leader-elect-retry-period", DURATION, "2s", "Time between attempts to acquire or renew the lease."),
    Flag("leader-elect-resource-lock", TEXT, "leases", "Kind of the lock; only leases are supported."),
    Flag("leader-elect-resource-name", TEXT, "kube-scheduler", "Name of the lease."),
    Flag("leader-elect-resource-namespace", TEXT, "kube-system", "Namespace of the lease."),
    # Scheduling
    Flag(
        "feature-gates",
        GATES,
        help="Feature gates to enable or disable; repeatable.",
        metavar="A=true,B=false",
    ),
    Flag("kube-api-qps", FLOAT, "50", "API requests per second, without --config."),
    Flag("kube-api-burst", INT, "100", "Burst of API requests, without --config."),
    Flag(
        "pod-max-in-unschedulable-pods-duration",
        DURATION,
        "5m0s",
        "Longest time in unschedulablePods before a pod is retried.",
    ),
    Flag("contention-profiling", SWITCH, "true"),
    Flag("profiling", SWITCH, "true"),
    Flag("kube-api-content-type", TEXT, "application/vnd.kubernetes.protobuf"),
    Flag("emulated-version", LIST, "[]"),
    Flag("min-compatibility-version", LIST, "[]"),
    # Metrics and logs
    Flag("allow-metric-labels", LIST, "[]"),
    Flag("allow-metric-labels-manifest", TEXT),
    Flag("disabled-metrics", LIST, "[]"),
    Flag("show-hidden-metrics-for-version", TEXT),
    Flag(
        "v",
        LEVEL,
        "0",
        "Log level: 2 logs every pod that is bound or rejected, 3 every attempt, 4 the scores of the chosen "
        "node, 5 every queueing hint, 10 all scores.",
    ),
    Flag("logging-format", FORMAT, "text", "Log format."),
    Flag("log-flush-frequency", DURATION, "5s"),
    Flag("log-json-info-buffer-size", TEXT, "0"),
    Flag("log-json-split-stream", SWITCH, "false"),
    Flag("log-text-info-buffer-size", TEXT, "0"),
    Flag("log-text-split-stream", SWITCH, "false"),
    Flag("vmodule", TEXT),
)

_BY_NAME: Final = {flag.name: flag for flag in FLAGS}
_ALWAYS_OFF: Final = {"help": "false", "version": "false"}
"""Flags that end the process before the values are shown."""


class Flags:
    """The flags of a command line; flags that were not given have kube-scheduler's defaults."""

    def __init__(self, given: Mapping[str, Any] | None = None) -> None:
        """`given` has values by flag name."""
        self._given = dict(given or {})

    @classmethod
    def taken_from(cls, parameters: dict[str, Any]) -> Flags:
        """Remove the flags from click's parameters."""
        given: dict[str, Any] = {}
        for flag in FLAGS:
            value = parameters.pop(flag.parameter)
            if flag.kind.is_list and value:
                given[flag.name] = _split(value)
            elif value not in (None, (), ""):
                given[flag.name] = value
        return cls(given)

    def __getitem__(self, name: str) -> Any:
        """The effective value: the given one, or the default; None for an empty one."""
        flag = _BY_NAME[name]
        return self._given[name] if name in self._given else flag.kind.parse(flag.default)

    def given(self, name: str) -> Any:
        """The value if the flag was given, else None."""
        return self._given.get(_BY_NAME[name].name)

    def without_effect(self) -> Iterator[str]:
        """Names of given flags that have no effect here."""
        return (name for name in self._given if not _BY_NAME[name].help)

    def shown(self) -> dict[str, str]:
        """Every flag and its value, as kube-scheduler's /flagz shows them."""
        shown = {
            flag.name: flag.kind.show(self._given[flag.name]) if flag.name in self._given else flag.default
            for flag in FLAGS
        }
        return dict(sorted((shown | _ALWAYS_OFF).items()))


def click_options() -> list[click.Parameter]:
    """A click option for every flag; those without effect are hidden."""
    return [_option(flag) for flag in FLAGS]


def _option(flag: Flag) -> click.Option:
    names = [f"--{flag.name}", flag.parameter]
    if len(flag.name) == 1:
        names.insert(0, f"-{flag.name}")
    settings: dict[str, Any] = {"flag_value": True} if flag.kind.is_switch else {}
    # No defaults here: `Flags` has to know which flags were given.
    return click.Option(
        names,
        is_flag=False,
        type=flag.kind.type,
        multiple=flag.kind.is_list,
        default=None,
        metavar=flag.metavar,
        hidden=not flag.help,
        help=f"{flag.help}  [default: {flag.default}]" if flag.default else flag.help,
        **settings,
    )


def _split(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(part for value in values for part in value.split(",") if part)
