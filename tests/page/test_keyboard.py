"""All of it without a mouse."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.waiting import wait_for
from tests.page.clusters import Cluster
from tests.page.conftest import OpenPage
from tests.page.looking import VIEWS, heading, hits

pytestmark = pytest.mark.browser

TABS = 60


def tab_to(page: Page, selector: str) -> None:
    """Tab until the focus is there; fails where a person would have given up."""
    for _ in range(TABS):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement?.matches(selector) ?? false", selector):
            return
    raise AssertionError(f"{TABS} tabs did not lead to {selector}")


def test_digits_lead_to_the_views(open_page: OpenPage) -> None:
    page = open_page().page
    for key, name in reversed(list(enumerate(VIEWS, 1))):
        page.keyboard.press(str(key))
        expect(heading(page)).to_have_text(name)
        expect(page.locator("nav a[aria-current=page]")).to_contain_text(name)


def test_the_heat_map_is_walked_with_arrow_keys(open_page: OpenPage) -> None:
    page = open_page().page
    expect(page.locator(".heat canvas")).to_be_visible()
    tab_to(page, ".heat")
    current = page.locator("#heat-current")
    expect(current).to_have_text(re.compile(r"^gpu-1, cpu \d+ %, .* of 64, tainted$"))
    page.keyboard.press("ArrowRight")
    expect(current).to_have_text(re.compile("^gpu-2,"))
    page.keyboard.press("End")
    expect(current).to_have_text(re.compile("^small-6,"))
    page.keyboard.press("Home")
    expect(current).to_have_text(re.compile("^gpu-1,"))
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    panel = page.get_by_role("complementary")
    expect(panel.get_by_role("heading", name="gpu-2")).to_be_focused()
    page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    expect(page.locator(".heat")).to_be_focused()
    expect(current).to_have_text(re.compile("^gpu-2,"))


def test_from_search_to_a_deleted_pod_by_keys_alone(cluster: Cluster, open_page: OpenPage) -> None:
    cluster.api.create_pod("keyed-a")
    cluster.api.create_pod("keyed-b")
    look = open_page()
    look.expected.add(404)
    page = look.page
    page.keyboard.press("/")
    page.keyboard.type("keyed-")
    expect(hits(page)).to_have_count(2)
    page.keyboard.press("ArrowDown")
    chosen = page.locator("[role=option][aria-selected=true] .name").inner_text()
    page.keyboard.press("Enter")
    expect(heading(page)).to_have_text(f"default/{chosen}")
    tab_to(page, "button.danger")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    expect(page.get_by_role("dialog").get_by_role("button", name="Delete")).to_be_focused()
    page.keyboard.press("Enter")
    wait_for("its end", lambda: cluster.api.pod(chosen) is None)


def test_a_pod_is_made_by_keys_alone(cluster: Cluster, open_page: OpenPage) -> None:
    page = open_page().page
    page.keyboard.press("5")
    tab_to(page, "textarea")
    page.keyboard.insert_text('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "typed"},')
    page.keyboard.insert_text(' "spec": {"containers": [{"name": "main", "image": "x"}]}}')
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("list", name="Results")).to_contain_text("Pod default/typed created")
    tab_to(page, ".results a")
    page.keyboard.press("Enter")
    expect(heading(page)).to_have_text("default/typed")


def test_help_and_the_skip_link(open_page: OpenPage) -> None:
    page = open_page().page
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("3")
    expect(heading(page)).to_have_text("Nodes")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("Tab")
    page.evaluate("document.activeElement.blur()")
    tab_to(page, ".skip")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def test_digits_and_slashes_can_be_typed_into_fields(open_page: OpenPage) -> None:
    page = open_page("#/queue").page
    page.get_by_label("Filter").focus()
    page.keyboard.type("12/t?")
    expect(page.get_by_label("Filter")).to_have_value("12/t?")
    expect(heading(page)).to_have_text("Queue")


@pytest.mark.parametrize(
    "route", ["#/nodes", "#/nodes?as=table", "#/queue", "#/throughput", "#/pod", "#/create"]
)
def test_every_control_has_a_name(open_page: OpenPage, route: str) -> None:
    page = open_page(route).page
    expect(heading(page)).to_be_visible()
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("a, button, input, select, textarea, canvas, [tabindex='0']")]
          .filter(one => !one.closest("[aria-hidden=true]"))
          .filter(one => !(one.getAttribute("aria-label") || one.labels?.length || one.textContent.trim()))
          .map(one => one.outerHTML)"""
    )
    assert nameless == []
