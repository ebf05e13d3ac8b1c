"""A whole scheduler with a real extender: what it is asked, what follows from its answers, and its faults."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from kuberth.api.core import Node, Pod
from kuberth.config import load
from kuberth.testing import make_node, make_pod
from kuberth.testing.harness import World, profile, running
from tests.certificates import authority, server_pair
from tests.extender_server import ExtenderServer, Raw, Script, everyone, only, scores, serving

SAFETY_SECONDS = 30.0
"""Only a net: every wait below ends with an event."""


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(SAFETY_SECONDS * 2):
            await scenario()

    asyncio.run(bounded())


def entry(extender: ExtenderServer, **more: Any) -> dict[str, Any]:
    """How the configuration names it, with every verb that its script knows."""
    verbs = {f"{verb}Verb": verb for verb in extender.script}
    weight = {"weight": 1} if "prioritize" in extender.script else {}
    return {"urlPrefix": extender.url, "nodeCacheCapable": True, **verbs, **weight, **more}


@asynccontextmanager
async def world_with(
    script: Script, *objects: Any, profiles: Any = None, extender: Mapping[str, Any] | None = None
) -> AsyncIterator[tuple[World, ExtenderServer]]:
    with serving(script) as server:
        async with running(
            *objects, profiles=profiles, extenders=[entry(server, **(extender or {}))]
        ) as world:
            yield world, server


def condition(world: World, name: str) -> tuple[str, str]:
    """Reason and message of PodScheduled."""
    for each in world.pod(name).status.conditions:
        if each.type == "PodScheduled" and each.status == "False":
            return each.reason, each.message
    return "", ""


async def refused(world: World, name: str) -> tuple[str, str]:
    await world.until(lambda: bool(condition(world, name)[0]), seconds=SAFETY_SECONDS)
    return condition(world, name)


def managed_pod(name: str) -> Pod:
    container = {"name": "main", "resources": {"requests": {"example.com/gpu": "1"}}}
    return make_pod(name, containers=[container])


NODES = [make_node(name) for name in ("n1", "n2", "n3")]


# What it decides


@pytest.mark.parametrize("cached", [True, False], ids=["names", "whole nodes"])
def test_a_filter_leaves_one_node(cached: bool) -> None:
    async def scenario() -> None:
        async with world_with({"filter": only("n2")}, *NODES, extender={"nodeCacheCapable": cached}) as (
            world,
            server,
        ):
            world.api.put(make_pod("p"))
            await world.bound("p")
            assert world.node_of("p") == "n2"
            (body,) = server.bodies("filter")
            assert body["Pod"]["metadata"]["name"] == "p"
            assert "kind" not in body["Pod"]
            assert (body["NodeNames"] is None, body["Nodes"] is None) == (not cached, cached)

    run(scenario)


def test_scores_are_brought_to_the_scale_of_plugins_and_added() -> None:
    """10 of the extender are 100 of a plugin: with weight 1 they outweigh LeastAllocated's difference."""

    async def scenario() -> None:
        full = make_pod("full", node="n2", cpu="2", memory="1Gi")
        fit = profile("NodeResourcesFit")
        async with world_with({"prioritize": scores(n2=10)}, *NODES, full, profiles=[fit]) as (world, server):
            world.api.put(make_pod("p", cpu="100m"))
            await world.bound("p")
            assert world.node_of("p") == "n2"
            assert sorted(server.bodies("prioritize")[0]["NodeNames"]) == ["n1", "n2", "n3"]

    run(scenario)


def test_a_score_of_its_own_scale_does_not_outweigh_a_plugin() -> None:
    async def scenario() -> None:
        nodes = [make_node("n1", cpu="4"), make_node("n2", cpu="4")]
        full = make_pod("full", node="n2", cpu="2", memory="1Gi")
        async with world_with(
            {"prioritize": scores(n2=1)}, *nodes, full, profiles=[profile("NodeResourcesFit")]
        ) as (world, _server):
            world.api.put(make_pod("p", cpu="100m"))
            await world.bound("p")
            assert world.node_of("p") == "n1"

    run(scenario)


