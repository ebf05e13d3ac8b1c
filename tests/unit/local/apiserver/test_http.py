"""The protocol, over real HTTPS: access, formats of answers, and failures."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest

from kuberth.local.apiserver.http.authentication import AccountTokens
from kuberth.local.apiserver.http.credentials import ClusterCredentials
from kuberth.local.apiserver.verbs.core import Core
from tests.unit.local.apiserver.harness import CoreHarness, ServerHarness, labelled_pod, run_with_server
from tests.unit.local.apiserver.harness import run as run_core

PODS = "/api/v1/namespaces/default/pods"
TABLE = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,"
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


async def prepare(harness: ServerHarness, *names: str) -> None:
    for name in names:
        await harness.core.create("pods", labelled_pod(name), namespace="default")


@pytest.mark.parametrize(
    "path, status",
    [
        ("/healthz", 200),
        ("/livez", 200),
        ("/readyz?verbose", 200),
        ("/readyz/ping", 200),
        ("/readyz/nothing", 404),
        ("/version", 200),
        ("/", 403),
        ("/api", 403),
        ("/versions", 403),
        ("/healthz/../api", 404),
        ("/healthzz", 403),
        ("/openapi/v3", 403),
        (PODS, 403),
    ],
)
def test_what_everybody_may_see(path: str, status: int) -> None:
    async def main(harness: ServerHarness) -> None:
        answer = await harness.fetch("GET", path, anonymous=True)
        assert answer.status == status
        if status == 403:
            assert 'User "system:anonymous" cannot get path' in answer.json()["message"]

    run_with_server(main)


@pytest.mark.parametrize(
    "authorization, status",
    [
        ("Bearer wrong", 401),
        ("Bearer ", 401),
        ("Bearer \xfc", 401),
        ("Basic YWRtaW46YWRtaW4=", 401),
        ("", 401),
    ],
)
def test_wrong_credentials(authorization: str, status: int) -> None:
    async def main(harness: ServerHarness) -> None:
        for path in ("/api", "/healthz"):
            answer = await harness.fetch(
                "GET", path, headers={"authorization": authorization}, anonymous=True
            )
            assert (answer.status, answer.json()["reason"]) == (status, "Unauthorized")

    run_with_server(main)


def test_a_server_that_cannot_write_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(harness: ServerHarness) -> None:
        monkeypatch.setattr(Core, "write_failure", property(lambda _core: "the disk is full"))
        for path, status in (("/readyz", 500), ("/readyz/etcd", 500), ("/readyz/ping", 200), ("/livez", 200)):
            assert (await harness.fetch("GET", path, anonymous=True)).status == status, path
        assert b"[-]etcd failed: the disk is full" in (await harness.fetch("GET", "/readyz")).body

    run_with_server(main)


def load(context: ssl.SSLContext, credentials: ClusterCredentials, folder: Path) -> None:
    file = folder / "client.pem"
    file.write_bytes(credentials.client_certificate + credentials.client_key)
    context.load_cert_chain(file)


def test_the_certificate_is_enough(tmp_path: Path) -> None:
    async def main(harness: ServerHarness) -> None:
        load(harness.context, harness.credentials, tmp_path)
        answer = await harness.fetch(
            "POST",
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            {"kind": "SelfSubjectReview"},
            anonymous=True,
        )
        assert answer.status == 201
        assert answer.json()["status"]["userInfo"] == {
            "username": "kuberth-admin",
            "groups": ["system:masters", "system:authenticated"],
        }

    run_with_server(main)


def test_the_certificate_of_another_ca_gets_no_answer(tmp_path: Path) -> None:
    async def main(harness: ServerHarness) -> None:
        load(harness.context, ClusterCredentials.in_memory(), tmp_path)
        with pytest.raises((ssl.SSLError, ConnectionError, EOFError)):
            await harness.fetch("GET", "/version", anonymous=True)

    run_with_server(main)


def test_version() -> None:
    async def main(harness: ServerHarness) -> None:
        version = (await harness.fetch("GET", "/version")).json()
        assert (version["major"], version["minor"]) == ("1", "36")
        assert version["gitVersion"] == "v1.36.4+kuberth"

    run_with_server(main)


def test_create_read_change_delete() -> None:
    async def main(harness: ServerHarness) -> None:
        await prepare(harness)
        made = await harness.fetch("POST", PODS, labelled_pod("web"))
        assert (made.status, made.json()["kind"]) == (201, "Pod")
        read = await harness.fetch("GET", f"{PODS}/web")
        assert read.json() == made.json()
        changed = read.json()
        changed["metadata"]["labels"]["tier"] = "front"
        written = await harness.fetch("PUT", f"{PODS}/web", changed)
        assert (written.status, written.json()["metadata"]["labels"]["tier"]) == (200, "front")
        stale = await harness.fetch("PUT", f"{PODS}/web", changed)
        assert (stale.status, stale.json()["reason"]) == (409, "Conflict")
        patched = await harness.fetch(
            "PATCH",
            f"{PODS}/web",
            [{"op": "remove", "path": "/metadata/labels/tier"}],
            headers={"content-type": "application/json-patch+json"},
        )
        assert (patched.status, patched.json()["metadata"]["labels"]) == (200, {"app": "web"})
        gone = await harness.fetch("DELETE", f"{PODS}/web?gracePeriodSeconds=0")
        assert gone.status == 200
        missing = await harness.fetch("GET", f"{PODS}/web")
        assert missing.status == 404
        assert missing.json() == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": 'pods "web" not found',
            "reason": "NotFound",
            "details": {"name": "web", "kind": "pods"},
            "code": 404,
        }

    run_with_server(main)


def test_delete_options_come_in_body_or_query() -> None:
    async def main(harness: ServerHarness) -> None:
        await prepare(harness, "a", "b", "c")
        wrong = {"kind": "DeleteOptions", "preconditions": {"uid": "not-this-one"}}
        assert (await harness.fetch("DELETE", f"{PODS}/a", wrong)).status == 409
        show = {"kind": "DeleteOptions", "dryRun": ["All"], "gracePeriodSeconds": 0}
        assert (await harness.fetch("DELETE", f"{PODS}/a", show)).status == 200
        assert (await harness.fetch("DELETE", f"{PODS}/a?dryRun=All&gracePeriodSeconds=0")).status == 200
        assert (await harness.fetch("GET", f"{PODS}/a")).status == 200
        assert (await harness.fetch("DELETE", f"{PODS}/a?dryRun=Some")).status == 422
        assert (await harness.fetch("DELETE", f"{PODS}/a", {"kind": "Pod"})).status == 400
        answer = await harness.fetch("DELETE", f"{PODS}?labelSelector=app%3Db&gracePeriodSeconds=0")
        assert answer.status == 200
        left = (await harness.fetch("GET", PODS)).json()["items"]
        assert [item["metadata"]["name"] for item in left] == ["a", "c"]

    run_with_server(main)


def test_a_dry_run_changes_nothing() -> None:
    async def main(harness: ServerHarness) -> None:
        await prepare(harness)
        assert (await harness.fetch("POST", f"{PODS}?dryRun=All", labelled_pod("web"))).status == 201
        assert (await harness.fetch("GET", PODS)).json()["items"] == []
        assert (await harness.fetch("POST", f"{PODS}?dryRun=Some", labelled_pod("web"))).status == 422

    run_with_server(main)


@pytest.mark.parametrize(
    "accept, content_type",
    [
        (None, "application/json"),
        ("*/*", "application/json"),
        ("application/vnd.kubernetes.protobuf, */*", "application/json"),
        ("application/vnd.kubernetes.protobuf,application/json", "application/json"),
        ("application/yaml", "application/yaml"),
        ("application/json;q=0.1, application/yaml", "application/yaml"),
        ("application/json;as=Strange;g=meta.k8s.io;v=v1, application/yaml", "application/yaml"),
        ("application/vnd.kubernetes.protobuf", None),
        ("text/html", None),
        ("application/json;q=0", None),
        ("application/json;as=Table;v=v7;g=meta.k8s.io", None),
    ],
)
def test_what_the_client_would_take(accept: str | None, content_type: str | None) -> None:
    async def main(harness: ServerHarness) -> None:
        await prepare(harness, "web")
        headers = {} if accept is None else {"accept": accept}
        answer = await harness.fetch("GET", f"{PODS}/web", headers=headers)
        if content_type is None:
            assert (answer.status, answer.json()["reason"]) == (406, "NotAcceptable")
        else:
            assert (answer.status, answer.headers["content-type"]) == (200, content_type)

    run_with_server(main)


YAML_POD = (
    b"apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - {name: a, image: b}\n"
)


@pytest.mark.parametrize(
    "content_type, body, status",
    [
        ("application/yaml", YAML_POD, 201),
        ("application/json; charset=utf-8", None, 201),
        ("application/vnd.kubernetes.protobuf", b"k8s\x00", 400),
        ("application/cbor", b"\xd9\xd9\xf7", 415),
        ("text/plain", b"{}", 415),
        ("application/yaml", b"a: [", 400),
        ("application/yaml", b"a: &a [*a]", 400),
        ("application/json", b"", 400),
        ("application/json", b"[]", 400),
        ("application/json", b"nonsense", 400),
        ("application/json", b"\xff\xfe", 400),
        ("application/json", b'{"a":' * 5000 + b"1" + b"}" * 5000, 400),
        ("application/json", b"[" * 100_000, 400),
        ("application/yaml", b"[" * 100_000, 400),
    ],
)
def test_what_the_client_may_send(content_type: str, body: bytes | None, status: int) -> None:
    async def main(harness: ServerHarness) -> None:
        await prepare(harness)
        answer = await harness.fetch(
            "POST",
            PODS,
            labelled_pod("web") if body is None else body,
            headers={"content-type": content_type},
        )
        assert answer.status == status, answer.body
        if status != 201:
            assert answer.json()["kind"] == "Status"

    run_with_server(main)


def test_apply_in_yaml() -> None:
    async def main(harness: ServerHarness) -> None:
        await prepare(harness)
        headers = {"content-type": "application/apply-patch+yaml"}
        path = f"{PODS}/web"
        assert (await harness.fetch("PATCH", path, YAML_POD, headers=headers)).status == 422
        made = await harness.fetch("PATCH", f"{path}?fieldManager=me", YAML_POD, headers=headers)
        assert made.status == 201
        again = await harness.fetch("PATCH", f"{path}?fieldManager=me&force=true", YAML_POD, headers=headers)
        assert again.status == 200
        assert made.json()["metadata"]["managedFields"][0]["manager"] == "me"

    run_with_server(main)


@pytest.mark.parametrize(
    "mode, status, warned",
    [
        ("Strict", 400, False),
        ("Warn", 201, True),
        ("", 201, True),
        ("Ignore", 201, False),
        ("Odd", 422, False),
    ],
)
def test_unknown_fields_by_validation_mode(mode: str, status: int, warned: bool) -> None:
    async def main(harness: ServerHarness) -> None:
        await prepare(harness)
        query = f"?fieldValidation={mode}" if mode else ""
        answer = await harness.fetch("POST", f"{PODS}{query}", labelled_pod("web", nodeNam="n1"))
        assert answer.status == status
        assert ("warning" in answer.headers) is warned
        if mode == "Strict":
            assert answer.json()["message"] == (
                'Pod in version "v1" cannot be handled as a Pod: strict decoding error: '
                'unknown field "spec.nodeNam"'
            )
        if warned:
            assert answer.headers["warning"] == r'299 - "unknown field \"spec.nodeNam\""'

    run_with_server(main)


def test_a_table() -> None:
    async def main(harness: ServerHarness) -> None:
        await prepare(harness, "a", "b")
        table = (await harness.fetch("GET", PODS, headers={"accept": TABLE})).json()
        assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
        assert table["metadata"]["resourceVersion"]
        columns = [column["name"] for column in table["columnDefinitions"]]
        assert columns[:5] == ["Name", "Ready", "Status", "Restarts", "Age"]
        assert [row["cells"][0] for row in table["rows"]] == ["a", "b"]
        assert all(len(row["cells"]) == len(columns) for row in table["rows"])
        assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
        one = (await harness.fetch("GET", f"{PODS}/a?includeObject=Object", headers={"accept": TABLE})).json()
        assert [row["object"]["kind"] for row in one["rows"]] == ["Pod"]
        bare = (await harness.fetch("GET", f"{PODS}?includeObject=None", headers={"accept": TABLE})).json()
        assert "object" not in bare["rows"][0]
        odd = await harness.fetch("GET", f"{PODS}?includeObject=Odd", headers={"accept": TABLE})
        assert odd.status == 400

    run_with_server(main)


def test_metadata_alone() -> None:
    async def main(harness: ServerHarness) -> None:
        await prepare(harness, "a")
        one = {"accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}
        many = {"accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
        read = (await harness.fetch("GET", f"{PODS}/a", headers=one)).json()
        assert read.keys() == {"kind", "apiVersion", "metadata"}
        assert (read["kind"], read["metadata"]["name"]) == ("PartialObjectMetadata", "a")
        listed = (await harness.fetch("GET", PODS, headers=many)).json()
        assert listed["kind"] == "PartialObjectMetadataList"
        assert listed["items"] == [read]
        assert (await harness.fetch("GET", PODS, headers=one)).status == 406
        missing = await harness.fetch("GET", f"{PODS}/nothing", headers=one)
        assert (missing.status, missing.json()["kind"]) == (404, "Status")

    run_with_server(main)


def test_lists_in_chunks_and_selections() -> None:
    async def main(harness: ServerHarness) -> None:
        await prepare(harness, "a", "b", "c")
        first = (await harness.fetch("GET", f"{PODS}?limit=2")).json()
        assert [item["metadata"]["name"] for item in first["items"]] == ["a", "b"]
        rest = (await harness.fetch("GET", f"{PODS}?limit=2&continue={first['metadata']['continue']}")).json()
        assert [item["metadata"]["name"] for item in rest["items"]] == ["c"]
        for query, names in (
            ("labelSelector=app%20in%20(a,c)", ["a", "c"]),
            ("fieldSelector=metadata.name%3Db", ["b"]),
            ("fieldSelector=spec.nodeName!%3D", []),
            ("resourceVersion=0", ["a", "b", "c"]),
        ):
            found = (await harness.fetch("GET", f"{PODS}?{query}")).json()
            assert [item["metadata"]["name"] for item in found["items"]] == names, query
        for query in (
            "limit=x",
            "limit=9223372036854775808",
            "continue=x",
            "labelSelector=!!",
            "fieldSelector=x",
        ):
            assert (await harness.fetch("GET", f"{PODS}?{query}")).status == 400, query

    run_with_server(main)


@pytest.mark.parametrize(
    "method, path, status",
    [
        ("GET", "/api/v1/pods", 200),
        ("POST", "/api/v1/pods", 405),
        ("DELETE", "/api/v1/pods", 405),
        ("GET", "/api/v1/pods/a", 404),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("GET", "/api/v1/namespaces/default", 200),
        ("GET", "/api/v1/namespaces/default/status", 200),
        ("GET", "/api/v1/namespaces/default/finalize", 405),
        ("GET", "/api/v1/namespaces/default/pods/a/status", 200),
        ("GET", "/api/v1/namespaces/default/pods/a/binding", 405),
        ("GET", "/api/v1/namespaces/default/pods/a/nothing", 404),
        ("GET", "/api/v1/namespaces/default/pods/a/status/more", 404),
        ("GET", "/api/v1/watch/pods", 404),
        ("GET", "/api/v2", 404),
        ("GET", "/apis/apps/v2", 404),
        ("GET", "/apis/apps/v1/pods", 404),
        ("GET", "/apis/nothing", 404),
        ("GET", "/apis//v1", 404),
        ("GET", "/.well-known/openid-configuration", 404),
        ("GET", "/openid/v1/jwks", 404),
        ("GET", "/metrics", 404),
        ("GET", "/api/v1/namespaces/default/pods/a%2Fb", 404),
        ("PUT", "/api/v1", 405),
        ("POST", "/version", 405),
        ("OPTIONS", PODS, 405),
        ("TRACE", "/", 405),
        ("PUT", PODS, 405),
        ("POST", f"{PODS}/a", 405),
        ("HEAD", PODS, 200),
        ("HEAD", "/healthz", 200),
        ("HEAD", f"{PODS}?watch=true", 200),
    ],
)
def test_paths_and_methods(method: str, path: str, status: int) -> None:
    async def main(harness: ServerHarness) -> None:
        await prepare(harness, "a")
        answer = await harness.fetch(method, path)
        assert answer.status == status
        if method != "HEAD" and status >= 400:
            assert (answer.json()["kind"], answer.json()["code"]) == ("Status", status)

    run_with_server(main)


def test_discovery_in_both_forms() -> None:
    async def main(harness: ServerHarness) -> None:
        legacy = await harness.fetch("GET", "/apis")
        assert legacy.json()["kind"] == "APIGroupList"
        for path in ("/api", "/apis"):
            asked = f"{AGGREGATED};profile=nopeer,{AGGREGATED},application/json"
            aggregated = await harness.fetch("GET", path, headers={"accept": asked})
            assert aggregated.headers["content-type"] == AGGREGATED
            assert aggregated.json()["kind"] == "APIGroupDiscoveryList"
        tag = {"if-none-match": legacy.headers["etag"]}
        assert (await harness.fetch("GET", "/apis", headers=tag)).status == 304
        for group in legacy.json()["groups"]:
            for version in group["versions"]:
                listed = await harness.fetch("GET", f"/apis/{version['groupVersion']}")
                assert listed.json()["groupVersion"] == version["groupVersion"]

    run_with_server(main)


def test_every_listed_resource_can_be_listed() -> None:
    async def main(harness: ServerHarness) -> None:
        versions = [("/api/v1", "")] + [
            (f"/apis/{group['preferredVersion']['groupVersion']}", group["name"])
            for group in (await harness.fetch("GET", "/apis")).json()["groups"]
        ]
        for path, group in versions:
            for entry in (await harness.fetch("GET", path)).json()["resources"]:
                if "/" in entry["name"] or "list" not in entry["verbs"]:
                    continue
                for accept in ("application/json", TABLE):
                    answer = await harness.fetch("GET", f"{path}/{entry['name']}", headers={"accept": accept})
                    assert answer.status == 200, (group, entry)

    run_with_server(main)


@pytest.mark.parametrize(
    "path, spec, status",
    [
        ("authorization.k8s.io/v1/selfsubjectaccessreviews", {}, {"allowed": True}),
        ("authorization.k8s.io/v1/subjectaccessreviews", {"user": "alice"}, {"allowed": True}),
        ("authorization.k8s.io/v1/subjectaccessreviews", {"user": "system:anonymous"}, {"allowed": False}),
        (
            "authorization.k8s.io/v1/subjectaccessreviews",
            {"user": "system:anonymous", "nonResourceAttributes": {"path": "/healthz", "verb": "get"}},
            {"allowed": True},
        ),
        (
            "authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews",
            {"groups": ["system:unauthenticated"], "user": "x"},
            {"allowed": False},
        ),
        ("authorization.k8s.io/v1/selfsubjectrulesreviews", {"namespace": "default"}, {"incomplete": False}),
        ("authentication.k8s.io/v1/tokenreviews", {"token": "wrong"}, {"authenticated": False}),
        ("authentication.k8s.io/v1/tokenreviews", {"token": 7}, {"authenticated": False}),
    ],
)
def test_reviews(path: str, spec: dict[str, Any], status: dict[str, Any]) -> None:
    async def main(harness: ServerHarness) -> None:
        answer = await harness.fetch("POST", f"/apis/{path}", {"spec": spec})
        assert answer.status == 201
        found = answer.json()["status"]
        assert {key: found[key] for key in status} == status
        wrong: tuple[Any, ...] = ([], {"spec": 1}, {"kind": "Pod"})
        for body in wrong:
            assert (await harness.fetch("POST", f"/apis/{path}", body)).status == 400
        assert (await harness.fetch("GET", f"/apis/{path}")).status == 405

    run_with_server(main)


def test_the_right_token_is_known() -> None:
    async def main(harness: ServerHarness) -> None:
        body = {"spec": {"token": harness.credentials.token}}
        answer = await harness.fetch("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body)
        assert answer.json()["status"]["user"]["username"] == "kuberth-admin"

    run_with_server(main)


def test_a_token_of_a_service_account_is_its_users_until_the_account_is_gone() -> None:
    async def main(harness: ServerHarness) -> None:
        path = "/api/v1/namespaces/default/serviceaccounts"
        await harness.fetch("POST", path, {"metadata": {"name": "robot"}})
        answer = await harness.fetch("POST", f"{path}/robot/token", {"spec": {"expirationSeconds": 600}})
        assert (answer.status, answer.json()["spec"]["expirationSeconds"]) == (201, 600)
        token = answer.json()["status"]["token"]

        async def who(token: str) -> Any:
            headers = {"authorization": f"Bearer {token}"}
            review = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
            found = await harness.fetch("POST", review, {}, headers=headers, anonymous=True)
            return found.json()["status"]["userInfo"]["username"] if found.status == 201 else found.status

        assert await who(token) == "system:serviceaccount:default:robot"
        claims, _, signature = token.rpartition(".")
        for wrong in (claims, f"{claims}.", f"{claims}.{signature[::-1]}", f"a{token}", "a.b.c", "é.b"):
            assert await who(wrong) == 401
        await harness.fetch("DELETE", f"{path}/robot")
        assert await who(token) == 401
        await harness.fetch("POST", path, {"metadata": {"name": "robot"}})
        assert await who(token) == 401, "another account of the same name"

    run_with_server(main)


@pytest.mark.parametrize(
    ("name", "body", "status"),
    [
        ("default", {"spec": {"expirationSeconds": 10}}, 422),
        ("default", {"spec": {"expirationSeconds": 2**33}}, 422),
        ("default", {"spec": {"audiences": "x"}}, 400),
        ("default", {"kind": "Pod"}, 400),
        ("missing", {}, 404),
        ("default", {}, 201),
    ],
)
def test_token_requests(name: str, body: Any, status: int) -> None:
    async def main(harness: ServerHarness) -> None:
        path = f"/api/v1/namespaces/default/serviceaccounts/{name}/token"
        assert (await harness.fetch("POST", path, body)).status == status
        assert (await harness.fetch("GET", path)).status == 405

    run_with_server(main)


def test_a_token_expires() -> None:
    async def main(harness: CoreHarness) -> None:
        tokens = AccountTokens(harness.core, secret="s", clock=harness.clock)
        token = (await tokens.issue("default", "default", {}))["status"]["token"]
        other = (await tokens.issue("default", "default", {"spec": {"audiences": ["vault"]}}))["status"][
            "token"
        ]
        assert tokens.user_of(token) is not None
        assert tokens.user_of(other) is None, "it is for another server"
        assert AccountTokens(harness.core, secret="t", clock=harness.clock).user_of(token) is None
        harness.clock.seconds += 3600
        assert tokens.user_of(token) is None

    run_core(main)


def test_openapi_documents() -> None:
    async def main(harness: ServerHarness) -> None:
        index = (await harness.fetch("GET", "/openapi/v3")).json()["paths"]
        answer = await harness.fetch("GET", index["api/v1"]["serverRelativeURL"])
        assert "io.k8s.api.core.v1.Pod" in answer.json()["components"]["schemas"]
        assert (await harness.fetch("GET", "/openapi/v3/api/v9")).status == 404
        assert (await harness.fetch("GET", "/openapi/v2")).json()["swagger"] == "2.0"
        protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
        answer = await harness.fetch("GET", "/openapi/v2", headers={"accept": protobuf})
        assert (answer.headers["content-type"], answer.body[:5]) == (protobuf.replace("@", "."), b"\n\x032.0")

    run_with_server(main)


def test_pretty_output() -> None:
    async def main(harness: ServerHarness) -> None:
        await prepare(harness)
        assert b'\n  "kind"' in (await harness.fetch("GET", "/api/v1/namespaces/default?pretty=true")).body
        assert b"\n" not in (await harness.fetch("GET", "/api/v1/namespaces/default")).body

    run_with_server(main)
