from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kuberth.api.coordination import Lease
from kuberth.api.core import Binding, Node, ObjectReference, Pod
from kuberth.api.meta import ObjectMeta
from kuberth.api.storage import StorageClass
from kuberth.client.http_api import HttpApi
from kuberth.client.identity.client_config import Impersonation
from kuberth.client.protocol import Api
from kuberth.client.writes import Verb, Write
from kuberth.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    TooManyRequestsError,
    UnauthorizedError,
)
from kuberth.testing import make_node, make_pod, run_in_virtual_time
from tests.unit.client.https_server import Asked, Handler, Reply, Server, api_on, counted, run, serve

BINDING = Binding(
    metadata=ObjectMeta(name="p", namespace="d", uid="u"), target=ObjectReference(kind="Node", name="n")
)
Test = Callable[[HttpApi, Server], Coroutine[Any, Any, None]]


def with_api(handler: Handler, test: Test, *, virtual: bool = False, **options: Any) -> None:
    async def main() -> None:
        async with api_on(handler, **options) as (api, server):
            await test(api, server)

    if virtual:
        run_in_virtual_time(main)
    else:
        run(main)


async def echo(asked: Asked, reply: Reply) -> None:
    await reply.send({"metadata": {"name": "answered"}})


def test_it_is_an_api() -> None:
    async def test(api: HttpApi, _server: Server) -> None:
        one: Api = api
        assert one is not None

    with_api(echo, test)


# What goes over the wire

VERBS: dict[str, tuple[Callable[[HttpApi], Coroutine[Any, Any, Any]], str, str, dict[str, Any] | None]] = {
    "get": (lambda api: api.get(Pod, "p", namespace="d"), "GET", "/api/v1/namespaces/d/pods/p", None),
    "get without namespace": (lambda api: api.get(Node, "n"), "GET", "/api/v1/nodes/n", None),
    "get of a group": (
        lambda api: api.get(Lease, "l", namespace="d"),
        "GET",
        "/apis/coordination.k8s.io/v1/namespaces/d/leases/l",
        None,
    ),
    "get of an odd name": (
        lambda api: api.get(StorageClass, "a.b/c?d e"),
        "GET",
        "/apis/storage.k8s.io/v1/storageclasses/a.b%2Fc%3Fd%20e",
        None,
    ),
    "create": (
        lambda api: api.create(Lease(metadata=ObjectMeta(name="l", namespace="d"))),
        "POST",
        "/apis/coordination.k8s.io/v1/namespaces/d/leases",
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "l", "namespace": "d"},
        },
    ),
    "update": (
        lambda api: api.update(Lease(metadata=ObjectMeta(name="l", namespace="d", resource_version="7"))),
        "PUT",
        "/apis/coordination.k8s.io/v1/namespaces/d/leases/l",
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "l", "namespace": "d", "resourceVersion": "7"},
        },
    ),
    "patch": (
        lambda api: api.patch(
            Pod, "p", {"status": {"nominatedNodeName": None}}, namespace="d", subresource="status"
        ),
        "PATCH",
        "/api/v1/namespaces/d/pods/p/status",
        {"status": {"nominatedNodeName": None}},
    ),
    "bind": (
        lambda api: api.bind(BINDING),
        "POST",
        "/api/v1/namespaces/d/pods/p/binding",
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "p", "namespace": "d", "uid": "u"},
            "target": {"kind": "Node", "name": "n"},
        },
    ),
    "delete": (
        lambda api: api.delete(Pod, "p", namespace="d", uid="u", grace_period_seconds=0),
        "DELETE",
        "/api/v1/namespaces/d/pods/p",
        {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": "u"},
            "gracePeriodSeconds": 0,
        },
    ),
    "delete anyway": (
        lambda api: api.delete(Pod, "p", namespace="d"),
        "DELETE",
        "/api/v1/namespaces/d/pods/p",
        {"apiVersion": "v1", "kind": "DeleteOptions"},
    ),
    "call": (
        lambda api: api.call("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body=b"{}"),
        "POST",
        "/apis/authentication.k8s.io/v1/tokenreviews",
        {},
    ),
}


