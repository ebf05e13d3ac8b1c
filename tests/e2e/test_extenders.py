"""The same extender for kube-scheduler and for Kuberth: the same questions, and the same decisions."""

from __future__ import annotations

import base64
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from tests.certificates import authority, server_pair
from tests.e2e.api_client import RefusedError, path_of
from tests.e2e.cluster import Cluster
from tests.e2e.conftest import StartScheduler
from tests.e2e.control_plane import SECOND_SCHEDULER, UPSTREAM
from tests.e2e.objects import Object, configuration, node, pod
from tests.e2e.schedulers import KUBERTH
from tests.e2e.waiting import wait_for
from tests.extender_server import Asked, ExtenderServer, Raw, Script, everyone, only, scores, serving
from tests.manifests import HOSTNAME

pytestmark = pytest.mark.e2e

NAME = "extended"
"""Of the scheduler, whichever it is."""
GPU = "example.com/gpu"


class Scene(NamedTuple):
    """What is there, and which pods come, one after the other."""

    script: Script
    objects: Sequence[Object]
    pods: Sequence[Object]
    extender: Mapping[str, Any] = {}
    pair: Any = None
    unplaced: Sequence[str] = ()
    """Those that stay without a node."""


class Seen(NamedTuple):
    """What one scheduler did."""

    first: Any
    """The body of the first question, without what differs from run to run."""
    asked: list[tuple[str, Any]]
    """Verbs and bodies of all, without the pod's conditions too; a question asked again counts once."""
    placements: dict[str, str]
    conditions: dict[str, tuple[str, str]]


def extended(name: str, **options: Any) -> Object:
    """A pod with more in it than scheduling reads."""
    made = pod(name, scheduler=NAME, **options)
    made["metadata"]["annotations"] = {"example.com/note": "of interest to extenders only"}
    container = made["spec"]["containers"][0]
    container["env"] = [{"name": "MODE", "value": "fast"}]
    container["command"] = ["/bin/serve", "--quick"]
    container["livenessProbe"] = {"httpGet": {"path": "/live", "port": 80}, "periodSeconds": 5}
    return made


def with_resource(made: Object, name: str) -> Object:
    resources = made["spec"]["containers"][0]["resources"]
    made["spec"]["containers"][0]["resources"] = {
        "requests": {**resources["requests"], name: "1"},
        "limits": {name: "1"},
    }
    return made


def priority_class(name: str, value: int) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def agree_to(*names: str) -> Callable[[Any], Any]:
    """A preemption extender that keeps these nodes."""

    def answer(body: Any) -> Any:
        asked = body["NodeNameToMetaVictims"] or {
            name: {
                "Pods": [{"UID": victim["metadata"]["uid"]} for victim in victims["Pods"]],
                "NumPDBViolations": victims["NumPDBViolations"],
            }
            for name, victims in body["NodeNameToVictims"].items()
        }
        return {"NodeNameToMetaVictims": {name: of for name, of in asked.items() if name in names}}

    return answer


CROWDED = [
    priority_class("low", 10),
    priority_class("high", 1000),
    *(node(name, cpu="2") for name in ("n1", "n2")),
    *(extended(f"low-{name}", cpu="1500m", priorityClassName="low", nodeName=name) for name in ("n1", "n2")),
]
NODES = [node("n1"), node("n2", cpu="64", memory="64Gi"), node("n3")]
"""Plugins like n2 best, so that no lot has to decide."""
FULL = [node("n4", cpu="50m")]


def series(number: int, **options: Any) -> list[Object]:
    return [extended(f"p{index}", **options) for index in range(number)]


