"""Devices with the alpha gates on, on a real API server: what they take of their nodes, and claims of groups.

The same objects given to kube-scheduler: the same pods bound, the same writes. And what the local API server
says of the fields behind these gates, kube-apiserver says, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.assets import Assets
from tests.e2e.cluster import Cluster
from tests.e2e.conftest import StartScheduler
from tests.e2e.control_plane import ADMIN, UPSTREAM, ControlPlane, token_of
from tests.e2e.embedded import embedded_server
from tests.e2e.objects import Object, configuration, node, pod
from tests.e2e.schedulers import KUBE_SCHEDULER, KUBERTH
from tests.e2e.test_devices import V1, claim, claims_of, device, device_class, request, slice_of
from tests.e2e.test_gangs import API_VERSION, NAME, group, said, switched_on
from tests.e2e.test_same_answers import MERGE, Ask, asker

pytestmark = pytest.mark.e2e

GATES = ("GenericWorkload", "GangScheduling", "DRAWorkloadResourceClaims", "DRANodeAllocatableResources")
QUICK = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1}


@pytest.fixture(scope="module")
def control_plane(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    flags = [switched_on(*GATES), f"--runtime-config={API_VERSION}=true"]
    control_plane = ControlPlane(tmp_path_factory.mktemp("with-device-gates"), assets, flags=flags)
    control_plane.start()
    try:
        yield control_plane
    finally:
        control_plane.stop()


def taking(name: str, **mappings: Object) -> Object:
    return device(name, nodeAllocatableResourceMappings=mappings)


def using(name: str, *claims: str, cpu: str = "1", **spec: Any) -> Object:
    made = pod(
        name,
        scheduler=NAME,
        cpu=cpu,
        resourceClaims=[{"name": each, "resourceClaimName": each} for each in claims],
        **spec,
    )
    made["spec"]["containers"][0]["resources"]["claims"] = [{"name": each} for each in claims]
    return made


def outcome(cluster: Cluster) -> dict[str, object]:
    """What the pods' status says of their devices."""
    return {
        name: found["status"].get("nodeAllocatableResourceClaimStatuses")
        for name, found in cluster.pods().items()
    }


def users(cluster: Cluster) -> dict[str, object]:
    """By claim: its consumers and its devices."""
    return {
        name: (
            sorted((user["resource"], user["name"]) for user in found["status"].get("reservedFor", ())),
            [(each["pool"], each["device"]) for each in found["status"]["allocation"]["devices"]["results"]],
        )
        for name, found in claims_of(cluster).items()
        if found.get("status", {}).get("allocation")
    }


def devices_take_of_their_node(cluster: Cluster) -> object:
    cluster.create(node("n1", cpu="8"), device_class("gpu"))
    cores = {"cpu": {"allocationMultiplier": "2"}, "memory": {"allocationMultiplier": "512Mi"}}
    share = {
        "allowMultipleAllocations": True,
        "capacity": {"cores": {"value": "4"}},
        "nodeAllocatableResourceMappings": {"cpu": {"capacityKey": "cores", "allocationMultiplier": "500m"}},
    }
    few: dict[str, Any] = {"capacity": {"requests": {"cores": "2"}}}
    cluster.create(slice_of("n1", *(taking(f"d{n}", **cores) for n in range(4)), device("s", "big", **share)))
    cluster.create(
        claim("one", request()), claim("two", request(model="big", **few)), claim("more", request())
    )
    cluster.create(using("first", "one"))
    cluster.wait_bound("first")
    cluster.create(using("second", "two"))
    cluster.wait_bound("second")
    # 1 + 2 and 1 + 2 × ½ of 8 are gone: room for three, but not with two more for a device.
    cluster.create(using("third", "more", cpu="2"))
    message = cluster.wait_unschedulable("third")
    cluster.create(pod("plain", scheduler=NAME, cpu="3"))
    cluster.wait_bound("plain")
    return outcome(cluster), users(cluster), message


def a_gang_shares_its_groups_claim(cluster: Cluster) -> object:
    # One node: with two kube-scheduler may put a pod where the claim that was decided on for another is not.
    cluster.create(node("n1", cpu="8"), device_class("gpu"))
    cluster.create(slice_of("n1", device("d")))
    own = [{"name": "fabric", "resourceClaimName": "fabric"}]
    cluster.create(claim("fabric", request()), group("g", min_count=3, resourceClaims=own))
    for number in range(3):
        cluster.create(using(f"p{number}", "fabric", schedulingGroup={"podGroupName": "g"}))
    cluster.wait_bound("p0", "p1", "p2", seconds=90)
    return users(cluster)