@pytest.mark.parametrize(("ask", "method", "target", "body"), VERBS.values(), ids=VERBS)
def test_verbs(
    ask: Callable[[HttpApi], Coroutine[Any, Any, Any]], method: str, target: str, body: dict[str, Any] | None
) -> None:
    async def test(api: HttpApi, server: Server) -> None:
        answer = await ask(api)
        (asked,) = server.asked
        assert (asked.method, asked.target) == (method, target)
        assert (asked.json() if asked.body else None) == body
        assert asked.header("authorization") == "Bearer t0ken"
        assert asked.header("accept") == "application/json"
        assert asked.header("user-agent").startswith("kuberth/")
        assert asked.header("host") == f"127.0.0.1:{server.port}"
        if isinstance(answer, Pod | Lease | Node):
            assert answer.metadata.name == "answered"
        assert counted(api) == {(method, "200"): 1}

    with_api(echo, test)


def test_the_default_patch_is_strategic() -> None:
    async def test(api: HttpApi, server: Server) -> None:
        await api.patch(Node, "n", {})
        assert server.asked[0].header("content-type") == "application/strategic-merge-patch+json"

    with_api(echo, test)


def test_an_answer_that_is_of_no_use_is_not_sent() -> None:
    async def test(api: HttpApi, server: Server) -> None:
        write = Write(Verb.PATCH, Pod, "p", "d", "status", {"status": {}}, wants_answer=False)
        assert await api.write(write) is None
        assert server.asked[0].header("accept") == (
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
        )

    with_api(echo, test)


def test_impersonation_headers() -> None:
    who = Impersonation(user="ann", uid="7", groups=("a", "b"), extra={"x/y": ("1", "2")})

    async def main() -> None:
        async with serve(echo) as server:
            api = HttpApi(server.config(impersonation=who))
            await api.get(Node, "n")
            await api.close()
            asked = server.asked[0].headers
            assert asked["impersonate-user"] == ["ann"]
            assert asked["impersonate-uid"] == ["7"]
            assert asked["impersonate-group"] == ["a", "b"]
            assert asked["impersonate-extra-x%2fy"] == ["1", "2"] or asked["impersonate-extra-x%2Fy".lower()]

    run(main)


def test_a_kind_the_api_does_not_have() -> None:
    async def test(api: HttpApi, _server: Server) -> None:
        with pytest.raises(TypeError, match="ObjectMeta is not a known kind of the API"):
            await api.get(ObjectMeta, "x")

    with_api(echo, test)


# Lists


def listed(*names: str, version: str = "7", token: str = "") -> dict[str, Any]:
    metadata = {"resourceVersion": version, "continue": token}
    return {"metadata": metadata, "items": [{"metadata": {"name": name}} for name in names]}


def names(items: Any) -> list[str]:
    return [item.metadata.name for item in items]


def test_the_newest_state_comes_in_pages() -> None:
    async def handler(asked: Asked, reply: Reply) -> None:
        if "continue" not in asked.query:
            await reply.send(listed("a", "b", token="more"))
        else:
            await reply.send(listed("c", version="7"))

    async def test(api: HttpApi, server: Server) -> None:
        found = await api.list(Node, field_selector="metadata.name!=x")
        assert (names(found.items), found.resource_version) == (["a", "b", "c"], "7")
        first, second = (asked.query for asked in server.asked)
        assert first == {"limit": "500", "fieldSelector": "metadata.name!=x"}
        assert second == {"limit": "500", "fieldSelector": "metadata.name!=x", "continue": "more"}

    with_api(handler, test)


