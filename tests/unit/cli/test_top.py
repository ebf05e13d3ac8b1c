"""`kuberth top`: keys, frames, and a real terminal against a real server."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.cells import cell_len

from kuberth.cli.top_display import brief, detail_lines, frame, spark, whole
from kuberth.cli.top_model import VIEWS, TopModel
from kuberth.cli.top_session import decode_keys
from kuberth.overview.reading import EventReader, StreamState

NOW = 1_000_000.0
LIMIT_SECONDS = 60


def seen() -> StreamState:
    stream_state = StreamState()
    stream_state.take("hello", {"cluster": "c", "now": NOW, "resources": ["cpu", "memory", "pods", "gpu"]})
    nodes = [
        [f"node-{number}", "a", "blue", flags, [8.0, 1 << 34, 110, 0], [float(number), 1 << 30, number, 0]]
        for number, flags in enumerate((0, 1, 2, 4, 0))
    ]
    stream_state.take("nodes", {"set": nodes, "gone": [], "all": True})
    stream_state.take(
        "queues",
        {"active": 1, "backoff": 0, "unschedulable": 2, "gated": 1, "inflight": 0, "permit": 0, "placed": 10},
    )
    pods = [
        ["u1", "default", "web-1", "unschedulable", 0, 3, NOW - 50, "NodeResourcesFit", "p", []],
        ["u2", "default", "web-2", "unschedulable", 9, 1, NOW - 90, "NodeResourcesFit", "p", []],
        ["u3", "other", "db\x1b[31m", "gated", 0, 0, NOW - 10, "example.com/wait", "p", []],
        ["u4", "other", "new", "active", 5, 0, NOW - 1, "", "p", []],
    ]
    stream_state.take("pods", {"set": pods, "gone": [], "all": True})
    stream_state.take(
        "throughput", {"rows": [[1, 5, 1, 0, 0.5, 2.0, 3], [2, 0, 0, 0, None, None, 4]], "all": True}
    )
    return stream_state


def pressed(*keys: str, view: str = "queue") -> TopModel:
    model = TopModel(seen(), view=view)
    for key in keys:
        model.press(key)
    return model


# Keys


@pytest.mark.parametrize(
    "sent, keys",
    [
        pytest.param("q/a", ["q", "/", "a"], id="letters"),
        pytest.param("\x1b[A\x1b[B\x1bOC", ["up", "down", "right"], id="arrows"),
        pytest.param("\x1b[5~\x1b[6~\x1b[1~\x1b[F", ["pageup", "pagedown", "home", "end"], id="pages"),
        pytest.param("\x1b", ["escape"], id="escape"),
        pytest.param("\x1b\x1b[A", ["escape", "up"], id="escape-then-arrow"),
        pytest.param("\r\n\x7f\t", ["enter", "enter", "backspace", "tab"], id="named"),
        pytest.param("\x1b[200~x\x1b[", ["x"], id="unknown-and-unfinished"),
        pytest.param("\x00\x01é", ["é"], id="control"),
    ],
)
def test_what_a_terminal_sends(sent: str, keys: list[str]) -> None:
    assert list(decode_keys(sent)) == keys


def test_views_and_selection() -> None:
    assert [pressed(key).view for key in "1234nupt"] == [*VIEWS, *VIEWS]
    assert pressed("tab", "tab", "tab").view == "nodes"
    assert pressed("left", view="nodes").view == "throughput"
    assert pressed("down", "j", "k", view="nodes").selected == 1
    assert pressed("pagedown", view="nodes").selected == 4
    assert pressed("end", "pageup", "up", view="nodes").selected == 0
    assert pressed("q").ended
    assert not pressed("?", "x").ended
    assert pressed("?", "q").ended


def test_sorting_and_filtering() -> None:
    assert [row[0] for row in pressed(view="nodes").nodes()] == [f"node-{n}" for n in (4, 3, 2, 1, 0)]
    assert pressed("s", "s", "s", "r", view="nodes").nodes()[0][0] == "node-4"
    assert [row[0] for row in pressed("/", "N", "o", "d", "e", "-", "3", "enter", view="nodes").nodes()] == [
        "node-3"
    ]
    assert [row[2] for row in pressed(view="pods").pods()] == ["web-2", "web-1", "db\x1b[31m", "new"]
    model = pressed("/", *"web", "enter", view="pods")
    assert ([row[2] for row in model.pods()], model.sought) == (["web-2", "web-1"], "web")
    model.add_found(
        {"pods": [["default", "web-7", "placed", "node-1"], ["default", "web-1", "unschedulable", ""]]}
    )
    assert [row[2] for row in model.pods()] == ["web-2", "web-1", "web-7"]
    model.press("end")
    model.press("enter")
    assert model.wanted == ("default", "web-7")
    model.press("escape")
    assert (model.filter, len(model.pods())) == ("", 4)
    assert pressed("/", "q", "backspace", "escape").filter == ""


def test_a_reason_leads_to_its_pods_and_a_pod_to_its_story() -> None:
    model = pressed("enter")
    assert (model.view, model.filter) == ("pods", "noderesourcesfit")
    model.press("down")
    model.press("enter")
    assert model.wanted == ("default", "web-1")
    model.show_detail([f"line {number}" for number in range(100)])
    model.press("pagedown")
    assert "line 10" in frame(model, width=80, height=10, now=NOW).plain
    model.press("escape")
    assert (model.detail, model.view) == (None, "pods")


# Frames


@pytest.mark.parametrize("size", [(200, 50), (80, 24), (40, 10), (20, 5), (8, 2), (1, 1)], ids=str)
@pytest.mark.parametrize("state", [*VIEWS, "help", "detail", "typing", "problem", "empty"])
def test_a_frame_fits_the_terminal(state: str, size: tuple[int, int]) -> None:
    width, height = size
    model = TopModel(StreamState() if state == "empty" else seen(), view=state if state in VIEWS else "nodes")
    model.help, model.typing = state == "help", state == "typing"
    model.detail = ["\x1b[31mx\x1b[0m" * 300] * 99 if state == "detail" else None
    text = frame(
        model, width=width, height=height, now=NOW, problem="it\nis gone" if state == "problem" else ""
    )
    lines = text.plain.split("\n")
    assert len(lines) == height
    assert all(cell_len(line) <= width for line in lines)
    assert "\x1b" not in text.plain


def test_one_frame_summarizes_the_cluster() -> None:
    text = brief(pressed(), width=100, now=NOW).plain
    for expected in (
        "5 nodes, 10 pods on them, 4 pending",
        "NodeResourcesFit",
        "default/web-2",
        "1m 30s",
        "node-4",
    ):
        assert expected in text
    assert "\x1b" not in text


LONG = "node-of-a-very-long-pool-name-in-a-zone-with-a-very-long-name-7f9c6d5b48-x2x4z"


def many() -> TopModel:
    """Thirty nodes with long names and odd sizes, and as many pods with as long names."""
    state = StreamState()
    state.take(
        "hello",
        {"cluster": "c", "now": NOW, "resources": ["cpu", "memory", "pods", "ephemeral-storage", "gpu"]},
    )
    amounts = [[8.0, 1 << 34, 110, 100 << 30, 0], [2.5, 1 << 31, 4, 10 << 30, 0]]
    nodes = [[f"{LONG}{number}", "a-long-zone", "a-long-pool-name", 0, *amounts] for number in range(30)]
    state.take("nodes", {"set": nodes, "gone": [], "all": True})
    state.take("queues", {"unschedulable": 29, "permit": 1, "placed": 1})
    pods = [
        [f"u{n}", "default", f"{LONG}{n}", "unschedulable", 0, 3, NOW - 50, f"Plugin{n}", "p", []]
        for n in range(29)
    ]
    held = ["u", "default", "held", "permit", 0, 1, NOW - 5, "Hold", "p", [["Hold", NOW - 5, NOW + 25]]]
    state.take("pods", {"set": [*pods, held], "gone": [], "all": True})
    state.take("throughput", {"rows": [[1, 5, 1, 0, 0.5, 1500.0, 3]], "all": True})
    return TopModel(state)


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        ("nodes", [f"{LONG}29", "2.5/8 31 %", "2/16 GiB 12 %", "10/100 GiB 10 %"]),
        ("pods", [f"default/{LONG}28", "Plugin28", "Hold: 5s of 30s"]),
        ("queue", ["Plugin28", "Hold"]),
        ("throughput", ["attempt, p99: 1.5s, at most 1.5s", "attempt, median: 0.5ms"]),
    ],
    ids=["nodes", "pods", "queue", "throughput"],
)
def test_a_view_is_printed_whole_and_no_name_is_cut(view: str, expected: list[str]) -> None:
    model = many()
    model.view = view
    text = whole(model, width=None, now=NOW).plain
    assert [each for each in expected if each not in text] == []
    assert all(line == line.rstrip() for line in text.split("\n"))


@pytest.mark.parametrize("zone", ["zone-a", ""])
def test_the_nodes_of_a_local_cluster_fit_80_columns_without_a_terminal(zone: str) -> None:
    state = StreamState()
    state.take("hello", {"cluster": "kuberth", "now": NOW, "resources": ["cpu", "memory", "pods"]})
    amounts = [[16.0, 64 << 30, 110], [12.25, 51.5 * (1 << 30), 101]]
    nodes = [[f"node-{number}", zone, "general-purpose", 7, *amounts] for number in range(3)]
    state.take("nodes", {"set": nodes, "gone": [], "all": True})
    head, *_, last = whole(TopModel(state, view="nodes"), width=None, now=NOW).plain.split("\n")
    assert head == "Cluster kuberth: 3 nodes, 0 pods on them, 0 pending, 0 bound/s"
    place = f"{zone} general-purpose" if zone else "general-purpose"
    assert last == f"node-2 {place} !-t 12.2/16 77 % 51.5/64 GiB 80 % 101/110 92 %"
    assert cell_len(last) <= 80


def test_a_summary_says_what_it_leaves_out() -> None:
    text = brief(many(), width=None, now=NOW).plain
    assert f"{LONG}0 " in text
    assert "1 pod on them" in text
    assert "and 20 more: --view nodes" in text
    narrow = brief(many(), width=60, now=NOW).plain.split("\n")
    assert all(cell_len(line) <= 60 for line in narrow)


def test_small_things() -> None:
    assert spark([0, None, 1, 2], 3) == " ▅█"
    assert spark([], 5) == ""


def test_a_history_is_printed_line_by_line() -> None:
    story = {
        "pod": {"namespace": "d", "name": "p", "node": "n1", "queue": "placed", "priority": 0, "attempts": 1},
        "moves": [
            {"at": NOW - 5, "from": "unschedulable", "to": "active", "event": "Node/Add", "object": "n1",
             "plugin": "NodeResourcesFit", "hint": "Queue", "note": ""},
        ],
        "cycles": [
            {"at": NOW - 4, "seconds": 0.002, "result": "scheduled", "node": "n1", "nominated": "",
             "message": "", "rejections": [{"plugin": "NodeName", "reason": "no\x1b", "nodes": 2}],
             "evaluated": 3, "feasible": 1,
             "scores": {"nodes": ["n1"], "plugins": {"Fit": [7]}, "totals": [7], "weights": {}}},
        ],
    }  # fmt: skip
    text = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(detail_lines(story, None, width=200, now=NOW)))
    assert "5s ago  unschedulable -> active  Node/Add of n1, NodeResourcesFit returned Queue" in text
    assert "scheduled on n1, 1 of 3 nodes fit, 2ms" in text
    assert "7 n1: Fit 7" in text
    assert "\x1b" not in text


def test_a_stream_is_cut_into_events_wherever_its_pieces_end() -> None:
    data = b': still here\n\nevent: queues\ndata: {"active":1}\n\nevent: pods\ndata: {"set":[],"gone":[]}\n\n'
    for size in (1, 2, 7, len(data)):
        reader = EventReader()
        events = [event for at in range(0, len(data), size) for event in reader.feed(data[at : at + size])]
        assert events == [("queues", {"active": 1}), ("pods", {"set": [], "gone": []})]


# A real terminal


class Terminal:
    """A program in a terminal of its own, and what it writes there."""

    def __init__(self, *command: str, columns: int = 100, rows: int = 30, **environment: str) -> None:
        self.outer, self._inner = pty.openpty()
        fcntl.ioctl(self._inner, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.mode = termios.tcgetattr(self._inner)
        # The size is the terminal's, whatever the tests themselves run in.
        inherited = {name: value for name, value in os.environ.items() if name not in ("LINES", "COLUMNS")}
        self.process = subprocess.Popen(
            command,
            stdin=self._inner,
            stdout=self._inner,
            stderr=self._inner,
            start_new_session=True,
            env={**inherited, "TERM": "xterm-256color", **environment},
        )
        self.output = ""

    def wait_for(self, *texts: str) -> None:
        """Until all of these stand in what was written since the last time."""
        deadline = time.monotonic() + LIMIT_SECONDS
        written = ""
        while not all(text in written for text in texts):
            assert time.monotonic() < deadline, f"{texts} not in {written[-4000:]!r}"
            written += self._read(0.1)

    def press(self, keys: str) -> None:
        os.write(self.outer, keys.encode())

    def end(self) -> int:
        """Its exit code; all that it wrote is read."""
        deadline = time.monotonic() + LIMIT_SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < deadline
            self._read(0.05)
        while self._read(0.05):
            pass
        return self.process.returncode

    def is_given_back(self) -> bool:
        """The mode is as it was, the other screen is left and the cursor is shown."""
        left = self.output.rfind("\x1b[?1049l") > self.output.rfind("\x1b[?1049h")
        shown = self.output.rfind("\x1b[?25h") > self.output.rfind("\x1b[?25l")
        return left and shown and termios.tcgetattr(self._inner) == self.mode

    def _read(self, seconds: float) -> str:
        if not select.select([self.outer], [], [], seconds)[0]:
            return ""
        text = os.read(self.outer, 1 << 16).decode(errors="replace")
        self.output += text
        return text

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.outer)
        os.close(self._inner)


@contextlib.contextmanager
def terminal(*command: str, **options: Any) -> Iterator[Terminal]:
    opened = Terminal(sys.executable, "-m", "kuberth", *command, **options)
    try:
        yield opened
    finally:
        opened.close()


PODS = """
apiVersion: v1
kind: Pod
metadata: {name: too-large}
spec: {containers: [{name: c, image: x, resources: {requests: {cpu: "99"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: fitting}
spec: {containers: [{name: c, image: x, resources: {requests: {cpu: "1"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: held-back}
spec: {schedulingGates: [{name: example.com/wait}], containers: [{name: c, image: x}]}
"""


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a cluster that runs."""
    folder = tmp_path_factory.mktemp("top")
    (folder / "pods.yaml").write_text(PODS)
    path = folder / "kubeconfig"
    command = ("up", "--memory", "--port", "0", "--page-port", "0", "--nodes", "3")
    arguments = ("--kubeconfig-out", str(path), "-f", str(folder / "pods.yaml"))
    with subprocess.Popen(
        [sys.executable, "-m", "kuberth", *command, *arguments], stdout=subprocess.PIPE, text=True
    ) as up:
        try:
            assert up.stdout is not None
            for line in up.stdout:
                if line.startswith("Watch it in a browser"):
                    break
            yield str(path)
        finally:
            up.terminate()
            assert up.wait(LIMIT_SECONDS) == 0, "it ends although a client is connected"


def test_keys_in_a_terminal(kubeconfig: str) -> None:
    # So high that all of an explanation is seen, however often the pod was tried meanwhile.
    with terminal("top", "--kubeconfig", kubeconfig, rows=120) as screen:
        screen.wait_for("3 nodes, 1 pod on them, 2 pending", "NodeResourcesFit", "example.com/wait")
        screen.press("1")
        screen.wait_for("node-1", "node-3", "hollow.node")
        screen.press("3")
        screen.wait_for("default/too-large", "default/held-back")
        screen.press("/held\r")
        screen.wait_for("with 'held'")
        screen.press("\x1b")
        screen.wait_for("default/too-large")
        screen.press("/too-l\r\r")
        screen.wait_for("Moves", "Rejected", "Insufficient cpu on 3 nodes", "Retried on")
        screen.press("\x1b[6~")
        screen.press("\x1b")
        screen.wait_for("default/too-large")
        screen.press("\x1b/fitting\r")
        screen.wait_for("on node-")
        screen.press("\r")
        screen.wait_for("default/fitting  on node-")
        screen.press("\x1b?")
        screen.wait_for("history and explanation")
        screen.press("x4")
        screen.wait_for("scheduled per second")
        screen.press("q")
        assert screen.end() == 0
        assert screen.is_given_back()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda each: each.name)
def test_signals_give_the_terminal_back(kubeconfig: str, how: signal.Signals) -> None:
    with terminal("top", "--kubeconfig", kubeconfig, columns=40, rows=8) as screen:
        screen.wait_for("Cluster kuberth")
        screen.process.send_signal(how)
        assert screen.end() == 0
        assert screen.is_given_back()


def top(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kuberth", "top", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)


def test_without_a_terminal_one_frame_is_printed(kubeconfig: str) -> None:
    answer = top("--kubeconfig", kubeconfig)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "default/too-large" in answer.stdout
    assert "\x1b" not in answer.stdout
    nodes = top("--kubeconfig", kubeconfig, "--once", "--view", "nodes").stdout
    assert "1/8 12 %" in nodes
    assert "too-large" not in nodes
    tree = json.loads(top("--kubeconfig", kubeconfig, "-o", "json").stdout)
    assert (len(tree["nodes"]), tree["queues"]["gated"]) == (3, 1)


def test_connection_problems_are_reported(kubeconfig: str, tmp_path: Path) -> None:
    answer = top("--kubeconfig", str(tmp_path / "none"))
    assert answer.returncode == 1
    assert str(tmp_path / "none") in answer.stderr
    answer = top("--kubeconfig", kubeconfig, "--server", "https://127.0.0.1:1")
    assert answer.returncode == 1
    assert "127.0.0.1:1" in answer.stderr
    tree = yaml.safe_load(Path(kubeconfig).read_text())
    tree["users"][0]["user"] = {"token": "wrong"}
    (tmp_path / "stranger").write_text(yaml.safe_dump(tree))
    answer = top("--kubeconfig", str(tmp_path / "stranger"))
    assert answer.returncode == 1
    assert "credentials" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_server_without_the_page_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    command = [sys.executable, "-m", "kuberth", "up", "--memory", "--port", "0", "--no-page", "--nodes", "1"]
    with subprocess.Popen([*command, "--kubeconfig-out", str(path)], stdout=subprocess.PIPE, text=True) as up:
        assert up.stdout is not None
        for line in up.stdout:
            if line.startswith("Ready"):
                break
        answer = top("--kubeconfig", str(path))
        up.terminate()
    assert answer.returncode == 1
    assert "has no /ui/stream" in answer.stderr
    assert "--page" in answer.stderr
