"""Kubernetes' rules for names of resources. In: a name. Out: what is wrong with it, or None."""

from __future__ import annotations

from kuberth.api.selectors import is_label_key

_QUOTA_PREFIX = "requests."


def qualified_name_problem(name: str) -> str | None:
    """Label keys, topology keys and resources follow one rule: `name` or `dns.prefix/name`."""
    if is_label_key(name):
        return None
    return (
        "must be at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends,"
        " and may have a lower-case DNS name and a slash in front"
    )


def extended_resource_problem(name: str) -> str | None:
    """An extended resource is a qualified name with a prefix that is not Kubernetes' own."""
    problem = qualified_name_problem(name)
    if problem:
        return problem
    # Quotas count an extended resource under `requests.NAME`, which must be a valid name too.
    is_native = "/" not in name or "kubernetes.io/" in name
    if is_native or name.startswith(_QUOTA_PREFIX) or qualified_name_problem(_QUOTA_PREFIX + name):
        return 'must be an extended resource such as "example.com/gpu", outside kubernetes.io'
    return None
