"""Subresources of pods that need a container: log, exec, attach and the like.

In: requests for a pod's log, or for a connection to it. Out: a log of one line, or a refusal, that say that
hollow pods run nothing.
"""

from __future__ import annotations

from typing import Final

from kuberth.https.messages import Request, Response
from kuberth.local.apiserver.http.routing import Target
from kuberth.local.apiserver.objects import Obj, name_of
from kuberth.local.apiserver.refusals import bad_request
from kuberth.local.apiserver.verbs.core import Core

CONNECTIONS: Final = {
    "log": "has nothing to log",
    "exec": "has no place for a command",
    "attach": "has nothing to attach to",
    "portforward": "listens on no port",
    "proxy": "listens on no port",
    "ephemeralcontainers": "has no place for a debug container",
}
"""Subresource → why it is refused."""


class PodConnections:
    def __init__(self, core: Core) -> None:
        self._core = core

    async def answer(self, request: Request, target: Target) -> Response:
        pod = await self._core.get(target.row, target.name, namespace=target.namespace)
        why = f"pod {target.name} is hollow: no container runs in it, so it {CONNECTIONS[target.subresource]}"
        if target.subresource != "log":
            raise bad_request(why)
        # A log line lets scripts and tutorials continue, where a failure would end them.
        _expect_container(pod, request.query.text("container"))
        return Response.text(f"{why}\n")


def _expect_container(pod: Obj, asked: str) -> None:
    """400, in upstream's words, unless the request names a container or the pod has only one."""
    spec = pod["spec"]
    names = [each["name"] for each in spec["containers"]]
    others = [
        each["name"] for kind in ("initContainers", "ephemeralContainers") for each in spec.get(kind, ())
    ]
    if asked and asked not in (*names, *others):
        raise bad_request(f"container {asked} is not valid for pod {name_of(pod)}")
    if not asked and len(names) > 1:
        chosen = f"choose one of: [{' '.join(names)}]"
        raise bad_request(f"a container name must be specified for pod {name_of(pod)}, {chosen}")