def test_one_node_needs_no_scores() -> None:
    async def scenario() -> None:
        script: Script = {"filter": only("n1"), "prioritize": scores(n1=1)}
        async with world_with(script, *NODES) as (world, server):
            world.api.put(make_pod("p"))
            await world.bound("p")
            assert server.verbs() == ["filter"]

    run(scenario)


@pytest.mark.parametrize(
    "lies, node",
    [
        pytest.param([{"Host": "missing", "Score": 10}, {"Host": "n2", "Score": 1}], "n2", id="unknown host"),
        pytest.param([{"Host": "n3", "Score": 2**62}], "n3", id="out of range"),
        pytest.param([{"Host": name, "Score": -(2**63)} for name in ("n1", "n2")], "n3", id="below"),
        pytest.param([{"host": "n2", "score": 4}, {"host": "n2", "score": 4}, {"Host": "n3", "Score": 7}],
                     "n2", id="twice, in lower case"),
    ],
)  # fmt: skip
def test_scores_that_lie(lies: list[Any], node: str) -> None:
    async def scenario() -> None:
        script: Script = {"prioritize": lambda _body: lies}
        async with world_with(script, *NODES, profiles=[profile("NodeResourcesFit")]) as (world, _server):
            world.api.put(make_pod("p"))
            await world.bound("p")
            assert world.node_of("p") == node

    run(scenario)


