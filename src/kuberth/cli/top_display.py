"""Draws the frames of `kuberth top`, which fit the terminal.

In: the model, the size of the terminal, the time. Out: text, without control characters from objects.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from kuberth.cli.explain_display import print_explanation
from kuberth.cli.top_model import QUEUES, VIEWS, TopModel, share
from kuberth.overview.node_rows import NOT_READY, TAINTED, UNSCHEDULABLE
from kuberth.text.figures import count, decimal, duration, percent, printable, size

T = TypeVar("T")

_KEYS: Final = "1-4 or tab view  / filter  s sort  r reverse  enter open  ? help  q quit"
_HELP: Final = (
    "1 2 3 4, tab     nodes, queue, pods, throughput; also n u p t",
    "up down, k j     select; page up, page down, home, end",
    "enter            pods: history and explanation; queue: the pods with this reason",
    "/                filter names, queues and reasons; enter in pods searches all pods",
    "esc              clear the filter; go back from a pod",
    "s, r             sort by the next column; reverse the order",
    "?, q             this help; quit",
)
_QUEUE_STYLES: Final = {
    "active": "green",
    "backoff": "yellow",
    "unschedulable": "red",
    "gated": "magenta",
    "inflight": "cyan",
    "permit": "blue",
    "placed": "dim",
}
_BARS: Final = "▁▂▃▄▅▆▇█"
_NARROW: Final = 60
_BRIEF_ROWS: Final = 10
_PLOT_SECONDS: Final = 120
"""The width of columns if there is no terminal."""


def _age(now: float, at: float) -> str:
    return duration(max(0, round(now - at)))


def frame(model: TopModel, *, width: int, height: int, now: float, problem: str = "") -> Text:
    """The whole screen."""
    head = _head(model, width)
    foot = _foot(model, problem)
    lines_left = max(height - len(head) - 1, 0)
    if model.help:
        body = [Text(line) for line in _HELP]
    elif model.detail is not None:
        first = max(0, min(model.selected, len(model.detail) - lines_left))
        body = [Text.from_ansi(line) for line in model.detail[first : first + lines_left]]
    else:
        body = _BODIES[model.view](model, width, lines_left, now)
    lines = [*head, *body[:lines_left]]
    lines += [Text()] * (height - 1 - len(lines))
    return Text("\n").join(_cut(line, width) for line in [*lines[: max(height - 1, 0)], foot])


def brief(model: TopModel, *, width: int | None, now: float) -> Text:
    """A summary: the first rows of each view. `width` None: as wide as the names."""
    lines = _head(model, width)[:-1]
    for title, view in (("Why pods are pending", "queue"), ("Pending pods", "pods"), ("Nodes", "nodes")):
        body = _BODIES[view](model, width, _BRIEF_ROWS + 1, now)
        lines += [Text(), Text(title, style="bold"), *body]
        if (more := len(model.rows_of(view)) - _BRIEF_ROWS) > 0:
            lines.append(Text(f"and {more} more: --view {view}", style="dim"))
    return Text("\n").join(_cut(line, width) for line in lines)


def whole(model: TopModel, *, width: int | None, now: float) -> Text:
    """The model's view with all of its rows. `width` None: as wide as the names."""
    body = _BODIES[model.view](model, width, len(model.rows()) + _BRIEF_ROWS, now)
    return Text("\n").join(_cut(line, width) for line in [*_head(model, width)[:-1], Text(), *body])


def _cut(line: Text, width: int | None) -> Text:
    if width is None:
        return Text(line.plain.rstrip())
    line = line.copy()
    line.truncate(width, overflow="ellipsis")
    return line


