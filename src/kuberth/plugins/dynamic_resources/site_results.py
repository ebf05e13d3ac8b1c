"""Search results per site for equal demands, cached until something at the site changes.

In: a demand, the sites of nodes. Out: a code per site and, if devices are available, which ones. A site is
searched again only after one of its devices was allocated or released: the next equal pod usually searches
one site. No claim blocks the event loop: the work of an attempt is limited, and unfinished searches go on in
the background until they are finished or together have used up `filterTimeout`. Work is counted in checked
devices and not in seconds, so that decisions do not depend on the machine.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

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

ATTEMPT_WORK: Final = 40_000
"""The budget of one attempt of a pod, or of a whole pod group, on the event loop: well below 100 ms."""
FREE_WORK: Final = 16
"""Work of a search that is not charged, besides one check per device: an ordinary search takes no more."""
WORK_PER_SECOND: Final = 500_000
"""`filterTimeout` as an amount of work."""
_SLICE_WORK: Final = 8_000
_PAUSE_SECONDS: Final = 0.05
"""The pause between two slices; a slice is shorter, so that background searches leave most of the CPU."""
_MAX_WAITING: Final = 256
_SLICES: Final = 400
"""How many slices an attempt triggers: searches that no pod needs any more end after them."""


@dataclass(slots=True, eq=False)
class SearchBudget:
    """The remaining budget of an attempt."""

    limit: int | None
    """The budget of a demand over all attempts; None: no limit."""
    left: int = ATTEMPT_WORK


class UnfinishedSearches(Protocol):
    """The searches of one demand."""

    def resume(self, budget: SearchBudget) -> bool:
        """Spend the budget on the searches; False if none is left."""
        ...


class BackgroundSearches:
    """Continues searches in slices between turns of the event loop; the next attempt uses the results."""

    def __init__(self, refresh: Callable[[], None], *, limit: int | None) -> None:
        """`refresh` updates the inventory before every slice."""
        self._refresh = refresh
        self._limit = limit
        self._waiting: OrderedDict[UnfinishedSearches, int] = OrderedDict()
        """The searches, with their remaining slices."""
        self._next: asyncio.TimerHandle | None = None

    def add(self, searches: UnfinishedSearches) -> None:
        """Finish them in turns with others. Without a running event loop, only attempts continue them."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        if searches in self._waiting or len(self._waiting) < _MAX_WAITING:
            self._waiting[searches] = _SLICES
        if self._next is None:
            self._next = loop.call_later(_PAUSE_SECONDS, self._slice, loop)

    def close(self) -> None:
        """Stop all searches."""
        if self._next is not None:
            self._next.cancel()

    def _slice(self, loop: asyncio.AbstractEventLoop) -> None:
        self._next = None
        searches, slices = self._waiting.popitem(last=False)
        self._refresh()
        budget = SearchBudget(self._limit, _SLICE_WORK)
        if searches.resume(budget) and slices > 1:
            self._waiting[searches] = slices - 1
        if self._waiting:
            # A selector may take longer than a slice.
            done = max(_SLICE_WORK - budget.left, _SLICE_WORK) / _SLICE_WORK
            self._next = loop.call_later(done * _PAUSE_SECONDS, self._slice, loop)


FITS: Final = 0
NO_SOLUTION: Final = 1
INVALID_POOLS: Final = 2
FAILED: Final = 3
"""Codes from here on are indices into `SiteResults.failures`."""
MAX_DEMANDS: Final = 256
"""The number of demands with cached results."""
_NEVER: Final = -1
_NO_FAILURE: Final = AllocationError("")


class SiteResults:
    """The cached results of one demand."""

    def __init__(self, demand: Demand, inventory: Inventory) -> None:
        self.demand = demand
        self._inventory = inventory
        self._epoch = _NEVER
        self._columns: Column = np.zeros((4, 0), np.int64)
        self._searched_at, self.codes, self.scores, self.taken = self._columns
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

    def resume(self, budget: SearchBudget) -> bool:
        """Spend the budget on unfinished searches; False if none is left."""
        sites = np.fromiter(self._searches, np.int64, len(self._searches))
        self.update(sites[sites < len(self._inventory.sites.sites)], budget)
        return self.is_unfinished

    def update(self, sites: Column, budget: SearchBudget) -> None:
        """Update `codes` for these sites, as far as the budget allows. Refresh the inventory first."""
        known = self._inventory.sites
        if self._epoch != known.epoch or len(self.codes) < len(known.sites):
            self._grow(len(known.changed_at), restart=self._epoch != known.epoch)
            self._epoch = known.epoch
        stale = sites[self._searched_at[sites] != known.changed_at[sites]]
        if len(stale):
            for index in np.unique(stale).tolist():
                self._search_site(known.sites[index], budget)

    def _grow(self, size: int, *, restart: bool) -> None:
        if restart:
            self._columns = self._columns[:, :0]
            self.found, self.failures, self._searches = [], {}, {}
        before = self._columns.shape[1]
        self._columns = resized(self._columns, size)
        self._searched_at, self.codes, self.scores, self.taken = self._columns
        self._searched_at[before:] = _NEVER
        self.found += [None] * (size - before)

    def _search_site(self, site: Site, budget: SearchBudget) -> None:
        index, changed_at = site.index, int(self._inventory.sites.changed_at[site.index])
        self._searched_at[index] = changed_at
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
                self._searched_at[index] = _NEVER
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


class SiteResultsCache:
    """The cached results of recent demands."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self._class_changes = inventory.classes.store.change_reader()
        self._known: OrderedDict[tuple[bytes, ...], SiteResults] = OrderedDict()

    def of(self, specs: Sequence[ResourceClaimSpec]) -> SiteResults:
        """The cached results for equal claims with the same classes."""
        if not self._class_changes.is_current:
            self._class_changes.read()
            self._known.clear()
        key = tuple(map(encode, specs))
        results = self._known.get(key)
        if results is None:
            demand = Demand(specs, self.inventory.classes, self.inventory.features)
            results = self._known[key] = SiteResults(demand, self.inventory)
            if len(self._known) > MAX_DEMANDS:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(key)
        return results