SCENES = {
    "filter": Scene({"filter": only("n2", "n3", why="no licence")}, [*NODES, *FULL], series(3)),
    "filter, whole nodes": Scene(
        {"filter": only("n2")}, [*NODES, *FULL], series(2), {"nodeCacheCapable": False}
    ),
    "prioritize": Scene({"prioritize": scores(n1=10, n2=3)}, [*NODES, *FULL], series(3), {"weight": 5}),
    "prioritize, whole nodes": Scene(
        {"filter": everyone, "prioritize": scores(n3=10, n2=3)},
        NODES,
        series(2),
        {"weight": 5, "nodeCacheCapable": False},
    ),
    "whole nodes come back without their pods": Scene(
        {"filter": everyone},
        [
            node("n1", cpu="16", memory="64Gi"),
            node("n2", cpu="4", memory="8Gi"),
            extended("load", cpu="15", memory="60Gi", nodeName="n1"),
        ],
        series(1),
        {"nodeCacheCapable": False},
    ),
    "and without what spreads pods over nodes": Scene(
        {"filter": everyone},
        [
            node("n1", cpu="16", memory="64Gi"),
            node("n2"),
            *(extended(f"there-{index}", labels={"app": "a"}, nodeName="n1") for index in range(3)),
        ],
        series(
            1,
            labels={"app": "a"},
            topologySpreadConstraints=[
                {
                    "maxSkew": 1,
                    "topologyKey": HOSTNAME,
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": {"app": "a"}},
                }
            ],
        ),
        {"nodeCacheCapable": False},
    ),
    "plugins outweigh it": Scene(
        {"prioritize": scores(n1=1)},
        [node("n1", cpu="2"), node("n2", cpu="64", memory="64Gi")],
        series(1, cpu="1", memory="4Gi"),
        {"weight": 1},
    ),
    "nowhere": Scene({"filter": only(why="no licence")}, [*NODES, *FULL], series(1), unplaced=["p0"]),
    "nowhere for good": Scene(
        {"filter": only(why="no card", unresolvable=True)}, [*NODES, *FULL], series(1), unplaced=["p0"]
    ),
    "refused": Scene({"filter": Raw(b"later", status=503)}, NODES, series(1), unplaced=["p0"]),
    "a node outside the request": Scene(
        {"filter": lambda _body: {"NodeNames": ["n9"]}}, NODES, series(1), unplaced=["p0"]
    ),
    "ignorable": Scene({"filter": Raw(status=500)}, [node("n1"), *FULL], series(1), {"ignorable": True}),
    "lower case": Scene(
        {"filter": lambda _body: {"nodenames": ["n3"], "failedNodes": {"n1": "x"}}}, NODES, series(1)
    ),
    "its own resource": Scene(
        {"filter": only("n3")},
        NODES,
        [extended("plain", nodeSelector={HOSTNAME: "n1"}), with_resource(extended("p0"), GPU)],
        {"managedResources": [{"name": GPU, "ignoredByScheduler": True}]},
    ),
    "a resource for both": Scene(
        {"filter": everyone},
        NODES,
        [with_resource(extended("p0"), GPU)],
        {"managedResources": [{"name": GPU}]},
        unplaced=["p0"],
    ),
    "preempt": Scene(
        {"filter": everyone, "preempt": agree_to("n2")},
        CROWDED,
        [extended("p0", cpu="1", priorityClassName="high")],
    ),
    "preempt, whole pods": Scene(
        {"filter": everyone, "preempt": agree_to("n1")},
        CROWDED,
        [extended("p0", cpu="1", priorityClassName="high")],
        {"nodeCacheCapable": False},
    ),
    "no preemption": Scene(
        {"preempt": agree_to()},
        CROWDED,
        [extended("p0", cpu="1", priorityClassName="high")],
        unplaced=["p0"],
    ),
    "preempt without effect": Scene(
        {"preempt": lambda _body: {"NodeNameToMetaVictims": {"n1": {"Pods": []}}}},
        CROWDED,
        [extended("p0", cpu="1", priorityClassName="high")],
        unplaced=["p0"],
    ),
    "bind": Scene({"filter": only("n2"), "bind": dict}, NODES, series(2)),
    "TLS": Scene(
        {"filter": only("n2")},
        NODES,
        series(1),
        {
            "enableHTTPS": True,
            "tlsConfig": {"caData": base64.b64encode(authority().pem.encode()).decode()},
        },
        pair=server_pair(),
    ),
}


@pytest.mark.parametrize("scene", SCENES)
def test_both_ask_the_same_and_decide_the_same(
    cluster: Cluster, start_scheduler: StartScheduler, peer: str, scene: str
) -> None:
    theirs, ours = (play(SCENES[scene], cluster, start_scheduler, program) for program in (peer, KUBERTH))
    assert bool(theirs.asked) == (scene != "a resource for both")
    assert ours.first == theirs.first
    assert ours.asked == theirs.asked
    assert ours.placements == theirs.placements
    assert ours.conditions == theirs.conditions