def _head(model: TopModel, width: int | None) -> list[Text]:
    seen = model.seen
    queues = seen.queues
    rate = seen.throughput[-1][1] if seen.throughput else 0
    title = Text.assemble(
        (f"Cluster {printable(seen.hello.get('cluster', ''))}: ", "bold"),
        f"{count(len(seen.nodes), 'node')}, ",
        f"{count(queues.get('placed', 0), 'pod')} on them, ",
        f"{sum(queues.get(queue, 0) for queue in QUEUES)} pending, {rate} bound/s",
    )
    counts = Text(" ").join(
        Text.assemble(
            (queue[:5] if _is_narrow(width) else queue, _QUEUE_STYLES[queue]), f" {queues.get(queue, 0)}"
        )
        for queue in QUEUES
    )
    tabs = Text(" ").join(
        Text(f"{place} {view}", style="reverse" if view == model.view else "dim")
        for place, view in enumerate(VIEWS, 1)
    )
    if model.sort and not _is_narrow(width):
        tabs.append(f"   by {model.sort}{', reversed' if model.backwards else ''}", style="dim")
    if model.filter and not model.typing:
        tabs.append(f"   with {printable(model.filter)!r}", style="yellow")
    return [title, counts, tabs]


def _is_narrow(width: int | None) -> bool:
    return width is not None and width < _NARROW


def _foot(model: TopModel, problem: str) -> Text:
    if problem:
        return Text(printable(problem), style="bold red")
    if model.typing:
        return Text(f"/{printable(model.filter)}█", style="yellow")
    if model.detail is not None:
        return Text("up down scroll  esc back  q quit", style="dim")
    return Text(_KEYS, style="dim")


def _no_pods(model: TopModel) -> list[Text]:
    return [Text("no pending pod matches the filter" if model.filter else "no pod is pending", style="dim")]


