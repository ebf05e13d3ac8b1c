"""The verbs over HTTP: a request for a resource's path becomes a call of the core, and its result a response.

In: a request and its target. Out: a response in the requested format; a watch streams.
"""

from __future__ import annotations

import json
import logging
import random
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from typing import Any, Final, NamedTuple

import msgspec

from kuberth.clock import Clock
from kuberth.https.messages import JSON, Query, Request, Response
from kuberth.local.apiserver.http.negotiation import (
    BODY_TYPES,
    OBJECT_FORMS,
    PATCH_TYPES,
    YAML,
    Form,
    decode_body,
    negotiate,
    not_acceptable,
    parse_media_type,
    read_body,
    tree_answer,
)
from kuberth.local.apiserver.http.routing import Target
from kuberth.local.apiserver.objects import Obj, name_of
from kuberth.local.apiserver.patching.patching import APPLY_PATCH
from kuberth.local.apiserver.printing.forms import Printer, parse_include
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.status_errors import (
    Cause,
    StatusError,
    bad_request,
    forbidden_field,
    invalid,
    not_supported,
    required,
    too_long,
    too_many_requests,
)
from kuberth.local.apiserver.verbs.bodies import FieldValidation
from kuberth.local.apiserver.verbs.core import Core

logger = logging.getLogger(__name__)


# As upstream: a watch without a timeout ends after half an hour to an hour, so that not all clients
# reconnect at once.
_WATCH_SECONDS: Final = 1800.0
_LONGEST_WARNING: Final = 200
_LONGEST_MANAGER: Final = 128
_VALIDATIONS: Final = ("", "Ignore", "Strict", "Warn")
_UNPRINTABLE: Final = re.compile(r"[^\x20-\x7e]")
CONNECTIONS: Final = {
    "log": "has nothing to log",
    "exec": "has no place for a command",
    "attach": "has nothing to attach to",
    "portforward": "listens on no port",
    "proxy": "listens on no port",
    "ephemeralcontainers": "has no place for a debug container",
}
"""Subresource → why it is not supported."""


class WatchLimits:
    """Counts the open watches. A client is a user at an address."""

    def __init__(self, total: int, *, per_client: int) -> None:
        self._total = total
        self._per_client = per_client
        self._open: Counter[tuple[str, str]] = Counter()

    @property
    def watchers(self) -> int:
        return self._open.total()

    def check(self, request: Request) -> None:
        """StatusError 429 if the limit of watches is reached."""
        if self.watchers >= self._total or self._open[_client(request)] >= self._per_client:
            raise too_many_requests("too many watches; try again later", seconds=1)

    @contextmanager
    def counted(self, request: Request) -> Iterator[None]:
        client = _client(request)
        self._open[client] += 1
        try:
            yield
        finally:
            self._open[client] -= 1
            if not self._open[client]:
                del self._open[client]


def _client(request: Request) -> tuple[str, str]:
    return request.address, request.user.name


_OPTIONS: Final = {
    verb: ServedResource("meta.k8s.io", "v1", f"{verb.capitalize()}Options", f"{verb}options")
    for verb in ("create", "update", "patch")
}


class _Result(NamedTuple):
    """The result of a verb: an object, and the status and warnings of the response."""

    obj: Obj
    status: int = 200
    warnings: Sequence[str] = ()


