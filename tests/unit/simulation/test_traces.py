"""Traces: what is read, and where a broken one is broken."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberth.errors import ConfigError
from kuberth.simulation.arrivals import Arrival, ArrivalPods, pod_groups, with_names
from kuberth.simulation.traces import read_trace, write_trace


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_csv_and_json_lines_say_the_same(tmp_path: Path) -> None:
    table = written(
        tmp_path,
        "a.csv",
        "arrival,duration,tenant,priority,cpu,nvidia.com/gpu,node_selector\n"
        '1.5,60,blue,10,500m,2,"{""disk"": ""ssd""}"\n'
        "2,,,,1,,\n",
    )
    lines = written(
        tmp_path,
        "a.jsonl",
        '{"arrival": 1.5, "duration": 60, "tenant": "blue", "priority": 10,'
        ' "requests": {"cpu": "500m", "nvidia.com/gpu": "2"}, "node_selector": {"disk": "ssd"}}\n'
        '\n{"arrival": 2, "requests": {"cpu": "1"}}\n',
    )
    assert read_trace(table) == read_trace(lines)
    first, second = read_trace(table)
    assert first == Arrival(
        1.5, 60.0, "", "blue", 10, {"cpu": "500m", "nvidia.com/gpu": "2"}, {"disk": "ssd"}
    )
    assert second.duration is None


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("t.csv", "arrival,cpu\n1,1\n-2,1\n", ":3:1: arrival: a time is zero or more seconds, got -2"),
        ("t.csv", "arrival,duration\n1,-1\n", ":2:2: duration: a duration is zero or more"),
        ("t.csv", "arrival,duration\n1,soon\n", ":2:2: duration: 'soon' cannot be read"),
        ("t.csv", "arrival,duration\n1,nan\n", ":2:2: duration: a duration is zero or more"),
        ("t.csv", "arrival,cpu\n1,much\n", ":2:2: requests:"),
        ("t.csv", "arrival,cpu\n1,-1\n", ":2:2: requests: negative amounts are not allowed"),
        ("t.csv", "arrival,colour\n1,red\n", ":1:2: unknown column colour"),
        ("t.csv", "arrival,arrival\n1,2\n", ":1:2: column arrival is given twice"),
        ("t.csv", "cpu\n1\n", ":1:1: the column arrival is missing"),
        ("t.csv", "arrival,cpu\n1\n", ":2:2: 1 cells where the header has 2"),
        ("t.csv", 'arrival,labels\n1,"{"\n', ":2:2: labels:"),
        ("t.csv", 'arrival,name\n1,"a\n', "this is not CSV"),
        ("t.csv", "arrival\n", "there is no pod in this trace"),
        ("t.jsonl", '{"arrival": 1}\n{"arrival": 1 2}\n', ":2:15: this is not JSON"),
        ("t.jsonl", '{"arrival": NaN}\n', ":1:1: this is not JSON: NaN"),
        ("t.jsonl", '{"arrival": 1, "colour": "red"}\n', ":1:16: unknown field colour"),
        ("t.jsonl", '{"arrival": 1, "priority": "high"}\n', ":1:16: priority:"),
        ("t.jsonl", '{"duration": 1}\n', ":1:1: the field arrival is missing"),
        ("t.jsonl", "[1]\n", ":1:1: expected an object"),
        ("t.jsonl", '{"arrival": 1, "gang_size": 2}\n', ":1:16: gang_size: a gang's size"),
        ("t.jsonl", '{"arrival": 1, "tolerations": [{"effect": 3}]}\n', ":1:16: tolerations:"),
    ],
)
def test_a_broken_trace_is_reported_by_line_and_column(
    tmp_path: Path, name: str, text: str, expected: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read_trace(written(tmp_path, name, text))
    assert expected in str(caught.value)
    assert name in str(caught.value)


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_trace(tmp_path / "t.csv")
    with pytest.raises(ConfigError, match="No such file"):
        read_trace(tmp_path / "none.csv")


_ARRIVALS = st.builds(
    Arrival,
    arrival=st.floats(0, 1e6),
    duration=st.none() | st.floats(0, 1e6),
    tenant=st.sampled_from(["a", "b"]),
    priority=st.integers(-5, 5),
    requests=st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(0, 100)),
    labels=st.dictionaries(st.sampled_from(["x", "y"]), st.just("z")),
)


@given(st.lists(_ARRIVALS, min_size=1, max_size=5))
def test_what_is_written_reads_back(
    tmp_path_factory: pytest.TempPathFactory, arrivals: list[Arrival]
) -> None:
    path = tmp_path_factory.mktemp("traces") / "t.jsonl"
    path.write_text(write_trace(arrivals), encoding="utf-8")
    assert read_trace(path) == arrivals


def test_pods_that_ask_alike_share_their_spec() -> None:
    maker = ArrivalPods()
    first = maker.pod(Arrival(1, 5.0, requests={"cpu": "1"}), "a")
    second = maker.pod(Arrival(2, 7.0, requests={"cpu": "1"}), "b")
    assert first.spec is second.spec
    assert second.metadata.annotations == {"kuberth.dev/run-seconds": "7"}


def test_two_pods_of_one_name_and_gangs_that_never_fill_are_refused() -> None:
    with pytest.raises(ConfigError, match="entries 1 and 2 are both pod a of default"):
        with_names([Arrival(1, name="a"), Arrival(2, name="a")])
    with pytest.raises(ConfigError, match="asks for 3 members, but 1 ever arrive"):
        pod_groups([Arrival(1, gang="g", gang_size=3)])
