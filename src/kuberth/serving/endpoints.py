"""Every path of kube-scheduler's secure port.

In: the content of the pages, as values or as functions that are called for each request. Out: routes.
"""

from __future__ import annotations

import datetime
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import kuberth
from kuberth.clock import NANOSECONDS, Clock, SystemClock
from kuberth.config import KubeSchedulerConfiguration
from kuberth.config.printing import to_tree
from kuberth.https.messages import JSON, Request, Response
from kuberth.observe.metrics import HealthMetrics
from kuberth.observe.process import build_families, process_families, task_families
from kuberth.serving.health import HealthCheck, health_routes
from kuberth.serving.messages import Handler, failure, failure_tree
from kuberth.serving.metrics_pages import Families, Pods, families_page, resources_page, start_time_families
from kuberth.text.cbor import write_cbor
from kuberth.text.documents import write_yaml

COMPONENT: Final = "kube-scheduler"
GROUP: Final = "config.k8s.io"
PLAIN: Final = "text/plain"
YAML: Final = "application/yaml"
CBOR: Final = "application/cbor"
VERSIONS: Final = ("v1beta1", "v1alpha1")

_WARNING: Final = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility "
    "guarantees and is for debugging purposes only."
)


Writer = Callable[[Mapping[str, Any]], bytes]


def configz_page(config: Callable[[], KubeSchedulerConfiguration]) -> Handler:
    """The page of the current configuration, which a reload may replace."""
    return lambda _request: Response.json({"componentconfig": to_tree(config())})


def statusz_page(paths: Sequence[str], *, clock: Clock, cbor: bool = False) -> Handler:
    """The page that lists `paths`; the start time is now."""
    folders = sorted({f"/{path.split('/')[1]}" for path in paths})
    make = partial(_status, folders, clock, clock.now_ns())
    return partial(_negotiate, "Statusz", make, _status_text, _writers(cbor=cbor))


def flagz_page(flags: Mapping[str, str], *, cbor: bool = False) -> Handler:
    return partial(_negotiate, "Flagz", lambda: {"flags": dict(flags)}, _flags_text, _writers(cbor=cbor))