def test_no_scores_are_no_obstacle(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with world_with({"prioritize": Raw(b"so sorry", status=500)}, *NODES) as (world, server):
            world.api.put(make_pod("p"))
            await world.bound("p")
            assert f"failed prioritize with extender at URL {server.url}/prioritize, code 500" in caplog.text

    with caplog.at_level(logging.WARNING):
        run(scenario)


def test_extenders_are_asked_in_order_those_that_may_be_ignored_last() -> None:
    async def scenario() -> None:
        with serving({"filter": only("n1", "n2")}) as last, serving({"filter": only("n2", "n3")}) as first:
            extenders = [entry(last, ignorable=True), entry(first)]
            async with running(*NODES, extenders=extenders) as world:
                world.api.put(make_pod("p"))
                await world.bound("p")
                assert world.node_of("p") == "n2"
                assert sorted(first.bodies("filter")[0]["NodeNames"]) == ["n1", "n2", "n3"]
                assert sorted(last.bodies("filter")[0]["NodeNames"]) == ["n2", "n3"]

    run(scenario)


def test_reasons_of_an_extender_are_reported_like_those_of_a_plugin() -> None:
    def answer(_body: Any) -> Any:
        return {
            "NodeNames": [],
            "FailedNodes": {"n1": "no licence", "n2": "no licence", "n3": "overridden"},
            "FailedAndUnresolvableNodes": {"n3": "no such card"},
        }

    async def scenario() -> None:
        tainted = make_node("n4", unschedulable=True)
        async with world_with({"filter": answer}, *NODES, tainted) as (world, _server):
            world.api.put(make_pod("p"))
            reason, message = await refused(world, "p")
            assert reason == "Unschedulable"
            assert message.startswith(
                "0/4 nodes are available: 1 no such card, 1 node(s) were unschedulable, 2 no licence."
            )
            await world.in_queue("p", "unschedulable")
            queued = world.scheduler.queue.get("default/p")
            assert queued is not None
            assert queued.unschedulable_plugins == {"Extender", "NodeUnschedulable"}

    run(scenario)


def test_answers_about_nodes_outside_the_request_are_not_counted() -> None:
    def answer(_body: Any) -> Any:
        return {"NodeNames": [], "FailedNodes": {"n1": "no", "n2": "no", "n3": "no", "n4": "no", "n9": "no"}}

    async def scenario() -> None:
        async with world_with({"filter": answer}, *NODES, make_node("n4", unschedulable=True)) as (
            world,
            _server,
        ):
            world.api.put(make_pod("p"))
            _reason, message = await refused(world, "p")
            assert message.startswith("0/4 nodes are available: 1 node(s) were unschedulable, 3 no.")

    run(scenario)


def test_endless_reasons_are_cut() -> None:
    async def scenario() -> None:
        async with world_with({"filter": only(why="x" * 1_000_000)}, make_node("n1")) as (world, server):
            world.api.put(make_pod("p"))
            _reason, message = await refused(world, "p")
            assert len(message) < 1200
            server.script["filter"] = lambda _body: {"Error": "y" * 1_000_000}
            world.api.put(make_pod("q"))
            _reason, message = await refused(world, "q")
            assert len(message) < 1200

    run(scenario)


def test_any_event_brings_a_pod_back_that_an_extender_turned_away() -> None:
    async def scenario() -> None:
        async with world_with({"filter": only()}, *NODES) as (world, server):
            world.api.put(make_pod("p"))
            await world.in_queue("p", "unschedulable")
            server.script["filter"] = everyone
            world.api.put(make_pod("other", node="n1"))
            await world.bound("p")

    run(scenario)


# Which pods it concerns


@pytest.mark.parametrize("where", ["requests", "limits"])
@pytest.mark.parametrize("containers", ["containers", "initContainers"])
def test_managed_resources_select_the_pods_of_an_extender(where: str, containers: str) -> None:
    async def scenario() -> None:
        resource = {"name": "example.com/gpu", "ignoredByScheduler": True}
        async with world_with({"filter": only("n3")}, *NODES, extender={"managedResources": [resource]}) as (
            world,
            server,
        ):
            container = {"name": "c", "resources": {where: {"example.com/gpu": "1"}}}
            spec: dict[str, Any] = {"containers": [{"name": "main"}], containers: [container]}
            world.api.put(make_pod("plain"))
            world.api.put(make_pod("managed", **spec))
            await world.bound("plain", "managed")
            # No node offers the resource: NodeResourcesFit leaves it to the extender.
            assert world.node_of("managed") == "n3"
            assert [body["Pod"]["metadata"]["name"] for body in server.bodies("filter")] == ["managed"]

    run(scenario)


def test_a_managed_resource_that_is_not_ignored_counts_for_plugins_too() -> None:
    async def scenario() -> None:
        async with world_with(
            {"filter": everyone}, *NODES, extender={"managedResources": [{"name": "example.com/gpu"}]}
        ) as (world, server):
            world.api.put(managed_pod("p"))
            _reason, message = await refused(world, "p")
            assert "3 Insufficient example.com/gpu" in message
            assert not server.asked

    run(scenario)


# Binding


def test_a_binder_binds_instead_of_the_plugins() -> None:
    async def scenario() -> None:
        bound: list[Any] = []

        def bind(body: Any) -> Any:
            bound.append(body)
            loop.call_soon_threadsafe(assign, body)
            return {}

        def assign(body: Any) -> None:
            replace = msgspec.structs.replace
            key = f"{body['PodNamespace']}/{body['PodName']}"
            node = body["Node"]
            world.api.change(Pod, key, lambda pod: replace(pod, spec=replace(pod.spec, node_name=node)))

        loop = asyncio.get_running_loop()
        async with world_with({"bind": bind}, make_node("n1")) as (world, _server):
            pod = world.api.put(make_pod("p"))
            await world.bound("p")
            expected = {
                "PodName": "p",
                "PodNamespace": "default",
                "PodUID": pod.metadata.uid,
                "Node": "n1",
            }
            assert bound == [expected]
            await world.until(lambda: "Successfully assigned default/p to n1" in world.events("Scheduled"))

    run(scenario)


def test_a_binder_that_fails_sends_the_pod_back_unless_it_may_be_ignored() -> None:
    async def scenario() -> None:
        async with world_with({"bind": lambda _body: {"Error": "no way"}}, make_node("n1")) as (
            world,
            server,
        ):
            world.api.put(make_pod("p"))
            reason, message = await refused(world, "p")
            assert (reason, message) == ("SchedulerError", f'extender "{server.url}" failed bind: no way')
            assert world.scheduler.cluster.placed_count == 0
        async with world_with({"bind": Raw(status=500)}, make_node("n1"), extender={"ignorable": True}) as (
            world,
            _server,
        ):
            world.api.put(make_pod("p"))
            await world.bound("p")

    run(scenario)


# Preemption


def crowded() -> list[Any]:
    """Two nodes that are full of one unimportant pod each."""
    objects: list[Any] = []
    for name in ("n1", "n2"):
        objects.append(make_node(name, cpu="2"))
        objects.append(make_pod(f"low-{name}", node=name, cpu="2", priority=0))
    return objects


def agree(*names: str) -> Callable[[Any], Any]:
    def answer(body: Any) -> Any:
        asked = body["NodeNameToMetaVictims"] or {
            name: {
                "Pods": [{"UID": pod["metadata"]["uid"]} for pod in victims["Pods"]],
                "NumPDBViolations": victims["NumPDBViolations"],
            }
            for name, victims in body["NodeNameToVictims"].items()
        }
        return {"NodeNameToMetaVictims": {name: asked[name] for name in names}}

    return answer


@pytest.mark.parametrize("cached", [True, False], ids=["UIDs", "whole pods"])
def test_an_extender_strikes_candidates_off(cached: bool) -> None:
    async def scenario() -> None:
        async with world_with(
            {"preempt": agree("n2")}, *crowded(), extender={"nodeCacheCapable": cached}
        ) as (world, server):
            world.api.put(make_pod("high", cpu="2", priority=10))
            await world.until(lambda: world.pod("high").status.nominated_node_name == "n2")
            await world.until(lambda: bool(world.pod("low-n2").metadata.deletion_timestamp))
            assert world.pod("low-n1").metadata.deletion_timestamp is None
            (body,) = server.bodies("preempt")
            present, absent = ("NodeNameToMetaVictims", "NodeNameToVictims")[:: 1 if cached else -1]
            assert body[absent] is None
            assert sorted(body[present]) == ["n1", "n2"]
            if not cached:
                victim = body["NodeNameToVictims"]["n1"]["Pods"][0]
                assert (victim["metadata"]["name"], victim["spec"]["nodeName"]) == ("low-n1", "n1")

    run(scenario)


def test_no_candidate_is_left() -> None:
    async def scenario() -> None:
        async with world_with({"preempt": agree()}, *crowded()) as (world, _server):
            world.api.put(make_pod("high", cpu="2", priority=10))
            _reason, message = await refused(world, "high")
            assert "preemption: no candidate node for preemption" in message
            assert not world.pod("high").status.nominated_node_name

    run(scenario)


@pytest.mark.parametrize(
    "answer, words",
    [
        pytest.param({"n9": {"Pods": [{"UID": "x"}]}}, '"n9" which is not found in the input', id="node"),
        pytest.param({"n1": {"Pods": [{"UID": "x"}]}}, "(UID: x) on node: n1, but the pod is not", id="pod"),
        pytest.param({"n1": {"Pods": []}}, 'expected at least one victim pod on node "n1"', id="no victim"),
        pytest.param({"n1": None}, 'expected at least one victim pod on node "n1"', id="null"),
    ],
)
@pytest.mark.parametrize("ignorable", [False, True])
def test_a_preemption_that_cannot_be(answer: Any, words: str, ignorable: bool) -> None:
    async def scenario() -> None:
        async with world_with(
            {"preempt": lambda _body: {"NodeNameToMetaVictims": answer}},
            *crowded(),
            extender={"ignorable": ignorable},
        ) as (world, _server):
            world.api.put(make_pod("high", cpu="2", priority=10))
            if ignorable and "least one" not in words:
                await world.until(lambda: bool(world.pod("high").status.nominated_node_name))
                return
            _reason, message = await refused(world, "high")
            assert ("no candidate node" if ignorable else words) in message
            assert not world.pod("high").status.nominated_node_name

    run(scenario)


def test_no_pod_of_the_same_priority_is_evicted_for_an_extender() -> None:
    async def scenario() -> None:
        peer = make_pod("peer", node="n1", priority=10)
        async with world_with({"preempt": lambda _body: named}, *crowded(), peer) as (world, _server):
            uid = world.pod("peer").metadata.uid
            named = {"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": uid}]}}}
            world.api.put(make_pod("high", cpu="2", priority=10))
            _reason, message = await refused(world, "high")
            assert "but the pod's priority is not lower" in message
            assert world.pod("peer").metadata.deletion_timestamp is None

    run(scenario)


