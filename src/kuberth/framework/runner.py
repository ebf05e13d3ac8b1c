"""Asks the plugins of one profile, point by point, and turns every answer into a checked value.

In: a cycle state, a pod, a view of the cluster table. Out: statuses, the rows that pass, scores. A
plugin that raises, or answers what its point does not allow, becomes an Error status that names the
plugin and the point; nothing a plugin does can end the scheduling loop.
"""

from __future__ import annotations

import time

from kuberth.api.core import Pod
from kuberth.framework.running.binding import BindingPoints
from kuberth.framework.running.filtering import Filtering
from kuberth.framework.running.placing import Placing
from kuberth.framework.running.reserving import Reserving
from kuberth.framework.running.scoring import Scoring
from kuberth.framework.status import SUCCESS, Status


class Runner(Filtering, Scoring, Reserving, BindingPoints, Placing):
    """Runs all extension points of one profile: its phases, one file each, side by side."""

    def run_pre_enqueue(self, pod: Pod, first: str = "") -> Status:
        """Success, or the first refusal. `first` is asked first: most likely it still refuses."""
        started = time.perf_counter()
        status = SUCCESS
        plugins = self.profile.pre_enqueue
        if first:
            plugins = sorted(plugins, key=lambda plugin: plugin.name != first)
        for plugin in plugins:
            status = self._asked.status(plugin, "PreEnqueue", plugin.pre_enqueue, pod, timed=True)
            if not status.is_success:
                break
        self._asked.observe("PreEnqueue", status, started)
        return status