def _status(paths: Sequence[str], clock: Clock, started_ns: int) -> dict[str, Any]:
    started = datetime.datetime.fromtimestamp(started_ns // NANOSECONDS, datetime.UTC)
    return {
        "startTime": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "uptimeSeconds": (clock.now_ns() - started_ns) // NANOSECONDS,
        # The API's field name; the runtime is Python.
        "goVersion": f"python{platform.python_version()}",
        "binaryVersion": kuberth.__version__,
        "emulationVersion": kuberth.KUBERNETES_VERSION,
        "paths": list(paths),
    }


def _status_text(status: Mapping[str, Any]) -> str:
    started = datetime.datetime.fromisoformat(status["startTime"])
    seconds = status["uptimeSeconds"]
    return (
        f"\n{COMPONENT} statusz\n{_WARNING}\n\n"
        f"Started: {started:%a %b %e %H:%M:%S UTC %Y}\n"
        f"Up: {seconds // 3600} hr {seconds // 60 % 60:02d} min {seconds % 60:02d} sec\n"
        f"Python version: {platform.python_version()}\n"
        f"Binary version: {status['binaryVersion']}\n"
        f"Emulation version: {status['emulationVersion']}\n"
        f"Paths: {' '.join(status['paths'])}\n"
    )


def _flags_text(tree: Mapping[str, Any]) -> str:
    lines = "".join(f"{name}={value}\n" for name, value in sorted(tree["flags"].items()))
    return f"\n{COMPONENT} flagz\n{_WARNING}\n{lines}"


def _negotiate(
    kind: str,
    make: Callable[[], dict[str, Any]],
    text: Callable[[Mapping[str, Any]], str],
    writers: Mapping[str, Writer],
    request: Request,
) -> Response:
    """Respond with the first accepted type that is served: text, or another of the page's kind."""
    accepted = _accepted(request.headers.get("accept") or "*/*")
    for media, wanted in accepted:
        if media in (PLAIN, "text/*", "*/*"):
            return Response.text(text(make()))
        version = wanted.get("v", "")
        if media not in writers or version not in VERSIONS:
            continue
        if wanted.get("g") == GROUP and wanted.get("as") == kind:
            head = {"kind": kind, "apiVersion": f"{GROUP}/{version}", "metadata": {"name": COMPONENT}}
            return Response(
                writers[media](head | make()),
                content_type=f"{media};g={GROUP};v={version};as={kind}",
                headers=_deprecation(kind, version),
            )
    types = ", ".join((*_WRITERS, PLAIN, *(media for media in writers if media not in _WRITERS)))
    message = f"only the following media types are accepted: {types}"
    media = accepted[0][0] if accepted else JSON
    if media == JSON or media not in writers:
        return failure(406, "NotAcceptable", message)
    refused = failure_tree(406, "NotAcceptable", message)
    return Response(writers[media](refused), status=406, content_type=media)


def _accepted(header: str) -> list[tuple[str, dict[str, str]]]:
    """Media types and their parameters, by quality, then in the header's order."""
    offers = []
    for offer in header.split(","):
        media, *rest = (part.strip() for part in offer.split(";"))
        parameters = {
            name.strip(): value.strip() for name, _, value in (part.partition("=") for part in rest)
        }
        offers.append((media.lower(), parameters, _quality(parameters.pop("q", "1"))))
    offers.sort(key=lambda offer: -offer[2])
    return [(media, parameters) for media, parameters, quality in offers if quality > 0]


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 1.0


def _json(tree: Mapping[str, Any]) -> bytes:
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _yaml(tree: Mapping[str, Any]) -> bytes:
    return write_yaml(tree, sort_keys=True).encode()


_WRITERS: Final[Mapping[str, Writer]] = {JSON: _json, YAML: _yaml}


def _writers(*, cbor: bool) -> Mapping[str, Writer]:
    return {**_WRITERS, CBOR: write_cbor} if cbor else _WRITERS


def _deprecation(kind: str, version: str) -> dict[str, str]:
    if version == VERSIONS[0]:
        return {}
    text = f"This version of the {kind.lower()} endpoint is deprecated. Please use a newer version."
    return {"warning": f'299 - "{text}"'}


def scheduler_routes(
    *,
    metrics: Families,
    config: Callable[[], KubeSchedulerConfiguration],
    flags: Mapping[str, str] | None = None,
    pods: Pods = tuple,
    healthz: Sequence[HealthCheck] = (),
    livez: Sequence[HealthCheck] = (),
    readyz: Sequence[HealthCheck] = (),
    clock: Clock | None = None,
    cbor: bool = False,
    more: Mapping[str, Handler] | None = None,
) -> dict[str, Handler]:
    """Create the handlers by path.

    `metrics` returns the families of /metrics (those of the process are added), `pods` the pods of
    /metrics/resources. `cbor`: serve statusz and flagz as CBOR too (feature gate CBORServingAndStorage).
    `more` are pages that kube-scheduler does not have, by path. Upstream's checks are `leaderElection` at
    healthz and readyz, and `shutdown` and `sched-handler-sync` at readyz.
    """
    health = HealthMetrics()
    routes: dict[str, Handler] = {
        **health_routes("/healthz", healthz, health),
        **health_routes("/livez", livez, health),
        **health_routes("/readyz", readyz, health),
        "/metrics": families_page(
            lambda: [*metrics(), *build_families(), *process_families(), *task_families()]
        ),
        "/metrics/resources": resources_page(pods),
        "/metrics/slis": families_page(lambda: [*health.families(), *start_time_families()]),
        "/configz": configz_page(config),
        "/flagz": flagz_page({} if flags is None else flags, cbor=cbor),
    }
    clock = SystemClock() if clock is None else clock
    routes["/statusz"] = statusz_page(list(routes), clock=clock, cbor=cbor)
    # After statusz, which lists only the paths that kube-scheduler's lists.
    return {**routes, **({} if more is None else more)}