def test_a_victim_that_left_meanwhile_is_no_reason_to_evict_others() -> None:
    async def scenario() -> None:
        async with world_with({"preempt": agree("n1", "n2")}, *crowded()) as (world, server):
            server.hold()
            world.api.put(make_pod("high", cpu="2", priority=10))
            await world.until(lambda: bool(server.asked))
            for name in ("n1", "n2"):
                world.api.remove(Pod, f"default/low-{name}")
            await world.until(lambda: world.scheduler.cluster.placed_count == 0)
            server.release()
            await world.bound("high")

    run(scenario)


def test_two_preemptors_at_once_choose_different_victims() -> None:
    async def scenario() -> None:
        async with world_with({"preempt": agree("n1", "n2")}, *crowded()) as (world, server):
            server.hold()
            for name in ("first", "second"):
                world.api.put(make_pod(name, cpu="2", priority=10))
            await world.until(lambda: server.at_once == 2)
            server.release()

            def nominated() -> list[str]:
                return sorted(world.pod(name).status.nominated_node_name for name in ("first", "second"))

            await world.until(lambda: nominated() == ["n1", "n2"])
            assert len(world.events("Preempted")) == 2

    run(scenario)


def test_a_pod_whose_nomination_an_extender_refuses_looks_elsewhere() -> None:
    async def scenario() -> None:
        async with world_with({"filter": only("n2")}, *NODES) as (world, server):
            world.api.put(make_pod("p", status={"nominatedNodeName": "n1"}))
            await world.bound("p")
            assert world.node_of("p") == "n2"
            asked = [sorted(body["NodeNames"]) for body in server.bodies("filter")]
            assert asked == [["n1"], ["n1", "n2", "n3"]]

    run(scenario)


