"""Prints an explanation: the verdict, the reasons, then what would help.

In: the tree of an explanation (`explanation.to_tree`), computed here or by a server. Out: lines on a console,
which wraps them to its width and omits colours where they are not supported.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kuberth.text.figures import count, duration, printable

Tree = Mapping[str, Any]

NAMES_SHOWN: Final = 3
GROUPS_SHOWN: Final = 5
FEASIBLE_SHOWN: Final = 20
INDENT: Final = 2
NARROW: Final = 60
"""Below this number of columns, scores are printed line by line."""


def print_explanation(tree: Tree, console: Console, *, names: bool = False, now: float | None = None) -> None:
    """Print it. `names`: list every node. `now`: the time to which ages are relative."""
    console.print(Text(printable(_headline(tree)), style="bold"))
    for title, section in _SECTIONS:
        lines = list(section(tree, _Style(names=names, now=now, narrow=console.width < NARROW)))
        if not lines:
            continue
        console.print()
        console.print(Text(title, style="bold cyan"))
        for line in lines:
            _print_indented(line, console)


def _print_indented(line: RenderableType, console: Console) -> None:
    if not isinstance(line, Text):
        console.print(Padding(line, (0, 0, 0, INDENT), expand=False))
        return
    for part in Text(printable(line.plain)).wrap(console, max(1, console.width - INDENT)):
        part.rstrip()  # in place
        console.print(Text(" " * INDENT) + part)


@dataclass(frozen=True, slots=True)
class _Style:
    names: bool
    now: float | None
    narrow: bool

    def on(self, nodes: Sequence[str]) -> str:
        """`on 12 nodes (n1, n2, n3, …)`."""
        shown = nodes if self.names else nodes[:NAMES_SHOWN]
        listed = ", ".join(shown) + (", …" if len(shown) < len(nodes) else "")
        return f"on node {nodes[0]}" if len(nodes) == 1 else f"on {len(nodes)} nodes ({listed})"

    def groups(self, given: Sequence[Tree]) -> Sequence[Tree]:
        return given if self.names else given[:GROUPS_SHOWN]


def _headline(tree: Tree) -> str:
    pod = f"Pod {tree['pod']['namespace']}/{tree['pod']['name']}"
    match tree["verdict"]:
        case "placed":
            return f"{pod} is on node {tree['node']}."
        case "fits":
            return f"{pod} fits on {len(tree['feasible'])} of {tree['nodes']} nodes."
        case "gated":
            return f"{pod} is gated: {tree['message']}"
        case _:
            return f"{pod} fits on none of {tree['nodes']} nodes."


def _waiting(tree: Tree, style: _Style) -> Iterator[RenderableType]:
    waiting = tree.get("waiting")
    if waiting is None:
        return
    if holds := waiting.get("heldBy"):
        for hold in holds:
            age = _age(hold["since"], style.now)
            yield Text(
                f"in Permit, assumed on node {waiting['node']}: {hold['plugin']} holds it since "
                f"{hold['since']}{age}, until {hold['until']} at the latest"
            )
        return
    text = f"in the {waiting['queue']} queue" if waiting["queue"] != "in flight" else "being scheduled now"
    if since := waiting.get("since"):
        text += f" since {since}{_age(since, style.now)}"
    tries = waiting["attempts"]
    text += f"; {count(tries, 'attempt')}" if tries else "; no attempt yet"
    if at := waiting.get("nextAttempt"):
        text += f"; next attempt at {at} at the latest"
    yield Text(text)


def _last_attempt(tree: Tree, _style: _Style) -> Iterator[RenderableType]:
    # For other pods, the message repeats what the sections below say.
    if tree["verdict"] == "fits" and "message" in tree:
        yield Text(f"failed: {tree['message']}")


def _nominated(tree: Tree, _style: _Style) -> Iterator[RenderableType]:
    nomination = tree.get("nominated")
    if nomination is None:
        return
    victims = ", ".join(nomination["terminating"])
    waits = f"waits for these pods to terminate: {victims}" if victims else "no pod terminates there"
    yield Text(f"to node {nomination['node']}; {waits}")


def _feasible(tree: Tree, style: _Style) -> Iterator[RenderableType]:
    if tree.get("waiting", {}).get("heldBy"):
        names = tree.get("feasible", ())
        shown = names if style.names else names[:FEASIBLE_SHOWN]
        more = f" and {len(names) - len(shown)} more (--names shows them)" if len(shown) < len(names) else ""
        yield Text(f"{', '.join(shown)}{more}")


def _age(stamp: str, now: float | None) -> str:
    if now is None:
        return ""
    seconds = max(0, round(now - datetime.datetime.fromisoformat(stamp).timestamp()))
    return f" ({duration(seconds)})"


def _rejections(tree: Tree, style: _Style) -> Iterator[RenderableType]:
    if tree["verdict"] == "placed":
        return
    for group in tree.get("rejected", ()):
        reason = ", ".join(group["reasons"]) or group["code"]
        by = f"{group['plugin']}: " if group["plugin"] else ""
        yield Text(f"{by}{reason} {style.on(group['nodes'])}")


def _nearest(tree: Tree, style: _Style) -> Iterator[RenderableType]:
    groups = tree.get("nearest", ())
    for group in style.groups(groups):
        yield Text(f"{'; '.join(group['misses'])} {style.on(group['nodes'])}")
    if len(groups) > len(style.groups(groups)):
        more = count(len(groups) - len(style.groups(groups)), "more group")
        yield Text(f"and {more} of nodes (--names shows them)")


def _preemption(tree: Tree, _style: _Style) -> Iterator[RenderableType]:
    story = tree.get("preemption")
    if story is None:
        return
    if story["nominatedNode"]:
        victims = ", ".join(story["victims"])
        how = f"by evicting {victims}" if victims else "without evicting more pods: some terminate already"
        yield Text(f"would clear node {story['nominatedNode']} {how}")
        return
    if "not eligible" not in story["message"]:
        parts = {
            "evicting pods of lower priority does not suffice": story["nodesThatCouldHelp"],
            "no eviction helps": story["nodesBeyondHelp"],
        }
        found = [f"on {count(number, 'node')} {what}" for what, number in parts.items() if number]
        yield Text(f"does not help: {', '.join(found)}" if found else "does not help")
    if story["message"]:
        yield Text(story["message"])


def _proposals(tree: Tree, _style: _Style) -> Iterator[RenderableType]:
    for proposal in tree.get("proposals", ()):
        yield Text(f"• {proposal['text']}")
    if not tree.get("proposals") and tree["verdict"] in ("rejected", "gated"):
        absent = "; what is listed under Missing has to be there first" if tree.get("missing") else ""
        yield Text(f"no tested change helps{absent}")


def _scores(tree: Tree, style: _Style) -> Iterator[RenderableType]:
    table = tree.get("scores")
    if table is None or tree["verdict"] == "gated":
        return
    yield Text(table["reason"])
    if style.narrow:
        for row in table["best"]:
            parts = ", ".join(f"{plugin} {score}" for plugin, score in row["byPlugin"].items() if score)
            yield Text(f"{row['node']}: {row['total']} ({parts})")
        return
    # Plugins are rows: their names are long, and there are more plugins than nodes.
    shown = table["best"][:NAMES_SHOWN]
    grid = Table(box=None, pad_edge=False)
    grid.add_column("")
    for row in shown:
        grid.add_column(row["node"], justify="right")
    for plugin in shown[0]["byPlugin"]:
        grid.add_row(plugin, *(str(row["byPlugin"][plugin]) for row in shown))
    grid.add_row("total", *(str(row["total"]) for row in shown))
    yield grid


_SECTIONS: Final[Sequence[tuple[str, Callable[[Tree, _Style], Iterator[RenderableType]]]]] = (
    ("Waiting", _waiting),
    ("Last attempt", _last_attempt),
    ("Nominated", _nominated),
    ("Missing", lambda tree, _style: (Text(each["text"]) for each in tree.get("missing", ()))),
    ("Feasible nodes", _feasible),
    ("Rejected", _rejections),
    ("Nearest nodes miss", _nearest),
    ("Preemption", _preemption),
    (
        "Retried on",
        lambda tree, _style: (
            Text(f"{each['plugin']} waits for {'; '.join(each['events'])}") for each in tree.get("events", ())
        ),
    ),
    ("What would help (each was tested)", _proposals),
    ("Scores", _scores),
    ("Note", lambda tree, _style: map(Text, tree.get("notes", ()))),
)
