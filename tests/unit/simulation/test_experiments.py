"""The public interface: experiments, policies, tables and stories."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from kuberth.api.core import Pod
from kuberth.cli import cli
from kuberth.cluster.nodes import NodeRow
from kuberth.errors import ConfigError
from kuberth.framework import CycleState, Handle, ScorePlugin
from kuberth.queue import FairShareQueue
from kuberth.simulation import (
    Arrival,
    Experiment,
    FixedWorkload,
    GeneratedWorkload,
    Outcome,
    Policy,
    Table,
    as_csv,
    as_html,
    as_json,
    nodes_of,
    read_cluster,
    read_workload,
    write_plots,
)
from kuberth.simulation.comparing import interval, student_quantile
from kuberth.simulation.traces import write_trace
from tests.unit.simulation.harness import pod

PACKED = {
    "profiles": [
        {
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {
                        "scoringStrategy": {
                            "type": "MostAllocated",
                            "resources": [{"name": "cpu", "weight": 1}],
                        }
                    },
                }
            ]
        }
    ]
}
SMALL = Experiment(nodes_of(3), GeneratedWorkload("services", pods=20, days=0.05))
WORDS = ("--nodes", "3", "--generate", "services", "--pods", "20", "--days", "0.05")


class LastNode(ScorePlugin):
    name = "LastNode"

    def __init__(self, args: None, handle: Handle) -> None:
        pass

    def score(self, state: CycleState, pod: Pod, node: NodeRow) -> int:
        return 100 if node.name == "node-3" else 0


ON_THE_LAST = {
    "profiles": [
        {"plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "LastNode", "weight": 1}]}}}
    ]
}


def few(*arrivals: Arrival, nodes: int = 1, **more: Any) -> Experiment:
    return Experiment(nodes_of(nodes, {"capacity": {"cpu": "4"}}), FixedWorkload(arrivals), **more)


def test_python_reports_what_the_command_does_to_the_byte(tmp_path: Path) -> None:
    (tmp_path / "packed.yaml").write_text(msgspec.yaml.encode(_with_kind(PACKED)).decode())
    (tmp_path / "plain.yaml").write_text(msgspec.yaml.encode(_with_kind({})).decode())
    done = CliRunner().invoke(
        cli,
        [
            "simulate",
            *WORDS,
            *("--compare", str(tmp_path / "plain.yaml"), str(tmp_path / "packed.yaml")),
            *("--seed", "3", "--seeds", "2"),
            *(f"--output-json={tmp_path}/o.json", f"--output-csv={tmp_path}/o.csv"),
            *(f"--report={tmp_path}/o.html", f"--plot={tmp_path}/o.svg"),
        ],
    )
    assert done.exit_code == 0, done.output
    found = SMALL.compare([Policy("plain"), Policy("packed", config=PACKED)], seeds=range(3, 5), records=True)
    write_plots(found, tmp_path / "own.svg")
    assert as_json(found) == (tmp_path / "o.json").read_bytes()
    assert as_csv(found) == (tmp_path / "o.csv").read_text()
    assert as_html(found) == (tmp_path / "o.html").read_text()
    assert (tmp_path / "own.svg").read_bytes() == (tmp_path / "o.svg").read_bytes()


def _with_kind(tree: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", **tree}


def test_a_single_run_is_the_commands(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["simulate", *WORDS, "--seed", "3", "-o", "json"])
    assert as_json(SMALL.compare([Policy("simulation")], seeds=[3])) == done.stdout.encode()


def test_a_policy_has_plugins_and_a_queue_of_its_own() -> None:
    own = Policy("own", config=ON_THE_LAST, plugins={"LastNode": LastNode}, queue=FairShareQueue)
    found = few(pod(0, 1), pod(1, 1), nodes=3).run(own)
    assert {row["node"] for row in found.pods_table()} == {"node-3"}


def test_policies_of_modules_run_in_other_processes() -> None:
    policies = [
        Policy("plain"),
        Policy("own", config=ON_THE_LAST, plugins={"LastNode": LastNode}, queue=FairShareQueue),
    ]
    tried = few(pod(0, 1), pod(1, 1), nodes=3)
    assert as_json(tried.compare(policies, processes=2)) == as_json(tried.compare(policies))


def test_what_cannot_be_sent_to_a_process_is_named() -> None:
    def local(args: None, handle: Handle) -> LastNode:
        return LastNode(args, handle)

    policy = Policy("own", plugins={"Local": local})
    with pytest.raises(ConfigError, match="processes=1"):
        SMALL.compare([policy], seeds=2, processes=2)


def test_policies_have_names_of_their_own() -> None:
    with pytest.raises(ConfigError, match="default, default"):
        SMALL.compare([Policy(), Policy()])


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        pytest.param(lambda: Experiment(nodes_of(1), [pod(0, 1)]), "FixedWorkload", id="a list of arrivals"),  # type: ignore[arg-type]
        pytest.param(lambda: Policy(queue="a:Queue"), "not a class", id="a queue's name"),  # type: ignore[arg-type]
        pytest.param(lambda: few(pod(0, 1)).compare([Policy()], seeds=0), "one seed", id="no seeds"),
    ],
)
def test_mistakes_in_a_notebook(make: Callable[[], object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        make()


def test_an_unknown_plugin_is_an_error_before_the_run() -> None:
    with pytest.raises(ConfigError, match="LastNode"):
        SMALL.run(Policy(config=ON_THE_LAST))


@pytest.fixture(scope="module")
def crowded() -> Outcome:
    return few(
        pod(0, 100, name="first", cpu="4", tenant="red"),
        pod(10, 100, name="second", cpu="4"),
        pod(20, 50, name="urgent", cpu="4", priority=10),
        until=200,
    ).run()


def test_pods_have_rows(crowded: Outcome) -> None:
    rows = [
        [row[name] for name in ("tenant", "name", "arrival", "wait", "node", "ended", "state")]
        for row in crowded.pods_table()
    ]
    assert rows == [
        ["red", "first", 0.0, 0.0, "node-1", 20.0, "preempted"],
        ["default", "second", 10.0, 60.0, "node-1", 170.0, "finished"],
        ["default", "urgent", 20.0, 0.0, "node-1", 70.0, "finished"],
        ["red", "first.again-1", 20.0, 150.0, "node-1", None, "running"],
    ]


def test_a_pods_story(crowded: Outcome) -> None:
    story = crowded.story("urgent")
    assert [(line.at, line.what) for line in story if line.what != "rejected"] == [
        (20.0, "created"),
        (20.0, "bound"),
        (70.0, "finished"),
    ]
    assert "Insufficient cpu" in next(line.detail for line in story if line.what == "rejected")
    assert crowded.story("first") == crowded.story("first", tenant="red")
    for tenant in (None, "red"):
        with pytest.raises(ConfigError, match="no pod nothing"):
            crowded.story("nothing", tenant=tenant)


def test_a_story_of_pods_with_the_same_name() -> None:
    outcome = few(pod(0, 1, name="p", tenant="red"), pod(0, 1, name="p", tenant="blue")).run()
    assert outcome.story("p", tenant="blue")[-1].what == "finished"
    with pytest.raises(ConfigError, match="pass tenant=, one of red, blue"):
        outcome.story("p")


def test_results_are_one_line_where_a_notebook_prints_them() -> None:
    experiment = few(pod(0, 100, cpu="4"), pod(10, 100, cpu="4"))
    found = experiment.compare([Policy("plain"), Policy("other")], seeds=2)
    assert repr(found) == "<Comparison of plain, other; 2 seeds>"
    page = found._repr_html_()
    assert "<td>wait mean</td><td>45s</td><td>45s</td>" in page
    assert page.count("<svg") == 5
    shown = "<Outcome 'plain', seed 0: 2 of 2 pods placed, 0 waiting, mean wait 45s>"
    assert repr(found.outcomes["plain"][0]) == shown
    assert repr(experiment.cluster) == "<ClusterState: 1 node>"


def test_nodes_have_rows(crowded: Outcome) -> None:
    (row,) = crowded.nodes_table()
    assert (row["name"], row["joined"], row["left"], row["pods"]) == ("node-1", 0.0, None, 4)


def test_waits_and_samples_have_rows(crowded: Outcome) -> None:
    waits = crowded.waits_table()
    assert [(row["of"], row["name"]) for row in waits] == [
        ("all", ""),
        ("priority", "0"),
        ("priority", "10"),
        ("tenant", "default"),
        ("tenant", "red"),
    ]
    assert crowded.samples_table()[1]["utilisation cpu"] == 1.0


def test_without_records_tables_say_how_to_get_them() -> None:
    with pytest.raises(ConfigError, match="records=True"):
        few(pod(0, 1), records=False).run().pods_table()


def test_a_table_as_text() -> None:
    table = Table([{"a": 1, "b": "<x>"}, {"a": 2.5, "c": None}])
    assert table.to_csv() == "a,b,c\n1,<x>,\n2.5,,\n"
    assert "<td>&lt;x&gt;</td>" in table._repr_html_()


def test_a_frame_asks_for_pandas_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError, match="pip install pandas"):
        Table().to_frame()


def test_plots_and_files_are_named_by_texts_too(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "pods.jsonl").write_text(write_trace([pod(0, 10), pod(5, 10)]))
    (tmp_path / "nodes.yaml").write_text("nodes: [{name: big, count: 2, capacity: {cpu: '8'}}]")
    (tmp_path / "plain.yaml").write_text(msgspec.yaml.encode(_with_kind({})).decode())
    cluster, coming = read_cluster(f"{tmp_path}/nodes.yaml"), read_workload(f"{tmp_path}/pods.jsonl")
    found = Experiment(cluster, FixedWorkload(coming)).compare([Policy(config=f"{tmp_path}/plain.yaml")])
    for name, start in (("plot.png", b"\x89PNG"), ("plot.svg", b"<svg")):
        write_plots(found, f"{tmp_path}/{name}")
        assert (tmp_path / name).read_bytes().startswith(start)


def test_a_frame_has_the_rows_and_columns_of_the_table() -> None:
    pytest.importorskip("pandas")
    frame = Table([{"a": 1, "b": "x"}, {"a": 2.5, "c": None}]).to_frame()
    assert list(frame.columns) == ["a", "b", "c"]
    assert frame["a"].tolist() == [1.0, 2.5]
    assert frame["b"].isna().tolist() == [False, True]


@pytest.mark.parametrize(
    ("share", "freedom", "expected"),
    [
        (0.975, 1, 12.7062),
        (0.975, 4, 2.7764),
        (0.975, 19, 2.0930),
        (0.995, 9, 3.2498),
        (0.975, 1000, 1.9623),
        (0.5, 3, 0.0),
    ],
)
def test_students_t_as_in_tables(share: float, freedom: int, expected: float) -> None:
    assert student_quantile(share, freedom) == pytest.approx(expected, abs=1e-4)


def test_intervals_of_figures() -> None:
    assert interval(1.0, 2.0, seeds=1) is None
    assert interval(10.0, 2.0, seeds=4) == pytest.approx((6.8176, 13.1824), abs=1e-4)
    found = SMALL.compare([Policy("plain"), Policy("packed", config=PACKED)], seeds=3)
    rows = {(each["figure"], each["variant"]): each for each in found.table()}
    row = rows["nodes used", "packed"]
    assert row["mean low"] < row["mean"] < row["mean high"]
    assert row["difference low"] < row["difference"] < row["difference high"]
    assert row["difference"] < 0, "packing uses fewer nodes"
    assert SMALL.compare([Policy()]).table()[0]["mean low"] is None
