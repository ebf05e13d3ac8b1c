"""Reads and merges kubeconfig files.

In: paths. Out: one `Kubeconfig` of named contexts, clusters and users, each with its file. No message repeats
a value, since it may be secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

import msgspec

from kuberth.api.wire import without_nulls
from kuberth.errors import ConfigError
from kuberth.text.documents import read_tree
from kuberth.text.field_errors import InvalidConfiguration

EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"
"""The cluster extension that is passed to the exec plugin."""
_MAX_FILE_BYTES: Final = 16 * 1024 * 1024


class KubeconfigEntry(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    what: ClassVar[str]
    """The name of this kind of entry in messages."""
    name: str = ""
    origin: str = ""
    """The file that contains it; relative paths are relative to that file."""

    def resolved(self, path: str) -> str:
        return str(Path(self.origin).absolute().parent / path) if path else ""


class NamedExtension(msgspec.Struct, frozen=True):
    name: str
    extension: Any = None


class Cluster(KubeconfigEntry, frozen=True, kw_only=True, rename="kebab"):
    what = "cluster"
    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    extensions: tuple[NamedExtension, ...] = ()

    @property
    def exec_extension(self) -> Any:
        return next((each.extension for each in self.extensions if each.name == EXEC_EXTENSION), None)


class ExecVariable(msgspec.Struct, frozen=True):
    name: str = ""
    value: str = ""


class Exec(msgspec.Struct, frozen=True, rename="camel"):
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[ExecVariable, ...] = ()
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class AuthProvider(msgspec.Struct, frozen=True):
    name: str = ""


class UserEntry(KubeconfigEntry, frozen=True, kw_only=True, rename="kebab"):
    what = "user"
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    as_user: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: tuple[str, ...] = ()
    as_user_extra: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    username: str = ""
    password: str = ""
    auth_provider: AuthProvider | None = None
    exec_: Exec | None = msgspec.field(default=None, name="exec")


class Context(KubeconfigEntry, frozen=True, kw_only=True, rename="kebab"):
    what = "context"
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class Kubeconfig(msgspec.Struct, frozen=True, kw_only=True):
    """The merged files. The first file with an entry, or with a current context, wins."""

    files: tuple[str, ...] = ()
    current_context: str = ""
    contexts: Mapping[str, Context] = msgspec.field(default_factory=dict)
    clusters: Mapping[str, Cluster] = msgspec.field(default_factory=dict)
    users: Mapping[str, UserEntry] = msgspec.field(default_factory=dict)

    @property
    def where(self) -> str:
        return ", ".join(self.files)


EntryT = TypeVar("EntryT", bound=KubeconfigEntry)


def read_kubeconfigs(paths: Iterable[str], *, required: bool = False) -> Kubeconfig:
    """Read and merge files; those that do not exist are skipped, unless they are `required`."""
    merged = Kubeconfig()
    for path in paths:
        try:
            content = _read(path)
        except FileNotFoundError as error:
            if not required:
                continue
            message = f"kubeconfig {path}: there is no such file; check the path given with --kubeconfig"
            raise ConfigError(message) from error
        found = _parse(path, content)
        merged = Kubeconfig(
            files=(*merged.files, path),
            current_context=merged.current_context or found.current_context,
            contexts={**found.contexts, **merged.contexts},
            clusters={**found.clusters, **merged.clusters},
            users={**found.users, **merged.users},
        )
    return merged


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ConfigError(
            f"kubeconfig {path}: cannot be read: {error.strerror}; check its permissions"
        ) from error
    if len(content) > _MAX_FILE_BYTES:
        raise ConfigError(f"kubeconfig {path}: larger than 16 MiB; is this the right file?")
    return content


def _parse(path: str, content: bytes) -> Kubeconfig:
    try:
        tree, errors = read_tree(content)
    except InvalidConfiguration as error:
        raise ConfigError(f"kubeconfig {path}: {error.errors[0].message}; fix the file") from None
    if errors:
        raise ConfigError(f"kubeconfig {path}: {errors[0].path}: {errors[0].message}")
    if tree is None:
        return Kubeconfig()
    if not isinstance(tree, dict):
        raise ConfigError(f"kubeconfig {path}: expected a mapping with clusters, users and contexts")
    if tree.get("kind") not in (None, "", "Config"):
        raise ConfigError(f"kubeconfig {path}: this is not a kubeconfig: its kind is not Config")
    current = tree.get("current-context") or ""
    if not isinstance(current, str):
        raise ConfigError(f"kubeconfig {path}: current-context must be a string; put it in quotes")
    return Kubeconfig(
        current_context=current,
        contexts=_entries(path, tree, "contexts", Context),
        clusters=_entries(path, tree, "clusters", Cluster),
        users=_entries(path, tree, "users", UserEntry),
    )


def _entries(path: str, tree: dict[str, Any], plural: str, type_: type[EntryT]) -> dict[str, EntryT]:
    entries: dict[str, EntryT] = {}
    single = type_.what
    rows = tree.get(plural) or []
    if not isinstance(rows, list):
        raise ConfigError(f"kubeconfig {path}: {plural} must be a list")
    for number, row in enumerate(rows):
        name = row.get("name") if isinstance(row, dict) else None
        if not isinstance(row, dict) or not isinstance(name, str):
            raise ConfigError(f"kubeconfig {path}: {plural}[{number}] needs a name: and a {single}: mapping")
        try:
            entry = msgspec.convert(without_nulls(row.get(single) or {}), type_)
        except msgspec.ValidationError as error:
            what, _, field = str(error).partition(" - at `$")
            field = field.strip("`").lstrip(".") or "the entry"
            message = f"kubeconfig {path}: {single} {name!r}: {field}: {what}; put texts in quotes"
            raise ConfigError(message) from None
        entries.setdefault(name, msgspec.structs.replace(entry, name=name, origin=path))
    return entries
