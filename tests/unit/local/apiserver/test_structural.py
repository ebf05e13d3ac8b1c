"""Custom kinds with a schema: what is pruned, filled in and refused; and how a definition goes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.patching.field_sets import field_set, type_problems
from kuberth.local.apiserver.schema.fields import Field
from kuberth.local.apiserver.schema.structural import StructuralSchema, schema_causes, structure_of
from kuberth.local.apiserver.verbs.bodies import FieldValidation
from tests.unit.local.apiserver.harness import CoreHarness, refused, run

CRDS = "customresourcedefinitions.apiextensions.k8s.io"
CRONTABS = "crontabs.stable.example.com"
MERGE = "application/merge-patch+json"
SPEC = {
    "type": "object",
    "required": ["cronSpec"],
    "properties": {
        "cronSpec": {"type": "string", "pattern": r"^(\d+|\*)(/\d+)?(\s+(\d+|\*)(/\d+)?){4}$"},
        "image": {"type": "string", "default": "busybox", "minLength": 2, "maxLength": 10},
        "replicas": {"type": "integer", "minimum": 1, "maximum": 10, "default": 1},
        "policy": {"type": "string", "enum": ["Allow", "Forbid"]},
        "ports": {
            "type": "array",
            "maxItems": 2,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "port": {"x-kubernetes-int-or-string": True}},
            },
        },
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "nothing": {"type": "string", "nullable": True},
        "when": {"type": "string", "format": "date-time"},
        "either": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
    },
}
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": SPEC,
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
    },
}


def definition(schema: Any = SCHEMA, **version: Any) -> Obj:
    return {
        "metadata": {"name": CRONTABS},
        "spec": {
            "group": "stable.example.com",
            "scope": "Namespaced",
            "names": {"plural": "crontabs", "kind": "CronTab"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                    **version,
                }
            ],
        },
    }


def crontab(**spec: Any) -> Obj:
    return {"metadata": {"name": "x"}, "spec": {"cronSpec": "* * * * */5", **spec}}


def test_pruned_and_filled_in() -> None:
    async def test(harness: CoreHarness) -> None:
        await harness.core.create(CRDS, definition())
        body = {
            **crontab(
                extra=1,
                labels={"a": "b"},
                free={"a": {"b": 1}},
                nothing=None,
                image=None,
                ports=[{"name": "a", "port": "http", "x": 1}],
            ),
            "status": {"replicas": 9},
            "other": True,
        }
        made = await harness.core.create(CRONTABS, body, namespace="default")
        assert made["spec"] == {
            "cronSpec": "* * * * */5",
            "labels": {"a": "b"},
            "free": {"a": {"b": 1}},
            "nothing": None,
            "image": "busybox",
            "replicas": 1,
            "ports": [{"name": "a", "port": "http"}],
        }
        assert "other" not in made
        assert "status" not in made
        error = await refused(
            harness.core.create(
                CRONTABS, body, namespace="default", field_validation=FieldValidation("Strict")
            ),
            400,
        )
        for path in ("spec.extra", "spec.ports[0].x", "other"):
            assert f'unknown field "{path}"' in str(error)
        comparable, _ = await harness.core.patch(
            CRONTABS,
            "x",
            {"status": {"replicas": 3, "more": 1}, "spec": {"replicas": 5}},
            content_type=MERGE,
            namespace="default",
            subresource="status",
        )
        assert (comparable["status"], comparable["spec"]["replicas"]) == ({"replicas": 3}, 1)
        attempt = harness.core.patch(
            CRONTABS,
            "x",
            {"status": {"replicas": "many"}},
            content_type=MERGE,
            namespace="default",
            subresource="status",
        )
        assert "status.replicas in body must be of type integer" in str(await refused(attempt, 422))

    run(test)


@pytest.mark.parametrize(
    "spec, words",
    [
        ({"cronSpec": "x"}, "spec.cronSpec in body should match '^("),
        (
            {"replicas": "two"},
            'spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string"',
        ),
        (
            {"replicas": 11},
            "spec.replicas: Invalid value: 11: spec.replicas in body should be less than or equal to 10",
        ),
        ({"replicas": 0}, "spec.replicas in body should be greater than or equal to 1"),
        ({"replicas": 1.5}, 'must be of type integer: "number"'),
        ({"policy": "Maybe"}, 'spec.policy: Unsupported value: "Maybe": supported values: "Allow", "Forbid"'),
        ({"image": "a"}, "spec.image in body should be at least 2 chars long"),
        ({"image": "a" * 11}, "spec.image: Too long: may not be more than 10 bytes"),
        ({"policy": None}, 'must be of type string: "null"'),
        ({"ports": [{"name": "a"}, {"name": "a"}]}, 'spec.ports[1]: Duplicate value: {"name":"a"}'),
        ({"ports": [{}, {}, {}]}, "spec.ports: Too many: 3: must have at most 2 items"),
        ({"ports": [{"port": True}]}, "spec.ports[0].port in body must be of type integer,string"),
        ({"labels": {"a": 1}}, 'spec.labels.a in body must be of type string: "integer"'),
        ({"when": "soon"}, 'spec.when in body must be of type date-time: "soon"'),
        ({"either": {}}, "must validate one and only one schema (oneOf). Found none valid"),
        ({"either": {"a": 1, "b": 1}}, "Found 2 valid alternatives"),
    ],
)
def test_refused(spec: Obj, words: str) -> None:
    async def test(harness: CoreHarness) -> None:
        await harness.core.create(CRDS, definition())
        error = await refused(harness.core.create(CRONTABS, crontab(**spec), namespace="default"), 422)
        assert str(error).startswith('CronTab.stable.example.com "x" is invalid: ')
        assert words in str(error)
        await refused(
            harness.core.create(CRONTABS, {"metadata": {"name": "x"}, "spec": {}}, namespace="default"), 422
        )
        await harness.core.create(CRONTABS, crontab(), namespace="default")
        if None not in spec.values():  # in a merge patch, null takes a field away
            update = harness.core.patch(
                CRONTABS, "x", {"spec": spec}, content_type=MERGE, namespace="default"
            )
            assert words in str(await refused(update, 422))

    run(test)


@pytest.mark.parametrize(
    "schema, words",
    [
        ({}, "openAPIV3Schema.type: Required value: must not be empty at the root"),
        ({"type": "string"}, "must be object at the root"),
        (
            {"type": "object", "properties": {"spec": {}}},
            "properties[spec].type: Required value: must not be empty for specified object fields",
        ),
        (
            {"type": "object", "properties": {"a": {"type": "array", "items": {}}}},
            "must not be empty for specified array items",
        ),
        ({"type": "object", "properties": {"a": {"type": "thing"}}}, 'Unsupported value: "thing"'),
        ({"type": "object", "properties": []}, "must be an object"),
        ({"type": "object", "required": "a"}, "must be a list of strings"),
        ({"type": "object", "$ref": "x"}, "$ref is not supported"),
        (
            {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True},
            "additionalProperties and properties are mutual exclusive",
        ),
        ([], "must be an object"),
    ],
)
def test_schemas_that_are_none(schema: Any, words: str) -> None:
    async def test(harness: CoreHarness) -> None:
        assert words in str(await refused(harness.core.create(CRDS, definition(schema)), 422))

    run(test)


def test_finalizers_of_objects_hold_the_definition() -> None:
    async def test(harness: CoreHarness) -> None:
        await harness.core.create(CRDS, definition())
        held = crontab()
        held["metadata"] |= {"name": "held", "finalizers": ["wait-for-me"]}
        await harness.core.create(CRONTABS, held, namespace="default")
        await harness.core.create(CRONTABS, crontab(), namespace="default")
        answer = await harness.core.delete(CRDS, CRONTABS)
        assert answer["metadata"]["deletionTimestamp"]
        left = (await harness.core.list(CRONTABS))["items"]
        assert [each["metadata"]["name"] for each in left] == ["held"]
        assert left[0]["metadata"]["deletionTimestamp"]
        error = await refused(harness.core.create(CRONTABS, crontab(), namespace="default"), 405)
        assert str(error) == "create not allowed while custom resource definition is terminating"
        await harness.core.patch(
            CRONTABS, "held", {"metadata": {"finalizers": None}}, content_type=MERGE, namespace="default"
        )
        await refused(harness.core.get(CRDS, CRONTABS), 404)
        await refused(harness.core.list(CRONTABS), 404)
        await harness.core.create(CRDS, definition())
        assert (await harness.core.list(CRONTABS))["items"] == []

    run(test)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 20) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)
WORDS = st.sampled_from(
    ["type", "properties", "items", "required", "enum", "minimum", "pattern", "oneOf", "not", "default", "a"]
)
ANY_SCHEMA = st.recursive(
    JSON | st.sampled_from(["object", "string", "integer", "array"]),
    lambda inner: st.dictionaries(WORDS, inner, max_size=4) | st.lists(inner, max_size=2),
    max_leaves=12,
)


def test_no_pattern_keeps_the_server_busy() -> None:
    """Python's `re` would try for years."""
    text = {"type": "string", "pattern": "^(a+)+$"}
    schema = StructuralSchema.of({"type": "object", "properties": {"text": text}}, is_resource=True)
    [cause] = schema.causes({"text": "a" * 40 + "b"})
    assert "should match '^(a+)+$'" in cause.message
    assert schema.causes({"text": "a" * 40}) == []


