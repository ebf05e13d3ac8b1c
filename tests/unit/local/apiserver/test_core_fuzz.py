"""Whatever is sent: an answer or a Status below 500, and what is stored stays readable."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kuberth.clock import SystemClock
from kuberth.local.apiserver.patching.patching import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
)
from kuberth.local.apiserver.printing.forms import to_table
from kuberth.local.apiserver.schema.catalogue import ROWS
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.apiserver.store.store import RevisionStore
from kuberth.local.apiserver.verbs.bodies import FieldValidation
from kuberth.local.apiserver.verbs.core import Core
from tests.unit.local.apiserver.odd_objects import JSON, typed

RELAXED = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
IDS = [row.id for row in ROWS]
PATCH_TYPES = [JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH, "application/json"]


async def answered(attempt: Any) -> Any:
    """The answer, or None if the request was refused with a Status below 500."""
    try:
        return await attempt
    except StatusError as error:
        refusal = error
    assert 400 <= refusal.code < 500, refusal
    assert msgspec.json.encode(refusal.to_object())
    return None


class Server:
    """One core for many examples, on a loop of its own."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.store = self.runner.run(RevisionStore.open(None, keep_changes=500))
        self.core = Core(self.store, clock=SystemClock())
        self.runner.run(self._fill())

    async def _fill(self) -> None:
        spec = {"containers": [{"name": "c", "image": "i"}]}
        self.bodies: dict[str, Any] = {"pods": {"metadata": {"name": "a"}, "spec": spec}}
        labels = {"app": "a"}
        template = {"metadata": {"labels": labels}, "spec": spec}
        owner = {"selector": {"matchLabels": labels}, "template": template}
        self.bodies["deployments.apps"] = {"metadata": {"name": "a"}, "spec": owner}
        self.bodies["nodes"] = {"metadata": {"name": "a"}}
        self.bodies["configmaps"] = {"metadata": {"name": "a"}, "data": {"x": "y"}}
        never = {**spec, "restartPolicy": "Never"}
        self.bodies["jobs.batch"] = {"metadata": {"name": "a"}, "spec": {"template": {"spec": never}}}
        await self.restore()

    async def restore(self) -> None:
        for resource, body in self.bodies.items():
            if self.store.latest(resource, "a" if resource == "nodes" else "default/a") is None:
                await self.core.create(resource, body, namespace="" if resource == "nodes" else "default")

    async def readable(self) -> None:
        """Everything that was accepted can be listed, printed, encoded and watched."""
        for row in self.core.resources:
            listed = await self.core.list(row)
            table = to_table(row, listed["items"], listed["metadata"], now=SystemClock().now_ns())
            msgspec.json.encode([listed, table])
        rest = [obj for row in self.core.resources for obj in self.store.list(row.stored_as)]
        assert all(obj["metadata"]["uid"] for obj in rest)

    def close(self) -> None:
        self.runner.run(self.store.close())
        self.runner.close()


@pytest.fixture(scope="module")
def server() -> Any:
    server = Server()
    yield server
    server.close()


@RELAXED
@given(data=st.data())
def test_bodies(server: Server, data: st.DataObject) -> None:
    resource = data.draw(st.sampled_from(IDS))
    row = server.core.resources.by_id(resource)
    assert row is not None
    body = data.draw(typed(row.schema))
    if isinstance(body, dict) and data.draw(st.integers(0, 9)):
        body.pop("apiVersion", None)
        body.pop("kind", None)
        if isinstance(body.get("metadata", {}), dict):
            body.setdefault("metadata", {}).update(name=data.draw(st.sampled_from("abc")), namespace="")
            body["metadata"].pop("resourceVersion", None)
    namespace = data.draw(st.sampled_from(["default", "", "nowhere", "a/b"])) if row.namespaced else ""

    async def main() -> None:
        core = server.core
        await answered(core.create(row, body, namespace=namespace))
        await answered(core.update(row, "a", body, namespace=namespace))
        for subresource in row.subresources:
            await answered(core.update(row, "a", body, namespace=namespace, subresource=subresource))
            await answered(core.create(row, body, namespace=namespace, name="a", subresource=subresource))
        await answered(
            core.delete(row, "b", namespace=namespace, options=body if isinstance(body, dict) else {})
        )
        checks = FieldValidation("Strict")
        await answered(core.create(row, body, namespace=namespace, field_validation=checks, dry_run=True))
        await server.restore()

    server.runner.run(main())


