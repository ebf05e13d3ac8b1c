"""The shadow's metrics. In: decisions. Out: Prometheus families, and a server that shows them.

They are served without authentication: asking the API server for a review would be a write.
"""

from __future__ import annotations

from typing import Final

from kuberth.https.certificates import SelfSigned
from kuberth.https.listener import AddressFlags, Listener
from kuberth.https.messages import Request, Response
from kuberth.observe.metrics import Counter, Histogram, MetricSet, exponential_buckets
from kuberth.observe.process import build_families, process_families
from kuberth.programs.shadow.decisions import ShadowDecision
from kuberth.serving.metrics_pages import families_page
from kuberth.serving.page_service import PageService
from kuberth.serving.server import LIMITS

_FLAGS: Final = AddressFlags("--metrics-address", "--metrics-port")
_REQUEST_SECONDS: Final = 30.0


class ShadowMetrics(MetricSet):
    """Families of the shadow's decisions."""

    decisions = Counter(
        "kuberth_shadow_decisions_total",
        "Decisions of the real scheduler, by how the shadow's compares and what explains a difference.",
        ("agreement", "explained_by"),
    )
    waited = Histogram(
        "kuberth_shadow_pod_waited_seconds",
        "From the first sight of a pod to the real scheduler's binding of it.",
        buckets=exponential_buckets(0.01, 2, 16),
    )
    took = Histogram(
        "kuberth_shadow_decision_duration_seconds",
        "How long the shadow's own decision took.",
        buckets=exponential_buckets(0.001, 2, 15),
    )
    attempts = Counter(
        "kuberth_shadow_attempts_total", "Attempts for pods that were placed, by scheduler.", ("scheduler",)
    )

    def note(self, decision: ShadowDecision) -> None:
        explanation = decision.explanation
        cause = "" if explanation is None else str(explanation.cause)
        self.decisions.inc((str(decision.agreement), cause))
        self.took.observe((), decision.own_seconds)
        if decision.node:
            self.attempts.inc(("real",), decision.attempts)
            self.attempts.inc(("shadow",), decision.own_attempts)
            if decision.waited_seconds is not None:
                self.waited.observe((), decision.waited_seconds)


def metrics_server(metrics: ShadowMetrics, *, host: str, port: int) -> Listener:
    """Serves /metrics over HTTPS while it is entered; `port` 0 takes any that is free."""
    page = families_page(lambda: [*metrics.families(), *build_families(), *process_families()])
    service = PageService({"/metrics": page}, access=_Everybody(), request_seconds=_REQUEST_SECONDS)
    return Listener(service, certificates=SelfSigned(host), host=host, port=port, flags=_FLAGS, limits=LIMITS)


class _Everybody:
    """Implements `kuberth.serving.access.Access`."""

    def is_open(self, path: str) -> bool:
        return True

    async def refusal(self, request: Request) -> Response | None:
        return None
