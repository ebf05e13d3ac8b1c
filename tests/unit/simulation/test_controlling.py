"""Runs with controllers."""

from __future__ import annotations

import pytest

from kuberth.errors import ConfigError
from kuberth.simulation.outcomes import PodCounts
from kuberth.simulation.running import simulate
from tests.unit.simulation.harness import managed, pod, scene, template

SELECTOR = "{matchLabels: {app: %s}}"
RUNS = '{kuberth.dev/run-seconds: "100"}'
WEB = f"""
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec: {{replicas: 4, selector: {SELECTOR % "web"}, template: {template(name="web")}}}
"""
JOB = f"""
apiVersion: batch/v1
kind: Job
metadata: {{name: work, annotations: {{kuberth.dev/arrival-seconds: "60"}}}}
spec:
  completions: 4
  parallelism: 2
  template: {template(name="work", notes=RUNS, more=", restartPolicy: Never")}
"""
DATABASE = f"""
apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: db}}
spec: {{replicas: 2, serviceName: db, selector: {SELECTOR % "db"}, template: {template(name="db")}}}
"""
AGENT = f"""
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: agent}}
spec: {{selector: {SELECTOR % "agent"}, template: {template(name="agent", cpu="100m")}}}
"""


def test_controllers_make_pods_of_what_arrives() -> None:
    objects = managed("---".join((WEB, JOB, DATABASE, AGENT)))
    outcome = simulate(scene(nodes=3, cpu="8", managed=objects))
    assert outcome.pods == PodCounts(arrived=13, placed=13, finished=4, preempted=0, waiting=0)
    # Two of the job's pods at a time, from its arrival on.
    assert outcome.seconds == pytest.approx(260, abs=3)


def test_a_preempted_pod_is_recreated_only_by_its_controller() -> None:
    outcome = simulate(scene(pod(100, priority=10), nodes=1, cpu="4", managed=managed(WEB)))
    assert outcome.pods == PodCounts(arrived=6, placed=5, finished=0, preempted=1, waiting=1)
    assert outcome.waits_by_priority["0"].still_waiting == 1


def test_a_budget_chooses_the_victims() -> None:
    """Those of the budget are spared for as long as others are there."""
    two = WEB.replace("replicas: 4", "replicas: 2")
    others = two.replace("{name: web}", "{name: web, namespace: elsewhere}")
    budget = f"""
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: web, namespace: %s}}
spec: {{minAvailable: 2, selector: {SELECTOR % "web"}}}
"""
    for spared, victims in (("default", "elsewhere"), ("elsewhere", "default")):
        objects = managed("---".join((two, others, budget % spared)))
        outcome = simulate(scene(pod(100, cpu="2", priority=10), nodes=1, cpu="4", managed=objects))
        assert outcome.pods.preempted == 2
        assert outcome.waits_by_tenant[victims].still_waiting == 2
        assert outcome.waits_by_tenant[spared].still_waiting == 0


def test_a_cron_job_continues_until_the_end_of_the_run() -> None:
    job = template(name="tick", notes='{kuberth.dev/run-seconds: "5"}', more=", restartPolicy: Never")
    cron_job = f"""
apiVersion: batch/v1
kind: CronJob
metadata: {{name: tick}}
spec: {{schedule: "* * * * *", jobTemplate: {{spec: {{template: {job}}}}}}}
"""
    outcome = simulate(scene(managed=managed(cron_job), until=630.0))
    assert outcome.pods.arrived == outcome.pods.finished == 10


def test_without_anything_managed_controllers_are_on_request() -> None:
    outcome = simulate(scene(pod(0, 50), pod(10), controllers=True))
    assert outcome.pods == PodCounts(arrived=2, placed=2, finished=1, preempted=0, waiting=0)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "app: web}}, template",
            "app: other}}, template",
            "Deployment web.*does not match template `labels`",
        ),
        ("replicas: 4", "replicas: -1", "Deployment web.*spec.replicas"),
        ("replicas: 4", "replicas: many", "Deployment web.*replicas"),
    ],
)
def test_manifests_that_the_server_would_refuse_are_reported_first(old: str, new: str, expected: str) -> None:
    assert old in WEB
    with pytest.raises(ConfigError, match=expected):
        simulate(scene(managed=managed(WEB.replace(old, new))))
