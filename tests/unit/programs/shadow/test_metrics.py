"""The shadow's metrics, and access to them."""

from __future__ import annotations

import asyncio
import ssl

from kuberth.observe.exposition import render
from kuberth.programs.shadow.decisions import (
    Agreement,
    DifferenceCause,
    DifferenceExplanation,
    ShadowDecision,
)
from kuberth.programs.shadow.program import ShadowMetrics, metrics_server


def test_decisions_are_counted_by_agreement_and_explanation() -> None:
    metrics = ShadowMetrics()
    metrics.record(
        ShadowDecision("d/a", Agreement.SAME, node="n", waited_seconds=0.5, attempts=2, own_attempts=1)
    )
    metrics.record(
        ShadowDecision(
            "d/b", Agreement.OTHER, node="n", explanation=DifferenceExplanation(DifferenceCause.NODES, "")
        )
    )
    metrics.record(ShadowDecision("d/c", Agreement.SAME_VERDICT, attempts=7))
    text = "".join(render(metrics.families()))
    for line in (
        'kuberth_shadow_decisions_total{agreement="same node",explained_by=""} 1',
        'kuberth_shadow_decisions_total{agreement="other node",explained_by="nodes"} 1',
        'kuberth_shadow_attempts_total{scheduler="real"} 2',
        'kuberth_shadow_attempts_total{scheduler="shadow"} 1',
        "kuberth_shadow_pod_waited_seconds_count 1",
        "kuberth_shadow_decision_duration_seconds_count 3",
    ):
        assert line in text.splitlines()


def test_they_are_served() -> None:
    async def ask() -> bytes:
        metrics = ShadowMetrics()
        metrics.record(ShadowDecision("d/a", Agreement.SAME, node="n"))
        async with metrics_server(metrics, host="127.0.0.1", port=0) as server:
            tls = ssl.create_default_context()
            tls.check_hostname = False
            tls.verify_mode = ssl.CERT_NONE  # it is made by the server itself
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=tls)
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
            answer = await reader.read()
            writer.close()
            await writer.wait_closed()
            return answer

    answer = asyncio.run(ask())
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"kuberth_shadow_decisions_total" in answer
