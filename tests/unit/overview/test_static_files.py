"""The built page: its files, their headers, and an installation without it."""

from __future__ import annotations

from pathlib import Path

from kuberth.https.messages import Request
from kuberth.overview.pages import static_pages


def test_files_are_served_with_strict_headers_and_a_tag(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<!doctype html>")
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets/app.js").write_text("1")
    (tmp_path / "notes.txt").write_text("not public")
    (tmp_path / "module.py").write_text("")
    pages = static_pages("/ui", tmp_path)
    assert sorted(pages) == ["/ui", "/ui/", "/ui/assets/app.js", "/ui/index.html"]
    index = pages["/ui/"](Request("GET", "/ui/"))
    assert (index.status, index.body, index.content_type) == (
        200,
        b"<!doctype html>",
        "text/html; charset=utf-8",
    )
    assert index.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
    assert index.headers["x-content-type-options"] == "nosniff"
    assert index.headers["referrer-policy"] == "no-referrer"
    assert index.headers["cache-control"] == "no-cache"
    again = pages["/ui/"](Request("GET", "/ui/", headers={"if-none-match": index.headers["etag"]}))
    assert (again.status, again.body) == (304, b"")
    assert pages["/ui/assets/app.js"](Request("GET", "")).headers["etag"] != index.headers["etag"]
    moved = pages["/ui"](Request("GET", "/ui"))
    assert (moved.status, moved.headers["location"]) == (302, "/ui/")


def test_a_page_that_is_not_built_is_reported(tmp_path: Path) -> None:
    answer = static_pages("/ui", tmp_path / "none")["/ui/"](Request("GET", "/ui/"))
    assert answer.status == 404
    assert isinstance(answer.body, bytes)
    assert b"no page" in answer.body