class ResourceRequests:
    def __init__(self, core: Core, *, clock: Clock, watch_limits: WatchLimits) -> None:
        self._core = core
        self._clock = clock
        self._watch_limits = watch_limits

    async def answer(self, request: Request, target: Target, verb: str) -> Response:
        if request.method == "GET" and request.query.flag("watch") and not target.subresource:
            # Before the core is called, so that a rejected watch leaves nothing behind.
            self._watch_limits.check(request)
            return self._watch(request, target)
        if target.subresource in CONNECTIONS and (target.subresource, verb) != ("ephemeralcontainers", "get"):
            return await self._connect(request, target)
        printer, form = self._printer(request, target)
        result = await self._perform(request, target, verb)
        return _answer(request, result._replace(obj=printer.convert(result.obj)), form)

    async def _perform(self, request: Request, target: Target, verb: str) -> _Result:
        core, query, namespace = self._core, request.query, target.namespace
        match verb:
            case "get":
                found = await core.get(
                    target.row, target.name, namespace=namespace, subresource=target.subresource
                )
            case "list":
                found = await core.list(
                    target.row,
                    **_selection(request, target),
                    limit=_integer(query, "limit") or 0,
                    continue_token=query.text("continue"),
                    resource_version=query.text("resourceVersion"),
                    resource_version_match=query.text("resourceVersionMatch"),
                )
            case "delete":
                options, dry_run = await _delete_options(request)
                found = await core.delete(
                    target.row, target.name, namespace=namespace, options=options, dry_run=dry_run
                )
            case "deletecollection":
                options, dry_run = await _delete_options(request)
                found = await core.delete_collection(
                    target.row, **_selection(request, target), options=options, dry_run=dry_run
                )
            case "patch":
                return await self._patch(request, target)
            case _:
                return await self._create_or_update(request, target, verb)
        return _Result(found)

    async def _create_or_update(self, request: Request, target: Target, verb: str) -> _Result:
        options = _write_options(request, target, _OPTIONS[verb])
        validation = options["field_validation"]
        body = await _read_object(request, validation)
        if verb == "create":
            written = await self._core.create(target.row, body, name=target.name, **options)
        else:
            written = await self._core.update(target.row, target.name, body, **options)
        return _Result(written, 201 if verb == "create" else 200, validation.warnings)

    async def _patch(self, request: Request, target: Target) -> _Result:
        content_type, _ = parse_media_type(request.headers.get("content-type", ""))
        read = read_body(await request.body(), content_type, supported=PATCH_TYPES)
        if content_type == APPLY_PATCH and not request.query.text("fieldManager"):
            raise invalid(_OPTIONS["patch"], "", [required("fieldManager", "is required for apply patch")])
        if content_type != APPLY_PATCH and request.query.flag("force"):
            why = "may not be specified for non-apply patch"
            raise invalid(_OPTIONS["patch"], "", [forbidden_field("force", why)])
        options = _write_options(request, target, _OPTIONS["patch"])
        validation = options["field_validation"]
        validation.duplicates = read.duplicates
        force = request.query.flag("force")
        made, created = await self._core.patch(
            target.row, target.name, read.tree, content_type=content_type, force=force, **options
        )
        return _Result(made, 201 if created else 200, validation.warnings)

    def _watch(self, request: Request, target: Target) -> Response:
        printer, form = self._printer(request, target)
        if form.media_type == YAML:
            raise not_acceptable((JSON,))
        query = request.query
        seconds = _integer(query, "timeoutSeconds")
        timeout = float(seconds) if seconds else _WATCH_SECONDS * random.uniform(1.0, 2.0)
        events = self._core.watch(
            target.row,
            **_selection(request, target),
            name=target.name,
            resource_version=query.text("resourceVersion"),
            allow_bookmarks=query.flag("allowWatchBookmarks"),
            send_initial_events=query.flag("sendInitialEvents"),
            timeout_seconds=max(timeout, 0.0),
        )
        return Response(self._frames(events, printer, request), content_type=JSON, endless=True)

    async def _frames(
        self, events: AsyncIterator[tuple[str, Obj]], printer: Printer, request: Request
    ) -> AsyncIterator[bytes]:
        try:
            with self._watch_limits.counted(request):
                async with aclosing(events):  # type: ignore[type-var]  # the core's watch is a generator
                    async for event, obj in events:
                        if not printer.is_plain:
                            printer.now_ns = self._clock.now_ns()
                            obj = printer.convert_event(event, obj)
                        yield _frame(event, obj)
        except StatusError as error:
            yield _frame("ERROR", error.to_object())
        except Exception:
            logger.exception("a watch failed")
            yield _frame("ERROR", StatusError(500, "InternalError", "Internal error occurred").to_object())

    async def _connect(self, request: Request, target: Target) -> Response:
        pod = await self._core.get(target.row, target.name, namespace=target.namespace)
        why = f"pod {target.name} is hollow: no container runs in it, so it {CONNECTIONS[target.subresource]}"
        if target.subresource != "log":
            raise bad_request(why)
        # A log line lets scripts and tutorials continue, where a failure would end them.
        _expect_container(pod, request.query.text("container"))
        return Response.text(f"{why}\n")

    def _printer(self, request: Request, target: Target) -> tuple[Printer, Form]:
        form = negotiate(request.headers.get("accept"), forms=OBJECT_FORMS)
        include = parse_include(request.query.text("includeObject"))
        return Printer(target.row, form, include=include, now_ns=self._clock.now_ns()), form


