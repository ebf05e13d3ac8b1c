"""A page in Chromium that is watched: whatever it asks for and whatever it complains of is written down."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, field
from typing import Final

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, Playwright, expect

CHROMIUM: Final = shutil.which("chromium")
FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# Only a safety net: every wait ends as soon as what it waits for is there.
PATIENCE_MS: Final = 30_000
VIEWS: Final = ("Nodes", "Queue", "Throughput", "Pod", "Create")

expect.set_options(timeout=PATIENCE_MS)


def launch(playwright: Playwright) -> Browser:
    assert CHROMIUM is not None
    return playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))


@dataclass(slots=True)
class Look:
    """One open page."""

    page: Page
    origin: str
    expected: set[int] = field(default_factory=set)
    """Statuses of answers that the test provokes: the browser complains of each by itself."""
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda message: self._hear(message))

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type not in ("error", "warning"):
            return
        status = re.search(r"responded with a status of (\d+)", message.text)
        if status is None or int(status[1]) not in self.expected:
            self.complaints.append(f"{message.text} ({message.location.get('url')})")

    def open(self, link: str) -> Page:
        self.page.goto(link)
        return self.page

    def connected(self) -> Page:
        expect(self.page.locator("footer.status")).to_contain_text("connected")
        expect(self.page.locator("footer.status.open")).to_be_visible()
        return self.page

    def go(self, route: str) -> Page:
        """By the address, as a link from elsewhere does."""
        self.page.evaluate("route => { location.hash = route }", route)
        return self.page

    def blameless(self) -> None:
        """It reported no error, and sent no request to another server."""
        assert not self.complaints, self.complaints
        elsewhere = [url for url in self.requests if not url.startswith((f"{self.origin}/", "data:"))]
        assert not elsewhere, elsewhere


def new_look(context: BrowserContext, origin: str) -> Look:
    return Look(context.new_page(), origin)


def heading(page: Page) -> Locator:
    return page.get_by_role("heading", level=1)


def row(page: Page, name: str) -> Locator:
    """The row of a table that is about this."""
    return page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=name, exact=True))


def queue(page: Page, name: str) -> Locator:
    return page.locator("section.pod-queue").filter(has=page.get_by_role("heading", name=name, exact=True))


def hits(page: Page, name: str | None = None) -> Locator:
    """What the search box found."""
    return page.get_by_role("listbox", name="Found").get_by_role("option", name=name)