def _table(
    model: TopModel,
    columns: Sequence[tuple[str, int]],
    rows: Sequence[T],
    cells: Callable[[T], Sequence[str]],
    style: Callable[[T], str],
    *,
    width: int | None,
    height: int,
) -> list[Text]:
    """The rows around the selected one.

    Widths of columns: 0 takes the rest, a negative one aligns right. Without a width, columns are as wide as
    their longest cell.
    """
    height = max(height - 1, 0)
    first = max(0, min(model.selected - height // 2, len(rows) - height))
    shown = [(row, cells(row)) for row in rows[first : first + height]]
    if width is None:
        longest = [max(map(cell_len, texts)) for texts in zip(*(texts for _, texts in shown), strict=True)]
        longest = longest or [0] * len(columns)
        columns = [
            (name, max(1, cell_len(name), most) * (-1 if wide < 0 else 1))
            for (name, wide), most in zip(columns, longest, strict=True)
        ]
    fixed = sum(abs(wide) + 1 for _, wide in columns if wide)
    rest = max((width or 0) - fixed, 8)

    def line(texts: Sequence[str]) -> str:
        parts = []
        for text, (_, wide) in zip(texts, columns, strict=True):
            if wide < 0:  # numbers
                parts.append(text if cell_len(text) >= -wide else " " * (-wide - cell_len(text)) + text)
            else:
                parts.append(set_cell_size(text, wide or rest))
        return " ".join(parts)

    lines = [Text(line([name for name, _ in columns]), style="bold dim")]
    for place, (row, texts) in enumerate(shown, first):
        lines.append(Text(line(texts), style="reverse" if place == model.selected else style(row)))
    return lines


def _nodes(model: TopModel, width: int | None, lines_left: int, now: float) -> list[Text]:
    resources: list[str] = model.seen.hello.get("resources", ["cpu", "memory", "pods"])
    rows = model.nodes()
    others = [place for place in range(3, len(resources)) if any(row[4][place] for row in rows)]
    narrow = _is_narrow(width)
    shown = [0, 1, 2, *others][: None if width is None else max(3, (width - 50) // 14)]
    # As wide as the names: empty columns would not fit 80 columns.
    places = [place for place in (1, 2) if not narrow and (width or any(row[place] for row in rows))]
    columns = [("NODE", 0), *((("ZONE", 8), ("POOL", 14))[place - 1] for place in places), ("", 3)]
    columns += [(resources[place].rpartition("/")[2].upper(), 5 if narrow else 13) for place in shown]

    def cells(row: Sequence[Any]) -> list[str]:
        marks = "".join(
            mark if row[3] & flag else ""
            for flag, mark in ((NOT_READY, "!"), (UNSCHEDULABLE, "-"), (TAINTED, "t"))
        )
        names = [printable(row[place]) for place in places]
        usage = [
            _amounts(row, each, resources[each])
            if width is None
            else _usage(row, each, resources[each], narrow=narrow)
            for each in shown
        ]
        return [printable(row[0]), *names, marks, *usage]

    return _table(model, columns, rows, cells, _node_style, width=width, height=lines_left)


def _usage(row: Sequence[Any], resource: int, name: str, *, narrow: bool) -> str:
    part = share(row, resource)
    if narrow:
        return f"{part:4.0%}"
    if not _is_in_bytes(name) and resource != 0:
        return f"{decimal(row[5][resource])}/{decimal(row[4][resource])}"
    filled = min(round(part * 8), 8)
    return f"{'█' * filled}{'░' * (8 - filled)} {part:4.0%}"


def _amounts(row: Sequence[Any], resource: int, name: str) -> str:
    show = size if _is_in_bytes(name) else decimal
    used, of = show(row[5][resource]), show(row[4][resource])
    number, _, unit = used.partition(" ")
    if unit and of.endswith(f" {unit}"):
        used = number
    return f"{used}/{of} {percent(share(row, resource), 0)}"


def _is_in_bytes(resource: str) -> bool:
    return resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")


def _node_style(row: Sequence[Any]) -> str:
    if row[3] & NOT_READY:
        return "red"
    if row[3] & UNSCHEDULABLE:
        return "yellow"
    return "dim" if row[3] & TAINTED else ""


def _queue(model: TopModel, width: int | None, lines_left: int, now: float) -> list[Text]:
    rows = model.reasons()
    if not rows:
        return _no_pods(model)
    return _table(
        model,
        (("PODS", -6), ("QUEUE", 6 if _is_narrow(width) else 13), ("REASON", 0)),
        rows,
        lambda row: [str(row.pods), row.queue, printable(row.reason) or "-"],
        lambda row: _QUEUE_STYLES.get(row.queue, ""),
        width=width,
        height=lines_left,
    )


def _pods(model: TopModel, width: int | None, lines_left: int, now: float) -> list[Text]:
    rows = model.pods()
    if not rows:
        return _no_pods(model)
    lines_left -= bool(model.seen.cut)
    narrow = _is_narrow(width)
    columns: list[tuple[str, int]] = [("POD", 0), ("QUEUE", 5 if narrow else 13)]
    columns += [("SINCE", -7)] if narrow else [("PRIO", -6), ("TRIES", -5), ("SINCE", -7), ("REASON", 24)]

    def cells(row: Sequence[Any]) -> list[str]:
        since = _age(now, row[6]) if row[6] else "-"
        name = printable(f"{row[1]}/{row[2]}")
        if narrow:
            return [name, row[3], since]
        held = [
            f"{plugin}: {_age(now, since)} of {duration(until - since)}" for plugin, since, until in row[9]
        ]
        return [name, row[3], str(row[4]), str(row[5]), since, printable(", ".join(held) or row[7])]

    def style(row: Sequence[Any]) -> str:
        return _QUEUE_STYLES.get(row[3], "")

    lines = _table(model, columns, rows, cells, style, width=width, height=lines_left)
    if model.seen.cut:
        more = ", ".join(f"{number} more {queue}" for queue, number in model.seen.cut.items())
        lines.append(Text(f"and {more}, which have waited for a shorter time", style="dim"))
    return lines


def _throughput(model: TopModel, width: int | None, lines_left: int, now: float) -> list[Text]:
    rows = list(model.seen.throughput)
    width = width or _PLOT_SECONDS
    plots = (
        ("scheduled per second", [row[1] for row in rows], "green", decimal),
        ("unschedulable per second", [row[2] for row in rows], "red", decimal),
        ("errors per second", [row[3] for row in rows], "bold red", decimal),
        ("pending pods", [row[6] for row in rows], "yellow", decimal),
        ("attempt, median", [row[4] for row in rows], "cyan", _milliseconds),
        ("attempt, p99", [row[5] for row in rows], "blue", _milliseconds),
    )
    lines: list[Text] = []
    for title, numbers, style, shown in plots:
        known = [number for number in numbers[-width:] if number is not None]
        last = next((number for number in reversed(numbers) if number is not None), None)
        label = f"{title}: {'-' if last is None else shown(last)}"
        if known:
            label += f", at most {shown(max(known))}"
        lines += [Text(label), Text(spark(numbers, width), style=style)]
    return lines


def _milliseconds(number: float) -> str:
    return duration(number / 1000)


def spark(numbers: Sequence[float | None], width: int) -> str:
    """The last numbers as bars in one line; None leaves a gap."""
    last = numbers[-width:]
    most = max((number for number in last if number is not None), default=0) or 1
    return "".join(
        " " if number is None else _BARS[min(int(number / most * (len(_BARS) - 1) + 0.5), len(_BARS) - 1)]
        for number in last
    )


_BODIES: Final[Mapping[str, Callable[[TopModel, int | None, int, float], list[Text]]]] = {
    "nodes": _nodes,
    "queue": _queue,
    "pods": _pods,
    "throughput": _throughput,
}


def detail_lines(
    story: Mapping[str, Any], explanation: Mapping[str, Any] | None, *, width: int, now: float
) -> list[str]:
    """The history of a pod, and the explanation why it is pending or why it was placed on its node."""
    output = io.StringIO()
    console = Console(
        file=output,
        width=width,
        force_terminal=True,
        highlight=False,
        markup=False,
        emoji=False,
        color_system="standard",
    )
    pod = story["pod"]
    name = printable(f"{pod['namespace']}/{pod['name']}")
    where = f"on {printable(pod['node'])}" if pod["node"] else pod["queue"] or "unknown"
    console.print(
        Text(
            f"{name}  {where}, priority {pod['priority']}, {count(pod['attempts'], 'attempt')}", style="bold"
        )
    )
    console.print(Text("\nMoves", style="bold cyan"))
    if not story["moves"]:
        console.print(Text("  none recorded: moves are recorded only while a client watches", style="dim"))
    for move in story["moves"]:
        console.print(Text(f"  {_move(move, now)}"))
    for cycle in story["cycles"]:
        console.print(Text(f"\nAttempt {_age(now, cycle['at'])} ago: {_attempt(cycle)}", style="bold cyan"))
        for line in _attempt_lines(cycle):
            console.print(Text(f"  {printable(line)}"))
    if explanation is not None:
        console.print()
        print_explanation(dict(explanation), console, now=now)
    return output.getvalue().splitlines()


def _move(move: Mapping[str, Any], now: float) -> str:
    text = f"{_age(now, move['at']):>7} ago  {move['from'] or '(new)'} -> {move['to']}"
    why = " ".join(filter(None, (move["event"], move["object"] and f"of {move['object']}")))
    if move["plugin"]:
        why += f", {move['plugin']} returned {move['hint']}"
    return printable("  ".join(filter(None, (text, why, move["note"]))))


def _attempt(cycle: Mapping[str, Any]) -> str:
    took = duration(cycle["seconds"])
    if cycle["result"] == "scheduled":
        fit = f"{cycle['feasible']} of {cycle['evaluated']} nodes fit"
        return f"scheduled on {printable(cycle['node'])}, {fit}, {took}"
    nominated = f", nominated {printable(cycle['nominated'])}" if cycle["nominated"] else ""
    return f"{cycle['result']}{nominated}, {took}"


def _attempt_lines(cycle: Mapping[str, Any]) -> Iterable[str]:
    if cycle["message"]:
        yield cycle["message"]
    for each in cycle["rejections"]:
        yield f"{each['nodes']} nodes: {each['reason']} ({each['plugin']})"
    scores = cycle["scores"]
    if scores is not None:
        for place, node in enumerate(scores["nodes"]):
            parts = ", ".join(f"{plugin} {column[place]}" for plugin, column in scores["plugins"].items())
            yield f"{scores['totals'][place]:5} {node}: {parts}"