@RELAXED
@given(data=st.data())
def test_patches(server: Server, data: st.DataObject) -> None:
    resource = data.draw(st.sampled_from(sorted(server.bodies)))
    row = server.core.resources.by_id(resource)
    assert row is not None
    kind = data.draw(st.sampled_from(PATCH_TYPES))
    patch: Any
    if kind == JSON_PATCH and data.draw(st.integers(0, 9)):
        pointers = st.sampled_from(
            [
                "",
                "/",
                "/metadata",
                "/metadata/labels",
                "/metadata/labels/x",
                "/spec",
                "/spec/containers/0",
                "/spec/containers/-",
                "/spec/containers/9",
                "/status",
                "/metadata/name",
                "nope",
                "/a~1b/~0",
            ]
        )
        operation = st.fixed_dictionaries(
            {
                "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "x"]),
                "path": pointers,
            },
            optional={"value": JSON, "from": pointers},
        )
        patch = data.draw(st.lists(operation, max_size=4))
    else:
        patch = data.draw(typed(row.schema))
        if isinstance(patch, dict) and data.draw(st.booleans()):
            directive = data.draw(
                st.sampled_from(
                    [
                        "$patch",
                        "$retainKeys",
                        "$deleteFromPrimitiveList/finalizers",
                        "$setElementOrder/containers",
                    ]
                )
            )
            where = data.draw(st.sampled_from(["", "metadata", "spec"]))
            target = patch.get(where) if where else patch
            if isinstance(target, dict):
                target[directive] = data.draw(
                    st.sampled_from(["replace", "delete", "merge", ["a"], [{"name": "c"}], 1])
                )
    subresource = data.draw(st.sampled_from(["", *row.subresources]))

    async def main() -> None:
        await answered(
            server.core.patch(
                row,
                "a",
                patch,
                content_type=kind,
                namespace="default" if row.namespaced else "",
                subresource=subresource,
                field_manager=data.draw(st.sampled_from(["", "me", "you"])),
                force=data.draw(st.booleans()),
            )
        )
        await server.restore()

    server.runner.run(main())


@RELAXED
@given(
    resource=st.sampled_from(IDS),
    namespace=st.text(max_size=10),
    name=st.text(max_size=10),
    label_selector=st.one_of(st.text(max_size=20), st.sampled_from(["a in (b", "!a", "a>1", "a=b,c!=d"])),
    field_selector=st.one_of(st.text(max_size=20), st.sampled_from(["metadata.name=a", "a=b", "=", "\\"])),
    version=st.one_of(st.text(max_size=8), st.sampled_from(["0", "1", "9" * 30, "-1", "١"])),
    match=st.sampled_from(["", "Exact", "NotOlderThan", "x"]),
    token=st.text(max_size=30),
    limit=st.integers(-5, 10**12),
)
def test_queries(server: Server, **query: Any) -> None:
    resource, namespace, name = query["resource"], query["namespace"], query["name"]

    async def main() -> None:
        core = server.core
        selectors = {key: query[key] for key in ("label_selector", "field_selector")}
        await answered(core.get(resource, name, namespace=namespace))
        await answered(
            core.list(
                resource,
                namespace=namespace,
                limit=query["limit"],
                continue_token=query["token"],
                resource_version=query["version"],
                resource_version_match=query["match"],
                **selectors,
            )
        )
        await answered(core.list(resource, resource_version=query["version"], **selectors))

        async def watch() -> None:
            events = core.watch(
                resource,
                namespace=namespace,
                name=name,
                resource_version=query["version"],
                send_initial_events=bool(query["limit"] % 2),
                timeout_seconds=0,
                allow_bookmarks=True,
                **selectors,
            )
            assert all([msgspec.json.encode(event) async for event in events])

        await answered(watch())

    server.runner.run(main())


