"""Dark and light, wide and narrow; and the pictures of the documentation, which are made here.

`KUBERTH_DOCS_IMAGES=docs/images` has them written there; without it they are taken and thrown away.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.waiting import wait_for
from tests.page.clusters import Cluster, deployment
from tests.page.conftest import MakeCluster, OpenPage
from tests.page.looking import heading, queue

pytestmark = pytest.mark.browser

# Ratio of contrast that WCAG 2 asks of text at level AA.
AA = 4.5
CONTRASTS = """() => {
  const luminance = ([r, g, b]) => [r, g, b].map(c => c / 255)
    .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
  const parts = colour => colour.match(/[\\d.]+/g).map(Number);
  const ground = element => {
    for (let one = element; one; one = one.parentElement) {
      const found = parts(getComputedStyle(one).backgroundColor);
      if (found.length === 3 || found[3] > 0.99) return found;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll("#app *")) {
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    if (!own || element.closest(".unseen, .skip, :disabled, option") || !element.checkVisibility()) continue;
    const [a, b] = [luminance(parts(getComputedStyle(element).color)), luminance(ground(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    found.push([ratio, element.className, element.textContent.slice(0, 40)]);
  }
  return found;
}"""


def pale(page: Page) -> list[object]:
    """Texts that are too close to what is behind them."""
    found = page.evaluate(CONTRASTS)
    assert found
    return [one for one in found if one[0] < AA]


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_every_text_stands_out(
    cluster: Cluster, make_page: OpenPage, open_page: OpenPage, scheme: str
) -> None:
    cluster.api.create_pod("seen", cpu="900")
    stranger = make_page(cluster.origin, color_scheme=scheme).open(f"{cluster.origin}/ui/")
    expect(stranger.get_by_label("Token")).to_be_visible()
    expect(stranger.locator("main")).to_have_css("opacity", "1")
    assert pale(stranger) == []
    look = open_page(color_scheme=scheme, reduced_motion="reduce")
    page = look.page
    expect(page.locator("html")).to_have_attribute("data-theme", scheme)
    for route in ("#/nodes", "#/nodes/small-1", "#/queue", "#/throughput", "#/pod/default/seen", "#/create"):
        look.go(route)
        expect(heading(page)).to_be_visible()
        expect(page.locator("main")).to_have_css("opacity", "1")
        assert pale(page) == [], route


def test_the_switch_goes_before_the_system_and_is_remembered(open_page: OpenPage) -> None:
    page = open_page(color_scheme="light").page
    html = page.locator("html")
    switch = page.get_by_role("button", name="Colours")
    switch.click()
    expect(html).to_have_attribute("data-theme", "dark")
    page.reload()
    expect(html).to_have_attribute("data-theme", "dark")
    switch.click()
    expect(html).to_have_attribute("data-theme", "light")
    switch.click()
    page.emulate_media(color_scheme="dark")
    expect(html).to_have_attribute("data-theme", "dark")


def test_a_phone_needs_no_scrolling_sideways(open_page: OpenPage) -> None:
    look = open_page(viewport={"width": 360, "height": 740})
    page = look.page
    for route in (
        "#/nodes",
        "#/nodes/small-1",
        "#/nodes?as=table",
        "#/queue",
        "#/throughput",
        "#/pod",
        "#/create",
    ):
        look.go(route)
        expect(heading(page)).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, route
        assert page.evaluate("document.querySelector('main').scrollWidth") <= 360, route
    page.get_by_role("button", name="Keys and help").click()
    assert page.get_by_role("dialog").evaluate("dialog => dialog.scrollWidth <= dialog.clientWidth")


def test_news_shift_nothing(cluster: Cluster, open_page: OpenPage) -> None:
    page = open_page().page
    expect(page.locator(".heat canvas")).to_be_visible()
    page.evaluate(
        """() => {
          window.shift = 0;
          new PerformanceObserver(list => list.getEntries().forEach(one => { window.shift += one.value; }))
            .observe({ type: "layout-shift" });
        }"""
    )
    expect(page.locator(".summary")).to_contain_text("8 nodes")
    cluster.api.create_pod("arriving")
    wait_for("a node", lambda: (cluster.api.pod("arriving") or {})["spec"].get("nodeName"))
    cluster.api.delete("/api/v1/namespaces/default/pods/arriving")
    wait_for("its end", lambda: cluster.api.pod("arriving") is None)
    page.keyboard.press("/")
    assert page.evaluate("window.shift") < 0.02


# How long a busy machine may take to schedule what the pictures show.
SETTLED_MS = 120_000
SHAPES = """\
- {name: general, count: 240, capacity: {cpu: "32", memory: 128Gi}}
- {name: highmem, count: 80, capacity: {cpu: "32", memory: 512Gi}}
- name: gpu
  count: 60
  taints: [{key: dedicated, value: ml, effect: NoSchedule}]
  capacity: {cpu: "64", memory: 512Gi, nvidia.com/gpu: "8"}
"""


def test_pictures_for_the_documentation(
    tmp_path: Path, make_cluster: MakeCluster, make_page: OpenPage
) -> None:
    images = Path(os.environ.get("KUBERTH_DOCS_IMAGES") or tmp_path / "images")
    images.mkdir(parents=True, exist_ok=True)
    take_pictures(make_cluster(shapes=SHAPES), make_page, images)


def take_pictures(cluster: Cluster, make_page: OpenPage, images: Path) -> None:
    looks = {scheme: make_page(cluster.origin, color_scheme=scheme) for scheme in ("dark", "light")}
    for look in looks.values():
        look.open(cluster.link)
        look.connected()

    def picture(name: str, scheme: str, route: str, *, ready: str) -> Page:
        page = looks[scheme].go(route)
        expect(page.locator("main")).to_contain_text(re.compile(ready))
        page.screenshot(path=images / f"page-{name}.png", animations="disabled")
        return page

    deployments = "/apis/apps/v1/namespaces/default/deployments"
    # The largest first, while there is room for them; those of batch fit nowhere.
    sizes = {
        "index": (40, "27"),
        "web": (220, "5"),
        "api": (130, "9"),
        "cache": (60, "13"),
        "batch": (45, "40"),
    }
    for name, (replicas, cpu) in sizes.items():
        cluster.api.create(deployments, deployment(name, replicas=replicas, cpu=cpu))
    for number in range(4):
        cluster.api.create_pod(
            f"import-{number}", spec={"schedulingGates": [{"name": "example.com/data-ready"}]}
        )
    page = looks["light"].go("#/queue")
    expect(queue(page, "Unschedulable").locator(".count")).to_have_text("45", timeout=SETTLED_MS)
    expect(queue(page, "Placed").locator(".count")).to_have_text("450", timeout=SETTLED_MS)
    for number in (3, 44, 118):
        cluster.api.merge(f"/api/v1/nodes/general-{number}", {"spec": {"unschedulable": True}})
    for number in (7, 90):
        ill = {"metadata": {"annotations": {"kuberth.dev/ready": "false"}}}
        cluster.api.merge(f"/api/v1/nodes/highmem-{number % 80}", ill)
    expect(looks["dark"].go("#/nodes?group=pool").locator(".summary")).to_contain_text("2 not ready")

    picture("nodes", "dark", "#/nodes?group=pool", ready="3 cordoned")
    picture("node", "light", "#/nodes/general-3?group=pool", ready="kubernetes.io/hostname")
    picture("queue", "light", "#/queue", ready="Unschedulable")
    picture("throughput", "dark", "#/throughput", ready="Pending pods")
    stuck = cluster.api.get("/api/v1/namespaces/default/pods?labelSelector=app%3Dbatch")["items"][0]
    picture("pod", "dark", f"#/pod/default/{stuck['metadata']['name']}", ready="What would help")
    page = looks["light"].go("#/create")
    page.get_by_role("button", name="Example").click()
    page.get_by_role("button", name="Apply", exact=True).click()
    picture("create", "light", "#/create", ready="configured")