def test_a_pod_whose_nomination_stands_is_asked_about_that_node_alone() -> None:
    async def scenario() -> None:
        script: Script = {"filter": everyone, "prioritize": scores(n1=10)}
        async with world_with(script, *NODES) as (world, server):
            world.api.put(make_pod("p", status={"nominatedNodeName": "n3"}))
            await world.bound("p")
            assert world.node_of("p") == "n3"
            assert [(asked.verb, asked.body["NodeNames"]) for asked in server.asked] == [("filter", ["n3"])]

    run(scenario)


# Faults


BAD_ANSWERS: Mapping[str, tuple[Any, str]] = {
    "not JSON": (Raw(b"yes, all of them"), "not valid JSON: it begins with 'yes, all of them'"),
    "HTML": (Raw(b"<html><body>hi</body></html>", headers={"Content-Type": "text/html"}), "'<html><body>hi"),
    "empty": (Raw(b""), "not valid JSON: it is empty"),
    "another type": (Raw(b"[1, 2]"), "Expected `object | null`, got `array`"),
    "another type inside": (lambda _body: {"NodeNames": "n1"}, "Expected `array | null`, got `str`"),
    "numbers for names": (lambda _body: {"NodeNames": [1]}, "Expected `str`, got `int`"),
    "not UTF-8": (Raw(b'{"Error": "\xff"}'), "Error: 'utf-8' codec can't decode byte"),
    "huge": (Raw(b" " * 20_000_000), "larger than"),
    "endless": (Raw(b" " * 1_000_000, endless=True), "larger than"),
    "redirect": (Raw(status=307, headers={"Location": "/elsewhere"}), "code 307"),
    "refusal with a text": (Raw(b"the dog ate it", status=500), "code 500"),
    "cut": (Raw(cut=True), "was lost"),
    "its own error": (lambda _body: {"Error": "out of cards"}, "failed filter: out of cards"),
    "a node outside the request": (
        lambda _body: {"NodeNames": ["n1", "n9"]},
        'claims a filtered node "n9" which is not found in the input node list',
    ),
}


