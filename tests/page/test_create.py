"""Objects from pasted text."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.waiting import wait_for
from tests.page.clusters import Cluster
from tests.page.conftest import OpenPage

pytestmark = pytest.mark.browser


def pasted(page: Page, text: str, button: str = "Apply") -> list[str]:
    """The result that is shown for each document."""
    page.get_by_label("Manifests").fill(text)
    page.get_by_role("button", name=button, exact=True).click()
    expect(page.get_by_role("button", name="Apply", exact=True)).to_be_enabled()
    results = page.get_by_role("list", name="Results").get_by_role("listitem")
    expect(results.first).to_be_visible()
    return results.all_inner_texts()


POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: NAME}\nspec: {containers: [{name: main, image: nginx}]}\n"


def test_each_of_several_documents_reports_its_result(cluster: Cluster, open_page: OpenPage) -> None:
    look = open_page("#/create")
    look.expected |= {404, 422}
    page = look.page
    text = "---\n".join(
        [
            "apiVersion: v1\nkind: Namespace\nmetadata: {name: pasted}\n",
            POD.replace("NAME", "first-pasted"),
            POD.replace("{name: NAME}", "{name: inside, namespace: pasted}"),
            POD.replace("NAME", "No_Name"),
            "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: thing}\n",
            "kind: [broken\n",
            '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "json"}, "data": {"a": "---"}}\n',
            POD.replace("{name: NAME}", "{generateName: named-by-server-}"),
        ]
    )
    reported = pasted(page, text)
    assert [line.split()[0] for line in reported] == ["✓", "✓", "✓", "✗", "✗", "✗", "✓", "✓"]
    assert reported[0] == "✓ Namespace pasted created"
    assert reported[1] == "✓ Pod default/first-pasted created"
    assert "lowercase RFC 1123" in reported[3]
    assert reported[4] == "✗ Thing thing the server has no kind Thing in example.com/v1"
    assert reported[5].startswith("✗ Document 6 ")
    assert "named-by-server-" in reported[7]
    assert cluster.api.get("/api/v1/namespaces/pasted/pods/inside")["metadata"]["name"] == "inside"

    again = pasted(page, POD.replace("NAME", "first-pasted"))
    assert again == ["✓ Pod default/first-pasted configured"]
    page.get_by_role("link", name="Pod default/first-pasted").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("default/first-pasted")
    cluster.api.delete("/api/v1/namespaces/pasted")


KIND = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Boat, plural: boats, singular: boat, listKind: BoatList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
"""


def test_a_kind_and_then_an_object_of_it(cluster: Cluster, open_page: OpenPage) -> None:
    page = open_page("#/create").page
    boat = "apiVersion: example.com/v1\nkind: Boat\nmetadata: {name: cutter}\n"
    assert pasted(page, f"{KIND}---\n{boat}") == [
        "✓ CustomResourceDefinition boats.example.com created",
        "✓ Boat default/cutter created",
    ]
    cluster.api.delete("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/boats.example.com")


def test_trying_keeps_nothing(cluster: Cluster, open_page: OpenPage) -> None:
    page = open_page("#/create").page
    assert pasted(page, POD.replace("NAME", "tried"), "Try without keeping") == [
        "✓ Pod default/tried created (tried, not kept)"
    ]
    assert cluster.api.pod("tried") is None


def test_the_example_runs_and_nothing_is_no_manifest(cluster: Cluster, open_page: OpenPage) -> None:
    page = open_page("#/create").page
    assert pasted(page, "# only a comment\n") == ["✗ Nothing to apply paste a manifest first"]
    page.get_by_role("button", name="Example").click()
    page.get_by_label("Manifests").press("Control+Enter")
    expect(page.get_by_role("list", name="Results")).to_contain_text("Deployment default/web created")
    path = "/apis/apps/v1/namespaces/default/deployments/web"
    wait_for("its pods", lambda: cluster.api.get(path).get("status", {}).get("readyReplicas") == 3)
