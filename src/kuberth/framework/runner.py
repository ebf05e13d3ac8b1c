"""Runs the plugins of one profile: one component for each phase of a pod's way.

In: a profile and the objects that its plugins read. Out: the phases, each with the state that it needs. If a
plugin raises, or returns a value that its extension point does not allow, the result is an Error status that
names the plugin and the point; a plugin cannot end the scheduling loop.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from operator import attrgetter
from typing import Any, Final

from kuberth.api.core import Pod
from kuberth.cluster.table import ClusterTable
from kuberth.errors import ConfigError
from kuberth.extenders import NO_EXTENDERS, Extenders
from kuberth.framework.extension_points import PreEnqueuePlugin
from kuberth.framework.nominator import Nominator
from kuberth.framework.plans import Plans
from kuberth.framework.profile import Profile
from kuberth.framework.running.binding import BindingPoints
from kuberth.framework.running.calls import Calls, raised
from kuberth.framework.running.filtering import Filtering
from kuberth.framework.running.filters import Filters
from kuberth.framework.running.placing import Placing
from kuberth.framework.running.post_filtering import PostFiltering
from kuberth.framework.running.pre_filtering import PreFiltering
from kuberth.framework.running.reserving import Reserving
from kuberth.framework.running.scorers import Scorers
from kuberth.framework.running.scoring import Scoring
from kuberth.framework.status import SUCCESS, Status
from kuberth.observe.metrics import SchedulerMetrics

PRE_ENQUEUE_TIMED: Final = 10
"""One of this many runs of PreEnqueue measures the time of each plugin."""
_ANY_POD: Final = Pod()


class Runner:
    """Runs all extension points of one profile."""

    def __init__(
        self,
        profile: Profile,
        *,
        cluster: ClusterTable,
        nominator: Nominator,
        metrics: SchedulerMetrics,
        with_plans: bool = True,
        extenders: Extenders = NO_EXTENDERS,
    ) -> None:
        """Without plans, every pod is evaluated independently of earlier ones."""
        calls = self._calls = Calls(profile.scheduler_name, metrics)
        filters = Filters(profile.filter, calls)
        scorers = Scorers(profile.score, profile.score_weights, calls)
        self.profile = profile
        self.metrics = metrics
        self.extenders = extenders
        """The HTTP extenders that are called in addition to plugins."""
        self.plans: Plans | None = None
        """Results shared by equal pods; None: nothing is shared."""
        if with_plans:
            self.plans = Plans(
                profile=profile,
                cluster=cluster,
                nominator=nominator,
                calls=calls,
                filters=filters,
                scorers=scorers,
            )
        self.pre_filtering = PreFiltering(profile.pre_filter, cluster=cluster, calls=calls, plans=self.plans)
        self.filtering = Filtering(
            profile, cluster=cluster, nominator=nominator, calls=calls, filters=filters
        )
        self.post_filtering = PostFiltering(profile.post_filter, calls=calls)
        self.scoring = Scoring(profile, cluster=cluster, calls=calls, scorers=scorers)
        self.reserving = Reserving(profile.reserve, profile.permit, calls=calls)
        self.binding = BindingPoints(profile, metrics=metrics, calls=calls, extenders=extenders)
        self.placing = Placing(profile, calls=calls)
        self._pre_enqueue_runs = 0
        self._any_gate = [plugin for plugin in profile.pre_enqueue if not _gate_fields(plugin)]
        """PreEnqueue plugins that may reject any pod."""
        self._gate_values = _gate_values(profile.pre_enqueue)
        """The fields of a pod for which the other PreEnqueue plugins may reject it."""

    def run_pre_enqueue(self, pod: Pod, first: str = "") -> Status:
        """Success, or the first rejection; `first` is called first, as the most likely to reject again."""
        started = time.perf_counter()
        status = SUCCESS
        plugins: Sequence[PreEnqueuePlugin] = self._any_gate
        if any(self._gate_values(pod)):
            plugins = self.profile.pre_enqueue
        if first:
            plugins = sorted(plugins, key=lambda plugin: plugin.name != first)
        timed = self._pre_enqueue_runs % PRE_ENQUEUE_TIMED == 0
        self._pre_enqueue_runs += 1
        for plugin in plugins:
            if timed:
                answer = self._calls.call(plugin, "PreEnqueue", plugin.pre_enqueue, pod, timed=True)
            else:
                try:
                    answer = plugin.pre_enqueue(pod)
                except BaseException as exc:
                    answer = raised(plugin, "PreEnqueue", exc)
            if answer is not None:  # rare
                status = self._calls.checked(plugin, "PreEnqueue", answer)
                if not status.is_success:
                    break
        self._calls.observe("PreEnqueue", status, started)
        return status

    def distrust(self, plugin: str) -> bool:
        """Ignore the plugin's statement from now on. False if it is ignored already."""
        if not self.profile.statements.distrust(plugin):
            return False
        if self.plans is not None:
            self.plans.clear()
        return True


def _gate_fields(plugin: PreEnqueuePlugin) -> Collection[str]:
    """The plugin's `gates_only_with`, if it belongs to its own `pre_enqueue`."""
    for each in type(plugin).__mro__:
        if "gates_only_with" in vars(each):
            return plugin.gates_only_with
        if "pre_enqueue" in vars(each):
            break
    return ()


def _gate_values(plugins: Sequence[PreEnqueuePlugin]) -> Callable[[Pod], Any]:
    """Returns all fields that plugins state in `gates_only_with`."""
    fields = {field: plugin.name for plugin in plugins for field in _gate_fields(plugin)}
    for field, name in fields.items():
        try:
            attrgetter(field)(_ANY_POD)
        except AttributeError:
            raise ConfigError(
                f"plugin {name!r}: `gates_only_with` names {field!r}, which pods do not have; name an "
                "attribute of Pod, such as 'spec.scheduling_gates'"
            ) from None
    if not fields:
        return lambda _pod: ()
    return attrgetter(*fields, *fields) if len(fields) == 1 else attrgetter(*fields)  # always a tuple