@pytest.mark.parametrize("ignorable", [False, True], ids=["needed", "ignorable"])
@pytest.mark.parametrize("fault", BAD_ANSWERS)
def test_a_fault_is_named_and_costs_only_its_pod(
    fault: str, ignorable: bool, caplog: pytest.LogCaptureFixture
) -> None:
    answer, words = BAD_ANSWERS[fault]

    async def scenario() -> None:
        managed = [{"name": "example.com/gpu", "ignoredByScheduler": True}]
        async with world_with(
            {"filter": answer}, *NODES, extender={"ignorable": ignorable, "managedResources": managed}
        ) as (world, server):
            world.api.put(managed_pod("p"))
            world.api.put(make_pod("other"))
            await world.bound("other")
            if ignorable:
                await world.bound("p")
            else:
                reason, message = await refused(world, "p")
                assert reason == "SchedulerError"
                assert server.url in message
                assert words in message
                await world.until(lambda: any(words in note for note in world.events("FailedScheduling")))
            assert server.url in caplog.text
            assert words in caplog.text

    with caplog.at_level(logging.WARNING):
        run(scenario)


def test_a_mistake_mended_is_enough() -> None:
    """The pod is tried again after a backoff, without an event."""

    async def scenario() -> None:
        async with world_with({"filter": BAD_ANSWERS["its own error"][0]}, *NODES) as (world, server):
            world.api.put(make_pod("p"))
            await refused(world, "p")
            server.script["filter"] = everyone
            await world.bound("p")

    run(scenario)


def test_an_extender_that_is_not_there_or_too_slow() -> None:
    async def scenario() -> None:
        with serving({"filter": everyone}) as gone:
            pass
        async with running(*NODES, extenders=[entry(gone)]) as world:
            world.api.put(make_pod("p"))
            _reason, message = await refused(world, "p")
            assert f'Post "{gone.url}/filter": the extender at {gone.url} refused the connection' in message
        async with world_with({"filter": everyone}, *NODES, extender={"httpTimeout": "500ms"}) as (
            world,
            server,
        ):
            server.hold()
            world.api.put(make_pod("p"))
            _reason, message = await refused(world, "p")
            assert f"{server.url} did not answer before the deadline" in message
            server.release()
            await world.bound("p")

    run(scenario)


@pytest.mark.parametrize(
    "tls, words",
    [
        pytest.param({"caData": "theirs"}, "", id="trusted"),
        pytest.param({"caData": "theirs", "serverName": "kubernetes"}, "", id="another name of it"),
        pytest.param({"caData": "theirs", "serverName": "elsewhere"}, "not for 'elsewhere'", id="wrong name"),
        pytest.param({"caData": "others"}, "a certificate that our CA did not sign", id="wrong CA"),
        pytest.param({"insecure": True}, "", id="insecure"),
        pytest.param(None, "", id="enableHTTPS alone trusts any server"),
    ],
)
def test_tls(tls: dict[str, Any] | None, words: str) -> None:
    pems = {"theirs": authority().pem, "others": authority("other").pem}
    if tls and "caData" in tls:
        tls = {**tls, "caData": base64.b64encode(pems[tls["caData"]].encode()).decode()}

    async def scenario() -> None:
        with serving({"filter": everyone}, pair=server_pair()) as server:
            more: dict[str, Any] = {"enableHTTPS": True} | ({} if tls is None else {"tlsConfig": tls})
            async with running(*NODES, extenders=[entry(server, **more)]) as world:
                world.api.put(make_pod("p"))
                if not words:
                    await world.bound("p")
                else:
                    _reason, message = await refused(world, "p")
                    assert words in message
                    assert "extenders[0]" in message

    run(scenario)


# While it thinks


def test_others_go_on_while_an_extender_thinks() -> None:
    async def scenario() -> None:
        managed = [{"name": "example.com/gpu", "ignoredByScheduler": True}]
        async with world_with({"filter": everyone}, *NODES, extender={"managedResources": managed}) as (
            world,
            server,
        ):
            server.hold()
            world.api.put(managed_pod("slow"))
            await world.until(lambda: bool(server.asked))
            world.api.put(make_pod("quick"))
            await world.bound("quick")
            assert world.queue_of("slow") == "in flight"
            server.release()
            await world.bound("slow")

    run(scenario)


