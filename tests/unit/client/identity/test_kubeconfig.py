from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest

from kuberth.client.identity.client_config import Secret
from kuberth.client.identity.kubeconfig import load_client_config
from kuberth.errors import ConfigError
from tests.certificates import authority, client_pair
from tests.unit.client.kubeconfigs import tree, write

SECRETS = ("s3cret-token", "s3cret-password", "s3cret-env")


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


# Which file


def test_an_explicit_file_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", write(tmp_path / "other", tree(cluster={"server": "https://other"})))
    config = load_client_config(kubeconfig=write(tmp_path / "mine", tree(cluster={"server": "https://mine"})))
    assert config.server == "https://mine:443"
    assert str(tmp_path / "mine") in config.source


def test_several_files_are_merged_and_the_first_to_say_something_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = tree(name="a", cluster={"server": "https://first:1"})
    second = tree(name="a", cluster={"server": "https://second:2"})
    third = tree(name="b", cluster={"server": "https://third:3"})
    paths = [
        write(tmp_path / "1", first),
        str(tmp_path / "missing"),
        write(tmp_path / "2", second),
        write(tmp_path / "3", third),
    ]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(["", *paths]))
    assert load_client_config().server == "https://first:1"
    assert load_client_config(context="b").server == "https://third:3"


def test_the_home_directory_is_looked_in(tmp_path: Path) -> None:
    write(tmp_path / "home/.kube/config", tree())
    assert load_client_config().server == "https://10.0.0.1:6443"


def test_nothing_at_all_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"home/\.kube/config.*--kubeconfig"):
        load_client_config()


def test_a_server_alone_is_enough() -> None:
    config = load_client_config(master="http://127.0.0.1:8001")
    assert (config.server, config.token, config.namespace) == ("http://127.0.0.1:8001", None, "default")


def test_a_given_server_overrides_and_forgets_the_certificate_name(tmp_path: Path) -> None:
    path = write(tmp_path / "c", tree(cluster={"tls-server-name": "kubernetes"}, user={"token": "t"}))
    config = load_client_config(kubeconfig=path, master="https://elsewhere:8443")
    assert config.server == "https://elsewhere:8443"
    assert config.tls.server_name == ""
    assert config.token == Secret("t")


# What is in it


def test_the_context_names_cluster_user_and_namespace(tmp_path: Path) -> None:
    both = tree(name="a", context={"namespace": "team"})
    other = tree(name="b", cluster={"server": "https://b:1"}, user={"token": "tb"})
    for key in ("clusters", "users", "contexts"):
        both[key] += other[key]
    path = write(tmp_path / "c", both)
    assert load_client_config(kubeconfig=path).namespace == "team"
    chosen = load_client_config(kubeconfig=path, context="b")
    assert (chosen.server, chosen.token, chosen.namespace) == ("https://b:1", Secret("tb"), "default")


def test_relative_paths_are_relative_to_their_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ca.crt", "me.crt", "me.key", "token"):
        write(tmp_path / "conf/pki" / name, "x")
    user = {"client-certificate": "pki/me.crt", "client-key": "pki/me.key", "tokenFile": "pki/token"}
    write(tmp_path / "conf/config", tree(cluster={"certificate-authority": "pki/ca.crt"}, user=user))
    monkeypatch.chdir(tmp_path)
    config = load_client_config(kubeconfig="conf/config")
    assert config.tls.ca_file == str(tmp_path / "conf/pki/ca.crt")
    assert config.tls.certificate_file == str(tmp_path / "conf/pki/me.crt")
    assert config.tls.key_file == str(tmp_path / "conf/pki/me.key")
    assert config.token_file == str(tmp_path / "conf/pki/token")


def test_data_wins_over_files(tmp_path: Path) -> None:
    pair = client_pair()
    cluster = {"certificate-authority-data": encoded(authority().pem), "certificate-authority": "nowhere"}
    user = {
        "client-certificate-data": encoded(pair.certificate),
        "client-certificate": "nowhere",
        "client-key-data": encoded(pair.key),
        "client-key": "nowhere",
    }
    config = load_client_config(kubeconfig=write(tmp_path / "c", tree(cluster=cluster, user=user)))
    assert config.tls.ca_data == authority().pem
    assert config.tls.certificate_data == pair.certificate
    assert config.tls.key_data == Secret(pair.key)
    assert (config.tls.ca_file, config.tls.certificate_file, config.tls.key_file) == ("", "", "")


def test_impersonation(tmp_path: Path) -> None:
    user = {"as": "ann", "as-uid": "7", "as-groups": ["g"], "as-user-extra": {"Scope": ["x", "y"]}}
    who = load_client_config(kubeconfig=write(tmp_path / "c", tree(user=user))).impersonation
    assert who is not None
    assert (who.user, who.uid, who.groups, dict(who.extra)) == ("ann", "7", ("g",), {"Scope": ("x", "y")})


def test_credentials_are_not_sent_over_an_open_connection(tmp_path: Path) -> None:
    path = write(tmp_path / "c", tree(cluster={"server": "http://h:1"}, user={"token": "t", "as": "ann"}))
    config = load_client_config(kubeconfig=path)
    assert config.token is None
    assert config.impersonation is not None


def test_an_exec_plugin(tmp_path: Path) -> None:
    cluster = {
        "certificate-authority-data": encoded(authority().pem),
        "tls-server-name": "kubernetes",
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}],
    }
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./bin/login",
        "args": ["--fast"],
        "env": [{"name": "A", "value": "b"}],
        "interactiveMode": "Never",
        "provideClusterInfo": True,
    }
    path = write(tmp_path / "c", tree(cluster=cluster, user={"exec": plugin}))
    found = load_client_config(kubeconfig=path).exec_plugin
    assert found is not None
    assert (found.command, found.args, dict(found.env)) == (
        str(tmp_path / "bin/login"),
        ("--fast",),
        {"A": "b"},
    )
    assert found.cluster_info == {
        "server": "https://10.0.0.1:6443",
        "tls-server-name": "kubernetes",
        "certificate-authority-data": encoded(authority().pem),
        "config": {"audience": "a"},
    }


