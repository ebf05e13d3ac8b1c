"""What Go's types add to the schema: structs that are one value, and fields that are always written.

In: the folder `api/openapi-spec/v3` of a Kubernetes source tree. Out: `go_types.json` beside the server's
other tables: type → {"atomic": whether it is only ever replaced as a whole, "zeros": field → what Go writes
where it is unset}. Go leaves out an empty string or list, but never a struct that is no pointer, nor a
field that is required; managedFields show the difference.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "src/kuberth/local/apiserver/schema/go_types.json"
SCALARS = ("Time", "MicroTime", "Quantity", "IntOrString", "RawExtension", "FieldsV1", "JSON")


def go_type(schema: dict[str, Any]) -> dict[str, Any]:
    required = schema.get("required", ())
    zeros: dict[str, Any] = {}
    for name, field in sorted(schema.get("properties", {}).items()):
        reference = field.get("allOf", [{}])[0].get("$ref", "").rpartition(".")[2]
        if field.get("default") == {} and reference not in SCALARS:
            zeros[name] = {}
        elif name in required and field.get("type") in ("array", "object"):
            zeros[name] = None
        elif name in required and field.get("default") in ("", 0, False):
            zeros[name] = field["default"]
    found: dict[str, Any] = {"atomic": True} if schema.get("x-kubernetes-map-type") == "atomic" else {}
    return {**found, "zeros": zeros} if zeros else found


def main() -> None:
    table: dict[str, Any] = {}
    for document in sorted(Path(sys.argv[1]).glob("*.json")):
        schemas = json.loads(document.read_text(encoding="utf-8")).get("components", {}).get("schemas", {})
        for name, schema in schemas.items():
            if not name.endswith("List") and (found := go_type(schema)):
                table[".".join(name.split(".")[-3:])] = found
    lines = [f"{json.dumps(name)}: {json.dumps(table[name])}" for name in sorted(table)]
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
