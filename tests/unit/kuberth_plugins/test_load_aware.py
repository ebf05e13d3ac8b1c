"""Load-aware scoring: figures of Prometheus' HTTP API, and what happens without them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from kuberth.api.nodes import NodeAddress
from kuberth.config import load
from kuberth.evaluation import Evaluator
from kuberth.testing import (
    make_node,
    make_pod,
    profile,
    run_in_virtual_time,
    running,
)
from kuberth_plugins.load_aware import LoadAware, loads_in


class Played:
    """Prometheus' `/api/v1/query`, with loads that the test sets."""

    def __init__(self) -> None:
        self.loads: dict[str, str] = {}
        self.is_down = False
        self.queries: list[str] = []
        played = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                url = urlsplit(self.path)
                played.queries += parse_qs(url.query).get("query", [])
                self.send_response(503 if played.is_down or url.path != "/api/v1/query" else 200)
                self.end_headers()
                self.wfile.write(json.dumps(vector(played.loads)).encode())

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 — its signature
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"


def vector(loads: dict[str, str]) -> dict[str, Any]:
    result = [{"metric": {"instance": host}, "value": [1.5, load]} for host, load in loads.items()]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


@pytest.fixture
def prometheus() -> Iterator[Played]:
    played = Played()
    thread = threading.Thread(target=played.server.serve_forever)
    thread.start()
    yield played
    played.server.shutdown()
    thread.join()
    played.server.server_close()


def scheduler(prometheus: Played, *objects: Any, **args: Any) -> Any:
    config = [{"name": "LoadAware", "args": {"address": prometheus.address, **args}}]
    return running(
        *objects,
        plugins={"LoadAware": LoadAware},
        profiles=[profile("NodeName", "LoadAware", pluginConfig=config)],
    )


def test_the_idle_node_is_taken_by_name_or_address_and_followed(prometheus: Played) -> None:
    async def scenario() -> None:
        prometheus.loads = {"n1:9100": "0.9", "n2:9100": "0.1", "n3:9100": "0.5"}
        nodes = [make_node(f"n{index}") for index in (1, 2, 3)]
        async with scheduler(prometheus, *nodes, query="the load", refreshSeconds=10) as world:
            await world.quiet(seconds=1)
            assert prometheus.queries == ["the load"]
            world.api.put(make_pod("p"))
            await world.bound("p")
            assert world.node_of("p") == "n2"
            prometheus.loads = {"n1:9100": "0.0", "n2:9100": "0.8", "n3:9100": "0.5"}
            await world.quiet(seconds=11)
            world.api.put(make_pod("q"))
            await world.bound("q")
            assert world.node_of("q") == "n1"

    run_in_virtual_time(scenario)


def scores(evaluator: Evaluator) -> dict[str, int]:
    return dict(evaluator.evaluate(make_pod("p")).scores["LoadAware"])


def test_a_score_follows_the_node_and_the_figures() -> None:
    """Scores are kept by row, also of rows that another node takes, and of a table that grows."""
    evaluator = Evaluator(
        [make_node("n1"), make_node("n2")],
        config=load(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "profiles": [profile("LoadAware")],
            }
        ),
        with_plans=False,
    )
    plugin = evaluator.runner.profile.plugins["LoadAware"]
    assert isinstance(plugin, LoadAware)
    plugin._loads.set({"n1": 0.1, "10.0.0.7": 0.9, "n3": 0.2}, now_ns=1)
    assert scores(evaluator) == {"n1": 90, "n2": 60}
    made = make_node("n2")
    status = msgspec.structs.replace(made.status, addresses=(NodeAddress(address="10.0.0.7"),))
    evaluator.add(msgspec.structs.replace(made, status=status))
    assert scores(evaluator) == {"n1": 90, "n2": 10}
    evaluator.remove(make_node("n1"))
    evaluator.add(make_node("n3"))
    assert scores(evaluator) == {"n3": 80, "n2": 10}
    for number in range(100):
        evaluator.add(make_node(f"more-{number}"))
    assert scores(evaluator) == {"n3": 80, "n2": 10, **{f"more-{number}": 60 for number in range(100)}}
    plugin._loads.set({"n3": 1.5}, now_ns=2)
    assert set(scores(evaluator).values()) == {0}


def test_old_figures_decide_until_the_bound_and_not_longer(prometheus: Played) -> None:
    async def scenario() -> None:
        prometheus.loads = {"n1": "0.9", "n2": "0.1"}
        nodes = [make_node(f"n{index}") for index in (1, 2)]
        async with scheduler(prometheus, *nodes, refreshSeconds=10, staleAfterSeconds=25) as world:
            await world.quiet(seconds=1)
            prometheus.is_down = True
            await world.quiet(seconds=20)
            plugin = world.scheduler.runners["default-scheduler"].profile.plugins["LoadAware"]
            assert plugin._loads.by_host
            world.api.put(make_pod("p"))
            await world.bound("p")
            assert world.node_of("p") == "n2"
            await world.quiet(seconds=5)
            assert not plugin._loads.by_host
            world.api.put(make_pod("q"))
            await world.bound("q")  # without a score, and without an error

    run_in_virtual_time(scenario)


def test_a_server_that_never_was_there_stops_nothing(prometheus: Played) -> None:
    async def scenario() -> None:
        prometheus.is_down = True
        async with scheduler(prometheus, make_node("n1"), make_pod("p")) as world:
            await world.bound("p")

    run_in_virtual_time(scenario)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({"status": "error", "error": "bad query", "data": {}}, id="error"),
        pytest.param({"status": "success", "data": {"resultType": "matrix", "result": []}}, id="matrix"),
        pytest.param(["no object"], id="list"),
        pytest.param({"status": "success", "data": {"resultType": "vector", "result": [{}]}}, id="no metric"),
    ],
)
def test_other_answers_are_refused(answer: Any) -> None:
    with pytest.raises(ValueError, match=r"no vector|not an answer"):
        loads_in(answer, "instance")


def test_hosts_of_instances() -> None:
    answer = vector({"10.0.0.1:9100": "0.5", "[fd00::1]:9100": "0.25", "fd00::2": "0.75", "n": "NaN"})
    assert loads_in(answer, "instance") == {"10.0.0.1": 0.5, "fd00::1": 0.25, "fd00::2": 0.75}


@pytest.mark.parametrize("args", [{"address": "file:///etc/passwd"}, {"refreshSeconds": 0}])
def test_arguments_that_cannot_be_meant_are_refused(args: dict[str, Any], prometheus: Played) -> None:
    with pytest.raises(Exception, match=r"must start with http|must be more than 0"):
        run_in_virtual_time(lambda: _enter(prometheus, args))


async def _enter(prometheus: Played, args: dict[str, Any]) -> None:
    async with scheduler(prometheus, **args):
        pass
