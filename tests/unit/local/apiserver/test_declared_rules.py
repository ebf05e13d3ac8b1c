"""Rules that are data: they can be read, and say what they are meant to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kuberth.cel.validation_rules import compile_rule
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.rules.declared_rules import DeclaredRules, check_named, declared_rules
from kuberth.local.apiserver.schema.catalogue import GATED_ROWS, ROWS

KEYWORDS = {
    "properties",
    "items",
    "default",
    "defaultExpression",
    "required",
    "enum",
    "fill",
    "initialStatus",
    "frozen",
    "pointer",
    "absent",
    "additionalProperties",
    "maxLength",
    "settable",
    "showsChange",
    "unique",
    "unless",
    "union",
    "when",
    "minimum",
    "maximum",
    "maxItems",
    "message",
    "check",
    "immutable",
    "zeroIsUnset",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
}


def parts(schema: Obj) -> Iterator[Obj]:
    yield schema
    for inner in schema.get("properties", {}).values():
        yield from parts(inner)
    for keyword in schema.keys() & {"items", "additionalProperties"}:
        yield from parts(schema[keyword])


@pytest.mark.parametrize("resource", declared_rules())
def test_declarations_can_be_read(resource: str) -> None:
    assert resource.removesuffix("/status") in {
        row.stored_as for row in (*ROWS, *(row for rows in GATED_ROWS.values() for row in rows))
    }
    for schema in parts(declared_rules()[resource].schema):
        assert schema.keys() <= KEYWORDS
        assert callable(check_named(schema.get("check", "ip")))
        compile_rule(schema.get("defaultExpression", "true"))
        compile_rule(schema.get("when", "true"))
        for rule in schema.get("x-kubernetes-validations", ()):
            assert rule.keys() <= {
                "rule",
                "reason",
                "fieldPath",
                "message",
                "messageExpression",
                "always",
                "value",
            }
            compile_rule(rule["rule"])
            compile_rule(rule.get("messageExpression", "true"))


SCHEMA: Obj = {
    "required": {"name": "it has to be called something"},
    "x-kubernetes-validations": [
        {"rule": "self.least <= self.most", "fieldPath": ".least", "message": "too much"},
        {"rule": "self.name == oldSelf.name", "reason": "FieldValueForbidden", "message": "renamed"},
    ],
    "properties": {
        "name": {"check": "label"},
        "least": {"default": 1, "minimum": 0},
        "most": {"default": 5, "zeroIsUnset": True, "minimum": 1, "maximum": 9},
        "kind": {"enum": ["A", "B"], "immutable": True},
        "items": {
            "maxItems": 2,
            "x-kubernetes-list-map-keys": ["id"],
            "items": {"properties": {"port": {"default": 80}}},
        },
    },
}


@pytest.mark.parametrize(
    "obj, old, expected",
    [
        ({"name": "x"}, None, []),
        ({}, None, ["name: Required value: it has to be called something"]),
        ({"name": ""}, None, ["name: Required value: it has to be called something"]),
        ({"name": "x", "least": -1}, None, ["least: Invalid value: -1: must be greater than or equal to 0"]),
        ({"name": "x", "most": 10}, None, ["most: Invalid value: 10: must be between 1 and 9, inclusive"]),
        ({"name": "x", "least": 6}, None, ["least: Invalid value: 6: too much"]),
        ({"name": "x", "kind": "C"}, None, ['kind: Unsupported value: "C": supported values: "A", "B"']),
        (
            {"name": "x", "kind": "B"},
            {"name": "x", "kind": "A"},
            ['kind: Invalid value: "B": field is immutable'],
        ),
        ({"name": "y"}, {"name": "x"}, [": Forbidden: renamed"]),
        (
            {"name": "x", "items": [{"id": 1}, {"id": 1}, {"id": 2}]},
            None,
            ["items: Too many: 3: must have at most 2 items"],
        ),
        (
            {"name": "x", "items": [{"id": 1}, {"id": 1}]},
            None,
            ['items[1]: Duplicate value: {"id":1,"port":80}'],
        ),
    ],
)
def test_what_is_refused(obj: Obj, old: Any, expected: list[str]) -> None:
    rules = DeclaredRules(SCHEMA)
    rules.default(obj)
    assert [f"{cause.field}: {cause.message}" for cause in rules.causes(obj, old)] == expected


def test_defaults() -> None:
    obj: Obj = {"name": "x", "most": 0, "items": [{"id": 1}]}
    DeclaredRules(SCHEMA).default(obj)
    assert obj == {"name": "x", "least": 1, "most": 5, "items": [{"id": 1, "port": 80}]}


CHANGES: Obj = {
    "frozen": ["data", "immutable"],
    "properties": {
        "once": {"immutable": "set once", "settable": "once"},
        "both": {"immutable": "set or not", "settable": True},
        "size": {"immutable": "fixed", "unless": {"mode": "free"}},
    },
}


@pytest.mark.parametrize(
    "obj, old, expected",
    [
        ({"data": 2}, {"data": 1}, []),
        ({"data": 2}, {"data": 1, "immutable": True}, ["data", "immutable"]),
        ({"data": 1, "immutable": True}, {"data": 1, "immutable": True}, []),
        ({"once": "a"}, {}, []),
        ({"once": "a"}, {"once": ""}, []),
        ({"once": "b"}, {"once": "a"}, ["once"]),
        ({}, {"once": "a"}, ["once"]),
        ({}, {"both": "a"}, []),
        ({"both": "b"}, {"both": "a"}, ["both"]),
        ({"size": 2}, {"size": 1}, ["size"]),
        ({"size": 2, "mode": "free"}, {"size": 1}, ["size"]),
        ({"size": 2}, {"size": 1, "mode": "free"}, []),
    ],
)
def test_what_may_change(obj: Obj, old: Obj, expected: list[str]) -> None:
    assert [cause.field for cause in DeclaredRules(CHANGES).causes(obj, old)] == expected


def _job(**spec: Any) -> Obj:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    return {"metadata": {"name": "j"}, "spec": {"completionMode": "NonIndexed", "template": template, **spec}}


@pytest.mark.parametrize(
    "resource, old, new, expected",
    [
        ("nodes", {"spec": {}}, {"spec": {"providerID": "a"}}, []),
        ("nodes", {"spec": {"providerID": "a"}}, {"spec": {"providerID": "b"}}, ["spec.providerID"]),
        ("nodes", {"spec": {"podCIDRs": ["a"]}}, {"spec": {}}, ["spec.podCIDRs"]),
        ("jobs.batch", _job(completions=1), _job(completions=2), ["spec.completions"]),
        (
            "jobs.batch",
            _job(completions=1, completionMode="Indexed"),
            _job(completions=2, completionMode="Indexed"),
            [],
        ),
        ("jobs.batch", _job(completionMode="Indexed", completions=1), _job(), ["spec.completionMode"]),
        ("jobs.batch", _job(), _job(template={}), ["spec.template"]),
    ],
)
def test_what_may_change_of_a_kind(resource: str, old: Obj, new: Obj, expected: list[str]) -> None:
    fields = {cause.field for cause in declared_rules()[resource].causes(new, old)}
    assert set(expected) <= fields
    assert bool(fields) == bool(expected)
