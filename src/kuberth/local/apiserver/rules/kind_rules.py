"""The rules of each kind besides the types of its fields: one row per kind.

In: an object about to be written, the stored one for an update, and the state around it. Out: the object
defaulted and prepared in place, and the causes for which it is refused. Most kinds declare what needs no code
in schema/rules.yaml; kinds in neither place have no rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.rules import (
    admission,
    defaulting,
    device_rules,
    group_rules,
    pod_validation,
    quotas,
    stored_checks,
)
from kuberth.local.apiserver.rules.declared_rules import declared_rules
from kuberth.local.apiserver.rules.defaulting import default_pod
from kuberth.local.apiserver.rules.write_context import WriteContext
from kuberth.local.apiserver.schema import crds
from kuberth.local.apiserver.schema.fields import copy_tree
from kuberth.local.apiserver.status_errors import Cause


def _nothing(*_args: object) -> None:
    pass


def _no_causes(new: Obj, old: Obj | None) -> list[Cause]:
    return []


@dataclass(frozen=True, slots=True)
class KindRules:
    """The rules of one kind, for creations (there is no old object) and updates alike."""

    default: Callable[[Obj], None] = _nothing
    """Set upstream's defaults."""
    prepare: Callable[[Obj, Obj | None, WriteContext], None] = _nothing
    """Set the fields that the server owns; raises StatusError if the object is not admitted."""
    validate: Callable[[Obj, Obj | None], list[Cause]] = _no_causes
    """Everything that is wrong with the object, or with the change from the old one."""
    default_status: Callable[[Obj], None] = _nothing
    """Set upstream's defaults in a write of the status subresource."""
    prepare_status: Callable[[Obj, Obj, WriteContext], None] = _nothing
    """The same for a write of the status subresource."""
    validate_status: Callable[[Obj, Obj | None], list[Cause]] = _no_causes
    """Everything that is wrong with the object, or with the change, in a write of the status subresource."""


RULES: Final[Mapping[str, KindRules]] = {
    "namespaces": KindRules(defaulting.default_namespace, admission.prepare_namespace),
    "nodes": KindRules(defaulting.default_node, default_status=defaulting.default_node),
    "pods": KindRules(
        default_pod,
        admission.prepare_pod,
        pod_validation.validate_pod,
        prepare_status=admission.prepare_pod_status,
    ),
    "services": KindRules(prepare=admission.prepare_service),
    "replicationcontrollers": KindRules(defaulting.default_replication_controller),
    "persistentvolumes": KindRules(prepare=admission.prepare_volume),
    "persistentvolumeclaims": KindRules(
        prepare=admission.prepare_claim, validate=stored_checks.validate_claim
    ),
    "secrets": KindRules(defaulting.default_secret),
    "resourcequotas": KindRules(prepare=quotas.prepare_quota),
    "limitranges": KindRules(defaulting.default_limit_range),
    "deployments.apps": KindRules(prepare_status=admission.prepare_deployment_status),
    "jobs.batch": KindRules(prepare=admission.prepare_job),
    "priorityclasses.scheduling.k8s.io": KindRules(prepare=admission.prepare_priority_class),
    "podgroups.scheduling.k8s.io": KindRules(
        prepare=group_rules.prepare_pod_group,
        prepare_status=group_rules.prepare_pod_group_status,
    ),
    group_rules.WORKLOADS: KindRules(prepare=group_rules.prepare_workload),
    "resourceclaims.resource.k8s.io": KindRules(
        prepare=device_rules.prepare_claim, prepare_status=device_rules.prepare_claim_status
    ),
    "resourceclaimtemplates.resource.k8s.io": KindRules(prepare=device_rules.prepare_template),
    "resourceslices.resource.k8s.io": KindRules(prepare=device_rules.prepare_slice),
    "devicetaintrules.resource.k8s.io": KindRules(prepare=device_rules.prepare_taint_rule),
    "apiservices.apiregistration.k8s.io": KindRules(prepare=admission.prepare_api_service),
    "ingresses.networking.k8s.io": KindRules(prepare=admission.prepare_ingress),
    crds.CRDS: KindRules(prepare=crds.prepare),
}
_NO_RULES: Final = KindRules()


def rules_for(row: ServedResource) -> KindRules:
    return _custom_rules(row) if row.custom else built_in_rules(row.stored_as)


@cache
def built_in_rules(resource: str) -> KindRules:
    """The rules of a kind: what it declares as data, then what it has as code."""
    declared, code = declared_rules().get(resource), RULES.get(resource, _NO_RULES)
    status = declared_rules().get(f"{resource}/status")
    if status is not None:
        code = replace(code, validate_status=status.causes)
    if declared is None:
        return code
    initial_status = declared.schema.get("initialStatus")

    def default(obj: Obj) -> None:
        declared.default(obj)
        code.default(obj)

    def prepare(new: Obj, old: Obj | None, context: WriteContext) -> None:
        if old is None and initial_status is not None:
            new["status"] = copy_tree(initial_status)
        code.prepare(new, old, context)

    def validate(new: Obj, old: Obj | None) -> list[Cause]:
        return [*declared.causes(new, old), *code.validate(new, old)]

    return replace(
        code, default=default if declared.has_defaults else code.default, prepare=prepare, validate=validate
    )


def _custom_rules(row: ServedResource) -> KindRules:
    default = _nothing if row.structure is None else row.structure.default

    def prepare(new: Obj, old: Obj | None, context: WriteContext) -> None:
        if old is None and row.has_status:
            new.pop("status", None)

    def validate(new: Obj, old: Obj | None) -> list[Cause]:
        return [] if row.structure is None else row.structure.causes(new)

    return KindRules(default, prepare, validate, default_status=default, validate_status=validate)