def test_a_cached_state_comes_at_once() -> None:
    async def handler(_asked: Asked, reply: Reply) -> None:
        await reply.send(listed("a", version="42"))

    async def test(api: HttpApi, server: Server) -> None:
        found = await api.list(Node, resource_version="41")
        assert (names(found.items), found.resource_version) == (["a"], "42")
        assert server.asked[0].query == {"resourceVersion": "41"}

    with_api(handler, test)


def test_whatever_is_at_hand_comes_in_pages_too() -> None:
    """From its cache the server would answer all at once, which no bound on memory survives."""

    async def handler(asked: Asked, reply: Reply) -> None:
        more = "" if "continue" in asked.query else "more"
        await reply.send(listed("b" if not more else "a", version="42", token=more))

    async def test(api: HttpApi, server: Server) -> None:
        found = await api.list(Node, resource_version="0")
        assert (names(found.items), found.resource_version) == (["a", "b"], "42")
        assert [asked.query for asked in server.asked] == [
            {"limit": "500"},
            {"limit": "500", "continue": "more"},
        ]

    with_api(handler, test)


def test_listed_pods_share_what_is_equal() -> None:
    async def handler(_asked: Asked, reply: Reply) -> None:
        pods = [
            {"metadata": {"name": name, "labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}}
            for name in "ab"
        ]
        await reply.send({"metadata": {"resourceVersion": "7"}, "items": pods})

    async def test(api: HttpApi, server: Server) -> None:
        for version in ("", "41"):
            first, second = (await api.list(Pod, resource_version=version)).items
            assert first.metadata.labels is second.metadata.labels
            assert first.spec.containers is second.spec.containers

    with_api(handler, test)


def test_pages_that_expired_are_fetched_as_one() -> None:
    async def handler(asked: Asked, reply: Reply) -> None:
        if "continue" in asked.query:
            await reply.status(410, reason="Expired", message="the continue token is too old")
        elif "limit" in asked.query:
            await reply.send(listed("a", token="more"))
        else:
            await reply.send(listed("a", "b", version="9"))

    async def test(api: HttpApi, _server: Server) -> None:
        found = await api.list(Node)
        assert (names(found.items), found.resource_version) == (["a", "b"], "9")

    with_api(handler, test)


def test_one_broken_object_does_not_lose_the_list(caplog: pytest.LogCaptureFixture) -> None:
    async def handler(_asked: Asked, reply: Reply) -> None:
        answer = listed("a", "b")
        answer["items"].insert(1, {"metadata": {"name": "broken", "namespace": "d"}, "spec": {"nodeName": 5}})
        answer["items"].append({"metadata": {"name": "nulls", "labels": None}, "spec": {"containers": None}})
        await reply.send(answer)

    async def test(api: HttpApi, _server: Server) -> None:
        assert names((await api.list(Pod)).items) == ["a", "b", "nulls"]

    with_api(handler, test)
    assert "d/broken" in caplog.text
    assert "nodeName" in caplog.text


@pytest.mark.parametrize("body", [b"<html>", b'{"items":5}', b"[]", b"\xff"])
def test_an_answer_that_is_no_list(body: bytes) -> None:
    async def handler(_asked: Asked, reply: Reply) -> None:
        await reply.send(body)

    async def test(api: HttpApi, _server: Server) -> None:
        with pytest.raises(ApiError, match="list pods: the response is not a list"):
            await api.list(Pod)

    with_api(handler, test)


def test_nothing_may_be_listed_as_null() -> None:
    async def handler(_asked: Asked, reply: Reply) -> None:
        await reply.send({"metadata": {"resourceVersion": "3"}, "items": None})

    async def test(api: HttpApi, _server: Server) -> None:
        assert await api.list(Pod) == ([], "3")

    with_api(handler, test)


# Refusals

REFUSALS: dict[str, tuple[int, str, type[ApiError], str]] = {
    "not found": (404, "NotFound", NotFoundError, 'nodes "n" said so'),
    "conflict": (409, "Conflict", ConflictError, "said so"),
    "exists": (409, "AlreadyExists", AlreadyExistsError, "said so"),
    "who are you": (401, "Unauthorized", UnauthorizedError, "check the credentials in the test's kubeconfig"),
    "you may not": (
        403,
        "Forbidden",
        ForbiddenError,
        'apiGroups: [""], resources: ["nodes"], verbs: ["get"]',
    ),
    "too many": (429, "TooManyRequests", TooManyRequestsError, "said so"),
    "gone": (410, "Expired", ApiError, "said so"),
    "invalid": (422, "Invalid", ApiError, "said so"),
    "broken": (500, "InternalError", ApiError, "said so"),
}


@pytest.mark.parametrize(("code", "reason", "error", "part"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_becomes_an_error_of_the_tree(
    code: int, reason: str, error: type[ApiError], part: str
) -> None:
    async def handler(_asked: Asked, reply: Reply) -> None:
        await reply.status(code, reason=reason, message='nodes "n" said so')

    async def test(api: HttpApi, server: Server) -> None:
        with pytest.raises(ApiError) as caught:
            await api.get(Node, "n")
        assert type(caught.value) is error
        assert (caught.value.code, caught.value.reason) == (code, reason)
        assert str(caught.value).startswith("get Node n: ")
        assert part in str(caught.value)
        assert "\n" not in str(caught.value)
        assert counted(api) == {("GET", str(code)): 1}
        assert server.connections == 1

    with_api(handler, test)


@pytest.mark.parametrize(
    ("message", "helps"),
    [
        ('pods is forbidden: User "kuberth" cannot create resource "pods" in API group ""', True),
        ('pods "p" is forbidden: no PriorityClass with name x was found', False),
    ],
    ids=["rbac", "admission"],
)
def test_a_rule_is_named_where_one_helps(message: str, helps: bool) -> None:
    async def handler(_asked: Asked, reply: Reply) -> None:
        await reply.status(403, reason="Forbidden", message=message)

    async def test(api: HttpApi, _server: Server) -> None:
        with pytest.raises(ForbiddenError) as caught:
            await api.get(Node, "n")
        assert ("RBAC rule" in str(caught.value)) is helps

    with_api(handler, test)


@pytest.mark.parametrize(
    ("details", "error"),
    [
        ({"causes": [{"field": "spec"}, {"field": "metadata.uid"}]}, ConflictError),
        ({"causes": [{"field": "spec.nodeName"}]}, ApiError),
        ({"causes": None}, ApiError),
        ({"causes": ["metadata.uid", 5]}, ApiError),
        (None, ApiError),
        ("metadata.uid", ApiError),
    ],
)
def test_an_attempt_to_change_the_uid_is_a_conflict(details: Any, error: type[ApiError]) -> None:
    async def handler(_asked: Asked, reply: Reply) -> None:
        body = {"kind": "Status", "reason": "Invalid", "message": "said so", "details": details}
        await reply.send(body, status=422)

    async def test(api: HttpApi, _server: Server) -> None:
        with pytest.raises(ApiError, match="said so") as caught:
            await api.patch(Node, "n", {"metadata": {"uid": "x"}})
        assert type(caught.value) is error

    with_api(handler, test)


def test_a_subresource_is_named_in_the_rule() -> None:
    async def handler(_asked: Asked, reply: Reply) -> None:
        await reply.status(403, reason="Forbidden", message="no")

    async def test(api: HttpApi, _server: Server) -> None:
        with pytest.raises(ForbiddenError, match=r'resources: \["pods/binding"\], verbs: \["create"\]'):
            await api.bind(BINDING)

    with_api(handler, test)


@pytest.mark.parametrize("body", [b"<html>\nBad\r\n Gateway \x1b[1m</html>" + b"x" * 5000, b"", b'["a"]'])
def test_a_refusal_by_someone_else_on_the_way(body: bytes) -> None:
    async def handler(_asked: Asked, reply: Reply) -> None:
        await reply.send(body, status=502)

    async def test(api: HttpApi, _server: Server) -> None:
        with pytest.raises(ApiError, match="get Node n: HTTP 502") as caught:
            await api.get(Node, "n")
        assert len(str(caught.value)) < 400
        assert str(caught.value).isprintable()

    with_api(handler, test)


def test_an_answer_that_cannot_be_read() -> None:
    async def handler(_asked: Asked, reply: Reply) -> None:
        await reply.send({"metadata": {"name": 5}})

    async def test(api: HttpApi, _server: Server) -> None:
        with pytest.raises(ApiError, match=r"get Node n: the response cannot be decoded: .*metadata\.name"):
            await api.get(Node, "n")

    with_api(handler, test)


# Asking again


def busy_for(times: int, *, code: int = 429, seconds: str = "3") -> Handler:
    count = 0

    async def handler(_asked: Asked, reply: Reply) -> None:
        nonlocal count
        count += 1
        if count <= times:
            await reply.status(code, reason="Busy", message="busy", headers={"Retry-After": seconds})
        else:
            await reply.send({"metadata": {"name": "answered"}})

    return handler


@pytest.mark.parametrize("code", [429, 500, 503])
def test_the_server_says_when_to_ask_again(code: int) -> None:
    async def test(api: HttpApi, server: Server) -> None:
        await api.bind(BINDING)
        assert len(server.asked) == 4
        assert len({asked.body for asked in server.asked}) == 1
        assert asyncio.get_running_loop().time() == pytest.approx(9, abs=0.1)
        assert counted(api) == {("POST", str(code)): 3, ("POST", "200"): 1}

    with_api(busy_for(3, code=code), test, virtual=True)


def test_not_more_than_ten_times() -> None:
    async def test(api: HttpApi, server: Server) -> None:
        with pytest.raises(TooManyRequestsError):
            await api.get(Node, "n")
        assert len(server.asked) == 11

    with_api(busy_for(99, seconds="1"), test, virtual=True)


def test_not_beyond_the_deadline() -> None:
    async def test(api: HttpApi, server: Server) -> None:
        with pytest.raises(TooManyRequestsError) as caught:
            await api.get(Node, "n")
        assert caught.value.retry_after_seconds == 20
        assert len(server.asked) == 2
        assert asyncio.get_running_loop().time() == pytest.approx(20, abs=0.1)

    with_api(busy_for(99, seconds="20"), test, virtual=True)


@pytest.mark.parametrize(("code", "seconds"), [(429, ""), (500, "soon"), (404, "1"), (409, "1")])
def test_without_a_time_or_for_our_own_fault_it_is_not_asked_again(code: int, seconds: str) -> None:
    async def test(api: HttpApi, server: Server) -> None:
        with pytest.raises(ApiError):
            await api.get(Node, "n")
        assert len(server.asked) == 1

    with_api(busy_for(1, code=code, seconds=seconds), test)


def test_a_version_from_the_future_is_not_waited_for() -> None:
    async def handler(_asked: Asked, reply: Reply) -> None:
        causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
        body = {
            "kind": "Status",
            "code": 504,
            "reason": "Timeout",
            "message": "Timeout: Too large resource version: 9, current: 5",
            "details": {"causes": causes, "retryAfterSeconds": 1},
        }
        await reply.send(body, status=504, headers={"Retry-After": "1"})

    async def test(api: HttpApi, server: Server) -> None:
        with pytest.raises(ApiError, match="Too large resource version") as caught:
            await api.list(Node, resource_version="9")
        assert (caught.value.code, caught.value.reason) == (504, "Timeout")
        assert len(server.asked) == 1

    with_api(handler, test)


def test_a_retry_takes_a_token_of_the_rate_limit_too() -> None:
    async def test(api: HttpApi, server: Server) -> None:
        await api.get(Node, "n")
        assert len(server.asked) == 3
        assert asyncio.get_running_loop().time() == pytest.approx(2, abs=0.1)

    with_api(busy_for(2, seconds="0"), test, virtual=True, qps=1, burst=1)


def test_the_rate_limit_is_not_the_servers_fault() -> None:
    async def test(api: HttpApi, server: Server) -> None:
        async with asyncio.TaskGroup() as group:
            for each in range(61):
                group.create_task(api.get(Node, f"n{each}"), name=str(each))
        assert len(server.asked) == 61
        assert asyncio.get_running_loop().time() == pytest.approx(60, abs=0.5)

    with_api(echo, test, virtual=True, qps=1, burst=1)


# Secrets


def test_nothing_that_is_said_holds_the_token(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def handler(asked: Asked, reply: Reply) -> None:
        if asked.path.endswith("/cut"):
            reply.cut()
        else:
            await reply.status(403, reason="Forbidden", message="no")

    async def test(api: HttpApi, _server: Server) -> None:
        texts = [repr(api.config), str(api.config), repr(vars(api))]
        for name in ("n", "cut"):
            with pytest.raises(ApiError) as caught:
                await api.get(Node, name)
            error: BaseException | None = caught.value
            while error is not None:
                texts.append(repr(error))
                error = error.__cause__ or error.__context__
        assert not any("t0ken" in text for text in [*texts, caplog.text])

    with_api(handler, test)


def test_objects_survive_the_way() -> None:
    pod, node = make_pod("p", cpu="500m"), make_node("n")

    async def handler(asked: Asked, reply: Reply) -> None:
        await reply.send(asked.body, status=201)

    async def test(api: HttpApi, _server: Server) -> None:
        assert await api.create(pod) == pod
        assert await api.update(node) == node

    with_api(handler, test)


# What it says about itself


def test_every_request_is_measured() -> None:
    async def test(api: HttpApi, server: Server) -> None:
        await api.get(Node, "n")
        await api.bind(BINDING)
        host = f"127.0.0.1:{server.port}"
        posted = server.asked[-1]
        metrics = api.metrics
        for family in (
            metrics.request_duration,
            metrics.rate_limiter_duration,
            metrics.request_size,
            metrics.response_size,
        ):
            assert {labels: value.count for labels, value in family.values.items()} == {
                ("GET", host): 1,
                ("POST", host): 1,
            }, family.name
        assert metrics.request_size.values["POST", host].sum == len(posted.body)
        assert metrics.request_size.values["GET", host].sum == 0
        assert metrics.response_size.values["GET", host].sum > 0
        assert metrics.request_duration.values["GET", host].sum > 0
        assert metrics.retries.values == {}

    with_api(echo, test)


def test_retries_and_waits_are_measured() -> None:
    async def test(api: HttpApi, server: Server) -> None:
        await api.bind(BINDING)
        await api.bind(BINDING)
        labels = ("POST", f"127.0.0.1:{server.port}")
        assert api.metrics.retries.values == {("429", *labels): 3}
        assert api.metrics.request_duration.values[labels].count == 5
        # One token was there at the start, and each further request waits a second for the next.
        assert api.metrics.rate_limiter_duration.values[labels].sum > 0
        assert api.metrics.rate_limiter_duration.values[labels].count == 2

    with_api(busy_for(3, code=429), test, virtual=True, qps=0.2, burst=1)


def test_a_request_without_an_answer_is_measured() -> None:
    async def silence(_asked: Asked, _reply: Reply) -> None:
        await asyncio.sleep(60)

    async def test(api: HttpApi, _server: Server) -> None:
        with pytest.raises(ApiError):
            await api.get(Node, "n")
        assert counted(api) == {("GET", "<error>"): 1}
        (duration,) = api.metrics.request_duration.values.values()
        assert duration.count == 1
        assert not api.metrics.response_size.values

    with_api(silence, test, virtual=True)
