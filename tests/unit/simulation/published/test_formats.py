"""Two published formats, by small samples made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from kuberth.errors import ConfigError
from kuberth.simulation.clusters import from_shapes
from kuberth.simulation.published import alibaba_gpu, google_2019
from kuberth.simulation.running import Scenario, simulate

PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,\
creation_time,deletion_time,scheduled_time
openb-pod-0000,12000,16384,1,1000,,LS,Running,1000,1600,1000
openb-pod-0001,6000,12288,1,460,V100M16|V100M32,BE,Succeeded,1010,1110,1050
openb-pod-0002,4000,8192,0,0,,Burstable,Pending,1020,1021,
"""
NODES = """sn,cpu_milli,memory_mib,gpu,model
openb-node-0000,64000,262144,2,P100
openb-node-0001,96000,393216,8,V100M32
openb-node-0002,32000,131072,0,
"""


def written(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_alibabas_pods_and_nodes(tmp_path: Path) -> None:
    arrivals = alibaba_gpu.read_pods(written(tmp_path, "openb_pod_list.csv", PODS))
    assert [(each.arrival, each.duration, each.priority) for each in arrivals] == [
        (0, 600, 1000),
        (10, 60, 0),
        (20, 1, 500),
    ]
    assert arrivals[1].requests == {"cpu": "6000m", "memory": "12288Mi", alibaba_gpu.GPU_MILLI: 460}
    assert alibaba_gpu.GPU_MILLI not in arrivals[2].requests
    shapes = alibaba_gpu.read_nodes(written(tmp_path, "openb_node_list.csv", NODES))
    outcome = simulate(Scenario(from_shapes(shapes, count=0).nodes, arrivals))
    assert outcome.nodes == 3
    assert outcome.pods.finished == 3


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("12000,", "lots,", ":2:2: cpu_milli: expected a number"),
        ("12000,", "-1,", ":2:2: cpu_milli: expected zero or more"),
        (",1000,1600,", ",1000,900,", ":2:10: deletion_time: the pod is deleted before"),
        (",LS,", ",XX,", ":2:7: qos: expected one of"),
        ("num_gpu", "gpus", ":1:1: there is no column num_gpu"),
        (",1020,1021,", ",1020", ":4:10: "),
    ],
)
def test_alibabas_pods_broken(tmp_path: Path, old: str, new: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        alibaba_gpu.read_pods(written(tmp_path, "p.csv", PODS.replace(old, new, 1)))
    assert expected in str(caught.value)


INSTANCES = """time,type,collection_id,scheduling_class,collection_type,priority,instance_index,\
resource_request.cpus,resource_request.memory
600000000,0,11,2,0,103,0,0.25,0.125
601000000,3,11,2,0,103,0,0.25,0.125
661000000,FINISH,11,2,0,103,0,0.25,0.125
600500000,SUBMIT,12,0,0,0,3,0.01,0.01
600500000,SUBMIT,13,0,1,0,0,0.5,0.5
9223372036854775807,SUBMIT,14,0,0,0,0,0.5,0.5
"""


def test_googles_instances(tmp_path: Path) -> None:
    path = written(tmp_path, "instance_events.csv", INSTANCES)
    first, second = google_2019.read_instances(path)
    assert (first.arrival, first.duration, first.priority, first.tenant) == (0, 60, 103, "class-2")
    assert first.requests == {"cpu": "16000m", "memory": "65536Mi"}
    assert (second.arrival, second.duration) == (0.5, None)
    written(tmp_path, "collection_events.csv", "collection_id,user\n11,abc=\n12,\n")
    first, second = google_2019.read_instances(path)
    assert (first.tenant, second.tenant) == ("user-1", "class-0")


def test_googles_instances_broken(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r":4:2: type: there is no event 'ENDED'"):
        google_2019.read_instances(written(tmp_path, "i.csv", INSTANCES.replace("FINISH", "ENDED")))
    with pytest.raises(ConfigError, match="no instance is submitted"):
        google_2019.read_instances(written(tmp_path, "i.csv", INSTANCES.splitlines()[0] + "\n"))
