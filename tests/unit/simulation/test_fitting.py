"""How many more fit, and what it would take."""

from __future__ import annotations

import pytest

from kuberth.errors import ConfigError
from kuberth.simulation.arrivals import Arrival
from kuberth.simulation.fitting import Fitting, NodesNeeded, expect_pod
from kuberth.testing import make_pod
from tests.unit.simulation.harness import pod, scene

ANTI_AFFINE = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}


def test_as_many_pods_as_fit() -> None:
    there = make_pod("there", cpu="3", node="node-1")
    fit = Fitting(scene(nodes=2, objects=[there]), pod(0, cpu="1500m")).answer()
    assert fit.fits == 2
    assert fit.reasons == ["Insufficient cpu"]
    assert fit.needed == []


def test_constraints_count() -> None:
    asked = Arrival(0, requests={"cpu": "1"}, affinity=ANTI_AFFINE, labels={"app": "x"})
    assert Fitting(scene(nodes=3), asked).answer().fits == 3


def test_more_than_the_first_batch() -> None:
    assert Fitting(scene(nodes=5, cpu="64"), pod(0, cpu="1")).answer().fits == 5 * 64


def test_nodes_of_which_shape_are_needed() -> None:
    shapes = [
        {"name": "small", "capacity": {"cpu": "2"}},
        {"name": "large", "capacity": {"cpu": "16"}},
        {"name": "tiny", "capacity": {"cpu": "1"}},
    ]
    fit = Fitting(scene(nodes=1), pod(0, cpu="2")).answer(wanted=10, shapes=shapes)
    assert fit.fits == 2
    assert fit.needed == [
        NodesNeeded("small", 8, 1),
        NodesNeeded("large", 1, 8),
        NodesNeeded("tiny", None, 0),
    ]


def test_one_pod_is_asked_about() -> None:
    with pytest.raises(ConfigError, match="there are 2 in the file"):
        expect_pod([pod(0), pod(1)])
