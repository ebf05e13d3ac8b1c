"""Whatever the server accepts, no controller fails on: random specs and statuses, on virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kuberth.local.apiserver.objects import Obj
from tests.unit.local.apiserver.test_core_fuzz import answered, typed
from tests.unit.local.hollow.harness import MERGE, World, playing, template, virtual

LABELS = {"matchLabels": {"app": "web"}}
TEMPLATE = template("web")
JOB = {"spec": {"template": template("web", restartPolicy="Never")}}
# Resource, type of the spec, and a spec that is taken as it is.
KINDS: dict[str, tuple[str, Obj]] = {
    "daemonsets.apps": ("apps.v1.DaemonSetSpec", {"selector": LABELS, "template": TEMPLATE}),
    "cronjobs.batch": ("batch.v1.CronJobSpec", {"schedule": "* * * * *", "jobTemplate": JOB}),
    "replicationcontrollers": (
        "core.v1.ReplicationControllerSpec",
        {"selector": {"app": "web"}, "template": TEMPLATE},
    ),
    "services": ("core.v1.ServiceSpec", {"selector": {"app": "web"}, "ports": [{"port": 80}]}),
    "resourcequotas": ("core.v1.ResourceQuotaSpec", {"hard": {"pods": "100", "requests.cpu": "5"}}),
    "limitranges": ("core.v1.LimitRangeSpec", {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}),
    "endpointslices.discovery.k8s.io": ("", {}),
}
STATUSES = {
    "pods": "core.v1.PodStatus",
    "daemonsets.apps": "apps.v1.DaemonSetStatus",
    "cronjobs.batch": "batch.v1.CronJobStatus",
    "resourcequotas": "core.v1.ResourceQuotaStatus",
}


@st.composite
def bodies(draw: st.DrawFn) -> tuple[str, Obj]:
    resource = draw(st.sampled_from(sorted(KINDS)))
    type_name, base = KINDS[resource]
    metadata = {"name": draw(st.sampled_from("abc"))}
    if not type_name:
        labels = {"kubernetes.io/service-name": draw(st.sampled_from("abc"))}
        return resource, {"metadata": {**metadata, "labels": labels}, "addressType": "IPv4"}
    drawn = draw(typed(type_name))
    spec = (
        {name: value for name, value in drawn.items() if name not in base} if isinstance(drawn, dict) else {}
    )
    return resource, {"metadata": metadata, "spec": {**base, **spec}}


async def write_status(world: World, resource: str, status: Any) -> None:
    for obj in (await world.core.list(resource, namespace="default"))["items"][:2]:
        await answered(
            world.core.patch(
                resource,
                obj["metadata"]["name"],
                {"status": status},
                content_type=MERGE,
                namespace="default",
                subresource="status",
            )
        )


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    made=st.lists(bodies(), max_size=6),
    written=st.lists(
        st.sampled_from(sorted(STATUSES)).flatmap(
            lambda resource: typed(STATUSES[resource]).map(lambda status: (resource, status))
        ),
        max_size=4,
    ),
)
def test_what_is_accepted_harms_nobody(made: list[tuple[str, Obj]], written: list[tuple[str, Any]]) -> None:
    async def main() -> None:
        async with playing(nodes=2) as world:
            for resource, body in made:
                await answered(world.core.create(resource, body, namespace="default"))
            await asyncio.sleep(65)
            for resource, status in written:
                await write_status(world, resource, status)
            await asyncio.sleep(65)

    virtual(main)
