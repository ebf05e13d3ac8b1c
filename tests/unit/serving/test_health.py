from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from kuberth.https.messages import Query, Request
from kuberth.observe.metrics import HealthMetrics
from kuberth.serving.health import HealthCheck, health_routes

GOOD = HealthCheck("good", lambda: None)
BAD = HealthCheck("bad", lambda: "handlers are not fully synchronized")


def ask(
    path: str,
    checks: Sequence[HealthCheck],
    *,
    metrics: HealthMetrics | None = None,
    query: Mapping[str, list[str]] | None = None,
) -> tuple[int, str]:
    routes = health_routes("/readyz", checks, metrics or HealthMetrics())
    response = routes[path](Request("GET", path, query=Query(query or {})))
    assert isinstance(response.body, bytes)
    return response.status, response.body.decode()


@pytest.mark.parametrize(
    "checks, query, status, text",
    [
        ([], {}, 200, "ok"),
        ([], {"verbose": [""]}, 200, "[+]ping ok\nreadyz check passed\n"),
        ([GOOD], {}, 200, "ok"),
        ([GOOD, BAD], {}, 500, "[+]good ok\n[-]bad failed: reason withheld\nreadyz check failed\n"),
        ([GOOD, BAD], {"exclude": ["bad"]}, 200, "ok"),
        (
            [GOOD, BAD],
            {"exclude": ["bad"], "verbose": [""]},
            200,
            "[+]good ok\n[+]bad excluded: ok\nreadyz check passed\n",
        ),
        (
            [GOOD],
            {"exclude": ["y", 'x"'], "verbose": ["1"]},
            200,
            '[+]good ok\nwarn: some health checks cannot be excluded: no matches for "x\\"","y"\n'
            "readyz check passed\n",
        ),
    ],
    ids=("none", "ping", "good", "one bad", "bad excluded", "excluded, verbose", "unknown excluded"),
)
def test_all_checks(
    checks: Sequence[HealthCheck], query: dict[str, list[str]], status: int, text: str
) -> None:
    assert ask("/readyz", checks, query=query) == (status, text)


def test_one_check_says_why_it_fails() -> None:
    assert ask("/readyz/good", [GOOD, BAD]) == (200, "ok")
    assert ask("/readyz/bad", [GOOD, BAD]) == (
        500,
        "internal server error: handlers are not fully synchronized\n",
    )


def test_results_are_counted_but_not_of_excluded_checks() -> None:
    metrics = HealthMetrics()
    ask("/readyz", [GOOD, BAD], metrics=metrics)
    ask("/readyz", [GOOD, BAD], metrics=metrics, query={"exclude": ["bad"]})
    assert metrics.last.values == {("good", "readyz"): 1, ("bad", "readyz"): 0}
    assert metrics.total.values == {("good", "readyz", "success"): 2, ("bad", "readyz", "error"): 1}
