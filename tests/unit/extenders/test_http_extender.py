"""One extender: how it is reached, which pods it concerns, and which configurations are refused."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kuberth.api.pods import UNFINISHED
from kuberth.clock import SystemClock
from kuberth.config.types import Extender, ExtenderManagedResource, ExtenderTLSConfig
from kuberth.errors import ConfigError, ExtenderError
from kuberth.extenders import Extenders, HttpExtender, build_extenders
from kuberth.extenders.whole_objects import PENDING, WholeNode, WholeObjects, WholePod
from kuberth.local.memory_api import MemoryApi
from kuberth.testing import make_node, make_pod
from tests.certificates import authority, client_pair, server_pair
from tests.extender_server import everyone, serving


def made(url: str = "http://127.0.0.1:1", api: MemoryApi | None = None, **fields: Any) -> HttpExtender:
    config = Extender(url_prefix=url, **fields)
    objects = WholeObjects(MemoryApi() if api is None else api)
    return HttpExtender(config, objects, index=2, clock=SystemClock())


async def asked_once(extender: HttpExtender, api: MemoryApi) -> Any:
    pod = api.put(make_pod("p"))
    try:
        return await extender.filter(pod, ["n1"])
    finally:
        await extender.close()


@pytest.mark.parametrize("tail", ["", "/", "//"])
def test_the_verb_is_appended_to_the_prefix(tail: str) -> None:
    with serving({"filter": everyone}) as server:
        api = MemoryApi()
        extender = made(f"{server.url}{tail}", api, filter_verb="filter", node_cache_capable=True)
        assert asyncio.run(asked_once(extender, api)).names == ("n1",)
        assert server.asked[0].headers["Content-Type"] == "application/json"
        assert "Authorization" not in server.asked[0].headers


def test_a_user_in_the_url_is_shown_to_the_server_alone() -> None:
    with serving({"filter": everyone}) as server:
        api = MemoryApi()
        url = server.url.replace("://", "://me:s%20cret@")
        extender = made(url, api, filter_verb="filter", node_cache_capable=True)
        asyncio.run(asked_once(extender, api))
        encoded = base64.b64encode(b"me:s cret").decode()
        assert server.asked[0].headers["Authorization"] == f"Basic {encoded}"
        assert extender.name == server.url
        assert "cret" not in repr(extender)


@pytest.mark.parametrize("in_files", [True, False], ids=["files", "data"])
def test_a_client_certificate(in_files: bool, tmp_path: Path) -> None:
    pair = client_pair()
    ca = tmp_path / "ca.crt"
    ca.write_text(authority().pem)
    if in_files:
        files = pair.write(tmp_path, "client")
        tls = ExtenderTLSConfig(ca_file=str(ca), cert_file=str(files.certificate), key_file=str(files.key))
    else:
        tls = ExtenderTLSConfig(
            ca_data=authority().pem.encode(), cert_data=pair.certificate.encode(), key_data=pair.key.encode()
        )
    with serving({"filter": everyone}, pair=server_pair(), client_ca=authority().pem) as server:
        for shown, is_let_in in ((tls, True), (ExtenderTLSConfig(ca_file=str(ca)), False)):
            api = MemoryApi()
            extender = made(server.url, api, filter_verb="filter", node_cache_capable=True, tls_config=shown)
            if is_let_in:
                assert asyncio.run(asked_once(extender, api)).names == ("n1",)
            else:
                with pytest.raises(ExtenderError, match="client certificate"):
                    asyncio.run(asked_once(extender, api))


@pytest.mark.parametrize(
    "fields, words",
    [
        ({"url_prefix": "ftp://x"}, "extenders\\[2\\]: the server address is invalid"),
        ({"url_prefix": "http://[x"}, "extenders\\[2\\].urlPrefix: cannot be read"),
        (
            {"tls_config": ExtenderTLSConfig(insecure=True, ca_data=b"x")},
            "insecure and a certificate authority exclude each other",
        ),
        ({"tls_config": ExtenderTLSConfig(ca_data=b"x")}, "contains no certificate authority"),
        ({"tls_config": ExtenderTLSConfig(ca_data=b"\xff")}, "caData: must be a PEM text"),
        ({"tls_config": ExtenderTLSConfig(ca_file="/nowhere")}, "/nowhere cannot be read"),
        ({"tls_config": ExtenderTLSConfig(cert_data=b"x", key_data=b"y")}, "is not usable"),
    ],
    ids=["scheme", "brackets", "insecure CA", "no CA", "binary CA", "no file", "no pair"],
)
def test_an_invalid_extender_is_refused_at_the_start(fields: dict[str, Any], words: str) -> None:
    config = Extender(**{"url_prefix": "https://127.0.0.1:1", **fields})
    with pytest.raises(ConfigError, match=words):
        HttpExtender(config, WholeObjects(MemoryApi()), index=2, clock=SystemClock())


def test_extenders_by_verb() -> None:
    gpu = (ExtenderManagedResource(name="example.com/gpu"),)
    configs = [
        Extender(url_prefix="http://binder", bind_verb="bind", ignorable=True),
        Extender(url_prefix="http://gpu", filter_verb="f", preempt_verb="p", managed_resources=gpu),
        Extender(url_prefix="http://scores", prioritize_verb="s", weight=3),
        Extender(url_prefix="http://nothing"),
    ]
    extenders = build_extenders(configs, api=MemoryApi(), clock=SystemClock())
    names = [extender.name for extender in extenders]
    assert names == ["http://gpu", "http://scores", "http://nothing", "http://binder"]
    plain, managed = make_pod("plain"), make_pod("managed", requests={"example.com/gpu": "1"})
    for pod, filters in ((plain, []), (managed, ["http://gpu"])):
        assert [each.name for each in extenders.filtering(pod)] == filters
        assert [each.name for each in extenders.preempting(pod)] == filters
        assert [each.name for each in extenders.prioritizing(pod)] == ["http://scores"]
        assert [each.name for each in extenders.binding(pod)] == ["http://binder"]
        assert extenders.decide_about(pod)
    assert next(iter(extenders.prioritizing(plain))).score_factor == 30
    assert extenders.score_nodes
    binder_alone = build_extenders(configs[:1], api=MemoryApi(), clock=SystemClock())
    assert not binder_alone.decide_about(plain)
    assert not binder_alone.score_nodes
    assert not Extenders()
    assert build_extenders((), api=MemoryApi(), clock=SystemClock()) is not None


@pytest.mark.parametrize(
    "fields, followed",
    [
        ({"filter_verb": "f", "node_cache_capable": True}, {WholePod: PENDING}),
        ({"filter_verb": "f"}, {WholePod: PENDING, WholeNode: ""}),
        ({"preempt_verb": "p"}, {WholePod: UNFINISHED}),
        ({"preempt_verb": "p", "node_cache_capable": True}, {WholePod: PENDING}),
        ({"bind_verb": "b"}, {}),
    ],
)
def test_what_is_followed_is_what_will_be_sent(fields: dict[str, Any], followed: dict[type, str]) -> None:
    config = Extender(url_prefix="http://x", **fields)
    extenders = build_extenders([config], api=MemoryApi(), clock=SystemClock())
    assert {each.kind: each._field_selector for each in extenders.reflectors} == followed


def test_whole_objects_are_asked_for_where_they_are_not_known_yet() -> None:
    async def scenario() -> None:
        api = MemoryApi()
        old = api.put(make_pod("p"))
        objects = WholeObjects(api, pods=PENDING, nodes=True)
        api.put(make_node("n1"))
        for reflector in objects.reflectors:
            await reflector.sync()
        api.put(make_node("n2"))
        labelled = msgspec.structs.replace(old.metadata, labels={"a": "b"})
        new = api.replace(msgspec.structs.replace(old, metadata=labelled))
        assert b'"labels":{"a":"b"}' in await objects.pod(new)
        assert b'"labels"' not in await objects.pod(old)
        nodes = await objects.nodes(["n1", "n2", "gone"])
        assert [msgspec.json.decode(node)["metadata"]["name"] for node in nodes] == ["n1", "n2"]
        assert b'"kind"' not in nodes[0]

    asyncio.run(scenario())


def test_a_pod_that_was_made_again_is_not_sent_for_the_old_one() -> None:
    async def scenario() -> None:
        api = MemoryApi()
        old = make_pod("p", uid="old")
        api.put(make_pod("p", uid="new"))
        extender = made(api=api, filter_verb="f", node_cache_capable=True)
        with pytest.raises(ExtenderError, match="was recreated"):
            await extender.filter(old, ["n1"])

    asyncio.run(scenario())


def test_fields_that_kube_scheduler_does_not_keep_are_not_sent() -> None:
    metadata = {"name": "x", "namespace": "d", "managedFields": [{"manager": "m"}], "other": 1}
    tree = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"any": 1}}
    assert msgspec.json.decode(WholePod(tree).json) == {
        "metadata": {"name": "x", "namespace": "d", "other": 1},
        "spec": {"any": 1},
    }
    assert "managedFields" in msgspec.json.decode(WholeNode(tree).json)["metadata"]
    assert WholePod(tree).tree["spec"] == {"any": 1}
