"""Alibaba's cluster-trace-gpu-v2023: openb_pod_list*.csv and openb_node_list*.csv.

A pod's share of GPUs (`num_gpu` × `gpu_milli`) is a resource of its own, in thousandths of a GPU; that a
share is of one and the same GPU of a node is not modelled. GPU models that a pod names are a label of nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from kuberth.errors import ConfigError
from kuberth.simulation.arrivals import Arrival
from kuberth.simulation.csv_rows import TableRow, read_rows

GPU_MILLI: Final = "alibabacloud.com/gpu-milli"
MODEL: Final = "alibabacloud.com/gpu-model"
PRIORITIES: Final = {"LS": 1000, "Guaranteed": 1000, "Burstable": 500, "BE": 0, "": 0}
"""Priorities by QoS class: the trace has only the classes."""

_POD: Final = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "creation_time", "deletion_time")
_NODE: Final = ("sn", "cpu_milli", "memory_mib", "gpu")


def read_pods(path: Path) -> list[Arrival]:
    """The pods, from the time of the first one on; each runs from when it was scheduled to its deletion."""
    rows = list(read_rows(path, needed=_POD))
    if not rows:
        raise ConfigError(f"{path}: there is no pod in this trace")
    first = min(row.number("creation_time") for row in rows)
    return [_arrival(row, first) for row in rows]


def _arrival(row: TableRow, first: float) -> Arrival:
    created, deleted = row.number("creation_time"), row.number("deletion_time", default=-1.0)
    began = row.number("scheduled_time", default=created)
    if deleted >= 0 and deleted < created:
        row.refuse("deletion_time", "the pod is deleted before it is created")
    qos = row.text("qos")
    if qos not in PRIORITIES:
        row.refuse("qos", f"expected one of {', '.join(filter(None, PRIORITIES))}, got {qos!r:.80}")
    requests: dict[str, str | int | float] = {
        "cpu": f"{int(row.number('cpu_milli'))}m",
        "memory": f"{int(row.number('memory_mib'))}Mi",
    }
    if gpus := int(row.number("num_gpu", default=0.0)):
        requests[GPU_MILLI] = gpus * int(row.number("gpu_milli", default=1000.0))
    return Arrival(
        arrival=created - first,
        duration=None if deleted < 0 else max(0.0, deleted - max(created, began)),
        name=row.text("name"),
        tenant=(qos or "none").lower(),
        priority=PRIORITIES[qos],
        requests=requests,
        affinity=on_models(row.text("gpu_spec")),
    )


def on_models(models: str) -> dict[str, Any]:
    """The affinity of a pod to nodes with GPUs of these models, as the trace names them."""
    names = [name for name in models.split("|") if name]
    if not names:
        return {}
    terms = [{"matchExpressions": [{"key": MODEL, "operator": "In", "values": names}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"nodeAffinity": required}


def read_nodes(path: Path) -> Sequence[dict[str, Any]]:
    """The nodes as shapes of one node each, named after their serial numbers."""
    shapes = []
    for row in read_rows(path, needed=_NODE):
        capacity = {
            "cpu": f"{int(row.number('cpu_milli'))}m",
            "memory": f"{int(row.number('memory_mib'))}Mi",
        }
        if gpus := int(row.number("gpu", default=0.0)):
            capacity[GPU_MILLI] = str(1000 * gpus)
        model = row.text("model")
        shape: dict[str, Any] = {
            "name": row.text("sn").lower(),
            "count": 1,
            "capacity": capacity,
            "zones": [],
        }
        if model:
            shape["labels"] = {MODEL: model}
        shapes.append(shape)
    if not shapes:
        raise ConfigError(f"{path}: there is no node in this list")
    return shapes