def _selection(request: Request, target: Target) -> dict[str, Any]:
    """The keyword arguments of the core's verbs on a collection: namespace and selectors."""
    query = request.query
    selectors = {"label_selector": query.text("labelSelector"), "field_selector": query.text("fieldSelector")}
    return {"namespace": target.namespace, **selectors}


def _frame(event: str, obj: Obj) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (event.encode(), msgspec.json.encode(obj))


def _integer(query: Query, name: str) -> int | None:
    text = query.text(name)
    if not text:
        return None
    digits = text.removeprefix("-")
    # As Go's ParseInt: ASCII digits and 64 bits.
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20 and abs(int(text)) < 2**63):
        raise bad_request(f"unable to decode query parameter {name}: {text[:40]!r} is no number")
    return int(text)


def _answer(request: Request, result: _Result, form: Form) -> Response:
    pretty = request.query.flag("pretty")
    response = tree_answer(result.obj, status=result.status, media_type=form.media_type, pretty=pretty)
    if result.warnings:
        # Several warnings are one header's list, as RFC 7234 has it; a header takes no control characters.
        quoted = (json.dumps(_UNPRINTABLE.sub("?", text[:_LONGEST_WARNING])) for text in result.warnings)
        response.headers["warning"] = ", ".join(f"299 - {text}" for text in quoted)
    return response


async def _read_object(request: Request, validation: FieldValidation) -> Obj:
    body, duplicates = read_body(
        await request.body(), request.headers.get("content-type"), supported=BODY_TYPES
    )
    validation.duplicates = duplicates
    if not isinstance(body, dict):
        raise bad_request("the body of the request is no object")
    return body


def _is_dry_run(values: object) -> bool:
    if not values:
        return False
    if not isinstance(values, list) or any(value != "All" for value in values):
        raise StatusError(422, "Invalid", f'dryRun: Unsupported value: {values!r}: supported values: "All"')
    return True


def _write_options(request: Request, target: Target, options: ServedResource) -> dict[str, Any]:
    """The keyword arguments of the core's writing verbs, from the path and the query."""
    return {
        "namespace": target.namespace,
        "subresource": target.subresource,
        "dry_run": _is_dry_run(request.query.get("dryRun")),
        "field_manager": _field_manager(request, options),
        "field_validation": _field_validation(request, options),
    }


def _field_manager(request: Request, options: ServedResource) -> str:
    """The field manager of a write; by default the client program's name, as upstream."""
    manager = request.query.text("fieldManager")
    if len(manager.encode()) > _LONGEST_MANAGER:
        raise invalid(options, "", [too_long("fieldManager", _LONGEST_MANAGER)])
    for position, character in enumerate(manager):
        if not character.isprintable():
            shown = manager.encode("unicode_escape").decode()
            why = f"invalid character U+{ord(character):04X} (at position {position})"
            raise invalid(options, "", [Cause("fieldManager", f'Invalid value: "{shown}": {why}')])
    if manager:
        return manager
    program = request.headers.get("user-agent", "").partition("/")[0]
    return "".join(filter(str.isprintable, program))[:_LONGEST_MANAGER] or "unknown"


def _field_validation(request: Request, options: ServedResource) -> FieldValidation:
    mode = request.query.text("fieldValidation")
    if mode not in _VALIDATIONS:
        raise invalid(options, "", [not_supported("fieldValidation", mode[:40], _VALIDATIONS)])
    return FieldValidation(mode or "Warn")


async def _delete_options(request: Request) -> tuple[Obj | None, bool]:
    """Options from the body, or else from the query; and whether it is a dry run."""
    body = await request.body()
    options: Obj = {}
    if body.strip():
        options = decode_body(body, request.headers.get("content-type"), supported=BODY_TYPES)
        if not isinstance(options, dict) or options.get("kind", "DeleteOptions") != "DeleteOptions":
            raise bad_request("the body of a deletion is a DeleteOptions object or nothing")
    else:
        query = request.query
        if (seconds := _integer(query, "gracePeriodSeconds")) is not None:
            options["gracePeriodSeconds"] = seconds
        if policy := query.text("propagationPolicy"):
            options["propagationPolicy"] = policy
        if query.text("orphanDependents"):
            options["orphanDependents"] = query.flag("orphanDependents")
    dry_run = _is_dry_run(options.get("dryRun")) or _is_dry_run(request.query.get("dryRun"))
    return options or None, dry_run


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