@RELAXED
@given(options=JSON, name=st.sampled_from(["gracePeriodSeconds", "preconditions", "propagationPolicy", "x"]))
def test_delete_options(server: Server, options: Any, name: str) -> None:
    async def main() -> None:
        for asked in ({name: options}, options if isinstance(options, dict) else {}):
            await answered(server.core.delete("pods", "a", namespace="default", options=asked))
            await answered(server.core.delete("nodes", "a", options=asked))
            await answered(
                server.core.delete_collection(
                    "pods", namespace="default", field_selector="metadata.name=a", options=asked
                )
            )
            await answered(
                server.core.create(
                    "pods",
                    {"metadata": {"name": "a"}, "deleteOptions": asked},
                    namespace="default",
                    name="a",
                    subresource="eviction",
                )
            )
            for resource in ("pods", "nodes"):
                namespace = "default" if resource == "pods" else ""
                await answered(
                    server.core.patch(
                        resource,
                        "a",
                        {"metadata": {"finalizers": None}},
                        content_type=MERGE_PATCH,
                        namespace=namespace,
                    )
                )
        await answered(
            server.core.delete("pods", "a", namespace="default", options={"gracePeriodSeconds": 0})
        )
        await server.restore()

    server.runner.run(main())


@RELAXED
@given(spec=typed("apiextensions.v1.CustomResourceDefinitionSpec"), body=JSON, size=st.integers(0, 3))
def test_custom_kinds(server: Server, spec: Any, body: Any, size: int) -> None:
    if isinstance(spec, dict):
        spec |= {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
        }
        if size:
            open_schema = {"openAPIV3Schema": {"type": "object", "x": body}}
            version = {"name": "v1", "served": True, "storage": True, "schema": open_schema}
            spec["versions"] = [version]
            if size > 1:
                version["additionalPrinterColumns"] = [
                    {"name": "X", "type": kind, "jsonPath": path}
                    for kind in ("string", "integer", "date")
                    for path in (".spec", ".spec.a", ".spec[0]", ".metadata.name", "x[", ".a[?(@.b=='c')].d")
                ]
            if size > 2:
                scale = {"specReplicasPath": ".spec.a", "statusReplicasPath": ".status.b"}
                version["subresources"] = {"status": {}, "scale": scale}
    crds = "customresourcedefinitions.apiextensions.k8s.io"

    async def main() -> None:
        core = server.core
        made = await answered(core.create(crds, {"metadata": {"name": "widgets.example.com"}, "spec": spec}))
        if made is None:
            return
        objects = [{"metadata": {"name": "w"}, "spec": body}, body]
        if isinstance(body, dict):
            objects.append({**body, "metadata": {"name": "x"}})
        for obj in objects:
            await answered(core.create("widgets.example.com", obj, namespace="default"))
            await answered(core.update("widgets.example.com", "w", obj, namespace="default"))
            await answered(
                core.update("widgets.example.com", "w", obj, namespace="default", subresource="status")
            )
            await answered(core.get("widgets.example.com", "w", namespace="default", subresource="scale"))
            await answered(
                core.patch(
                    "widgets.example.com",
                    "w",
                    obj,
                    content_type=APPLY_PATCH,
                    namespace="default",
                    field_manager="me",
                )
            )
        await server.readable()
        await core.delete(crds, "widgets.example.com")

    server.runner.run(main())


def test_what_was_accepted_is_readable(server: Server) -> None:
    server.runner.run(server.readable())


def test_deep_and_wide_bodies_are_bounded(server: Server) -> None:
    deep: Any = {}
    for _ in range(600):
        deep = {"a": [deep]}
    names = [{"name": f"c{index}", "image": "i"} for index in range(20_000)]
    random.Random(1).shuffle(names)
    wide = {"spec": {"containers": names, "$setElementOrder/containers": names}}
    operations = [{"op": "add", "path": "/metadata/labels", "value": {}}] * 10_001

    async def main() -> None:
        core = server.core
        for body in (deep, {"metadata": {"name": "a"}, "spec": deep}, {"metadata": deep}):
            assert await answered(core.create("pods", body, namespace="default")) is None
        for kind, patch in (
            (STRATEGIC_MERGE_PATCH, wide),
            (MERGE_PATCH, wide),
            (APPLY_PATCH, wide),
            (STRATEGIC_MERGE_PATCH, deep),
            (MERGE_PATCH, deep),
            (JSON_PATCH, operations),
            (JSON_PATCH, [{"op": "add", "path": "/metadata/annotations", "value": deep}]),
        ):
            async with asyncio.timeout(20):
                await answered(
                    core.patch("pods", "a", patch, content_type=kind, namespace="default", field_manager="m")
                )
        assert len(json.dumps(await core.get("pods", "a", namespace="default"))) < 100_000

    server.runner.run(main())
