"""`kuberth run --page`: the same page on the secure port, for looking only."""

from __future__ import annotations

import http.client
import socket
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.processes import Process
from tests.e2e.waiting import wait_for
from tests.page.conftest import OpenPage
from tests.page.looking import heading

pytestmark = pytest.mark.browser


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@pytest.fixture
def data(chromium: Browser, tmp_path: Path) -> Iterator[Path]:
    """The data of a cluster without a scheduler."""
    folder = tmp_path / "data"
    command = [sys.executable, "-m", "kuberth", "up", "--port", "0", "--nodes", "4", "--no-scheduler"]
    process = Process("kuberth up", [*command, "--data", str(folder)], log=tmp_path / "up.log")
    wait_for("the cluster", lambda: "Ready." in process.output(), seconds=60, explain=process.tail)
    yield folder
    process.terminate(seconds=30)


@pytest.fixture
def origin(data: Path, tmp_path: Path) -> Iterator[str]:
    """Where a scheduler beside that cluster serves its page."""
    port, kubeconfig = free_port(), str(data / "kubeconfig")
    command = [sys.executable, "-m", "kuberth", "run", "--page", "--leader-elect=false"]
    command += ["--bind-address", "127.0.0.1", "--secure-port", str(port)]
    for flag in ("--kubeconfig", "--authentication-kubeconfig", "--authorization-kubeconfig"):
        command += [flag, kubeconfig]
    process = Process("kuberth run", command, log=tmp_path / "run.log")

    def serves() -> bool:
        assert process.alive, process.tail()
        connection = http.client.HTTPSConnection(
            "127.0.0.1", port, timeout=5, context=ssl._create_unverified_context()
        )
        try:
            connection.request("GET", "/ui/")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    wait_for("its page", serves, seconds=60, explain=process.tail)
    yield f"https://127.0.0.1:{port}"
    process.terminate(seconds=30)


def test_it_shows_everything_and_changes_nothing(data: Path, origin: str, make_page: OpenPage) -> None:
    look = make_page(origin, ignore_https_errors=True)
    page = look.open(f"{origin}/ui/")
    page.get_by_label("Token").fill((data / "pki" / "token").read_text(encoding="utf-8").strip())
    page.get_by_role("button", name="Open").click()
    look.connected()
    status = page.locator("footer.status")
    expect(status).to_contain_text("4 nodes")
    expect(status).to_contain_text("read-only")
    expect(page.get_by_role("navigation").get_by_role("link")).to_have_count(4)
    page.keyboard.press("5")
    expect(heading(page)).to_have_text("Nodes")
    look.go("#/create")
    expect(page.get_by_text("This page is read-only")).to_be_visible()
    expect(page.get_by_role("textbox", name="Manifests")).to_have_count(0)
    look.go("#/nodes/node-1")
    expect(page.get_by_role("complementary")).to_contain_text("kubernetes.io/hostname=node-1")
    expect(page.get_by_role("button", name="Cordon")).to_have_count(0)
    look.go("#/queue")
    expect(heading(page)).to_have_text("Queue")
    assert not [url for url in look.requests if "/api" in url.removeprefix(origin)]
