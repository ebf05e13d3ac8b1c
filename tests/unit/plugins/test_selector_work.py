"""Many selectors that are expensive to compile or to evaluate: the work of one attempt is bounded."""

from __future__ import annotations

from typing import Any

import pytest

from kuberth.api.resource import ResourceClaim
from kuberth.cel.costs import LIMIT
from kuberth.cel.values import WORK
from kuberth.clock import run_in_virtual_time
from kuberth.errors import KuberthError
from kuberth.evaluation import Evaluator
from kuberth.plugins.dynamic_resources.allocator.demand import AllocationError
from kuberth.plugins.dynamic_resources.allocator.search import DeviceSearch, Found, SearchTimeout
from kuberth.plugins.dynamic_resources.site_results import ATTEMPT_WORK
from kuberth.testing import make_node
from kuberth.testing.harness import running
from tests.integration.test_devices import asking
from tests.unit.plugins.device_objects import all_devices, exactly, make_claim, make_class, make_slice
from tests.unit.plugins.test_device_search import World, attributed, devices

MOST_SPENT = 8 * ATTEMPT_WORK + 2 * LIMIT
"""The budget, in the units of cost; it ends after the selector that exceeds it."""


def numbers(first: int, length: int) -> str:
    return str(list(range(first, first + length)))


def slow(number: int, length: int = 300) -> str:
    """True after a quarter of the cost limit. Two of them are different expressions."""
    return f"{numbers(number, length)}.all(i, {numbers(0, length)}.all(j, true))"


def long(number: int) -> str:
    """1,300 characters that are evaluated at once."""
    return " || ".join(["true", *(f"'attribute-{number}-{part}' in device.attributes" for part in range(28))])


def selecting(*expressions: str) -> list[dict[str, Any]]:
    return [{"cel": {"expression": each}} for each in expressions]


@pytest.mark.parametrize(
    "claim",
    [
        pytest.param(make_claim("c", exactly(selectors=selecting(*map(slow, range(32))))), id="slow"),
        pytest.param(
            make_claim(
                "c",
                *(
                    exactly(f"q{each}", selectors=selecting(*map(long, range(32 * each, 32 * each + 32))))
                    for each in range(32)
                ),
            ),
            id="long",
        ),
    ],
)
def test_an_attempt_is_over_when_its_budget_is(claim: ResourceClaim) -> None:
    names = [f"n{number}" for number in range(10)]
    slices = [
        make_slice(
            name, [{"name": f"d{index}", "attributes": {"of": {"string": name}}} for index in range(40)]
        )
        for name in names
    ]
    evaluator = Evaluator([*map(make_node, names), *slices, make_class(), claim])
    before = WORK.spent
    with pytest.raises(KuberthError, match="timed out trying to allocate devices"):
        evaluator.feasible(asking("p", "c"))
    assert WORK.spent - before < MOST_SPENT


def test_the_selectors_of_one_request_are_evaluated_in_the_background() -> None:
    async def scenario() -> None:
        claim = make_claim("c", exactly(selectors=selecting(*(slow(1000 + each) for each in range(6)))))
        async with running(make_node("a"), make_slice("a", 1), make_class(), claim) as world:
            world.api.put(asking("p", "c"))
            await world.until(lambda: bool(world.events("FailedScheduling")))
            await world.bound("p", seconds=60)

    run_in_virtual_time(scenario)


def interrupted(search: DeviceSearch) -> tuple[Found | None, int]:
    """The result of a search that gets the least possible budget each time, and the number of budgets."""
    for number in range(1, 100):
        try:
            return search.run(1), number
        except SearchTimeout:
            continue
    raise AssertionError("the search does not end")


def test_an_interrupted_search_ends_like_others() -> None:
    """It is also interrupted while the devices of a request for all of them are counted."""
    board = "device.attributes['gpu.example.com'].board"
    some = make_claim("c", exactly(count=2, selectors=selecting(f"{slow(2000)} && {board} == 'x'")))
    others = make_claim(
        "d",
        all_devices(selectors=selecting(slow(2001), f"{board} != 'x'")),
        constraints=[{"requests": ["q"], "matchAttribute": "gpu.example.com/board"}],
    )
    found, budgets = interrupted(World(make_slice("a", attributed(*"xxyy"))).search(some, others))
    assert found is not None
    assert devices(found) == [["dev-0", "dev-1"], ["dev-2", "dev-3"]]
    assert budgets > 8
    with pytest.raises(AllocationError, match="a claim constraint would not be satisfied"):
        interrupted(World(make_slice("a", attributed(*"xxyz"))).search(some, others))


def test_no_selector_is_evaluated_again_after_an_interruption() -> None:
    claim = make_claim("c", exactly(selectors=selecting(*(slow(3000 + each) for each in range(4)))))
    before = WORK.spent
    found, budgets = interrupted(World(make_slice("a", 1)).search(claim))
    assert found is not None
    assert budgets >= 4
    assert WORK.spent - before < 5 * LIMIT / 3