def test_a_pattern_that_is_none_is_refused_with_its_definition() -> None:
    text = {"type": "string", "pattern": "a(?=b)"}
    [cause] = schema_causes({"type": "object", "properties": {"text": text}}, "spec")
    assert cause.field == "spec.properties[text].pattern"
    assert "must be a valid regular expression, but isn't: error parsing regexp" in cause.message


@given(schema=ANY_SCHEMA, tree=st.dictionaries(st.sampled_from(["a", "b", "spec"]), JSON, max_size=3))
def test_a_schema_that_is_taken_judges_everything(schema: Any, tree: Obj) -> None:
    wrong = list(schema_causes(schema, "s"))
    structure = structure_of(schema)
    assert (structure is None) is bool(wrong)
    if structure is not None:
        structure.prune(tree)
        structure.default(tree)
        structure.causes(tree)


@given(JSON)
def test_pruning_twice_is_pruning_once(spec: Any) -> None:
    tree = {"spec": spec}
    structure = StructuralSchema.of(SCHEMA, is_resource=True)
    structure.prune(tree)
    structure.default(tree)
    before = repr(tree)
    assert structure.prune(tree) == []
    structure.default(tree)
    assert repr(tree) == before


def test_what_is_stored_is_served_by_the_present_schema() -> None:
    async def test(harness: CoreHarness) -> None:
        def schema(**properties: Any) -> Obj:
            return {
                "type": "object",
                "properties": {name: {"type": "string", **more} for name, more in properties.items()},
            }

        await harness.core.create(CRDS, definition(schema(a={}, b={}, c={})))
        await harness.core.create(CRONTABS, {"metadata": {"name": "x"}, "c": "stored"}, namespace="default")
        patch = [
            {
                "op": "replace",
                "path": "/spec/versions/0/schema/openAPIV3Schema",
                "value": schema(a={"default": "A"}, b={}),
            }
        ]
        await harness.core.patch(CRDS, CRONTABS, patch, content_type="application/json-patch+json")

        def comparable(obj: Obj) -> dict[str, Any]:
            return {name: obj[name] for name in ("a", "b", "c") if name in obj}

        assert comparable(await harness.core.get(CRONTABS, "x", namespace="default")) == {"a": "A"}
        (listed,) = (await harness.core.list(CRONTABS))["items"]
        assert comparable(listed) == {"a": "A"}
        changed, _ = await harness.core.patch(
            CRONTABS, "x", {"b": "B"}, content_type=MERGE, namespace="default"
        )
        assert comparable(changed) == {"a": "A", "b": "B"}

    run(test)


