"""`python -m benchmarks.extenders`: how many round trips to a slow extender overlap, and which pods wait.

In: a whole scheduler over a cluster in memory, and a real HTTP extender that thinks for a while about every
filter and every prioritize. Out: for each parallelism how long all pods took, as a share of what they would
take one after the other; and beside them how long pods took that no extender is interested in.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NamedTuple

from kuberth.api.core import Pod
from kuberth.assembly.scheduler import Scheduler
from kuberth.config import load
from kuberth.testing import MemoryApi, make_namespace, make_node, make_pod

GPU: Final = "example.com/gpu"
ROUND_TRIPS: Final = 2
"""One for filter, one for prioritize."""
LONGEST_SECONDS: Final = 600.0


class Figures(NamedTuple):
    seconds: float
    plain_median: float
    """From creation to binding, of pods that do not concern the extender."""


def main() -> None:
    options = _parser().parse_args()
    thinks = options.milliseconds / 1000
    in_a_row = options.pods * ROUND_TRIPS * thinks
    print(f"{options.pods} pods, {ROUND_TRIPS} round trips each of {options.milliseconds} ms: ", end="")
    print(f"{in_a_row:.1f} s one after the other; {options.plain} plain pods beside them")
    print(f"{'parallelism':>11} {'seconds':>8} {'of that':>8} {'times as fast':>14} {'a plain pod':>14}")
    with _extender(thinks) as url:
        for parallelism in options.parallelism:
            run = _run(url, pods=options.pods, plain=options.plain, nodes=options.nodes, at_once=parallelism)
            found = asyncio.run(asyncio.wait_for(run, LONGEST_SECONDS))
            share = found.seconds / in_a_row
            print(
                f"{parallelism:>11} {found.seconds:>8.2f} {share:>8.2f} {1 / share:>14.1f} "
                f"{1000 * found.plain_median:>11.1f} ms"
            )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.extenders", description=__doc__)
    parser.add_argument("--pods", type=int, default=100, metavar="N", help="that concern the extender (100)")
    parser.add_argument("--plain", type=int, default=100, metavar="N", help="that do not (100)")
    parser.add_argument("--nodes", type=int, default=100, metavar="N")
    parser.add_argument("--milliseconds", type=int, default=50, metavar="N", help="it thinks so long (50)")
    parser.add_argument("--parallelism", type=int, nargs="+", default=[1, 4, 16, 64], metavar="N")
    return parser


async def _run(url: str, *, pods: int, plain: int, nodes: int, at_once: int) -> Figures:
    api = MemoryApi()
    api.put(make_namespace("default"))
    for number in range(nodes):
        api.put(make_node(f"n{number}", cpu="64"))
    extender = {
        "urlPrefix": url,
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "weight": 1,
        "nodeCacheCapable": True,
        "managedResources": [{"name": GPU, "ignoredByScheduler": True}],
    }
    config = load(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "parallelism": at_once,
            "extenders": [extender],
        }
    )
    scheduler = Scheduler(api, config=config)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(scheduler.run(), name="scheduler")
        await scheduler.wait_synced()
        started = time.perf_counter()
        for number in range(pods):
            api.put(make_pod(f"extended-{number}", requests={GPU: "1"}))
        waits = await _plain_pods(api, plain)
        while any(not pod.spec.node_name for pod in api.all(Pod)):
            await api.next_change()
        found = Figures(time.perf_counter() - started, statistics.median(waits))
        scheduler.stop()
    return found


async def _plain_pods(api: MemoryApi, number: int) -> list[float]:
    """Pods that come while the others wait, one after the other: how long each took to be bound."""
    waits = []
    for index in range(number):
        name = f"plain-{index}"
        created = time.perf_counter()
        api.put(make_pod(name))
        while not api.read(Pod, f"default/{name}").spec.node_name:
            await api.next_change()
        waits.append(time.perf_counter() - created)
    return waits


@contextmanager
def _extender(thinks_seconds: float) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            time.sleep(thinks_seconds)
            names = body["NodeNames"]
            answer: Any = {"NodeNames": names}
            if self.path.endswith("/prioritize"):
                answer = [{"Host": name, "Score": 1} for name in names]
            data = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the library's name
            """Silence."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


if __name__ == "__main__":
    main()