def test_overlapping_cycles_share_no_queue_and_others_do_not_wait(
    cluster: Cluster, start_scheduler: StartScheduler, kuberth_only: None
) -> None:
    """All are driven to the same nodes, by an extender that answers when the plain pods are placed."""
    cluster.create(*(node(f"n{index}", cpu="4") for index in range(5)))
    placed = threading.Event()

    def slow(answer: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def answer_late(body: Any) -> Any:
            placed.wait(60)
            return answer(body)

        return answer_late

    with serving({"filter": slow(everyone), "prioritize": slow(scores(n0=10, n1=5))}) as server:
        extender = {
            "urlPrefix": server.url,
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "weight": 1,
            "httpTimeout": "60s",
            "nodeCacheCapable": True,
            "managedResources": [{"name": GPU, "ignoredByScheduler": True}],
        }
        start_scheduler(configuration({"schedulerName": NAME}, extenders=[extender]))
        names = [f"p{index}" for index in range(30)]
        cluster.create(*(with_resource(extended(name, cpu="1"), GPU) for name in names))
        wait_for("the extender to be asked", lambda: server.at_once == 16, seconds=30)
        cluster.create(*(extended(f"plain-{index}", cpu="100m") for index in range(5)))
        cluster.wait_bound(*(f"plain-{index}" for index in range(5)))
        assert not cluster.placements().keys() & set(names)
        placed.set()
        # Where a plain pod is, one core is no longer whole.
        nicked = {where for name, where in cluster.placements().items() if name.startswith("plain")}
        queue = {f"n{index}": 4 - (f"n{index}" in nicked) for index in range(5)}

        def decided() -> bool:
            pods = cluster.pods()
            return all(pods[name]["spec"].get("nodeName") or is_refused(pods[name]) for name in names)

        wait_for("every pod to be placed or rejected", decided, seconds=60)
        taken = Counter(where for name, where in cluster.placements().items() if name in names)
        assert taken == queue


def is_refused(obj: Object) -> bool:
    conditions = obj.get("status", {}).get("conditions", [])
    return any(condition.get("reason") == "Unschedulable" for condition in conditions)


def play(scene: Scene, cluster: Cluster, start_scheduler: StartScheduler, program: str) -> Seen:
    cluster.create(*scene.objects)
    with serving(scene.script, pair=scene.pair) as server:
        if "bind" in server.script:
            server.script["bind"] = binder(cluster)
        extender = {
            "urlPrefix": server.url,
            "nodeCacheCapable": True,
            **{f"{verb}Verb": verb for verb in server.script},
            **scene.extender,
        }
        scheduler = start_scheduler(
            configuration({"schedulerName": NAME}, extenders=[extender]),
            program=program,
            user=SECOND_SCHEDULER if program == KUBERTH else UPSTREAM,
        )
        for each in scene.pods:
            name = each["metadata"]["name"]
            cluster.create(each)
            wait_decided(cluster, name, is_placed=name not in scene.unplaced)
        found = Seen(
            first=normalized(server.asked[0]) if server.asked else None,
            asked=unrepeated(server),
            placements=cluster.placements(),
            conditions={name: outcome(cluster, name, server) for name in scene.unplaced},
        )
        scheduler.kill()
    for api_version, kind in (("v1", "Pod"), ("v1", "Node"), ("scheduling.k8s.io/v1", "PriorityClass")):
        for obj in cluster.api.list(api_version, kind):
            if not obj["metadata"]["name"].startswith("system-"):
                cluster._remove(api_version, kind, obj["metadata"])
    return found


def wait_decided(cluster: Cluster, name: str, *, is_placed: bool) -> None:
    if is_placed:
        cluster.wait_bound(name)
    else:
        wait_for(
            f"{name} to be refused", lambda: cluster.condition(name).get("status") == "False", seconds=30
        )


def outcome(cluster: Cluster, name: str, server: ExtenderServer) -> tuple[str, str]:
    condition = cluster.condition(name)
    # Kuberth says of every failure of a plugin which it was.
    message = condition["message"].replace("plugin 'DefaultPreemption' at PostFilter: ", "")
    return condition["reason"], message.replace(server.url, "<url>")


def binder(cluster: Cluster) -> Callable[[Any], Any]:
    """Binds as an extender does: itself."""

    def bind(body: Any) -> Any:
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": body["PodName"], "namespace": body["PodNamespace"], "uid": body["PodUID"]},
            "target": {"kind": "Node", "name": body["Node"]},
        }
        path = path_of("v1", "Pod", namespace=body["PodNamespace"], name=body["PodName"])
        try:
            cluster.api.request("POST", f"{path}/binding", binding)
        except RefusedError as error:
            return {"Error": str(error)}
        finally:
            cluster.api.close()  # this thread's connection
        return {}

    return bind


def unrepeated(server: ExtenderServer) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for asked in server.asked:
        question = (asked.verb, normalized(asked))
        if "Pod" in asked.body:
            # What it receives about an attempt before, and whether there was one, depends on timing.
            question[1]["Pod"]["status"].pop("conditions", None)
        if question not in found:
            found.append(question)
    return found


_RUN_BY_RUN = frozenset(
    (
        "UID",
        "PodUID",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "lastTransitionTime",
        "lastHeartbeatTime",
        "time",
    )
)


def normalized(asked: Asked) -> Any:
    body = strip(asked.body)
    if body.get("NodeNames"):
        body["NodeNames"].sort()
    if body.get("Nodes"):
        body["Nodes"]["items"].sort(key=lambda item: item["metadata"]["name"])
    return body


def strip(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {name: "<differs>" if name in _RUN_BY_RUN else strip(part) for name, part in tree.items()}
    if isinstance(tree, list):
        return [strip(part) for part in tree]
    return tree
