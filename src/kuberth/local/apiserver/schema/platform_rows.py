"""The kinds around the workloads, one row each: access, networking, autoscaling, quotas, admission.

In: nothing. Out: `ROWS`, part of the catalogue. Names, short names, categories and selectable fields are
upstream's.
"""

from __future__ import annotations

from typing import Final

from kuberth.local.apiserver.printing import platform_columns as columns
from kuberth.local.apiserver.printing.columns import NAME_AND_AGE
from kuberth.local.apiserver.resources import ServedResource

_RBAC: Final = "rbac.authorization.k8s.io"

_CORE: Final = (
    ServedResource(
        "",
        "v1",
        "Secret",
        "secrets",
        columns=columns.SECRET,
        fields={"type": "type"},
        schema="core.v1.Secret",
    ),
    ServedResource(
        "",
        "v1",
        "ServiceAccount",
        "serviceaccounts",
        short_names=("sa",),
        columns=NAME_AND_AGE,
        schema="core.v1.ServiceAccount",
        returns_deleted=True,
    ),
    ServedResource(
        "",
        "v1",
        "ResourceQuota",
        "resourcequotas",
        short_names=("quota",),
        subresources=("status",),
        columns=columns.RESOURCE_QUOTA,
        schema="core.v1.ResourceQuota",
        returns_deleted=True,
    ),
    ServedResource(
        "",
        "v1",
        "LimitRange",
        "limitranges",
        short_names=("limits",),
        columns=columns.NAME_AND_CREATION,
        schema="core.v1.LimitRange",
    ),
    ServedResource(
        "",
        "v1",
        "Endpoints",
        "endpoints",
        singular="endpoints",
        short_names=("ep",),
        columns=columns.ENDPOINTS,
        schema="core.v1.Endpoints",
    ),
    ServedResource(
        "",
        "v1",
        "PodTemplate",
        "podtemplates",
        columns=columns.POD_TEMPLATE,
        schema="core.v1.PodTemplate",
        has_generation=True,
        returns_deleted=True,
    ),
)
_WORKLOADS: Final = (
    ServedResource(
        "apps",
        "v1",
        "DaemonSet",
        "daemonsets",
        short_names=("ds",),
        categories=("all",),
        subresources=("status",),
        columns=columns.DAEMON_SET,
        schema="apps.v1.DaemonSet",
        has_generation=True,
    ),
    ServedResource(
        "apps",
        "v1",
        "ControllerRevision",
        "controllerrevisions",
        columns=columns.CONTROLLER_REVISION,
        schema="apps.v1.ControllerRevision",
    ),
    ServedResource(
        "batch",
        "v1",
        "CronJob",
        "cronjobs",
        short_names=("cj",),
        categories=("all",),
        subresources=("status",),
        columns=columns.CRON_JOB,
        schema="batch.v1.CronJob",
        has_generation=True,
    ),
    ServedResource(
        "autoscaling",
        "v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        short_names=("hpa",),
        categories=("all",),
        subresources=("status",),
        columns=columns.HORIZONTAL_POD_AUTOSCALER,
        schema="autoscaling.v2.HorizontalPodAutoscaler",
    ),
    ServedResource(
        "autoscaling",
        "v1",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        short_names=("hpa",),
        categories=("all",),
        subresources=("status",),
        columns=columns.HORIZONTAL_POD_AUTOSCALER,
        schema="autoscaling.v1.HorizontalPodAutoscaler",
        storage_version="autoscaling/v2",
        preferred=False,
    ),
    ServedResource(
        "node.k8s.io",
        "v1",
        "RuntimeClass",
        "runtimeclasses",
        namespaced=False,
        columns=columns.RUNTIME_CLASS,
        schema="node.v1.RuntimeClass",
    ),
)
_NETWORKING: Final = (
    ServedResource(
        "networking.k8s.io",
        "v1",
        "Ingress",
        "ingresses",
        short_names=("ing",),
        subresources=("status",),
        columns=columns.INGRESS,
        schema="networking.v1.Ingress",
        has_generation=True,
    ),
    ServedResource(
        "networking.k8s.io",
        "v1",
        "IngressClass",
        "ingressclasses",
        namespaced=False,
        columns=columns.INGRESS_CLASS,
        schema="networking.v1.IngressClass",
        has_generation=True,
    ),
    ServedResource(
        "networking.k8s.io",
        "v1",
        "NetworkPolicy",
        "networkpolicies",
        short_names=("netpol",),
        columns=columns.NETWORK_POLICY,
        schema="networking.v1.NetworkPolicy",
        has_generation=True,
    ),
    ServedResource(
        "discovery.k8s.io",
        "v1",
        "EndpointSlice",
        "endpointslices",
        columns=columns.ENDPOINT_SLICE,
        schema="discovery.v1.EndpointSlice",
        has_generation=True,
    ),
)
_ACCESS: Final = tuple(
    ServedResource(
        _RBAC,
        "v1",
        kind,
        plural,
        namespaced=namespaced,
        columns=shown,
        name_rule="path",
        schema=f"rbac.v1.{kind}",
    )
    for kind, plural, namespaced, shown in (
        ("Role", "roles", True, columns.NAME_AND_CREATION),
        ("ClusterRole", "clusterroles", False, columns.NAME_AND_CREATION),
        ("RoleBinding", "rolebindings", True, columns.ROLE_BINDING),
        ("ClusterRoleBinding", "clusterrolebindings", False, columns.ROLE_BINDING),
    )
)
_ADMISSION_KINDS: Final = (
    ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations", columns.WEBHOOKS, ()),
    ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", columns.WEBHOOKS, ()),
    (
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        columns.admission_policy("Validations"),
        ("status",),
    ),
    ("MutatingAdmissionPolicy", "mutatingadmissionpolicies", columns.admission_policy("Mutations"), ()),
    (
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        columns.ADMISSION_BINDING,
        (),
    ),
    ("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", columns.ADMISSION_BINDING, ()),
)
"""Kind, plural, columns, subresources."""
_ADMISSION: Final = (
    *(
        ServedResource(
            "flowcontrol.apiserver.k8s.io",
            "v1",
            kind,
            plural,
            namespaced=False,
            subresources=("status",),
            columns=shown,
            schema=f"flowcontrol.v1.{kind}",
            has_generation=True,
        )
        for kind, plural, shown in (
            ("FlowSchema", "flowschemas", columns.FLOW_SCHEMA),
            ("PriorityLevelConfiguration", "prioritylevelconfigurations", columns.PRIORITY_LEVEL),
        )
    ),
    *(
        ServedResource(
            "admissionregistration.k8s.io",
            "v1",
            kind,
            plural,
            namespaced=False,
            subresources=subresources,
            categories=("api-extensions",),
            columns=shown,
            schema=f"admissionregistration.v1.{kind}",
            has_generation=True,
        )
        for kind, plural, shown, subresources in _ADMISSION_KINDS
    ),
    ServedResource(
        "apiregistration.k8s.io",
        "v1",
        "APIService",
        "apiservices",
        namespaced=False,
        name_rule="path",
        subresources=("status",),
        categories=("api-extensions",),
        columns=columns.API_SERVICE,
        schema="apiregistration.v1.APIService",
    ),
)
ROWS: Final = (*_CORE, *_WORKLOADS, *_NETWORKING, *_ACCESS, *_ADMISSION)
