from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kuberth.local.apiserver.http.discovery import Discovery
from kuberth.local.apiserver.http.openapi import (
    V2_DOCUMENT_PROTOBUF,
    OpenApi,
    field_description,
    type_description,
)
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.resources import ResourceTable, ServedResource
from kuberth.local.apiserver.schema.catalogue import ROWS
from kuberth.local.apiserver.schema.fields import fields_of, read_table
from kuberth.local.apiserver.status_errors import StatusError

THING = ServedResource("example.org", "v1", "Thing", "things", custom=True)


def openapi(*rows: ServedResource, schema: Obj | None = None) -> OpenApi:
    return OpenApi(Discovery(ResourceTable(rows or ROWS)), custom_schema=lambda _row: schema)


def document(path: str, *rows: ServedResource, schema: Obj | None = None) -> Any:
    return json.loads(openapi(*rows, schema=schema).document(path))


def references(tree: Any) -> Iterator[str]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key == "$ref":
                yield value
            else:
                yield from references(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from references(value)


def test_every_document_of_the_index_is_whole() -> None:
    api = openapi()
    paths = api.index()["paths"]
    assert {
        "api/v1",
        "apis/apps/v1",
        "apis/resource.k8s.io/v1",
        "apis/authorization.k8s.io/v1",
    } <= paths.keys()
    for path, entry in paths.items():
        assert entry["serverRelativeURL"].startswith(f"/openapi/v3/{path}?hash=")
        tree = json.loads(api.document(path))
        schemas = tree["components"]["schemas"]
        missing = {name for name in references(tree) if name.rpartition("/")[2] not in schemas}
        assert not missing


def test_what_kubectl_looks_for_before_it_leaves_validation_to_the_server() -> None:
    operation = document("api/v1")["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert operation["x-kubernetes-group-version-kind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert "fieldValidation" in {parameter["name"] for parameter in operation["parameters"]}
    # Without it, kubectl makes its strategic merge patches from the Go types.
    assert "application/strategic-merge-patch+json" not in operation["requestBody"]["content"]


def test_a_kind_can_be_followed_down_to_its_leaves() -> None:
    schemas = document("api/v1")["components"]["schemas"]
    pod = schemas["io.k8s.api.core.v1.Pod"]
    assert pod["x-kubernetes-group-version-kind"] == [{"group": "", "version": "v1", "kind": "Pod"}]
    spec = schemas["io.k8s.api.core.v1.PodSpec"]
    assert spec["required"] == ["containers"]
    containers = spec["properties"]["containers"]
    assert containers["type"] == "array"
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
    priority = spec["properties"]["priority"]
    assert (priority["type"], priority["format"]) == ("integer", "int32")
    assert spec["properties"]["nodeSelector"]["additionalProperties"] == {"type": "string"}


@pytest.mark.parametrize("schema", [None, {"properties": {"spec": {"type": "object"}}}, {"properties": 1}])
def test_custom_kinds(schema: Obj | None) -> None:
    schemas = document("apis/example.org/v1", THING, schema=schema)["components"]["schemas"]
    thing = schemas["org.example.v1.Thing"]
    assert thing["x-kubernetes-group-version-kind"] == [
        {"group": "example.org", "version": "v1", "kind": "Thing"}
    ]
    assert {"apiVersion", "kind", "metadata"} <= thing["properties"].keys()
    assert ("x-kubernetes-preserve-unknown-fields" in thing) == (schema is None)


def definitions(*rows: ServedResource, schema: Obj | None = None) -> Any:
    return json.loads(openapi(*rows, schema=schema).document_v2())["definitions"]


def test_version_2_has_all_definitions_and_nothing_that_it_does_not_know() -> None:
    found = definitions()
    assert {name.rpartition("/")[0] for name in references(found)} == {"#/definitions"}
    assert {name.rpartition("/")[2] for name in references(found)} <= found.keys()
    assert found["io.k8s.api.core.v1.Pod"]["properties"]["spec"] == {
        "$ref": "#/definitions/io.k8s.api.core.v1.PodSpec"
    }
    port = found["io.k8s.api.core.v1.HTTPGetAction"]["properties"]["port"]
    assert port == {"type": "string", "format": "int-or-string"}
    limits = found["io.k8s.api.core.v1.ResourceRequirements"]["properties"]["limits"]
    assert (limits["type"], limits["additionalProperties"]) == ("object", {"type": "string"})
    assert not {key for key in keys(found) if key in ("oneOf", "anyOf", "not", "nullable")}


def keys(tree: Any) -> Iterator[str]:
    """Of schemas, not of the names of fields."""
    for key, value in tree.items() if isinstance(tree, dict) else ():
        yield key
        inner = value.values() if key == "properties" else [value]
        for each in inner:
            yield from keys(each)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string", "pattern": "a|b", "anyOf": [{}]}, {"type": "string", "pattern": "a|b"}),
        ({"type": "object", "nullable": True, "properties": {"a": {}}}, {}),
        (
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": {}}},
            {"x-kubernetes-preserve-unknown-fields": True},
        ),
        ({"type": "array"}, {}),
        (
            {"type": "array", "items": {"type": "string", "nullable": True}},
            {"type": "array", "items": {}},
        ),
        (
            {
                "type": "object",
                "required": ["a", "b"],
                "properties": {"a": {"type": "string"}, "b": {"type": "string", "nullable": True}},
            },
            {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}, "b": {}}},
        ),
        ({"type": "object", "additionalProperties": True}, {"type": "object", "additionalProperties": True}),
    ],
)
def test_custom_kinds_in_version_2(schema: Obj, expected: Obj) -> None:
    found = definitions(THING, schema={"description": "A thing.", "properties": {"spec": schema}})
    thing = found["org.example.v1.Thing"]
    assert thing["description"] == "A thing."
    assert thing["properties"]["spec"] == expected


