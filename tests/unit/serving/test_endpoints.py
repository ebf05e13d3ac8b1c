"""Every path of the secure port, asked over HTTPS."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import yaml
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families

import kuberth
from kuberth.api.core import Pod
from kuberth.config import FeatureGates, default_configuration
from kuberth.https.application import Application
from kuberth.https.certificates import SelfSigned
from kuberth.https.connection_limit import Limits
from kuberth.https.messages import Message, Request
from kuberth.observe.metrics import ClientMetrics, LeaderElectionMetrics, SchedulerMetrics
from kuberth.serving.endpoints import scheduler_routes
from kuberth.serving.health import HealthCheck
from kuberth.serving.metrics_pages import PODS_PER_PIECE, feature_families, wants_open_metrics
from kuberth.serving.page_service import PageService
from kuberth.serving.server import Server
from kuberth.testing import make_pod
from tests.unit.serving.harness import Answer, FakeClock, Open, fetch, run
from tests.unit.text.test_cbor import read as read_cbor

PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)


def routes(**changes: Any) -> dict[str, Any]:
    scheduler, client, election = SchedulerMetrics(), ClientMetrics(), LeaderElectionMetrics()
    scheduler.schedule_attempts.inc(("scheduled", "default-scheduler"))
    client.requests.inc(("200", "GET", "10.0.0.1:6443"))
    election.master_status.set(("kube-scheduler",), 1)
    gates = FeatureGates()
    given: dict[str, Any] = {
        "metrics": lambda: [
            *scheduler.families(),
            *client.families(),
            *election.families(),
            *feature_families(gates),
        ],
        "config": default_configuration,
        "flags": {"v": "2", "config": "/etc/scheduler.yaml"},
        "clock": FakeClock(1_700_000_000 * 10**9),
        **changes,
    }
    return scheduler_routes(**given)


def get(*paths: str, accept: str = "", **changes: Any) -> list[Answer]:
    async def main() -> list[Answer]:
        async with Server(
            routes(**changes), access=Open(), certificates=SelfSigned(), host="127.0.0.1", port=0
        ) as serving:
            headers = {"Accept": accept} if accept else {}
            return [await fetch(serving.port, path, headers=headers) for path in paths]

    return run(main)


def parse_text(text: str) -> list[Metric]:
    return list(text_string_to_metric_families(text))


def test_every_path_of_upstream_is_there() -> None:
    paths = ["/healthz", "/livez", "/readyz", "/metrics", "/metrics/resources", "/metrics/slis"]
    paths += ["/configz", "/statusz", "/flagz", "/healthz/ping", "/livez/ping", "/readyz/ping"]
    assert set(routes()) == set(paths)
    assert [answer.status for answer in get(*paths)] == [200] * len(paths)


def test_metrics() -> None:
    (answer,) = get("/metrics", accept=PROMETHEUS)
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = answer.text.splitlines()
    assert 'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 1' in lines
    assert 'rest_client_requests_total{code="200",host="10.0.0.1:6443",method="GET"} 1' in lines
    assert 'leader_election_master_status{name="kube-scheduler"} 1' in lines
    assert 'kubernetes_feature_enabled{name="SchedulerAsyncAPICalls",stage="BETA"} 0' in lines
    assert 'kubernetes_feature_enabled{name="SchedulerQueueingHints",stage=""} 1' in lines
    families = {family.name for family in parse_text(answer.text)}
    assert {"process_cpu_seconds", "python_info", "scheduler_preemption_attempts"} <= families


def test_open_metrics_for_clients_that_accept_nothing_else() -> None:
    (answer,) = get("/metrics", accept="application/openmetrics-text; version=1.0.0")
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert list(parse_open_metrics(answer.text))  # type: ignore[no-untyped-call]  # it has no types
    assert not wants_open_metrics(PROMETHEUS)
    assert not wants_open_metrics("")


def test_service_levels() -> None:
    problems: list[str | None] = [None]
    checks = [HealthCheck("sched-handler-sync", lambda: problems[0])]

    async def main() -> Sequence[Answer]:
        async with Server(
            routes(readyz=checks), access=Open(), certificates=SelfSigned(), host="127.0.0.1", port=0
        ) as serving:
            good = await fetch(serving.port, "/readyz")
            problems[0] = "not yet"
            return good, await fetch(serving.port, "/readyz"), await fetch(serving.port, "/metrics/slis")

    good, bad, slis = run(main)
    assert (good.status, bad.status) == (200, 500)
    assert "not yet" not in bad.text
    assert slis.text.startswith(
        "# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.\n"
        "# TYPE kubernetes_healthcheck gauge\n"
        'kubernetes_healthcheck{name="sched-handler-sync",type="readyz"} 0\n'
        "# HELP kubernetes_healthchecks_total [STABLE] This metric records the results of all healthcheck.\n"
        "# TYPE kubernetes_healthchecks_total counter\n"
        'kubernetes_healthchecks_total{name="sched-handler-sync",status="error",type="readyz"} 1\n'
        'kubernetes_healthchecks_total{name="sched-handler-sync",status="success",type="readyz"} 1\n'
    )
    assert "\nprocess_start_time_seconds " in slis.text


@pytest.mark.parametrize("number", (0, 1, PODS_PER_PIECE, 2 * PODS_PER_PIECE + 1))
def test_pod_resources_come_in_pieces_of_one_family_each(number: int) -> None:
    pods = [make_pod(f"p{n}", cpu="1", memory="1Gi") for n in range(number)]
    (answer,) = get("/metrics/resources", pods=lambda: pods)
    families = parse_text(answer.text)
    assert [family.name for family in families] == ["kube_pod_resource_request"] * bool(number)
    assert sum(len(family.samples) for family in families) == 2 * number
    assert answer.text.count("# TYPE") == bool(number)


def test_making_a_long_page_leaves_time_for_other_work() -> None:
    pods = [make_pod(f"p{n}", cpu="1", memory="1Gi", node="n") for n in range(5000)]

    async def main() -> None:
        pieces = turns = 0

        async def work() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        async def send(message: Message) -> None:
            nonlocal pieces
            pieces += bool(message.get("body"))

        async def receive() -> dict[str, Any]:
            return {}

        service = PageService(routes(pods=lambda: pods), access=Open(), request_seconds=10)
        application = Application(service, limits=Limits())
        path = "/metrics/resources"
        state = {"certificate": None, "mark_authenticated": lambda: None}
        scope = {
            "http_version": "1.1",
            "method": "GET",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "state": state,
        }
        working = asyncio.ensure_future(work())
        await application({**scope, "headers": []}, receive, send)
        assert turns >= pieces == len(pods) // PODS_PER_PIECE
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)

    run(main)


def test_the_pods_of_the_moment() -> None:
    """The page is made piece by piece while pods come and go."""
    pods: dict[str, Pod] = {f"p{n}": make_pod(f"p{n}", cpu="1") for n in range(3)}

    async def main() -> int:
        response = routes(pods=pods.values)["/metrics/resources"](Request("GET", "/"))
        pods.clear()
        assert not isinstance(response.body, bytes)
        text = b"".join([piece async for piece in response.body]).decode()
        return text.count("\nkube_pod_resource_request{")

    assert run(main) == 3


def test_configz() -> None:
    (answer,) = get("/configz")
    assert answer.headers["content-type"] == "application/json"
    config = answer.json["componentconfig"]
    assert (config["kind"], config["apiVersion"]) == (
        "KubeSchedulerConfiguration",
        "kubescheduler.config.k8s.io/v1",
    )
    assert config["leaderElection"]["leaseDuration"] == "15s"
    assert config["profiles"][0]["schedulerName"] == "default-scheduler"


def test_statusz() -> None:
    clock = FakeClock(1_700_000_000 * 10**9)
    pages = routes(clock=clock)
    clock.advance(3600 * 25 + 61)
    response = pages["/statusz"](Request("GET", "/"))
    assert isinstance(response.body, bytes)
    assert response.body.decode() == (
        "\nkube-scheduler statusz\n"
        "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility "
        "guarantees and is for debugging purposes only.\n\n"
        "Started: Tue Nov 14 22:13:20 UTC 2023\n"
        "Up: 25 hr 01 min 01 sec\n"
        f"Python version: {response.body.decode().partition('Python version: ')[2].splitlines()[0]}\n"
        f"Binary version: {kuberth.__version__}\n"
        "Emulation version: 1.36\n"
        "Paths: /configz /flagz /healthz /livez /metrics /readyz\n"
    )


def test_flagz() -> None:
    (answer,) = get("/flagz")
    assert answer.text.startswith("\nkube-scheduler flagz\nWarning: ")
    assert answer.text.endswith("\nconfig=/etc/scheduler.yaml\nv=2\n")


PAGES = [("/statusz", "Statusz", "uptimeSeconds"), ("/flagz", "Flagz", "flags")]


@pytest.mark.parametrize("path, kind, field", PAGES)
@pytest.mark.parametrize(
    "media, read", [("json", json.loads), ("yaml", yaml.safe_load)], ids=["json", "yaml"]
)
@pytest.mark.parametrize("version, is_deprecated", [("v1beta1", False), ("v1alpha1", True)])
def test_structured_pages(
    path: str,
    kind: str,
    field: str,
    media: str,
    read: Callable[[str], Any],
    version: str,
    is_deprecated: bool,
) -> None:
    accept = f"application/{media};g=config.k8s.io;v={version};as={kind}"
    (answer,) = get(path, accept=f"application/xml, {accept}, text/plain")
    assert answer.status == 200
    assert answer.headers["content-type"] == accept
    tree = read(answer.text)
    assert (tree["kind"], tree["apiVersion"]) == (kind, f"config.k8s.io/{version}")
    assert tree["metadata"] == {"name": "kube-scheduler"}
    assert field in tree
    assert ("warning" in answer.headers) == is_deprecated


@pytest.mark.parametrize("path, kind, _field", PAGES)
def test_a_structured_page_must_be_asked_for_by_kind(path: str, kind: str, _field: str) -> None:
    for accept in ("application/json", f"application/json;g=config.k8s.io;v=v2;as={kind}", "application/xml"):
        (answer,) = get(path, accept=accept)
        assert (answer.status, answer.json["reason"]) == (406, "NotAcceptable")
    (answer,) = get(path, accept="application/yaml")
    assert (answer.status, answer.headers["content-type"]) == (406, "application/yaml")
    assert yaml.safe_load(answer.text)["message"] == (
        "only the following media types are accepted: application/json, application/yaml, text/plain"
    )


@pytest.mark.parametrize("path, kind, field", PAGES)
def test_cbor_is_served_behind_its_gate(path: str, kind: str, field: str) -> None:
    asked = Request("GET", path, headers={"accept": f"application/cbor;g=config.k8s.io;v=v1beta1;as={kind}"})
    answer = routes(cbor=True)[path](asked)
    assert (answer.status, answer.content_type) == (200, asked.headers["accept"])
    assert isinstance(answer.body, bytes)
    tree = read_cbor(answer.body)
    assert (tree["kind"], tree["apiVersion"]) == (kind, "config.k8s.io/v1beta1")
    assert tree["metadata"] == {"name": "kube-scheduler"}
    assert field in tree
    assert routes()[path](asked).status == 406

    plain = Request("GET", path, headers={"accept": "application/cbor"})
    refused = routes(cbor=True)[path](plain)
    assert (refused.status, refused.content_type) == (406, "application/cbor")
    assert isinstance(refused.body, bytes)
    assert read_cbor(refused.body)["message"] == (
        "only the following media types are accepted: application/json, application/yaml, text/plain, "
        "application/cbor"
    )
    assert routes()[path](plain).content_type == "application/json"


@pytest.mark.parametrize(
    "accept, media",
    [
        ("text/plain;q=0.5, application/yaml;g=config.k8s.io;v=v1beta1;as=Flagz", "application/yaml"),
        ("application/yaml;g=config.k8s.io;v=v1beta1;as=Flagz;q=0.1, */*", "text/plain"),
        ("application/yaml;g=config.k8s.io;v=v1beta1;as=Flagz;q=0, text/*", "text/plain"),
        ("application/yaml;g=config.k8s.io;v=v1beta1;as=Statusz, */*;q=x", "text/plain"),
    ],
)
def test_the_most_wanted_type_is_served(accept: str, media: str) -> None:
    (answer,) = get("/flagz", accept=accept)
    assert answer.headers["content-type"].partition(";")[0] == media


def test_what_dashboards_ask_of_any_kubernetes_process() -> None:
    (answer,) = get("/metrics")
    samples = {sample.name: sample for family in parse_text(answer.text) for sample in family.samples}
    build = samples["kubernetes_build_info"]
    assert build.value == 1
    assert set(build.labels) == {
        *("major", "minor", "git_version", "git_commit", "git_tree_state", "build_date"),
        *("go_version", "compiler", "platform"),
    }
    assert (build.labels["major"], build.labels["minor"]) == ("1", "36")
    assert kuberth.__version__ in build.labels["git_version"]
    assert samples["version_info"].labels == {
        "binary": kuberth.__version__,
        "component": "kube",
        "emulation": "1.36",
        "min_compat": "1.35",
    }
    for name in (
        *("process_start_time_seconds", "process_cpu_seconds_total", "process_resident_memory_bytes"),
        *("kuberth_asyncio_tasks", "process_open_fds", "process_max_fds", "process_virtual_memory_bytes"),
    ):
        assert samples[name].value > 0, name
