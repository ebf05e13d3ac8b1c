"""Condense Kubernetes' OpenAPI document into the embedded server's schema table.

In: the path of `api/openapi-spec/swagger.json` of a Kubernetes source tree. Out: `fields.json` beside
the server's modules: for each type of the kinds that are served, its fields and their types, merge keys
and list types. Run it again when the Kubernetes version changes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOTS = (
    "io.k8s.api.core.v1.Namespace Node Pod Service ReplicationController PersistentVolume "
    "PersistentVolumeClaim Event ConfigMap Secret ServiceAccount ResourceQuota LimitRange Endpoints "
    "PodTemplate Binding",
    "io.k8s.api.apps.v1.Deployment ReplicaSet StatefulSet DaemonSet ControllerRevision",
    "io.k8s.api.batch.v1.Job CronJob",
    "io.k8s.api.policy.v1.PodDisruptionBudget Eviction",
    "io.k8s.api.scheduling.v1.PriorityClass",
    "io.k8s.api.scheduling.v1alpha2.PodGroup Workload",
    "io.k8s.api.storage.v1.StorageClass CSINode CSIDriver CSIStorageCapacity VolumeAttachment "
    "VolumeAttributesClass",
    "io.k8s.api.certificates.v1.CertificateSigningRequest",
    "io.k8s.api.coordination.v1.Lease",
    "io.k8s.api.events.v1.Event",
    "io.k8s.api.autoscaling.v1.Scale HorizontalPodAutoscaler",
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
    "io.k8s.api.networking.v1.Ingress IngressClass NetworkPolicy ServiceCIDR",
    "io.k8s.api.discovery.v1.EndpointSlice",
    "io.k8s.api.node.v1.RuntimeClass",
    "io.k8s.api.rbac.v1.Role ClusterRole RoleBinding ClusterRoleBinding",
    "io.k8s.api.flowcontrol.v1.FlowSchema PriorityLevelConfiguration",
    "io.k8s.api.admissionregistration.v1.ValidatingWebhookConfiguration MutatingWebhookConfiguration",
    "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding",
    "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicy MutatingAdmissionPolicyBinding",
    "io.k8s.api.resource.v1.DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice",
    "io.k8s.api.resource.v1beta2.DeviceTaintRule",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
    "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService",
    "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
)
SCALARS = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "microtime",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "int-or-string",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "any",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": "any",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON": "any",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool": "any",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray": "any",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray": "any",
    # A schema is kept as it was written: nothing here reads more of it than its root.
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps": "any",
}


def roots() -> Iterator[str]:
    for line in ROOTS:
        first, *others = line.split()
        package = first.rpartition(".")[0]
        yield first
        yield from (f"{package}.{kind}" for kind in others)


def short(name: str) -> str:
    """`core.v1.Pod`: group, version and type are unique."""
    return ".".join(name.split(".")[-3:])


def type_of(schema: dict[str, Any]) -> tuple[str, str]:
    """The type as the table writes it, and the definition it refers to."""
    if ref := schema.get("$ref"):
        name = ref.removeprefix("#/definitions/")
        return (SCALARS[name], "") if name in SCALARS else (short(name), name)
    match schema.get("type"):
        case "array":
            inner, ref = type_of(schema["items"])
            return f"[]{inner}", ref
        case "object" if "additionalProperties" in schema:
            inner, ref = type_of(schema["additionalProperties"])
            return f"{{}}{inner}", ref
        case "string":
            return ("bytes" if schema.get("format") == "byte" else "string"), ""
        case "integer":
            return str(schema.get("format", "int64")), ""
        case "number" | "boolean" as plain:
            return plain, ""
    return "any", ""


def field(schema: dict[str, Any]) -> tuple[str, str]:
    text, ref = type_of(schema)
    strategy = schema.get("x-kubernetes-patch-strategy", "")
    if "merge" in strategy:
        text += f" merge={schema.get('x-kubernetes-patch-merge-key', '')}"
    if "retainKeys" in strategy:
        text += " retainKeys"
    if schema.get("x-kubernetes-list-type") == "map":
        text += f" keys={','.join(schema['x-kubernetes-list-map-keys'])}"
    if schema.get("x-kubernetes-list-type") == "set":
        text += " set"
    if schema.get("x-kubernetes-map-type") == "atomic" or schema.get("x-kubernetes-list-type") == "atomic":
        text += " atomic"
    return text, ref


def main() -> None:
    source = Path(sys.argv[1])
    definitions = json.loads(source.read_text(encoding="utf-8"))["definitions"]
    table: dict[str, Any] = {}
    waiting = list(roots())
    while waiting:
        name = waiting.pop()
        if short(name) in table:
            continue
        definition = definitions[name]
        entry = table[short(name)] = {}
        for key, schema in sorted(definition.get("properties", {}).items()):
            text, ref = field(schema)
            if key in definition.get("required", ()):
                text += " required"
            entry[key] = text
            if ref:
                waiting.append(ref)
    out = Path(__file__).parents[1] / "src/kuberth/local/apiserver/schema/fields.json"
    lines = [f"{json.dumps(name)}: {json.dumps(table[name])}" for name in sorted(table)]
    out.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
