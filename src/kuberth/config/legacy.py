"""KEP-624's older way of naming plugins → today's.

In: a plain tree. Out: the same tree in v1's form, and the way back for paths, so that errors point at what
the user wrote. Two things are translated: a plain list at an extension point, which means exactly these
plugins, and `plugins`/`pluginConfig` beside instead of inside `profiles`, which means one default profile.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kuberth.config.types import EXTENSION_POINTS
from kuberth.text.field_errors import FieldError, child, item

_PROFILE_FIELDS = ("plugins", "pluginConfig")


class Translation(NamedTuple):
    tree: dict[str, Any]
    aliases: tuple[tuple[str, str], ...]
    errors: tuple[FieldError, ...]

    def original(self, error: FieldError) -> FieldError:
        """The same error, at the path where the file has it."""
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
            # In front: the longer paths must be rewritten before the profile they are in.
            aliases.insert(0, (child(where, "enabled"), where))
    return {**profile, "plugins": plugins}
