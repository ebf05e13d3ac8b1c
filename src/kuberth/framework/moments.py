"""Detects state changes across an await.

In: the cluster table, nominations and stores. Out: a moment, which differs as soon as anything has changed on
which a plugin's answer may depend. For code that awaits between calling plugins and acting on their answers.
"""

from __future__ import annotations

from kuberth.api.core import Node, Pod
from kuberth.cluster.table import ClusterTable
from kuberth.framework.nominator import Nominator
from kuberth.informers.store import Stores

Moment = tuple[int, int, int]


def moment(cluster: ClusterTable, nominator: Nominator, stores: Stores) -> Moment:
    """The current moment."""
    # The table knows which changes of pods and nodes matter.
    others = sum(stores.of(kind).version for kind in stores.kinds() if kind not in (Pod, Node))
    return cluster.changes.version, nominator.changes.version, others
