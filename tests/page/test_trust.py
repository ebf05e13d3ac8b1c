"""Access to the page, names with special characters, and a server that goes away."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.page.clusters import Cluster
from tests.page.conftest import MakeCluster, OpenPage
from tests.page.looking import heading

pytestmark = pytest.mark.browser

HOSTILE = '<img src=x onerror="window.harmed=1"><script>window.harmed=1</script>'


def test_without_credentials_there_is_a_form_and_nothing_else(cluster: Cluster, make_page: OpenPage) -> None:
    look = make_page(cluster.origin)
    page = look.open(f"{cluster.origin}/ui/")
    expect(page.get_by_label("Token")).to_be_focused()
    expect(page.get_by_text("kuberth up")).to_be_visible()
    assert not [url for url in look.requests if "/ui/stream" in url or "/api" in url]
    page.get_by_label("Token").fill(cluster.token)
    page.keyboard.press("Enter")
    look.connected()
    expect(heading(page)).to_have_text("Nodes")
    page.reload()
    look.connected()


def test_a_wrong_token_is_reported_and_not_stored(cluster: Cluster, make_page: OpenPage) -> None:
    look = make_page(cluster.origin)
    look.expected |= {401, 403}
    page = look.open(f"{cluster.origin}/ui/#token=wrong")
    expect(page.get_by_role("alert")).to_contain_text("nauthorized")
    assert page.evaluate("sessionStorage.length") == 0
    page.get_by_label("Token").fill(cluster.token)
    page.get_by_role("button", name="Open").click()
    look.connected()


def test_a_link_pasted_into_an_open_page_logs_in(cluster: Cluster, make_page: OpenPage) -> None:
    look = make_page(cluster.origin)
    page = look.open(f"{cluster.origin}/ui/")
    expect(page.get_by_label("Token")).to_be_visible()
    look.go(f"#token={cluster.token}")
    look.connected()
    assert "token" not in page.url


def test_the_token_stays_in_its_tab(cluster: Cluster, open_page: OpenPage) -> None:
    look = open_page()
    assert look.page.evaluate("localStorage.length") == 0
    assert look.page.context.cookies() == []


def test_what_the_cluster_says_is_text_whatever_it_says(cluster: Cluster, open_page: OpenPage) -> None:
    """Names are held to an alphabet, but what others write next to them is not."""
    metadata = {"annotations": {"note": HOSTILE, "kuberth.dev/run-seconds": HOSTILE}}
    cluster.api.create_pod("hostile", spec={"schedulerName": HOSTILE}, metadata=metadata)
    cluster.api.create_pod("hostile-too", cpu="900", metadata=metadata)
    taint = {"key": "example.com/x", "value": "", "effect": "NoSchedule"}
    cluster.api.merge(
        "/api/v1/nodes/small-6",
        {"spec": {"taints": [taint]}, "metadata": {"annotations": metadata["annotations"]}},
    )
    look = open_page()
    look.expected |= {404, 422}
    page = look.page
    for route in (
        "#/nodes/small-6",
        "#/queue",
        "#/pod/default/hostile",
        "#/pod/default/hostile-too",
        "#/pod",
    ):
        look.go(route)
        expect(heading(page)).to_be_visible()
    look.go("#/pod/default/hostile")
    expect(page.locator("dl.facts")).to_contain_text(HOSTILE)
    look.go(f"#/pod/default/{HOSTILE}")
    expect(heading(page)).to_contain_text("onerror")
    expect(page.locator(".problem").first).to_contain_text("onerror")
    look.go("#/create")
    page.get_by_label("Manifests").fill(f"apiVersion: v1\nkind: Pod\nmetadata: {{name: '{HOSTILE}'}}\n")
    page.get_by_role("button", name="Apply", exact=True).click()
    expect(page.get_by_role("list", name="Results")).to_contain_text("onerror")
    page.get_by_role("combobox").fill(HOSTILE)
    expect(page.get_by_text("No pod or node matches.")).to_be_visible()
    assert page.evaluate("window.harmed") is None
    assert page.locator("img, script:not([src])").count() == 0
    cluster.api.merge("/api/v1/nodes/small-6", {"spec": {"taints": None}})


def test_the_server_restarts_and_the_page_is_back_by_itself(
    make_cluster: MakeCluster, make_page: OpenPage
) -> None:
    cluster = make_cluster("--nodes", "3")
    look = make_page(cluster.origin)
    page = look.open(cluster.link)
    look.connected()
    expect(page.locator("footer.status")).to_contain_text("3 nodes")
    cluster.end()
    expect(page.locator("footer.status")).to_contain_text("reconnecting")
    expect(page.locator("footer.status")).to_contain_text("3 nodes")
    cluster.start_again()
    cluster.api.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "new"}})
    cluster.api.delete("/api/v1/nodes/node-1")
    look.connected()
    look.go("#/nodes?as=table")
    expect(page.get_by_role("rowheader")).to_have_text(["new", "node-2", "node-3"])
    # What the browser says of a server that is not there is the browser's own.
    look.complaints[:] = [one for one in look.complaints if "net::ERR_" not in one]
