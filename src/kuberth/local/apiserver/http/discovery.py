"""Discovery: groups, versions and resources, in parts or in one document.

In: the table of resources. Out: the legacy documents of /api, /apis, /apis/G and /apis/G/V, and aggregated
discovery. Documents are cached until the table changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from kuberth.local.apiserver.http.authentication import REVIEWS
from kuberth.local.apiserver.http.routing import Subresource, subresource_of
from kuberth.local.apiserver.http.usage import USAGES
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.resources import ResourceTable, ServedResource
from kuberth.local.apiserver.status_errors import unknown_resource

AGGREGATED_TYPE: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_VERSION: Final = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STABILITY: Final = {"alpha": 0, "beta": 1, "": 2}

Groups = dict[str, dict[str, list[ServedResource]]]


class Discovery:
    def __init__(self, resources: ResourceTable) -> None:
        self._resources = resources
        self._groups: Groups = {}
        self._seen = -1

    def groups(self) -> Groups:
        """Group → version, the preferred one first → rows, by name."""
        if self._seen != self._resources.changed:
            self._seen = self._resources.changed
            self._groups = _grouped((*self._resources, *REVIEWS, *USAGES))
        return self._groups

    def group_versions(self) -> list[tuple[str, str]]:
        return [(group, version) for group, versions in self.groups().items() for version in versions]

    def versions(self) -> Obj:
        """The document at /api."""
        return {
            "kind": "APIVersions",
            "versions": list(self.groups().get("", ())),
            "serverAddressByClientCIDRs": [],
        }

    def group_list(self) -> Obj:
        """The document at /apis."""
        groups = [_group(name, list(versions)) for name, versions in self.groups().items() if name]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    def group(self, name: str) -> Obj:
        """The document at /apis/G."""
        versions = self.groups().get(name)
        if not name or versions is None:
            raise unknown_resource()
        return {"kind": "APIGroup", "apiVersion": "v1"} | _group(name, list(versions))

    def resource_list(self, group: str, version: str) -> Obj:
        """The document at /api/V or /apis/G/V."""
        rows = self.groups().get(group, {}).get(version)
        if rows is None:
            raise unknown_resource()
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": f"{group}/{version}" if group else version,
            "resources": [entry for row in rows for entry in _legacy_entries(row)],
        }

    def aggregated(self, *, core: bool) -> Obj:
        """/api (the group without a name) or /apis (all others), in one document."""
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": [
                {
                    "metadata": {"name": group} if group else {},
                    "versions": [
                        {
                            "version": version,
                            "resources": [_entry(row) for row in rows],
                            "freshness": "Current",
                        }
                        for version, rows in versions.items()
                    ],
                }
                for group, versions in self.groups().items()
                if (group == "") is core
            ],
        }


def _grouped(rows: Iterable[ServedResource]) -> Groups:
    found: Groups = {}
    for row in rows:
        found.setdefault(row.group, {}).setdefault(row.version, []).append(row)
    return {
        group: {
            version: sorted(versions[version], key=lambda row: row.plural)
            for version in sorted(versions, key=_priority, reverse=True)
        }
        # As upstream: built-in groups before those of custom resources.
        for group, versions in sorted(found.items(), key=lambda item: (_is_custom(item[1]), item[0]))
    }


def _is_custom(versions: dict[str, list[ServedResource]]) -> bool:
    return all(row.custom for rows in versions.values() for row in rows)


def _priority(version: str) -> tuple[int, int, int, str]:
    """v2 before v1 before v1beta2 before v1alpha1 before anything else."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return -1, 0, 0, version
    return _STABILITY[match[2] or ""], int(match[1]), int(match[3] or 0), version


def _group(name: str, versions: Sequence[str]) -> Obj:
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def _group_version_kind(row: ServedResource, subresource: Subresource) -> Obj:
    if not subresource.kind:
        return {"group": row.group, "version": row.version, "kind": row.kind}
    group, _, version = subresource.api_version.rpartition("/")
    return {"group": group, "version": version, "kind": subresource.kind}


def _other_names(row: ServedResource) -> Obj:
    given = {"shortNames": list(row.short_names), "categories": list(row.categories)}
    return {field: names for field, names in given.items() if names}


def _legacy_entries(row: ServedResource) -> list[Obj]:
    entry: Obj = {
        "name": row.plural,
        "singularName": row.singular_name,
        "namespaced": row.namespaced,
        "kind": row.kind,
        "verbs": list(row.verbs),
    }
    entries = [entry | _other_names(row)]
    for name in row.subresources:
        subresource = subresource_of(name)
        part: Obj = {
            "name": f"{row.plural}/{name}",
            "singularName": "",
            "namespaced": row.namespaced,
            "kind": row.kind,
            "verbs": list(subresource.verbs),
        }
        if subresource.kind:
            part |= _group_version_kind(row, subresource)
        entries.append(part)
    return entries


def _entry(row: ServedResource) -> Obj:
    entry: Obj = {
        "resource": row.plural,
        "responseKind": _group_version_kind(row, Subresource()),
        "scope": "Namespaced" if row.namespaced else "Cluster",
        "singularResource": row.singular_name,
        "verbs": list(row.verbs),
        **_other_names(row),
    }
    if row.subresources:
        entry["subresources"] = [
            {
                "subresource": name,
                "responseKind": _group_version_kind(row, subresource_of(name)),
                "verbs": list(subresource_of(name).verbs),
            }
            for name in row.subresources
        ]
    return entry