SHELVES = {
    "type": "object",
    "properties": {
        "shelves": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["at", "side"],
            "items": {
                "type": "object",
                "properties": {
                    "at": {"type": "integer"},
                    "side": {"type": "string", "default": "left"},
                    "what": {"type": "string"},
                },
            },
        },
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "size": {
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "properties": {"x": {"type": "integer"}},
        },
        "notes": {"type": "object", "additionalProperties": {"type": "object"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}


def shelves_root() -> Field:
    structure = structure_of(SHELVES)
    assert structure is not None
    return structure


def test_fields_are_owned_as_the_schema_says() -> None:
    tree = {
        "metadata": {"labels": {"a": "b"}},
        "shelves": [{"at": 1, "what": "tea"}],
        "tags": ["x"],
        "size": {"x": 1},
        "notes": {"n": {}},
        "free": {"deep": {"er": [1]}, "flat": 1},
    }
    assert field_set(tree, shelves_root()) == {
        "f:metadata": {"f:labels": {"f:a": {}}},
        "f:shelves": {'k:{"at":1,"side":"left"}': {".": {}, "f:at": {}, "f:what": {}}},
        "f:tags": {'v:"x"': {}},
        "f:size": {},
        "f:notes": {"f:n": {}},
        "f:free": {"f:deep": {".": {}, "f:er": {}}, "f:flat": {}},
    }


@pytest.mark.parametrize(
    ("tree", "problems"),
    [
        ({"kind": "Shelf", "apiVersion": "v1", "notes": {"any": {}}, "free": {"any": 1}}, []),
        ({"color": "red"}, [".color: field not declared in schema"]),
        (
            {"shelves": [{"at": 1, "depth": 2}]},
            ['.shelves[at=1,side="left"].depth: field not declared in schema'],
        ),
        ({"size": {"y": 1}}, [".size.y: field not declared in schema"]),
        (
            {"shelves": [{"at": 1}, {"at": 1, "side": "left"}]},
            ['.shelves: duplicate entries for key [at=1,side="left"]'],
        ),
    ],
)
def test_what_cannot_be_applied(tree: Obj, problems: list[str]) -> None:
    assert list(type_problems(tree, shelves_root())) == problems