def test_an_exec_plugin_is_not_asked_where_a_token_is_given(tmp_path: Path) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "login"}
    path = write(tmp_path / "c", tree(user={"exec": plugin, "token": "t"}))
    assert load_client_config(kubeconfig=path).exec_plugin is None


def test_an_older_exec_plugin_may_leave_its_mode_open(tmp_path: Path) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "login"}
    found = load_client_config(kubeconfig=write(tmp_path / "c", tree(user={"exec": plugin}))).exec_plugin
    assert found is not None
    assert (found.command, found.interactive_mode, found.cluster_info) == ("login", "IfAvailable", None)


def test_nulls_stand_for_nothing(tmp_path: Path) -> None:
    content = (
        "clusters:\n- {name: a, cluster: {server: 'https://h', certificate-authority: null}}\nusers: null\n"
    )
    content += "contexts: [{name: a, context: {cluster: a, user: ''}}]\ncurrent-context: a\n"
    assert load_client_config(kubeconfig=write(tmp_path / "c", content)).server == "https://h:443"


# What is wrong with it: every message names the file, the entry and what to do

EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "c", "interactiveMode": "Never"}
PROBLEMS: dict[str, tuple[dict[str, Any] | str | bytes, tuple[str, ...]]] = {
    "no YAML": ("a: [", ("not valid YAML",)),
    "binary": (b"\xff\xfe\x00", ("UTF-8",)),
    "a list": ("[1]", ("mapping",)),
    "empty": ("", ("no clusters",)),
    "another kind": ("kind: Pod", ("not a kubeconfig",)),
    "no context chosen": ({**tree(), "current-context": ""}, ("no current-context", "use-context")),
    "context missing": ({**tree(), "current-context": "prod"}, ("no context 'prod'", "known: dev")),
    "cluster missing": ({**tree(), "clusters": []}, ("context 'dev'", "cluster 'dev'", "not there")),
    "user missing": ({**tree(), "users": []}, ("context 'dev'", "user 'dev'", "not there")),
    "no server": (tree(cluster={"server": ""}), ("cluster 'dev'", "no server", "https://host:port")),
    "bad server": (tree(cluster={"server": "ftp://x"}), ("server address", "https://host:port")),
    "password in server": (tree(cluster={"server": "https://u:s3cret-password@h"}), ("user or password",)),
    "bad port": (tree(cluster={"server": "https://h:99999"}), ("server address",)),
    "CA missing": (tree(cluster={"certificate-authority": "ca"}), ("cluster 'dev'", "ca cannot be read")),
    "CA no base64": (tree(cluster={"certificate-authority-data": "%%"}), ("cluster 'dev'", "base64")),
    "CA and insecure": (
        tree(cluster={"certificate-authority-data": "YQ==", "insecure-skip-tls-verify": True}),
        ("insecure-skip-tls-verify", "remove one"),
    ),
    "socks": (tree(cluster={"proxy-url": "socks5://u:s3cret-password@p"}), ("proxy-url", "not supported")),
    "token file missing": (tree(user={"tokenFile": "t"}), ("user 'dev'", "tokenFile", "check the path")),
    "certificate without key": (tree(user={"client-certificate-data": "YQ=="}), ("half", "client-key")),
    "key without certificate": (tree(user={"client-key-data": "YQ=="}), ("half", "client-certificate")),
    "two ways": (tree(user={"token": "s3cret-token", "username": "u"}), ("user 'dev'", "keep one")),
    "auth provider": (tree(user={"auth-provider": {"name": "gcp"}}), ("'gcp'", "exec plugin")),
    "token is a number": (tree(user={"token": 12345}), ("user 'dev'", "token", "quotes")),
    "groups alone": (tree(user={"as-groups": ["g"]}), ("without as",)),
    "exec without command": (tree(user={"exec": {**EXEC, "command": ""}}), ("user 'dev'", "no command")),
    "exec version": (tree(user={"exec": {**EXEC, "apiVersion": "v9"}}), ("apiVersion", "v1beta1")),
    "exec mode": (tree(user={"exec": {**EXEC, "interactiveMode": ""}}), ("interactiveMode", "Never")),
    "exec env": (tree(user={"exec": {**EXEC, "env": [{"value": "s3cret-env"}]}}), ("without a name",)),
    "entry without name": ({**tree(), "users": [{"user": {"token": "s3cret-token"}}]}, ("users[0]", "name")),
    "clusters no list": ({**tree(), "clusters": {"a": 1}}, ("clusters", "list")),
    "twice the same key": ("users: []\nusers: []", ("users", "more than once")),
}


@pytest.mark.parametrize(("content", "parts"), PROBLEMS.values(), ids=PROBLEMS)
def test_a_broken_file_says_what_to_mend(
    tmp_path: Path, content: dict[str, Any] | str | bytes, parts: tuple[str, ...]
) -> None:
    path = write(tmp_path / "broken", content)
    with pytest.raises(ConfigError) as caught:
        load_client_config(kubeconfig=path)
    message = str(caught.value)
    assert path in message
    assert all(part in message for part in parts), message
    assert not any(secret in message for secret in SECRETS)


def test_a_missing_file_that_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load_client_config(kubeconfig=str(tmp_path / "nowhere"))


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be read: Is a directory"):
        load_client_config(kubeconfig=str(tmp_path))
