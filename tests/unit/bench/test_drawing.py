"""Pictures: well-formed, to scale, and safe whatever the names are."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kuberth.bench.drawing import (
    Chart,
    Curve,
    charts_svg,
    expect_drawable,
    flame_svg,
    single_svgs,
    write_charts,
)
from kuberth.bench.measurements import LatencySample, RateSample
from kuberth.bench.profiling import StackSampler, read_folded
from kuberth.bench.running import WorkloadResult
from kuberth.errors import ConfigError
from tests.unit.bench.test_measurements import measured, result

SVG = "{http://www.w3.org/2000/svg}"


def elements(text: str, name: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(text).iter(f"{SVG}{name}"))


def test_curves_are_to_scale() -> None:
    svg = charts_svg([Chart("t", "pods/s", [Curve("a", [(0, 0), (10, 100)]), Curve("b", [(5, 50)])])])
    lines = [line.attrib["points"] for line in elements(svg, "polyline")]
    # 10 s and 100 pods/s are round, so the last point is in the corner of the plot.
    assert lines == ["70.0,240.0 836.0,52.0", "453.0,146.0"]
    texts = [text.text for text in elements(svg, "text")]
    assert {"t", "pods/s", "a", "b", "100", "10 s"} <= set(texts)


@pytest.mark.parametrize(
    ("longest", "last_tick"),
    [(100, "100 s"), (1200, "20 min"), (6 * 3600, "6 h"), (10 * 86400, "10 d")],
    ids=["seconds", "minutes", "hours", "days"],
)
def test_time_is_in_a_unit_that_people_read(longest: float, last_tick: str) -> None:
    chart = Chart("t", "u", [Curve("a", [(0, 1), (longest, 2)])])
    for svg in (charts_svg([chart]), *single_svgs([chart])):
        assert last_tick in [text.text for text in elements(svg, "text")]
        assert [float(each.attrib["cx"]) for each in elements(svg, "circle")][-1] == pytest.approx(
            float(elements(svg, "svg")[0].attrib["width"]) - 24
        )


def test_a_name_has_one_colour_in_all_charts() -> None:
    chart = Chart("x", "u", [Curve("first", [(1, 1)]), Curve("second", [(1, 2)])])
    svg = charts_svg([chart, Chart("y", "u", [Curve("second", [(1, 1)])])])
    strokes = [line.attrib["stroke"] for line in elements(svg, "polyline")]
    assert strokes[1] == strokes[2] != strokes[0]


def test_nothing_to_draw_is_said() -> None:
    assert "too short to be sampled" in charts_svg([Chart("t", "u", [Curve("a", [])])])


def test_flames_are_as_wide_as_their_share() -> None:
    svg = flame_svg({"kuberth.a:f;kuberth.b:g": 3, "kuberth.a:f;json:h": 1}, title="T")
    widths = {
        str(group.find(f"{SVG}title").text): float(group.find(f"{SVG}rect").attrib["width"])  # type: ignore[union-attr]
        for group in elements(svg, "g")
    }
    assert set(widths) == {"all (100.0%)", "kuberth.a:f (100.0%)", "kuberth.b:g (75.0%)", "json:h (25.0%)"}
    assert widths["kuberth.b:g (75.0%)"] == pytest.approx(3 * widths["json:h (25.0%)"], abs=2)


def test_hostile_names_stay_text() -> None:
    svg = flame_svg({"<script>alert(1)</script>;a & 'b'": 1}, title="<&>")
    assert not elements(svg, "script")
    assert not elements(charts_svg([Chart("<script/>", "'", [Curve('"<script/>', [(1, 1)])])]), "script")


def test_an_empty_profile_is_a_picture_too() -> None:
    assert "T: 0 samples" in flame_svg({}, title="T")


def test_throughput_and_latency_of_a_result(tmp_path: Path) -> None:
    run = measured(5, samples=[RateSample(1, 5, 5)], latencies=[LatencySample(1, 2, 3)])
    path = tmp_path / "plot.svg"
    both = WorkloadResult(result(kuberth=1).workload, {"kuberth": [run], "blind": [measured(6)]})
    write_charts(path, list(both.charts()))
    texts = [text.text for text in elements(path.read_text(encoding="utf-8"), "text")]
    assert "Quick/100Nodes: throughput" in texts
    assert {"kuberth p50", "kuberth p99", "blind"} <= set(texts)


@pytest.mark.parametrize(
    "name, expected",
    [
        ("plot.pdf", "ends with .svg or .png"),
        ("plot.png", "a PNG needs matplotlib: pip install 'kuberth[plot]', or write an .svg"),
        ("gone/plot.svg", "there is no folder"),
    ],
)
def test_a_plot_that_cannot_be_drawn_is_refused_beforehand(
    tmp_path: Path, name: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError) as error:
        expect_drawable(tmp_path / name)
    assert expected in str(error.value)


def busy_here(until: threading.Event) -> None:
    while not until.is_set():
        sum(range(1000))


def test_a_profile_shows_where_the_time_went(tmp_path: Path) -> None:
    folded = tmp_path / "stacks"
    enough = threading.Event()
    sampler = StackSampler(folded)
    taken = 0
    take = sampler._take

    def counted(frame: object) -> None:
        nonlocal taken
        take(frame)  # type: ignore[arg-type]  # what the sampler gave
        taken += 1
        if taken == 5:
            enough.set()

    sampler._take = counted  # type: ignore[method-assign]  # to end after some samples, not after some time
    with sampler:
        busy_here(enough)
    stacks = read_folded(folded)
    assert sum(stacks.values()) >= 5
    assert any("busy_here" in stack for stack in stacks)
    with StackSampler(folded):
        pass
    assert read_folded(folded) == stacks, "what another run found is added"
    assert read_folded(tmp_path / "none") == {}
