"""Loads a configuration file: a complete, valid configuration, or all errors.

In: a path, text, or a plain tree. Out: `KubeSchedulerConfiguration`, defaulted and validated, or one
`InvalidConfiguration` with all problems. The steps: `documents` reads, older forms are translated, `decoding`
types, `defaults` completes, `validation` validates.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from kuberth.config.defaults import apply_defaults
from kuberth.config.feature_gates import FeatureGates, gate_problems
from kuberth.config.in_tree import IN_TREE_ARGS
from kuberth.config.types import (
    API_VERSION,
    EXTENSION_POINTS,
    GROUP,
    KIND,
    KubeSchedulerConfiguration,
    PluginConfig,
)
from kuberth.config.validation import validate
from kuberth.text.decoding import BROKEN, Decoder
from kuberth.text.documents import clean_tree, read_tree
from kuberth.text.field_errors import FieldError, InvalidConfiguration, child, item, show

Source = Path | str | bytes | Mapping[str, Any]
"""A file, its text, or a parsed tree."""

_TYPE_META = ("apiVersion", "kind")


_PROFILE_FIELDS = ("plugins", "pluginConfig")


def load(
    source: Source,
    *,
    feature_gates: Mapping[str, bool] | None = None,
    args_types: Mapping[str, type] | None = None,
    known_plugins: Collection[str] | None = None,
    extension_points: Mapping[str, Collection[str]] | None = None,
) -> KubeSchedulerConfiguration:
    """Read, complete and validate a configuration.

    `feature_gates` override those in the file, as a flag does. The others describe the known plugins: see
    `validation.validate`.
    """
    try:
        return _load(source, feature_gates or {}, args_types, known_plugins, extension_points)
    except InvalidConfiguration as error:  # its message names the file
        if not isinstance(source, Path):
            raise
        raise InvalidConfiguration(error.errors, source=str(source)) from error.__cause__


def _load(
    source: Source,
    feature_gates: Mapping[str, bool],
    args_types: Mapping[str, type] | None,
    known_plugins: Collection[str] | None,
    extension_points: Mapping[str, Collection[str]] | None,
) -> KubeSchedulerConfiguration:
    given, translation, broken, errors = decode_source(source, args_types or {})
    if given is None:
        raise InvalidConfiguration(errors)
    given = replace(given, feature_gates={**given.feature_gates, **feature_gates})
    gates = FeatureGates({} if gate_problems(given.feature_gates) else given.feature_gates)
    config = apply_defaults(given, gates=gates, args_types=args_types)
    found = validate(
        config,
        given=given,
        known_plugins=known_plugins,
        extension_points=extension_points,
        args_types=args_types,
    )
    # For an invalid value, the default was validated instead; such errors would only confuse.
    errors += [
        error
        for error in map(translation.original, found)
        if not any(_is_prefix(error.path, path) or _is_prefix(path, error.path) for path in broken)
    ]
    if errors:
        raise InvalidConfiguration(errors)
    return config


def _is_prefix(outer: str, inner: str) -> bool:
    """Whether one field path is a prefix of the other."""
    return inner == outer or inner.startswith((f"{outer}.", f"{outer}["))


def decode_source(
    source: Source, args_types: Mapping[str, type]
) -> tuple[KubeSchedulerConfiguration | None, Translation, list[str], list[FieldError]]:
    """The configuration without defaults (None: nothing to validate), how it was translated, the paths that
    were not decoded, and the errors."""
    tree, errors = _read(source)
    if not isinstance(tree, dict):
        wanted = f"expected a mapping with apiVersion {API_VERSION} and kind {KIND}"
        errors.append(FieldError("", f"{wanted}, got {'nothing' if tree is None else show(tree)}"))
        raise InvalidConfiguration(errors)
    wrong_type = list(_check_type(tree))
    if wrong_type:
        # The fields of another kind or version would only cause more errors.
        raise InvalidConfiguration([*errors, *wrong_type])
    tree = {key: value for key, value in tree.items() if key not in _TYPE_META}
    translation = translate(tree)
    types = {**IN_TREE_ARGS, **args_types}
    decoder = Decoder(field_type=_args_type(types))
    stripped = _without_args_type_meta(translation.tree, types, decoder.errors)
    decoded = decoder.decode(stripped, KubeSchedulerConfiguration)
    errors += translation.errors
    errors += [translation.original(error) for error in decoder.errors]
    broken = [translation.original(FieldError(path, "")).path for path in decoder.broken]
    return None if decoded is BROKEN else decoded, translation, broken, errors


def _read(source: Source) -> tuple[Any, list[FieldError]]:
    if isinstance(source, Mapping):
        return clean_tree(source)
    if isinstance(source, Path):
        try:
            return read_tree(source.read_bytes())
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            message = f"the configuration file cannot be read: {reason}"
            raise InvalidConfiguration([FieldError("", message)]) from error
    return read_tree(source)


def _check_type(tree: dict[str, Any]) -> Iterator[FieldError]:
    version, kind = tree.get("apiVersion"), tree.get("kind")
    if version is None and kind is None and is_legacy(tree):
        # KEP-624 shows its form without apiVersion and kind.
        return
    if version is None:
        yield FieldError("apiVersion", f"required, but missing; write apiVersion: {API_VERSION}")
    elif version != API_VERSION:
        older = isinstance(version, str) and version.startswith(f"{GROUP}/")
        what_to_do = "; convert the file to v1" if older else ""
        yield FieldError(
            "apiVersion", f"{show(version)} is not supported, only {API_VERSION} is{what_to_do}", version
        )
    if kind is None:
        yield FieldError("kind", f"required, but missing; write kind: {KIND}")
    elif kind != KIND:
        yield FieldError("kind", f"{show(kind)} is not supported, only {KIND} is", kind)


def _args_type(types: Mapping[str, type]) -> Any:
    def field_type(struct: type, field: str, tree: Mapping[str, Any]) -> Any:
        if struct is not PluginConfig or field != "args":
            return None
        name = tree.get("name")
        known = types.get(name) if isinstance(name, str) else None
        return known or dict[str, Any] | None

    return field_type


def _without_args_type_meta(
    tree: dict[str, Any], types: Mapping[str, type], errors: list[FieldError]
) -> dict[str, Any]:
    """Remove apiVersion and kind of typed args, which Kubernetes allows and the structs lack."""

    def strip(entry: Any, path: str) -> Any:
        if not isinstance(entry, dict) or not isinstance(entry.get("args"), dict):
            return entry
        name, args = entry.get("name"), entry["args"]
        if not isinstance(name, str) or name not in types:
            return entry
        if name in IN_TREE_ARGS:
            for key, wanted in (("apiVersion", API_VERSION), ("kind", f"{name}Args")):
                if args.get(key) not in (None, wanted):
                    message = f"expected {show(wanted)}, got {show(args[key])}"
                    errors.append(FieldError(child(child(path, "args"), key), message, args[key]))
        fields = {field.encode_name for field in msgspec.structs.fields(types[name])}
        return {
            **entry,
            "args": {key: value for key, value in args.items() if key in fields or key not in _TYPE_META},
        }

    def profile(each: Any, path: str) -> Any:
        if not isinstance(each, dict) or not isinstance(each.get("pluginConfig"), list):
            return each
        path = child(path, "pluginConfig")
        return {
            **each,
            "pluginConfig": [strip(entry, item(path, i)) for i, entry in enumerate(each["pluginConfig"])],
        }

    profiles = tree.get("profiles")
    if not isinstance(profiles, list):
        return tree
    return {**tree, "profiles": [profile(each, item("profiles", i)) for i, each in enumerate(profiles)]}


class Translation(NamedTuple):
    tree: dict[str, Any]
    aliases: tuple[tuple[str, str], ...]
    errors: tuple[FieldError, ...]

    def original(self, error: FieldError) -> FieldError:
        """The error with the path as written in the file."""
        path = error.path
        for translated, written in self.aliases:
            rest = path.removeprefix(translated)
            if path.startswith(translated) and rest[:1] in ("", ".", "["):
                path = written + rest if written else rest.removeprefix(".")
        return error._replace(path=path)


def is_legacy(tree: dict[str, Any]) -> bool:
    return any(tree.get(name) is not None for name in _PROFILE_FIELDS)


def translate(tree: dict[str, Any]) -> Translation:
    errors: list[FieldError] = []
    aliases: list[tuple[str, str]] = []
    outside = {name: tree[name] for name in _PROFILE_FIELDS if tree.get(name) is not None}
    tree = {key: value for key, value in tree.items() if key not in _PROFILE_FIELDS}
    if outside and tree.get("profiles"):
        for name in outside:
            message = "cannot stand beside profiles; move it into the profile it is meant for"
            errors.append(FieldError(name, message))
    elif outside:
        tree["profiles"] = [outside]
        aliases.append(("profiles[0]", ""))
    profiles = tree.get("profiles")
    if isinstance(profiles, list):
        translated = [_profile(profile, item("profiles", i), aliases) for i, profile in enumerate(profiles)]
        tree["profiles"] = translated
    return Translation(tree, tuple(aliases), tuple(errors))


def _profile(profile: Any, path: str, aliases: list[tuple[str, str]]) -> Any:
    if not isinstance(profile, dict) or not isinstance(profile.get("plugins"), dict):
        return profile
    plugins = dict(profile["plugins"])
    for point in (*EXTENSION_POINTS, "multiPoint"):
        names = plugins.get(point)
        if isinstance(names, list):
            plugins[point] = {"enabled": names, "disabled": [{"name": "*"}]}
            where = child(child(path, "plugins"), point)
            # In front: longer paths must be rewritten before that of their profile.
            aliases.insert(0, (child(where, "enabled"), where))
    return {**profile, "plugins": plugins}
