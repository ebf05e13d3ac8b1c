"""/healthz, /livez and /readyz: named checks, in kube's text format.

In: checks that return None or a problem. Out: `ok`, a list with ?verbose, and one path per check. The reason
of a failed check is shown only on the check's own path, which needs permission.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from kuberth.https.messages import Request, Response
from kuberth.observe.metrics import HealthMetrics
from kuberth.serving.messages import Handler

logger = logging.getLogger(__name__)


class HealthCheck(NamedTuple):
    """A named check; `problem` returns None if it passes, else one sentence."""

    name: str
    problem: Callable[[], str | None]


PING = HealthCheck("ping", lambda: None)


def health_routes(path: str, checks: Sequence[HealthCheck], metrics: HealthMetrics) -> dict[str, Handler]:
    """Handlers of `path` for all checks and `path/<name>` for each; without checks there is `ping`."""
    checks = checks or (PING,)
    routes: dict[str, Handler] = {path: partial(_all, path.strip("/"), checks, metrics)}
    for check in checks:
        routes[f"{path}/{check.name}"] = partial(_one, check)
    return routes


def _all(endpoint: str, checks: Sequence[HealthCheck], metrics: HealthMetrics, request: Request) -> Response:
    excluded = set(request.query.get("exclude", ()))
    unknown = excluded - {check.name for check in checks}
    lines: list[str] = []
    failed: list[str] = []
    for check in checks:
        if check.name in excluded:
            lines.append(f"[+]{check.name} excluded: ok\n")
            continue
        problem = check.problem()
        metrics.observe(check.name, endpoint, healthy=problem is None)
        if problem is None:
            lines.append(f"[+]{check.name} ok\n")
        else:
            lines.append(f"[-]{check.name} failed: reason withheld\n")
            failed.append(f"{check.name}: {problem}")
    if unknown:
        names = ",".join(json.dumps(name) for name in sorted(unknown))
        lines.append(f"warn: some health checks cannot be excluded: no matches for {names}\n")
    if failed:
        logger.info("%s check failed: %s", endpoint, "; ".join(failed))
        return Response.text(f"{''.join(lines)}{endpoint} check failed\n", status=500)
    if "verbose" not in request.query:
        return Response.text("ok")
    return Response.text(f"{''.join(lines)}{endpoint} check passed\n")


def _one(check: HealthCheck, request: Request) -> Response:
    problem = check.problem()
    if problem is None:
        return Response.text("ok")
    return Response.text(f"internal server error: {problem}\n", status=500)
