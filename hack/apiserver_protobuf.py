"""Makes src/kuberth/local/apiserver/schema/protobuf.json: which number each field has in protobuf.

In: the Go modules k8s.io/api, apimachinery, apiextensions-apiserver and kube-aggregator (as `make envtest`
leaves them in the module cache), and fields.json. Out: for every type, number → "name", with "!" if a zero is
worth keeping (Go has a pointer there, or no omitempty), with the type where fields.json does not have it or
takes anything, and "^ type" for fields that JSON has inline.

    python hack/apiserver_protobuf.py ~/go/pkg/mod/k8s.io v0.36.4
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "src/kuberth/local/apiserver/schema/protobuf.json"
SCHEMA = TARGET.with_name("fields.json")
# Asked and answered, never stored, so fields.json does not have them.
REVIEWS = ("authentication.v1", "authorization.v1")
ALIASES = {"metav1": "meta.v1", "v1": "core.v1", "core": "core.v1", "corev1": "core.v1"}
SCALARS = {
    "bool": "boolean",
    "int32": "int32",
    "int64": "int64",
    "float64": "number",
    "string": "string",
    "types.UID": "string",
}
FOLDERS = {
    "meta": "apimachinery@{version}/pkg/apis/meta",
    "apiextensions": "apiextensions-apiserver@{version}/pkg/apis/apiextensions",
    "apiregistration": "kube-aggregator@{version}/pkg/apis/apiregistration",
}
# One of two things in JSON; the reader knows the two fields of each.
UNIONS = ("JSONSchemaPropsOrBool", "JSONSchemaPropsOrArray", "JSONSchemaPropsOrStringArray")

STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
FIELD = re.compile(
    r'^\t(?:(?P<name>\w+)[ \t]+)?(?P<type>[\w.*\[\]]+)[ \t]+`json:"(?P<json>[^"]*)".*?'
    r'protobuf:"\w+,(?P<number>\d+),[^"]*"',
    re.MULTILINE,
)
NAMED = re.compile(r"^type (\w+) (string|\[\]\w+|map\[string\]\w+)$", re.MULTILINE)


def main(modules: Path, version: str) -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    groups = sorted({name.rpartition(".")[0] for name in schema} | set(REVIEWS))
    sources = {group: read_source(modules, version, group) for group in groups}
    named = {f"{group}.{name}": kind for group, text in sources.items() for name, kind in NAMED.findall(text)}
    structs = {
        f"{group}.{name}": list(FIELD.finditer(body))
        for group, text in sources.items()
        for name, body in STRUCT.findall(text)
    }
    table: dict[str, dict[str, str]] = {}
    waiting = [name for name in schema if name in structs]
    answered = ("Review", "TokenRequest")
    waiting += [
        name for name in structs if name.startswith(REVIEWS) and any(part in name for part in answered)
    ]
    while waiting:
        type_name = waiting.pop()
        if type_name in table or type_name.endswith("List"):
            continue
        table[type_name] = {}
        for field in structs[type_name]:
            entry, more = describe(type_name, field, schema.get(type_name), structs, named)
            table[type_name][field["number"]] = entry
            waiting += more
    lines = (f"{json.dumps(name)}: {json.dumps(fields)}" for name, fields in sorted(table.items()) if fields)
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def read_source(modules: Path, version: str, group: str) -> str:
    name, _, api_version = group.partition(".")
    folder = FOLDERS.get(name, "api@{version}/" + name).format(version=version)
    files = sorted((modules / folder / api_version).glob("types*.go"))
    return "\n".join(file.read_text(encoding="utf-8") for file in files if not file.stem.endswith("_test"))


def describe(
    owner: str,
    field: re.Match[str],
    known: dict[str, str] | None,
    structs: dict[str, Any],
    named: dict[str, str],
) -> tuple[str, list[str]]:
    """The table's entry for a field, and types that it needs."""
    name, *options = field["json"].split(",")
    go_type = field["type"]
    if not name:
        inline = resolve(owner, go_type.removeprefix("*"))
        return f"^ {inline}", [inline]
    keep = "!" if go_type.startswith("*") or "omitempty" not in options else ""
    if known is not None and name in known and known[name].partition(" ")[0] != "any":
        return f"{name}{keep}", []
    text, more = spell(owner, go_type, structs, named)
    return f"{name}{keep} {text}", more


def resolve(owner: str, go_type: str) -> str:
    prefix, _, name = go_type.rpartition(".")
    group = ALIASES[prefix] if prefix else owner.rpartition(".")[0]
    return f"{group}.{name}"


def spell(owner: str, go_type: str, structs: dict[str, Any], named: dict[str, str]) -> tuple[str, list[str]]:
    """A Go type as fields.json writes types."""
    go_type = go_type.removeprefix("*")
    if go_type in SCALARS:
        return SCALARS[go_type], []
    if go_type == "[]byte":
        return "bytes", []
    for start, mark in (("[]", "[]"), ("map[string]", "{}")):
        if go_type.startswith(start):
            text, more = spell(owner, go_type.removeprefix(start), structs, named)
            return mark + text, more
    special = {
        "metav1.Time": "time",
        "metav1.MicroTime": "microtime",
        "resource.Quantity": "quantity",
        "intstr.IntOrString": "int-or-string",
        "runtime.RawExtension": "any",
        "FieldsV1": "any",
        "JSON": "any",
    }
    if go_type in special:
        return special[go_type], []
    found = resolve(owner, go_type)
    if go_type in UNIONS:
        return found, [f"{owner.rpartition('.')[0]}.JSONSchemaProps"]
    if found in structs:
        return found, [found]
    kind = named[found]
    # A named list of texts is a message of its own; other named types are what they stand for.
    return ("strings", []) if kind == "[]string" else spell(owner, kind, structs, named)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
