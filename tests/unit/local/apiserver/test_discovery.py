from __future__ import annotations

from typing import Any

import pytest

from kuberth.local.apiserver.http.discovery import Discovery
from kuberth.local.apiserver.resources import ResourceTable, ServedResource
from kuberth.local.apiserver.status_errors import StatusError

POD = ServedResource(
    "",
    "v1",
    "Pod",
    "pods",
    short_names=("po",),
    categories=("all",),
    subresources=("status", "binding", "eviction"),
)
NODE = ServedResource("", "v1", "Node", "nodes", namespaced=False)
DEPLOYMENT = ServedResource("apps", "v1", "Deployment", "deployments", subresources=("scale",))


def table(*rows: ServedResource) -> ResourceTable:
    return ResourceTable(rows or (POD, NODE, DEPLOYMENT))


def names(document: dict[str, Any]) -> list[str]:
    return [entry["name"] for entry in document["resources"]]


def test_the_core_group() -> None:
    discovery = Discovery(table())
    assert discovery.versions()["versions"] == ["v1"]
    document = discovery.resource_list("", "v1")
    assert document["groupVersion"] == "v1"
    assert names(document) == ["nodes", "pods", "pods/status", "pods/binding", "pods/eviction"]
    pods = document["resources"][1]
    assert pods["shortNames"] == ["po"]
    assert pods["categories"] == ["all"]
    assert pods["namespaced"] is True
    assert set(pods["verbs"]) == {
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    }
    assert document["resources"][4] == {
        "name": "pods/eviction",
        "singularName": "",
        "namespaced": True,
        "kind": "Eviction",
        "group": "policy",
        "version": "v1",
        "verbs": ["create"],
    }


def test_groups_and_their_versions() -> None:
    rows = [
        ServedResource("stable.example", version, "Thing", "things", custom=True)
        for version in ("v1beta1", "v2alpha1", "v1", "v10", "strange", "v1beta2")
    ]
    discovery = Discovery(table(DEPLOYMENT, *rows))
    listed = discovery.group_list()["groups"]
    assert [group["name"] for group in listed] == [
        "apps",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "metrics.k8s.io",
        "stable.example",
    ]
    group = discovery.group("stable.example")
    assert [entry["version"] for entry in group["versions"]] == [
        "v10",
        "v1",
        "v1beta2",
        "v1beta1",
        "v2alpha1",
        "strange",
    ]
    assert group["preferredVersion"] == {"groupVersion": "stable.example/v10", "version": "v10"}


def test_reviews_can_only_be_asked() -> None:
    document = Discovery(table()).resource_list("authorization.k8s.io", "v1")
    assert names(document) == [
        "localsubjectaccessreviews",
        "selfsubjectaccessreviews",
        "selfsubjectrulesreviews",
        "subjectaccessreviews",
    ]
    assert {tuple(entry["verbs"]) for entry in document["resources"]} == {("create",)}


def test_everything_in_one_document() -> None:
    discovery = Discovery(table())
    (core,) = discovery.aggregated(core=True)["items"]
    assert core["metadata"] == {}
    (version,) = core["versions"]
    assert (version["version"], version["freshness"]) == ("v1", "Current")
    nodes, pods = version["resources"]
    assert (nodes["scope"], pods["scope"]) == ("Cluster", "Namespaced")
    assert pods["responseKind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert pods["subresources"][1] == {
        "subresource": "binding",
        "responseKind": {"group": "", "version": "v1", "kind": "Binding"},
        "verbs": ["create"],
    }
    others = discovery.aggregated(core=False)["items"]
    assert [group["metadata"]["name"] for group in others] == [
        "apps",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "metrics.k8s.io",
    ]


def test_a_row_that_comes_later_is_seen() -> None:
    resources = table()
    discovery = Discovery(resources)
    assert "example.org" not in discovery.groups()
    resources.add(ServedResource("example.org", "v1", "Thing", "things", custom=True))
    assert names(discovery.resource_list("example.org", "v1")) == ["things"]
    resources.remove("things.example.org")
    with pytest.raises(StatusError) as caught:
        discovery.resource_list("example.org", "v1")
    assert caught.value.code == 404


@pytest.mark.parametrize("group", ["", "nothing.example"])
def test_unknown_groups(group: str) -> None:
    with pytest.raises(StatusError) as caught:
        Discovery(table()).group(group)
    assert caught.value.code == 404
