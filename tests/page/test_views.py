"""Every view shows what the cluster is like, and follows what others do to it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.page.clusters import Cluster, deployment
from tests.page.conftest import OpenPage
from tests.page.looking import VIEWS, heading, hits, queue, row

pytestmark = pytest.mark.browser


def test_the_link_logs_in_and_leaves_no_token_in_the_address(cluster: Cluster, open_page: OpenPage) -> None:
    look = open_page()
    assert "token" not in look.page.url
    expect(heading(look.page)).to_have_text("Nodes")
    expect(look.page.locator("footer.status")).to_contain_text("8 nodes")
    assert not [url for url in look.requests if cluster.token in url]


def test_every_view_has_a_link_and_the_back_button_works(open_page: OpenPage) -> None:
    page = open_page().page
    for name in VIEWS:
        page.get_by_role("navigation").get_by_role("link", name=name).click()
        expect(heading(page)).to_have_text(name)
        expect(page).to_have_title(f"{name} · Kuberth")
    for name in reversed(VIEWS[:-1]):
        page.go_back()
        expect(heading(page)).to_have_text(name)


def colours(page: Page) -> int:
    found: int = page.locator(".heat canvas").evaluate(
        """canvas => {
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          const seen = new Set();
          for (let at = 0; at < data.length; at += 4)
            seen.add(data[at] << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]);
          return seen.size;
        }"""
    )
    return found


def test_the_heat_map_is_drawn_by_any_resource_and_grouped(open_page: OpenPage) -> None:
    page = open_page().page
    expect(page.locator(".heat canvas")).to_be_visible()
    assert colours(page) > 2
    resource = page.get_by_label("Resource")
    assert resource.locator("option").all_inner_texts()[:3] == ["cpu", "memory", "pods"]
    resource.select_option("example.com/gpu")
    expect(page).to_have_url(re.compile(r"resource=example\.com%2Fgpu"))
    expect(page.locator(".summary")).to_contain_text("0 % of 16 example.com/gpu requested")
    page.get_by_label("Grouped by").select_option("pool")
    expect(page).to_have_url(re.compile("group=pool"))
    page.reload()
    expect(resource).to_have_value("example.com/gpu")
    expect(page.get_by_label("Grouped by")).to_have_value("pool")


def test_pointing_at_a_cell_shows_its_node(open_page: OpenPage) -> None:
    page = open_page().page
    page.locator(".heat canvas").hover(position={"x": 10, "y": 30})
    expect(page.locator(".tip")).to_contain_text(re.compile(r"^(small|gpu)-\d"))
    page.locator(".heat canvas").click(position={"x": 10, "y": 30})
    expect(page.get_by_role("complementary")).to_be_visible()
    expect(page).to_have_url(re.compile(r"#/nodes/(small|gpu)-\d"))


def test_the_table_says_the_same_and_follows_the_cluster(cluster: Cluster, open_page: OpenPage) -> None:
    page = open_page("#/nodes?as=table").page
    expect(row(page, "gpu-1")).to_contain_text("tainted")
    expect(row(page, "gpu-2")).to_contain_text("0 %")
    toleration = [{"key": "dedicated", "operator": "Exists"}]
    for name in ("gpu-1", "gpu-2"):
        cluster.api.create_pod(f"on-{name}", cpu="16", spec={"nodeName": name, "tolerations": toleration})
    expect(row(page, "gpu-2")).to_contain_text("25 %")
    cluster.api.delete("/api/v1/namespaces/default/pods/on-gpu-2")
    expect(row(page, "gpu-2")).to_contain_text("0 %")
    cluster.api.create_pod("on-small-2", cpu="3", spec={"nodeName": "small-2"})
    page.get_by_role("button", name="cpu requested").click()
    expect(page.get_by_role("rowheader").first).to_have_text("gpu-1")
    page.get_by_role("button", name="Share").click()
    expect(page.get_by_role("rowheader").first).to_have_text("small-2")


def test_nodes_come_and_go(cluster: Cluster, open_page: OpenPage) -> None:
    page = open_page("#/nodes?as=table").page
    cluster.api.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "passing"}})
    expect(row(page, "passing")).to_be_visible()
    expect(page.locator("footer.status")).to_contain_text("9 nodes")
    cluster.api.delete("/api/v1/nodes/passing")
    expect(row(page, "passing")).to_have_count(0)


def test_a_node_shows_its_pods_labels_and_taints(cluster: Cluster, open_page: OpenPage) -> None:
    page = open_page("#/nodes/gpu-1").page
    panel = page.get_by_role("complementary")
    expect(panel.get_by_role("heading", name="gpu-1")).to_be_focused()
    expect(panel).to_contain_text("dedicated=ml:NoSchedule")
    expect(panel).to_contain_text("kubernetes.io/hostname=gpu-1")
    cluster.api.create_pod("guest", spec={"nodeName": "gpu-1", "tolerations": [{"operator": "Exists"}]})
    expect(panel.get_by_role("link", name="default/guest")).to_be_visible()
    panel.get_by_role("link", name="default/guest").click()
    expect(heading(page)).to_have_text("default/guest")


def test_pods_move_through_the_queues(cluster: Cluster, open_page: OpenPage) -> None:
    page = open_page("#/queue").page
    gated = {"schedulingGates": [{"name": "example.com/wait"}]}
    cluster.api.create_pod("held", spec=gated)
    cluster.api.create_pod("too-big", cpu="900")
    expect(queue(page, "Gated").get_by_role("link", name="held")).to_be_visible()
    too_big = queue(page, "Unschedulable").get_by_role("link", name="too-big")
    expect(too_big).to_contain_text("not enough free resources")
    label, text = too_big.evaluate("link => [link.getAttribute('aria-label'), link.textContent]")
    assert label.replace(" ", "") == text.replace(" ", ""), "what is heard is what is seen"
    expect(queue(page, "Gated").locator(".count")).to_have_text("1")

    cluster.api.merge("/api/v1/namespaces/default/pods/held", {"spec": {"schedulingGates": []}})
    expect(queue(page, "Gated").get_by_role("link", name="held")).to_have_count(0)
    expect(queue(page, "Placed").get_by_role("link", name="held")).to_contain_text("→")

    page.get_by_label("Filter").fill("no-pod-has-this-name")
    expect(page.locator(".pod-queue li")).to_have_count(0)
    page.get_by_label("Filter").fill("free resources")
    expect(queue(page, "Unschedulable").get_by_role("link")).to_have_count(1)
    page.get_by_label("Filter").fill("noderesources")
    expect(queue(page, "Unschedulable").get_by_role("link")).to_have_count(1)
    for name in ("held", "too-big"):
        cluster.api.delete(f"/api/v1/namespaces/default/pods/{name}")
    page.get_by_label("Filter").fill("")
    expect(queue(page, "Unschedulable").get_by_role("link", name="too-big")).to_have_count(0)


def test_long_queues_show_some_pods_and_the_number_of_others(cluster: Cluster, open_page: OpenPage) -> None:
    page = open_page("#/queue").page
    cluster.api.create(
        "/apis/apps/v1/namespaces/default/deployments", deployment("crowd", replicas=70, cpu="900")
    )
    unschedulable = queue(page, "Unschedulable")
    expect(unschedulable.locator(".count")).to_have_text("70")
    expect(unschedulable.locator("li")).to_have_count(40)
    expect(unschedulable).to_contain_text("and 30 more")
    cluster.api.delete("/apis/apps/v1/namespaces/default/deployments/crowd")
    expect(unschedulable.locator(".count")).to_have_text("0")


def test_the_throughput_is_plotted_and_listed(cluster: Cluster, open_page: OpenPage) -> None:
    page = open_page("#/throughput").page
    plots = page.get_by_role("img")
    expect(plots).to_have_count(3)
    cluster.api.create_pod("quick")
    expect(page.locator("figure").first.locator("dd").nth(1)).not_to_have_text("most 0")
    expect(page.locator("figure").first.locator("dd").nth(1)).not_to_have_text("most –")
    page.get_by_text("The last minute as a table").click()
    expect(page.get_by_role("row").nth(1)).to_be_visible()
    plots.first.focus()
    moment = page.locator(".moment").first
    page.keyboard.press("ArrowLeft")
    expect(moment).to_have_text(re.compile(r"\d\d:\d\d:\d\d"))


def test_search_finds_pods_and_nodes(cluster: Cluster, open_page: OpenPage) -> None:
    page = open_page().page
    cluster.api.create_pod("needle")
    box = page.get_by_role("combobox", name="Search pods and nodes")
    box.fill("small-3")
    expect(hits(page)).to_have_count(1)
    box.press("Enter")
    expect(page.get_by_role("complementary")).to_contain_text("small-3")
    box.fill("needl")
    expect(hits(page, name="needle")).to_be_visible()
    hits(page, name="needle").click()
    expect(heading(page)).to_have_text("default/needle")
    box.fill("no such thing")
    expect(page.get_by_text("No pod or node matches.")).to_be_visible()