def test_a_node_that_filled_up_meanwhile_is_not_taken() -> None:
    async def scenario() -> None:
        nodes = [make_node("n1", cpu="2"), make_node("n2", cpu="2")]
        script: Script = {"prioritize": scores(n1=10)}
        async with world_with(script, *nodes) as (world, server):
            server.hold()
            world.api.put(make_pod("p", cpu="2"))
            await world.until(lambda: bool(server.asked))
            world.api.put(make_pod("intruder", node="n1", cpu="1"))
            await world.until(lambda: world.scheduler.cluster.placed_count == 1)
            server.release()
            await world.bound("p")
            assert world.node_of("p") == "n2"

    run(scenario)


def test_all_its_nodes_filled_up_meanwhile() -> None:
    """Then it is a new search: a node that came in the meantime is found."""

    async def scenario() -> None:
        async with world_with({"filter": everyone}, make_node("n1", cpu="2")) as (world, server):
            server.hold()
            world.api.put(make_pod("p", cpu="2"))
            await world.until(lambda: bool(server.asked))
            world.api.put(make_pod("intruder", node="n1", cpu="1"))
            world.api.put(make_node("n2", cpu="2"))
            await world.until(lambda: world.scheduler.cluster.node_count == 2)
            server.release()
            await world.bound("p")
            assert world.node_of("p") == "n2"
            assert [body["NodeNames"] for body in server.bodies("filter")] == [["n1"], ["n2"]]

    run(scenario)


def test_a_node_that_was_deleted_meanwhile() -> None:
    async def scenario() -> None:
        script: Script = {"prioritize": scores(n1=10)}
        async with world_with(script, make_node("n1"), make_node("n2")) as (world, server):
            server.hold()
            world.api.put(make_pod("p"))
            await world.until(lambda: bool(server.asked))
            world.api.remove(Node, "n1")
            await world.until(lambda: world.scheduler.cluster.node_count == 1)
            server.release()
            await world.bound("p")
            assert world.node_of("p") == "n2"

    run(scenario)


def test_a_pod_that_was_deleted_meanwhile_is_forgotten() -> None:
    async def scenario() -> None:
        async with world_with({"filter": everyone}, *NODES) as (world, server):
            server.hold()
            world.api.put(make_pod("p"))
            await world.until(lambda: bool(server.asked))
            world.api.remove(Pod, "default/p")
            await world.quiet(seconds=0.05)
            server.release()
            await world.until(lambda: not world.scheduler.queue.in_flight())
            assert world.queue_of("p") == ""
            assert world.scheduler.cluster.placed_count == 0

    run(scenario)


def test_a_pod_that_is_recreated_during_its_cycle() -> None:
    async def scenario() -> None:
        async with world_with({"filter": everyone}, *NODES) as (world, server):
            server.hold()
            first = world.api.put(make_pod("p"))
            await world.until(lambda: bool(server.asked))
            world.api.remove(Pod, "default/p")
            second = world.api.put(make_pod("p"))
            server.release()
            await world.bound("p")
            assert first.metadata.uid != second.metadata.uid
            assert world.pod("p").metadata.uid == second.metadata.uid
            await world.until(lambda: not world.scheduler.queue.in_flight())
            assert world.scheduler.cluster.placed_count == 1

    run(scenario)


def test_a_pod_that_changed_meanwhile_is_judged_as_it_is_now() -> None:
    async def scenario() -> None:
        replace = msgspec.structs.replace
        nodes = [make_node("n1", labels={"disk": "hdd"}), make_node("n2", labels={"disk": "ssd"})]
        async with world_with({"filter": everyone}, *nodes) as (world, server):
            server.hold()
            world.api.put(make_pod("p", nodeSelector={"disk": "hdd"}))
            await world.until(lambda: bool(server.asked))
            world.api.change(
                Pod,
                "default/p",
                lambda pod: replace(pod, spec=replace(pod.spec, node_selector={"disk": "ssd"})),
            )
            await world.quiet(seconds=0.05)
            server.release()
            await world.bound("p")
            assert world.node_of("p") == "n2"
            assert server.bodies("filter")[-1]["Pod"]["spec"]["nodeSelector"] == {"disk": "ssd"}

    run(scenario)


