"""Programs of a run: found, started, watched and ended."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from kuberth.assembly import full_registry
from kuberth.bench.arenas import Arena, expect_https, find_program, format_gates
from kuberth.bench.cases import shipped, upstream, upstream_folder
from kuberth.bench.contenders import OwnScheduler, configuration
from kuberth.bench.processes import free_port, is_listening, running, usage_of
from kuberth.bench.servers import RemoteServer
from kuberth.client.http_api import HttpApi
from kuberth.client.identity.client_config import ClientConfig
from kuberth.errors import ConfigError, KuberthError


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_program_that_ends_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    async def main() -> None:
        async def never() -> bool:
            return False

        command = python("import sys; print('port taken'); sys.exit(3)")
        async with running("etcd", command, folder=tmp_path) as program:
            await program.until_ready(never, seconds=60)

    with pytest.raises(KuberthError, match="etcd ended with 3; the end of its log:\nport taken"):
        asyncio.run(main())


def test_a_program_that_never_gets_ready(tmp_path: Path) -> None:
    async def main() -> None:
        async def never() -> bool:
            return False

        async with running("slow", python("import time; time.sleep(60)"), folder=tmp_path) as program:
            await program.until_ready(never, seconds=0.1)

    with pytest.raises(KuberthError, match=r"slow was not ready within 0\.1 s"):
        asyncio.run(main())


@pytest.mark.parametrize("graceful", [False, True])
def test_a_program_is_gone_after_its_block(tmp_path: Path, graceful: bool) -> None:
    async def main() -> int:
        command = python(
            f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(60)"
        )
        async with running("p", command, folder=tmp_path, graceful=graceful) as program:

            async def written() -> bool:
                return bool((tmp_path / "pid").exists() and (tmp_path / "pid").read_text())

            await program.until_ready(written, seconds=60)
            assert program.usage().cpu_seconds is not None
            return int((tmp_path / "pid").read_text())

    pid = asyncio.run(main())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    async def main() -> None:
        async def never() -> bool:
            return False

        async with running("p", [str(tmp_path / "gone")], folder=tmp_path) as program:
            await program.until_ready(never, seconds=60)

    # The error comes from our own start or from setpriv.
    with pytest.raises(KuberthError, match="gone"):
        asyncio.run(main())


def test_a_port_is_free_until_a_server_listens() -> None:
    async def main() -> None:
        port = free_port()
        assert not await is_listening(port)
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", port)
        async with server:
            assert await is_listening(port)

    asyncio.run(main())


def test_nothing_is_known_of_a_process_that_is_gone() -> None:
    assert usage_of(2**22 + 1) == (None, None)


def test_where_programs_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def program(folder: str) -> Path:
        path = tmp_path / folder / "etcd"
        path.parent.mkdir(parents=True)
        path.touch(mode=0o755)
        return path

    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("KUBERTH_ENVTEST_CACHE", str(tmp_path / "cache"))
    with pytest.raises(ConfigError, match="run `make envtest`"):
        find_program("etcd", None)
    program("cache/v1.9.1")
    newest = program("cache/v1.36.4")
    assert find_program("etcd", None) == newest
    first = program("assets")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(first.parent))
    assert find_program("etcd", None) == first
    with pytest.raises(ConfigError, match="etcd is not in"):
        find_program("etcd", tmp_path)


def test_kubernetes_sources_are_the_newest_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOMODCACHE", str(tmp_path))
    assert upstream_folder() is None
    text = (
        "- name: C\n  workloadTemplate: [{opcode: createPods, count: 1, collectMetrics: true}]\n"
        "  workloads: [{name: w, threshold: {dra_eventhandling: 7}}]\n"
    )
    for version in ("v1.9.0", "v1.36.4", "v1.36.10"):
        folder = tmp_path / "k8s.io" / f"kubernetes@{version}" / "test" / "integration" / "scheduler_perf"
        (folder / "dra" / "event_handling").mkdir(parents=True)
        (folder / "dra" / "event_handling" / "performance-config.yaml").write_text(text, encoding="utf-8")
    found = upstream_folder()
    assert found is not None
    assert "v1.36.10" in str(found)
    assert [workload.threshold for workload in upstream()] == [7]
    monkeypatch.delenv("GOMODCACHE")
    monkeypatch.setenv("GOPATH", f"{tmp_path / 'none'}{os.pathsep}{tmp_path / 'go'}")
    assert upstream_folder() is None


def test_a_plugin_that_only_this_process_knows(tmp_path: Path) -> None:
    api = HttpApi(ClientConfig(server="https://127.0.0.1:1"))
    place = Arena(RemoteServer(api), tmp_path, kubeconfig=tmp_path / "kubeconfig")
    own = OwnScheduler(full_registry(entry_points=False), by_code=("Mine",))
    with pytest.raises(ConfigError, match=r"Mine is known to this process alone; .* --plugin MODULE:CLASS"):
        own.running(place, shipped()[0], {})


def test_a_peer_needs_a_server_to_talk_to(tmp_path: Path) -> None:
    api = HttpApi(ClientConfig(server="https://127.0.0.1:1"))
    with pytest.raises(KuberthError, match="blind is a program of its own"):
        expect_https(Arena(RemoteServer(api), tmp_path), "blind")


@pytest.mark.parametrize(
    "text, expected", [("[", "is no YAML"), ("[1]", "expected a Kube"), ("a: 1\na: 2", "a")]
)
def test_configurations_that_are_none(tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        configuration(file)
    assert str(file) in str(error.value)
    assert expected in str(error.value)
    with pytest.raises(ConfigError, match="No such file"):
        configuration(tmp_path / "gone.yaml")


def test_a_bench_turns_leader_election_off(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text("leaderElection: {leaderElect: true}\nparallelism: 4\n", encoding="utf-8")
    assert configuration(file) == {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "parallelism": 4,
        "leaderElection": {"leaderElect": False},
    }


def test_gates_as_a_flag() -> None:
    assert format_gates({"A": True, "B": False}) == "A=true,B=false"
