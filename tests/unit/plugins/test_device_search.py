"""The allocator's search: what it finds first, and how little it takes to see that there is nothing."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import Any

import pytest
from msgspec.structs import replace

from kuberth.api.quantity import parse
from kuberth.api.resource import DeviceAttribute, DeviceClass, ResourceClaim, ResourceSlice
from kuberth.api.wire import to_builtins
from kuberth.cluster.table import ClusterTable
from kuberth.informers.store import Store
from kuberth.plugins.devices.classes import KnownClasses
from kuberth.plugins.devices.features import ALL_FEATURES, DeviceFeatures
from kuberth.plugins.devices.sites import Site, Sites
from kuberth.plugins.devices.slices import OfferedCapacity, RequestPolicy
from kuberth.plugins.devices.usage import DeviceUsage, allocated_devices
from kuberth.plugins.dynamic_resources.allocator.capacity import fits
from kuberth.plugins.dynamic_resources.allocator.demand import AllocationError, Demand
from kuberth.plugins.dynamic_resources.allocator.results import node_selector
from kuberth.plugins.dynamic_resources.allocator.search import DeviceSearch, Found, SearchTimeout
from kuberth.testing.factories import make_node
from tests.unit.plugins.device_objects import (
    DRIVER,
    all_devices,
    exactly,
    first_of,
    given,
    make_claim,
    make_class,
    make_slice,
)

LITTLE_WORK = 500


class World:
    """Slices around one node, and claims that have devices already."""

    def __init__(
        self,
        *slices: ResourceSlice,
        taken: Iterable[ResourceClaim] = (),
        features: DeviceFeatures = ALL_FEATURES,
    ) -> None:
        store, table = Store[ResourceSlice](), ClusterTable()
        for slice_ in slices:
            store.set(slice_)
        row = table.set_node(make_node("a", labels={"zone": "z"}))
        sites = Sites(store, table)
        sites.refresh()
        self.site: Site = sites.sites[int(sites.of_row[row])]
        self.usage = DeviceUsage()
        self.features = features
        for claim in taken:
            assert claim.status.allocation is not None
            for take in allocated_devices(claim.status.allocation):
                self.usage.add(take)
        classes = Store[DeviceClass]()
        for name in ("gpu", "nic"):
            classes.set(make_class(name))
        self.classes = KnownClasses(classes)

    def search(self, *claims: ResourceClaim) -> DeviceSearch:
        demand = Demand([claim.spec for claim in claims], self.classes, self.features)
        return DeviceSearch(demand, self.site, self.usage)

    def find(self, *claims: ResourceClaim) -> list[list[str]] | None:
        found = self.search(*claims).run()
        return None if found is None else devices(found)


def devices(found: Found) -> list[list[str]]:
    return [[pick.device.spec.name for pick in picks] for picks in found.picks]


def attributed(*values: str) -> list[dict[str, Any]]:
    """Devices with an attribute each, and a unique serial number."""
    return [
        {
            "name": f"dev-{index}",
            "attributes": {"board": {"string": value}, "serial": {"int": index}},
        }
        for index, value in enumerate(values)
    ]


def test_the_first_devices_are_taken() -> None:
    taken = [make_claim("other", status=given("dev-1"))]
    assert World(make_slice("a", 4), taken=taken).find(make_claim("c", exactly(count=2))) == [
        ["dev-0", "dev-2"]
    ]


def test_claims_of_a_pod_do_not_share_devices() -> None:
    world = World(make_slice("a", 2))
    assert world.find(make_claim("c", exactly()), make_claim("d", exactly())) == [["dev-0"], ["dev-1"]]
    assert world.find(make_claim("c", exactly(count=2)), make_claim("d", exactly())) is None


@pytest.mark.parametrize(
    "claims",
    [
        pytest.param([make_claim("c", exactly(count=20))], id="one request"),
        pytest.param([make_claim("c", exactly("q", 10), exactly("r", 10))], id="two requests"),
        pytest.param(
            [make_claim("c", exactly(count=10)), make_claim("d", exactly(count=10))], id="two claims"
        ),
        pytest.param(
            [make_claim("c", exactly("q", 10), first_of("r", exactly("s", 12), exactly("t", 10)))],
            id="alternatives that are both too many",
        ),
        pytest.param(
            [
                make_claim(
                    "c",
                    exactly(count=4),
                    constraints=[{"requests": [], "matchAttribute": "gpu.example.com/board"}],
                )
            ],
            id="four of a board that has three",
        ),
    ],
)
def test_asking_for_more_than_there_is_takes_few_steps(claims: list[ResourceClaim]) -> None:
    """Upstream tries all combinations: half a million for 20 of 19 devices."""
    boards = [f"board-{index // 3}" for index in range(19)]
    search = World(make_slice("a", attributed(*boards))).search(*claims)
    assert search.run() is None
    assert search.work < LITTLE_WORK


def test_the_largest_claim_that_fits_takes_few_steps() -> None:
    search = World(make_slice("a", 128)).search(*(make_claim(f"c{n}", exactly(count=32)) for n in range(4)))
    found = search.run()
    assert found is not None
    assert len({pick.device.id for picks in found.picks for pick in picks}) == 128
    assert search.work < LITTLE_WORK


def test_a_hundred_claims_of_a_pod_are_no_deep_recursion() -> None:
    world = World(make_slice("a", 3200))
    assert world.find(*(make_claim(f"c{n}", exactly(count=32)) for n in range(100))) is not None
    assert world.find(*(make_claim(f"c{n}", exactly(count=32)) for n in range(101))) is None


def test_too_few_devices_for_all_hide_no_error() -> None:
    """Three are requested, two exist; trying the first one for the second request is an error."""
    world = World(make_slice("a", attributed("x", "y")))
    board = 'device.attributes["gpu.example.com"].board'
    picky = [{"cel": {"expression": f'{board} == "y" || {board}.nosuch == 1'}}]
    with pytest.raises(AllocationError, match="CEL runtime error"):
        world.find(make_claim("c", exactly("one"), exactly("picky", 2, selectors=picky)))


def test_administration_takes_nothing_from_others() -> None:
    world = World(make_slice("a", 2))
    watching = make_claim("w", exactly("watch", 3, adminAccess=True))
    assert world.find(watching) is None
    watching = make_claim("w", exactly("watch", 2, adminAccess=True))
    assert world.find(make_claim("c", exactly(count=2)), watching) == [["dev-0", "dev-1"]] * 2


def test_backing_up_finds_what_the_first_choice_hides() -> None:
    """The only free board with two devices is the second one."""
    world = World(make_slice("a", attributed("x", "y", "y")))
    same = [{"requests": [], "matchAttribute": "gpu.example.com/board"}]
    assert world.find(make_claim("c", exactly(count=2), constraints=same)) == [["dev-1", "dev-2"]]


def test_a_later_request_moves_an_earlier_one() -> None:
    tainted: list[dict[str, Any]] = [
        {"name": "plain"},
        {"name": "odd", "taints": [{"key": "odd", "effect": "NoSchedule"}]},
    ]
    claim = make_claim("c", exactly("any", tolerations=[{"operator": "Exists"}]), exactly("plain"))
    assert World(make_slice("a", tainted)).find(claim) == [["odd", "plain"]]


def test_alternatives_are_tried_in_order() -> None:
    world = World(make_slice("a", 3))
    claim = make_claim("c", first_of("q", exactly("many", 4), exactly("some", 3), exactly("one")))
    found = world.search(claim).run()
    assert found is not None
    assert [request.sub_name for request in found.chosen[0]] == ["q/some"]


@pytest.mark.parametrize(
    ("claim", "problem"),
    [
        pytest.param(
            make_claim("c", exactly(count=33)),
            "claim default/c: number of requested devices 33 exceeds the claim limit of 32",
            id="too many",
        ),
        pytest.param(
            make_claim("c", exactly("q", 2**63 - 1)),
            f"claim default/c: number of requested devices {2**63 - 1} exceeds the claim limit of 32",
            id="an absurd number",
        ),
        pytest.param(
            make_claim("c", exactly("q", 2**62), exactly("r", 2**62)),
            "allocation max size exceeded",
            id="numbers that wrap around",
        ),
        pytest.param(
            make_claim("c", exactly(of="none")),
            "claim default/c, request q: could not retrieve device class none: not found",
            id="no class",
        ),
        pytest.param(
            make_claim("c", exactly(selectors=[{}])),
            "claim default/c, request q, selector #0: CEL expression empty (unsupported selector type?)",
            id="no expression",
        ),
        pytest.param(
            make_claim("c", exactly(), constraints=[{}]),
            "claim default/c, constraint #0: empty constraint (unsupported constraint type?)",
            id="no constraint",
        ),
        pytest.param(
            make_claim("c", exactly(capacity={"requests": {"memory": "much"}})),
            "claim default/c, request q: cannot read quantity",
            id="an amount that cannot be read",
        ),
        pytest.param(
            make_claim("c", all_devices(), constraints=[{"matchAttribute": "gpu.example.com/board"}]),
            "claim default/c, request q: cannot add device gpu.example.com/a/dev-0 because a claim "
            "constraint would not be satisfied",
            id="all devices, against a constraint",
        ),
    ],
)
def test_problems_of_a_claim_are_reported(claim: ResourceClaim, problem: str) -> None:
    with pytest.raises(AllocationError) as caught:
        World(make_slice("a", 3)).find(claim)
    assert caught.value.message([claim]).startswith(problem)


def without_end() -> tuple[World, ResourceClaim]:
    """Distinct attributes are compared in a way that leaves nothing to foresee."""
    boards = [f"board-{index}" for index in range(40)]
    claim = make_claim(
        "c",
        exactly("q", 16),
        first_of("r", exactly("s", 16), exactly("t", 16)),
        constraints=[
            {"distinctAttribute": "gpu.example.com/board"},
            {"requests": ["r"], "matchAttribute": "gpu.example.com/serial"},
        ],
    )
    return World(make_slice("a", attributed(*boards))), claim


def test_a_search_stops_after_its_share_of_work_and_goes_on_later() -> None:
    world, claim = without_end()
    search = world.search(claim)
    done = []
    for _ in range(3):
        with pytest.raises(SearchTimeout):
            search.run(1000)
        done.append(search.work)
    assert done == sorted(set(done)), "every share takes it further"
    assert done[-1] < 3 * 1000 + 3 * len(world.site.candidates) * 2, "a share is overrun by one step at most"


def test_a_search_in_shares_finds_what_it_finds_in_one_go() -> None:
    world = World(make_slice("a", attributed(*"aabbbcddddd")))
    same = [{"requests": [], "matchAttribute": "gpu.example.com/board"}]
    claim = make_claim("c", exactly("q", 2), exactly("r", 3), constraints=same)
    expected = world.find(claim)
    assert expected == [["dev-6", "dev-7", "dev-8", "dev-9", "dev-10"]]
    search, shares = world.search(claim), 0
    while True:
        try:
            found = search.run(3)
        except SearchTimeout:
            shares += 1
            continue
        assert found is not None
        assert devices(found) == expected
        break
    assert shares > 3


def test_selectors_that_cost_much_use_up_the_share() -> None:
    """1,600 steps for each device: one evaluation a share, and no answer is lost."""
    numbers = "[" + ",".join(map(str, range(40))) + "]"
    slow = f"{numbers}.all(i, {numbers}.all(j, i + j >= 0)) && device.attributes['{DRIVER}'].serial >= 5"
    world = World(make_slice("a", attributed(*"abcdefgh")))
    claim = make_claim("c", exactly("q", 2, selectors=[{"cel": {"expression": slow}}]))
    search, shares = world.search(claim), 0
    while True:
        try:
            found = search.run(500)
            break
        except SearchTimeout:
            shares += 1
    assert found is not None
    assert devices(found) == [["dev-5", "dev-6"]]
    assert shares >= 6, "one for each device but the last"


@pytest.mark.parametrize("share", [1, 7, 60])
def test_a_search_that_turns_back_goes_on_where_it_stopped(share: int) -> None:
    """Expensive selectors are met on the way back too; whatever the share, the devices are the same."""
    numbers = "[" + ",".join(map(str, range(30))) + "]"
    slow = f"{numbers}.all(i, {numbers}.all(j, i + j >= 0)) && device.attributes['{DRIVER}'].serial != 2"
    selectors = [{"cel": {"expression": slow}}]
    same = [{"requests": [], "matchAttribute": "gpu.example.com/board"}]
    claim = make_claim("c", exactly("q", 2), exactly("r", 2, selectors=selectors), constraints=same)
    boards = "abababacccc"
    expected = World(make_slice("a", attributed(*boards))).find(claim)
    assert expected is not None
    search = World(make_slice("a", attributed(*boards))).search(claim)
    for _ in range(10_000):
        try:
            found = search.run(share)
            break
        except SearchTimeout:
            continue
    assert found is not None
    assert devices(found) == expected


def test_devices_that_cannot_match_are_seen_at_once() -> None:
    """Without the look ahead, ten requests for one of 16 devices each have 16!/6! ways to begin."""
    world = World(make_slice("a", attributed(*(f"board-{index}" for index in range(16)))))
    claim = make_claim(
        "c",
        *(exactly(f"r{number}") for number in range(10)),
        constraints=[
            {"requests": ["r0"], "matchAttribute": "gpu.example.com/serial"},
            {"requests": ["r8", "r9"], "matchAttribute": "gpu.example.com/serial"},
        ],
    )
    search = world.search(claim)
    assert search.run() is None
    assert search.work < LITTLE_WORK


def partition(name: str, memory: str) -> dict[str, Any]:
    counters = {"memory": {"value": memory}}
    return {"name": name, "consumesCounters": [{"counterSet": "set", "counters": counters}]}


def partitioned(*sizes: str, total: str = "40Gi") -> list[ResourceSlice]:
    counters = [{"name": "set", "counters": {"memory": {"value": total}}}]
    return [
        make_slice("a", 0, name="counters", pool="p", count=2, sharedCounters=counters),
        make_slice(
            "a",
            [partition(f"dev-{n}", size) for n, size in enumerate(sizes)],
            name="devices",
            pool="p",
            count=2,
        ),
    ]


def test_partitions_draw_on_common_counters() -> None:
    world = World(*partitioned("20Gi", "30Gi", "20Gi"))
    assert world.find(make_claim("c", exactly(count=2))) == [["dev-0", "dev-2"]]
    assert world.find(make_claim("c", exactly(count=3))) is None
    taken = [make_claim("other", status=given("dev-1", pool="p"))]
    assert World(*partitioned("20Gi", "30Gi", "20Gi"), taken=taken).find(make_claim("c", exactly())) is None


@pytest.mark.parametrize("total", ["-1", "-9e18", "0"])
def test_a_counter_that_has_nothing_left_blocks_its_pool(total: str) -> None:
    assert World(*partitioned("1Gi", "1Gi", total=total)).find(make_claim("c", exactly())) is None


def test_a_huge_counter_is_as_good_as_any() -> None:
    assert World(*partitioned("1Gi", total="9999999999999E")).find(make_claim("c", exactly())) == [["dev-0"]]


def test_a_counter_that_cannot_be_read_makes_its_pool_invalid() -> None:
    world = World(*partitioned("1Gi", total="a lot"), make_slice("a", 1, pool="other"))
    assert world.site.is_broken
    assert world.find(make_claim("c", exactly())) == [["dev-0"]]
    assert world.find(make_claim("c", exactly(count=2))) is None


SHARED = {
    "name": "shared",
    "allowMultipleAllocations": True,
    "capacity": {
        "memory": {
            "value": "10Gi",
            "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi", "step": "2Gi"}},
        }
    },
}


def memory(amount: str) -> dict[str, Any]:
    return {"capacity": {"requests": {"memory": amount}}}


def test_shares_are_given_until_the_capacity_is_used_up() -> None:
    world = World(make_slice("a", [SHARED]))
    found = world.search(make_claim("c", exactly("q", **memory("2Gi")), exactly("r"))).run()
    assert found is not None
    assert [{name: str(amount) for name, amount in pick.consumed.items()} for pick in found.picks[0]] == [
        {"memory": "3Gi"},
        {"memory": "1Gi"},
    ]
    assert world.find(make_claim("c", exactly("q", **memory("9Gi")), exactly("r", **memory("2Gi")))) is None
    thirds = [exactly(name, **memory("3Gi")) for name in "qrst"]
    assert world.find(make_claim("c", *thirds[:3])) == [["shared"] * 3]
    assert world.find(make_claim("c", *thirds)) is None


RANGE = {"validRange": {"min": "1Gi", "step": "3Gi", "max": "7Gi"}}
VALUES = {"validValues": ["1Gi", "2Gi", "5Gi"]}


@pytest.mark.parametrize(
    ("policy", "amount", "consumed"),
    [
        pytest.param(RANGE, "500Mi", "1Gi", id="at-least-the-minimum"),
        pytest.param(RANGE, "4Gi", "4Gi", id="a-step-from-the-minimum"),
        pytest.param(RANGE, "5Gi", "7Gi", id="up-to-the-next-step"),
        pytest.param(RANGE, "8Gi", None, id="more-than-the-maximum"),
        pytest.param(VALUES, "2Gi", "2Gi", id="a-value"),
        pytest.param(VALUES, "3Gi", "5Gi", id="up-to-the-next-value"),
        pytest.param(VALUES, "6Gi", None, id="more-than-all-values"),
        pytest.param({}, "6Gi", "6Gi", id="any-amount"),
        pytest.param({"validRange": {"min": "1Gi", "max": "7Gi"}}, "5Gi", "5Gi", id="no-steps"),
        pytest.param({"validValues": ["1Gi"], "default": "2Gi"}, "2Gi", "2Gi", id="the-default"),
        pytest.param(
            {"validValues": ["1Gi"], "default": "2Gi"}, "2048Mi", None, id="the-default-in-other-words"
        ),
    ],
)
def test_amounts_are_rounded_up_as_the_policy_says(
    policy: dict[str, Any], amount: str, consumed: str | None
) -> None:
    capacity = {"value": "10Gi", **({"requestPolicy": {"default": "1Gi", **policy}} if policy else {})}
    world = World(make_slice("a", [{**SHARED, "capacity": {"memory": capacity}}]))
    found = world.search(make_claim("c", exactly("q", **memory(amount)))).run()
    taken = None if found is None else str(found.picks[0][0].consumed["memory"])
    assert taken == consumed


def test_the_default_is_recognised_by_how_it_is_written() -> None:
    default = parse("2Gi")
    policy = RequestPolicy(default, (parse("1Gi"),), has_range=False, min=None, max=None, step=None)
    offered = {"memory": OfferedCapacity(parse("10Gi"), policy)}
    assert fits({"memory": copy(default)}, offered)
    assert not fits({"memory": parse("2048Mi")}, offered)


ZONE = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z"]}]}
NAME = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}


@pytest.mark.parametrize(
    ("slice_", "term"),
    [
        pytest.param(make_slice("a", 1), NAME, id="of-a-node"),
        pytest.param(make_slice(None, 1, pool="p"), None, id="of-all-nodes"),
        pytest.param(make_slice("p", 1, nodeSelector={"nodeSelectorTerms": [ZONE]}), ZONE, id="by-label"),
        pytest.param(make_slice("p", 1, nodeSelector={"nodeSelectorTerms": [NAME]}), NAME, id="by-name"),
        pytest.param(
            make_slice("p", 1, nodeSelector={"nodeSelectorTerms": [ZONE | NAME]}), ZONE | NAME, id="by-both"
        ),
    ],
)
def test_an_allocation_says_from_where_its_devices_can_be_used(
    slice_: ResourceSlice, term: dict[str, Any] | None
) -> None:
    found = World(slice_).search(make_claim("c", exactly())).run()
    assert found is not None
    selector = node_selector(found.picks[0], "a")
    assert (None if selector is None else to_builtins(selector)["nodeSelectorTerms"]) == (term and [term])


WITHOUT_SHARES = ALL_FEATURES._replace(has_shares=False)
DISABLED = "has capacity requests, but the DRAConsumableCapacity feature is disabled"


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        pytest.param(exactly(), None, id="exactly"),
        pytest.param(exactly(**memory("1Gi")), f", request q: {DISABLED}", id="exactly-with-capacity"),
        pytest.param(first_of("q", exactly("s")), None, id="alternatives"),
        pytest.param(
            first_of("q", exactly("s"), exactly("t", **memory("1Gi"))),
            f", subrequest t: {DISABLED}",
            id="an-alternative-with-capacity",
        ),
    ],
)
def test_without_the_feature_no_capacity_can_be_asked_for(
    request_: dict[str, Any], problem: str | None
) -> None:
    world, claim = World(make_slice("a", 1), features=WITHOUT_SHARES), make_claim("c", request_)
    if problem is None:
        assert world.find(claim) == [["dev-0"]]
        return
    with pytest.raises(AllocationError) as raised:
        world.find(claim)
    assert str(raised.value) == problem


def test_a_refused_device_leaves_no_trace_in_constraints() -> None:
    """The first device has a board that no other has, and is refused for what it does not have."""
    slot = {"slot": {"int": 1}}
    first, *others = attributed("x", "y", "y")
    slices = make_slice(
        "a", [first, *({**other, "attributes": {**other["attributes"], **slot}} for other in others)]
    )
    same = [{"matchAttribute": f"{DRIVER}/{name}"} for name in ("board", "slot")]
    assert World(slices).find(make_claim("c", exactly(count=2), constraints=same)) == [["dev-1", "dev-2"]]


def test_a_refused_device_draws_nothing_from_counters() -> None:
    """Of 40 Gi the first partition would take all, but lacks the attribute."""
    counters, devices = partitioned("40Gi", "20Gi", "20Gi")
    named = [
        replace(each, attributes={"slot": DeviceAttribute(int_value=1)}) if number else each
        for number, each in enumerate(devices.spec.devices)
    ]
    devices = replace(devices, spec=replace(devices.spec, devices=tuple(named)))
    same = [{"matchAttribute": f"{DRIVER}/slot"}]
    claim = make_claim("c", exactly(count=2), constraints=same)
    assert World(counters, devices).find(claim) == [["dev-1", "dev-2"]]


def test_distinct_attributes() -> None:
    world = World(make_slice("a", attributed("x", "x", "y")))
    other = [{"distinctAttribute": "gpu.example.com/board"}]
    assert world.find(make_claim("c", exactly("q"), exactly("r"), constraints=other)) == [["dev-0", "dev-2"]]


def test_distinct_attributes_of_several_devices_are_compared_as_upstream_does() -> None:
    """Of a request, only the last device counts, and none after one was put back: equal devices differ."""
    values = zip(["y", "z", "y", "x", "z"], ["2", "1", "2", "1", "1"], strict=True)
    entries = [
        {"name": f"dev-{index}", "attributes": {"board": {"string": board}, "slot": {"string": slot}}}
        for index, (board, slot) in enumerate(values)
    ]
    other = [{"requests": ["r"], "distinctAttribute": f"{DRIVER}/slot"}]
    claim = make_claim("c", exactly("q", 2), exactly("r", 3), constraints=other)
    assert World(make_slice("a", entries)).find(claim) == [["dev-0", "dev-3", "dev-1", "dev-2", "dev-4"]]


def test_all_devices_or_none() -> None:
    world = World(make_slice("a", 3), taken=[make_claim("other", status=given("dev-1"))])
    assert world.find(make_claim("c", all_devices())) is None
    assert World(make_slice("a", 3)).find(make_claim("c", all_devices())) == [["dev-0", "dev-1", "dev-2"]]
    assert World(make_slice("b", 3)).find(make_claim("c", all_devices())) is None


def test_administration_takes_what_others_have() -> None:
    world = World(make_slice("a", 1), taken=[make_claim("other", status=given("dev-0"))])
    assert world.find(make_claim("c", exactly(adminAccess=True))) == [["dev-0"]]