@pytest.mark.parametrize(
    "schema", [None, {"x-kubernetes-preserve-unknown-fields": True, "properties": {"a": {"type": "string"}}}]
)
def test_version_2_leaves_the_schema_of_a_free_form_kind_out(schema: Obj | None) -> None:
    assert definitions(THING, schema=schema)["org.example.v1.Thing"] == {
        "type": "object",
        "x-kubernetes-group-version-kind": [{"group": "example.org", "version": "v1", "kind": "Thing"}],
    }


def test_documents_follow_the_table() -> None:
    resources = ResourceTable([THING])
    api = OpenApi(Discovery(resources))
    before, before_v2 = api.index(), api.document_v2()
    assert api.document_v2() is before_v2
    assert api.document("apis/example.org/v1") is api.document("apis/example.org/v1")
    resources.add(ServedResource("example.org", "v1", "Other", "others", custom=True))
    assert api.index() != before
    assert b"org.example.v1.Other" in api.document_v2()
    with pytest.raises(StatusError):
        api.document("apis/example.org/v2")


def test_the_protobuf_document_is_what_it_says() -> None:
    """Read by hand: field number and length before each part."""
    data = V2_DOCUMENT_PROTOBUF
    fields: dict[int, bytes] = {}
    while data:
        key, size = data[0], data[1]
        assert key & 7 == 2
        fields[key >> 3], data = data[2 : 2 + size], data[2 + size :]
    assert fields == {1: b"2.0", 2: b"\n\x07Kuberth\x12\x07v1.36.4", 8: b""}


def types_below(*roots: str) -> dict[str, set[str]]:
    """The types of the fields of these types, and of theirs, with the names of their fields."""
    found: dict[str, set[str]] = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        fields = fields_of(name)
        if fields and name not in found:
            found[name] = set(fields)
            waiting += (field.type.replace("[]", "").replace("{}", "") for field in fields.values())
    return found


def test_every_field_of_pods_and_nodes_is_described() -> None:
    types = types_below("core.v1.Pod", "core.v1.Node")
    missing = [name for name in types if not type_description(name)]
    missing += [
        f"{name}.{field}"
        for name, fields in types.items()
        for field in sorted(fields)
        if not field_description(name, field)
    ]
    assert missing == []


def test_descriptions_are_of_fields_that_exist() -> None:
    types = types_below("core.v1.Pod", "core.v1.Node")
    table = read_table("descriptions.yaml")
    described = {name: set(texts) - {"type", "type_", "like"} for name, texts in table.items()}
    described["any"] -= {field for fields in types.values() for field in fields}
    assert {name: fields - types.get(name, set()) for name, fields in described.items()} == {
        name: set() for name in described
    }


def test_documents_have_the_descriptions() -> None:
    schemas = document("api/v1")["components"]["schemas"]
    spec = schemas["io.k8s.api.core.v1.PodSpec"]
    assert spec["description"] == "What a pod runs, and on which nodes it may run."
    assert spec["properties"]["nodeName"]["description"].startswith("Node that runs the pod.")
    affinity = spec["properties"]["affinity"]
    assert affinity["allOf"]
    assert affinity["description"]
    assert schemas["io.k8s.api.core.v1.Node"]["properties"]["metadata"]["description"]