SCENARIOS: dict[str, Callable[[Cluster], object]] = {
    "devices-take-of-their-node": devices_take_of_their_node,
    "a-gang-shares-its-groups-claim": a_gang_shares_its_groups_claim,
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_outcome_is_kube_schedulers(
    name: str, control_plane: ControlPlane, start_scheduler: StartScheduler, peer: str
) -> None:
    outcomes = {}
    for program in (KUBERTH, peer):
        scheduler = start_scheduler(
            configuration({"schedulerName": NAME}, **QUICK),
            program=program,
            user=UPSTREAM,
            name=program,
            flags=[switched_on(*GATES)],
        )
        own = Cluster(control_plane)
        try:
            outcomes[program] = SCENARIOS[name](own)
        finally:
            scheduler.kill()
            own.clean_up()
    assert outcomes[KUBERTH] == outcomes[KUBE_SCHEDULER]


# The local API server beside the real one


@pytest.fixture
def both(control_plane: ControlPlane, tmp_path: Path) -> Iterator[tuple[Ask, Ask]]:
    with embedded_server(tmp_path, feature_gates=dict.fromkeys(GATES, True)) as local:
        ca_file = tmp_path / "ca.crt"
        ca_file.write_bytes(local.credentials.ca_certificate)
        theirs = asker(control_plane.server, token_of(ADMIN), control_plane.authority.file)
        yield theirs, asker(local.url, local.credentials.token, ca_file)


SLICES = f"/apis/{V1}/resourceslices"
MAPPINGS: dict[str, Object] = {
    "a foreign resource": {"example.com/gpu": {}},
    "a negative multiplier": {"cpu": {"allocationMultiplier": "-1"}},
    "no multiplier at all": {"cpu": {"allocationMultiplier": "0"}},
    "an empty key": {"cpu": {"capacityKey": ""}},
    "a key of nothing": {"cpu": {"capacityKey": "cores"}},
}
TAKEN: Object = {"resourceClaimName": "c", "containers": ["main"], "resources": {"cpu": "1"}}
POD_STATUSES: dict[str, Object] = {
    "no claim": {**TAKEN, "resourceClaimName": ""},
    "another claim": {**TAKEN, "resourceClaimName": "d"},
    "no containers": {**TAKEN, "containers": []},
    "no resources": {**TAKEN, "resources": {}},
    "a foreign resource": {**TAKEN, "resources": {"example.com/gpu": "1"}},
    "less than nothing": {**TAKEN, "resources": {"cpu": "-1"}},
}
GROUP_STATUSES: dict[str, list[Object]] = {
    "another claim": [{"name": "nic"}],
    "a bad name": [{"name": "gpu", "resourceClaimName": "No Name"}],
    "too many": [{"name": f"c{number}"} for number in range(5)],
}


def test_the_local_server_says_the_same_of_these_fields(both: tuple[Ask, Ask]) -> None:
    different = {}
    for name, mappings in MAPPINGS.items():
        body = slice_of("n1", taking("d", **mappings), name="refused")
        theirs, ours = (said(ask("POST", SLICES, body)) for ask in both)
        if theirs != ours:
            different[name] = (theirs, ours)
    stored = []
    for ask in both:
        made = ask("POST", SLICES, slice_of("n1", taking("d", cpu={}), name="defaults")).body
        stored.append(made["spec"]["devices"])
        ask("DELETE", f"{SLICES}/defaults")
    if stored[0] != stored[1]:
        different["what is filled in"] = (stored[0], stored[1])

    pods, groups = "/api/v1/namespaces/default/pods", f"/apis/{API_VERSION}/namespaces/default/podgroups"
    own = [{"name": "gpu", "resourceClaimName": "c"}]
    for ask in both:
        assert ask("POST", pods, pod("p", scheduler="missing", resourceClaims=own)).status == 201
        assert ask("POST", groups, group("g", min_count=1, resourceClaims=own)).status == 201
    for name, status in POD_STATUSES.items():
        patch = {"status": {"nodeAllocatableResourceClaimStatuses": [status]}}
        theirs, ours = (said(ask("PATCH", f"{pods}/p/status", patch, MERGE)) for ask in both)
        if theirs != ours:
            different[f"pod: {name}"] = (theirs, ours)
    for name, statuses in GROUP_STATUSES.items():
        patch = {"status": {"resourceClaimStatuses": statuses}}
        theirs, ours = (said(ask("PATCH", f"{groups}/g/status", patch, MERGE)) for ask in both)
        if theirs != ours:
            different[f"group: {name}"] = (theirs, ours)
    assert not different
