"""One cluster and one Chromium for all of these tests; every page that a test opened must be blameless."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.page.clusters import Cluster
from tests.page.looking import CHROMIUM, Look, launch, new_look

SHAPES = """\
- name: small
  count: 6
  capacity: {cpu: "4", memory: 8Gi}
- name: gpu
  count: 2
  taints: [{key: dedicated, value: ml, effect: NoSchedule}]
  capacity: {cpu: "64", memory: 512Gi, example.com/gpu: "8"}
  zones: [a]
"""

OpenPage = Callable[..., Look]
MakeCluster = Callable[..., Cluster]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no chromium: run `make browser`")
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def shared_cluster(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("page")
    shapes = folder / "shapes.yaml"
    shapes.write_text(SHAPES, encoding="utf-8")
    cluster = Cluster(folder, "--shapes", str(shapes))
    yield cluster
    cluster.end()


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Iterator[Cluster]:
    """What the test makes run there goes after its pages closed: none of them asks for what is gone."""
    nodes = shared_cluster.api.nodes()
    yield shared_cluster
    shared_cluster.api.clear(nodes)


@pytest.fixture
def make_cluster(chromium: Browser, tmp_path: Path) -> Iterator[MakeCluster]:
    """A separate cluster."""
    made: list[Cluster] = []

    def make(*flags: str, shapes: str | None = None) -> Cluster:
        if shapes is not None:
            file = tmp_path / "shapes.yaml"
            file.write_text(shapes, encoding="utf-8")
            flags = (*flags, "--shapes", str(file))
        made.append(Cluster(tmp_path, *flags))
        return made[-1]

    yield make
    for cluster in made:
        cluster.end()


@pytest.fixture
def make_page(chromium: Browser, make_cluster: MakeCluster) -> Iterator[OpenPage]:
    # Given the clusters, so that pages are closed before these end.
    looks: list[Look] = []

    def make(origin: str, **options: Any) -> Look:
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        looks.append(new_look(context, origin))
        return looks[-1]

    yield make
    for look in looks:
        look.page.context.close()
    for look in looks:
        look.blameless()


@pytest.fixture
def open_page(cluster: Cluster, make_page: OpenPage) -> OpenPage:
    """A page that is logged in and connected."""

    def open_page(route: str = "", **options: Any) -> Look:
        look = make_page(cluster.origin, **options)
        look.open(cluster.link)
        look.connected()
        if route:
            look.go(route)
        return look

    return open_page
