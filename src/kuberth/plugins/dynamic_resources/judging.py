"""Search results per site for equal demands, cached until something at the site changes.

In: a demand, the sites of nodes. Out: a code per site and, if devices are available, which ones. A site is
searched again only after one of its devices was allocated or released: the next equal pod usually searches
one site.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import numpy as np

from kuberth.api.resource import ResourceClaimSpec
from kuberth.api.wire import encode
from kuberth.cluster.arrays import Column
from kuberth.cluster.counting import resized
from kuberth.plugins.devices.inventory import Inventory
from kuberth.plugins.devices.sites import Site
from kuberth.plugins.dynamic_resources.allocator.demand import AllocationError, Demand
from kuberth.plugins.dynamic_resources.allocator.results import node_selector
from kuberth.plugins.dynamic_resources.allocator.search import DeviceSearch, Found, SearchTimeout
from kuberth.plugins.dynamic_resources.node_resources import ClaimTake, take_of
from kuberth.plugins.dynamic_resources.searching import FREE_WORK, SearchBudget

FITS: Final = 0
NO_SOLUTION: Final = 1
INVALID_POOLS: Final = 2
FAILED: Final = 3
"""Codes from here on are indices into `Judged.failures`."""
MOST_DEMANDS: Final = 256
"""The number of demands with cached results."""
_NEVER: Final = -1
_NO_FAILURE: Final = AllocationError("")


class Judged:
    """The cached results of one demand."""

    def __init__(self, demand: Demand, inventory: Inventory) -> None:
        self.demand = demand
        self._inventory = inventory
        self._epoch = _NEVER
        self._columns: Column = np.zeros((4, 0), np.int64)
        self._judged_at, self.codes, self.scores, self.taken = self._columns
        """int64[site], each: the site's version at its search, its code, the score of the chosen
        alternatives, and the index in `takes` of the node resources that the chosen devices use."""
        self.found: list[Found | None] = []
        """By site: the devices found."""
        self.takes: list[tuple[ClaimTake | None, ...]] = [(None,) * len(demand.claims)]
        """Node resources by claim; the first entry is none."""
        self._number_of: dict[tuple[ClaimTake | None, ...], int] = {self.takes[0]: 0}
        self.failures: dict[int, AllocationError | None] = {}
        """Errors by site; None for a timeout."""
        self._searches: dict[int, tuple[DeviceSearch, int]] = {}
        """By site: unfinished searches, with the site's version at their start."""
        self._spent = 0
        """The work of all searches since a site with a timed-out search changed."""

    @property
    def is_unfinished(self) -> bool:
        """Whether unfinished searches exist."""
        return bool(self._searches)

    def go_on(self, budget: SearchBudget) -> bool:
        """Spend the budget on unfinished searches; False if none is left."""
        sites = np.fromiter(self._searches, np.int64, len(self._searches))
        self.judge(sites[sites < len(self._inventory.sites.sites)], budget)
        return self.is_unfinished

    def judge(self, sites: Column, budget: SearchBudget) -> None:
        """Update `codes` for these sites, as far as the budget allows. Refresh the inventory first."""
        known = self._inventory.sites
        if self._epoch != known.epoch or len(self.codes) < len(known.sites):
            self._grow(len(known.changed_at), restart=self._epoch != known.epoch)
            self._epoch = known.epoch
        stale = sites[self._judged_at[sites] != known.changed_at[sites]]
        if len(stale):
            for index in np.unique(stale).tolist():
                self._judge(known.sites[index], budget)

    def _grow(self, size: int, *, restart: bool) -> None:
        if restart:
            self._columns = self._columns[:, :0]
            self.found, self.failures, self._searches = [], {}, {}
        before = self._columns.shape[1]
        self._columns = resized(self._columns, size)
        self._judged_at, self.codes, self.scores, self.taken = self._columns
        self._judged_at[before:] = _NEVER
        self.found += [None] * (size - before)

    def _judge(self, site: Site, budget: SearchBudget) -> None:
        index, changed_at = site.index, int(self._inventory.sites.changed_at[site.index])
        self._judged_at[index] = changed_at
        took_too_long = self.failures.pop(index, _NO_FAILURE) is None
        self.found[index] = None
        search, begun_at = self._searches.pop(index, (None, _NEVER))
        if search is None and took_too_long:
            self._spent = 0
        if search is None or begun_at != changed_at:
            search = DeviceSearch(self.demand, site, self._inventory.usage)
        try:
            found = self._searched(search, budget, free=len(site.candidates) + FREE_WORK)
            if found is not None:
                for picks in found.picks:
                    node_selector(picks, "")
        except SearchTimeout:
            self._fail(index, None)
            if budget.limit is None or self._spent < budget.limit:
                self._searches[index] = search, changed_at
                self._judged_at[index] = _NEVER
            return
        except AllocationError as exc:
            self._fail(index, exc)
            return
        if found is None:
            self.codes[index] = INVALID_POOLS if site.is_broken else NO_SOLUTION
            return
        self.codes[index] = FITS
        self.scores[index] = score_of(found)
        self.found[index] = found
        if self._inventory.features.has_node_resources:
            self.taken[index] = self._number(found)

    def _searched(self, search: DeviceSearch, budget: SearchBudget, *, free: int) -> Found | None:
        """Search within the budget. The first `free` work, one check per device, is not charged."""
        before = search.work
        allowed = budget.left if budget.limit is None else min(budget.left, budget.limit - self._spent)
        uncharged = max(free - before, 0)
        try:
            return search.run(uncharged + max(allowed, 0), is_starved=allowed <= 0)
        finally:
            charged = max(search.work - before - uncharged, 0)
            budget.left -= charged
            self._spent += charged

    def _number(self, found: Found) -> int:
        """The index in `takes` of the node resources that these devices use."""
        takes = tuple(take_of((pick.device, pick.consumed) for pick in picks) for picks in found.picks)
        number = self._number_of.setdefault(takes, len(self.takes))
        if number == len(self.takes):
            self.takes.append(takes)
        return number

    def _fail(self, index: int, failure: AllocationError | None) -> None:
        self.failures[index] = failure
        self.codes[index] = FAILED + index


def score_of(found: Found) -> int:
    """Higher for earlier alternatives."""
    return sum(
        FIRST_SCORE - request.place
        for claim, chosen in zip(found.picks, found.chosen, strict=True)
        for request in chosen
        if request.parent is not None and any(pick.request is request for pick in claim)
    )


FIRST_SCORE: Final = 8
"""The score of the first alternative of a request; each further one scores one less."""


class Judgements:
    """The cached results of recent demands."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self._class_changes = inventory.classes.store.change_reader()
        self._known: OrderedDict[tuple[bytes, ...], Judged] = OrderedDict()

    def of(self, specs: Sequence[ResourceClaimSpec]) -> Judged:
        """The cached results for equal claims with the same classes."""
        if not self._class_changes.is_current:
            self._class_changes.read()
            self._known.clear()
        key = tuple(map(encode, specs))
        judged = self._known.get(key)
        if judged is None:
            demand = Demand(specs, self.inventory.classes, self.inventory.features)
            judged = self._known[key] = Judged(demand, self.inventory)
            if len(self._known) > MOST_DEMANDS:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(key)
        return judged