def test_round_trips_overlap_up_to_the_parallelism() -> None:
    async def scenario() -> None:
        async with world_with({"filter": everyone}, *NODES) as (world, server):
            server.hold()
            names = [f"p{number}" for number in range(40)]
            for name in names:
                world.api.put(make_pod(name))
            await world.until(lambda: server.at_once == 16)
            await world.quiet(seconds=0.05)
            assert server.most_at_once == 16
            server.release()
            await world.bound(*names)

    run(scenario)


def test_the_most_important_of_those_in_line_comes_first() -> None:
    async def scenario() -> None:
        async with world_with({"filter": everyone}, *NODES) as (world, server):
            world.scheduler.loop.allow_overlapping(1)  # so that the server receives one request at a time
            server.hold()
            world.api.put(make_pod("first"))
            await world.until(lambda: server.at_once == 1)
            for name, priority in (("low", 1), ("high", 9), ("middle", 5)):
                world.api.put(make_pod(name, priority=priority))
            await world.until(lambda: len(world.scheduler.queue.in_flight()) == 4)
            server.release()
            await world.bound("low", "middle", "high")
            tried = [body["Pod"]["metadata"]["name"] for body in server.bodies("filter")]
            assert tried == ["first", "high", "middle", "low"]

    run(scenario)


def test_a_waiting_pod_uses_the_extenders_that_are_in_force_when_it_starts() -> None:
    async def scenario() -> None:
        with serving({"filter": only("n1")}) as old, serving({"filter": only("n2")}) as new:
            async with running(*NODES, extenders=[entry(old)]) as world:
                old.hold()
                for number in range(16):
                    world.api.put(make_pod(f"p{number}"))
                await world.until(lambda: old.at_once == 16)
                world.api.put(make_pod("late"))
                await world.until(lambda: len(world.scheduler.queue.in_flight()) == 17)
                tree = {
                    "apiVersion": "kubescheduler.config.k8s.io/v1",
                    "kind": "KubeSchedulerConfiguration",
                    "extenders": [entry(new)],
                }
                await world.scheduler.reconfigure(load(tree))
                old.release()
                names = [f"p{number}" for number in range(16)]
                await world.bound("late", *names)
                assert world.node_of("late") == "n2"
                assert {world.node_of(name) for name in names} == {"n1"}

    run(scenario)


def fits(pods: Sequence[Pod], *, node: str, cpu: int) -> bool:
    asked = [pod for pod in pods if pod.spec.node_name == node]
    return sum(int(pod.spec.containers[0].resources.requests["cpu"]) for pod in asked) <= cpu


def test_overlapping_cycles_never_overcommit() -> None:
    """All want the same nodes at the same time, as each extender's answer drives them there."""

    async def scenario() -> None:
        nodes = [make_node(f"n{number}", cpu="4") for number in range(5)]
        script: Script = {"filter": everyone, "prioritize": scores(n0=10, n1=5)}
        async with world_with(script, *nodes) as (world, _server):
            names = [f"p{number}" for number in range(30)]
            for name in names:
                world.api.put(make_pod(name, cpu="1"))

            def bound() -> list[Pod]:
                return [pod for pod in world.api.all(Pod) if pod.spec.node_name]

            await world.until(lambda: len(bound()) == 20, seconds=SAFETY_SECONDS)
            await world.until(lambda: len(world.scheduler.queue.pending_pods()["unschedulable"]) == 10)
            assert len(bound()) == 20
            for node in nodes:
                assert fits(bound(), node=node.metadata.name, cpu=4)

    run(scenario)


def test_stopping_in_the_middle_of_a_question_ends_in_time() -> None:
    async def scenario() -> None:
        async with world_with({"filter": everyone}, *NODES, extender={"httpTimeout": "300ms"}) as (
            world,
            server,
        ):
            server.hold()
            for number in range(20):
                world.api.put(make_pod(f"p{number}"))
            await world.until(lambda: server.at_once == 16)
        assert server.most_at_once == 16

    run(scenario)
