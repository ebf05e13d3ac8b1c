"""The rules of each kind besides the types of its fields.

In: an object about to be written, the stored one for an update, and the state around it. Out: the object
defaulted and prepared in place, and the causes for which it is refused. Defaults and most of the validation
are declared in schema/rules.yaml; `RULES` has what needs code. Kinds in neither place have no rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.rules import (
    admission,
    device_rules,
    group_rules,
    pod_validation,
    quotas,
    stored_checks,
)
from kuberth.local.apiserver.rules.declared_rules import DeclaredRules, declared_rules
from kuberth.local.apiserver.rules.write_context import WriteContext
from kuberth.local.apiserver.schema import crds
from kuberth.local.apiserver.schema.fields import copy_tree
from kuberth.local.apiserver.status_errors import Cause


def _nothing(*_args: object) -> None:
    pass


def _no_causes(new: Obj, old: Obj | None) -> Iterable[Cause]:
    return ()


@dataclass(frozen=True, slots=True)
class KindRules:
    """The rules of one kind, for creations (there is no old object) and updates alike."""

    default: Callable[[Obj], None] = _nothing
    """Set upstream's defaults."""
    prepare: Callable[[Obj, Obj | None, WriteContext], None] = _nothing
    """Set the fields that the server owns; raises StatusError if the object is not admitted."""
    validate: Callable[[Obj, Obj | None], Iterable[Cause]] = _no_causes
    """Everything that is wrong with the object, or with the change from the old one."""
    default_status: Callable[[Obj], None] = _nothing
    """Set upstream's defaults in a write of the status subresource."""
    prepare_status: Callable[[Obj, Obj, WriteContext], None] = _nothing
    """Like `prepare`, in a write of the status subresource."""
    validate_status: Callable[[Obj, Obj | None], Iterable[Cause]] = _no_causes
    """Everything that is wrong with the object, or with the change, in a write of the status subresource."""


RULES: Final[Mapping[str, KindRules]] = {
    "namespaces": KindRules(prepare=admission.prepare_namespace),
    "pods": KindRules(
        prepare=admission.prepare_pod,
        validate=pod_validation.validate_pod,
        prepare_status=admission.prepare_pod_status,
    ),
    "services": KindRules(prepare=admission.prepare_service),
    "persistentvolumes": KindRules(prepare=admission.prepare_volume),
    "persistentvolumeclaims": KindRules(
        prepare=admission.prepare_claim, validate=stored_checks.validate_claim
    ),
    "resourcequotas": KindRules(prepare=quotas.prepare_quota),
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
"""The rules that need code, by stored resource."""
_NO_CODE: Final = KindRules()
_UNDECLARED: Final = DeclaredRules({})


def rules_for(row: ServedResource) -> KindRules:
    return _custom_rules(row) if row.custom else built_in_rules(row.stored_as)


@cache
def built_in_rules(resource: str) -> KindRules:
    """The rules of a kind: those that it declares as data, then those that need code."""
    declared = declared_rules().get(resource, _UNDECLARED)
    status = declared_rules().get(f"{resource}/status", _UNDECLARED)
    code, initial_status = RULES.get(resource, _NO_CODE), declared.schema.get("initialStatus")

    def prepare(new: Obj, old: Obj | None, context: WriteContext) -> None:
        if old is None and initial_status is not None:
            new["status"] = copy_tree(initial_status)
        code.prepare(new, old, context)

    def validate(new: Obj, old: Obj | None) -> list[Cause]:
        return [*declared.causes(new, old), *code.validate(new, old)]

    return KindRules(declared.default, prepare, validate, status.default, code.prepare_status, status.causes)


def _custom_rules(row: ServedResource) -> KindRules:
    default = _nothing if row.structure is None else row.structure.default

    def prepare(new: Obj, old: Obj | None, context: WriteContext) -> None:
        if old is None and row.has_status:
            new.pop("status", None)

    def validate(new: Obj, old: Obj | None) -> list[Cause]:
        return [] if row.structure is None else row.structure.causes(new)

    return KindRules(default, prepare, validate, default_status=default, validate_status=validate)
