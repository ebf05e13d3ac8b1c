"""Plugin factories by name.

In: in-tree classes, installed packages (entry points), `module:Class` on the command line, code. Out: one
`Registry` in which every name has exactly one factory.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import msgspec

from kuberth.errors import ConfigError, described
from kuberth.framework.extension_points import Plugin, points_of
from kuberth.framework.handle import Handle

ENTRY_POINT_GROUP = "kuberth.plugins"
SHIPPED = "package kuberth"
"""The origin of plugins that ship with Kuberth but are not in-tree; your plugin of the same name replaces
them."""

PluginFactory = Callable[[Any, Handle], Plugin]
"""`factory(args, handle) -> Plugin`; a plugin class is a factory."""


class UnusablePlugin:
    """Represents a plugin of an installed package that cannot be loaded; using it raises the reason."""

    def __init__(self, reference: str, problem: str) -> None:
        self.reference = reference
        """The target of the package's entry point."""
        self.problem = problem
        """Why the plugin cannot be used, and what to do."""

    def __call__(self, _args: Any, _handle: Handle) -> Plugin:
        raise ConfigError(self.problem)


class Registry:
    """Plugin factories by name."""

    def __init__(self, factories: Mapping[str, PluginFactory] | None = None) -> None:
        self._factories: dict[str, PluginFactory] = {}
        self._origins: dict[str, str] = {}
        for name, factory in (factories or {}).items():
            self.register(name, factory, origin="code")

    def register(self, name: str, factory: PluginFactory, *, origin: str) -> None:
        """Add a plugin; `origin` is used in error messages.

        Adding the same class again from another origin, such as an installed package in its own tests, has no
        effect.
        """
        if isinstance(factory, UnusablePlugin) and name in self._factories:
            return
        if name in self._factories and not isinstance(self._factories[name], UnusablePlugin):
            if self._factories[name] is factory and self._origins[name] != origin:
                return
            if origin == SHIPPED:
                return
            if self._origins[name] != SHIPPED:
                raise ConfigError(
                    f"two plugins are called {name!r}, from {self._origins[name]} and from {origin}; "
                    "rename one"
                )
        if problem := _why_unusable(factory):
            raise ConfigError(f"plugin {name!r} from {origin} {problem}")
        self._factories[name] = factory
        self._origins[name] = origin

    def register_class(self, plugin: type[Plugin], *, origin: str) -> None:
        """Add a plugin class under its own name."""
        self.register(plugin_name(plugin, origin), plugin, origin=origin)

    def merge(self, other: Registry) -> None:
        """Add all plugins of another registry."""
        for name in other:
            self.register(name, other[name], origin=other._origins[name])

    def replacing(self, name: str, factory: PluginFactory) -> Registry:
        """A copy in which `factory` creates the plugin of this name."""
        copy = Registry()
        for other in self:
            if other != name:
                copy.register(other, self[other], origin=self._origins[other])
        copy.register(name, factory, origin="code")
        return copy

    def load_entry_points(self) -> None:
        """Add every plugin that an installed package declares under `kuberth.plugins`.

        A plugin that cannot be loaded only fails when it is constructed, so that only configurations that
        enable it fail.
        """
        for entry in installed_plugins():
            origin = f"package {entry.dist.name}" if entry.dist else f"entry point {entry.value}"
            factory: Any = None
            try:
                factory = entry.load()
                problem = _why_unusable(factory)
            except (Exception, SystemExit) as exc:  # a module may raise anything when it is imported
                problem = f"cannot be loaded from {entry.value}: {_import_problem(exc)}"
            if problem:
                message = f"plugin {entry.name!r} of {origin} {problem}; fix or uninstall the package"
                factory = UnusablePlugin(entry.value, message)
            self.register(entry.name, factory, origin=origin)

    def load_reference(self, reference: str) -> str:
        """Add the plugin class at `module:Class`, as given with `--plugin`, and return its name."""
        origin = f"--plugin {reference}"
        target = resolve_reference(reference, option="--plugin")
        if not (inspect.isclass(target) and issubclass(target, Plugin)):
            raise ConfigError(f"{origin}: {target!r} is not a class derived from kuberth.framework.Plugin")
        self.register_class(target, origin=origin)
        return target.name

    def origin(self, name: str) -> str:
        """The origin of a plugin."""
        return self._origins[name]

    def __getitem__(self, name: str) -> PluginFactory:
        return self._factories[name]

    def __contains__(self, name: object) -> bool:
        return name in self._factories

    def __iter__(self) -> Iterator[str]:
        return iter(self._factories)

    def __len__(self) -> int:
        return len(self._factories)

    def names(self) -> tuple[str, ...]:
        """The names of all plugins."""
        return tuple(self._factories)

    def extension_points(self) -> dict[str, tuple[str, ...]]:
        """The extension points that plugins given as classes implement; other factories are omitted."""
        return {
            name: points_of(factory)
            for name, factory in self._factories.items()
            if inspect.isclass(factory) and issubclass(factory, Plugin)
        }

    def args_types(self) -> dict[str, type]:
        """For every plugin that declares one: the struct of its arguments."""
        found: dict[str, type] = {}
        for name, factory in self._factories.items():
            args_type = getattr(factory, "args_type", None)
            if args_type is not None:
                found[name] = args_type
        return found


def _why_unusable(factory: object) -> str:
    """What is wrong with the object as a plugin factory; "" if nothing."""
    if not callable(factory):
        return f"is not a class or factory but {factory!r}"
    args_type = getattr(factory, "args_type", None)
    if args_type is None:
        return ""
    if inspect.isclass(args_type) and issubclass(args_type, msgspec.Struct):
        try:
            msgspec.structs.fields(args_type)
        except Exception as error:  # whatever a type's name stands for
            return f"has the args_type {args_type.__name__}, whose types cannot be read: {described(error)}"
        return ""
    return (
        f"has the args_type {args_type!r}; derive it from msgspec.Struct, or leave args_type out and take "
        "the arguments as a plain dict"
    )


def installed_plugins() -> importlib.metadata.EntryPoints:
    """The entry points of installed packages under `kuberth.plugins`."""
    return _installed_on(tuple(sys.path))


@cache
def _installed_on(_path: tuple[str, ...]) -> importlib.metadata.EntryPoints:
    # It reads a file of every installed package, which takes longer than assembling a scheduler.
    return importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)


def plugin_name(plugin: type[Plugin], origin: str) -> str:
    name = getattr(plugin, "name", None)
    if not isinstance(name, str) or not name:
        raise ConfigError(f"plugin class {plugin.__qualname__} from {origin} has no `name`; give it one")
    return name


def resolve_reference(reference: str, *, option: str) -> Any:
    """The object at `module:attribute`."""
    module_name, separator, attribute = reference.partition(":")
    if not separator or not module_name or not attribute:
        raise ConfigError(f"{option} {reference!r} must look like module:Name")
    # The module may be in the working directory, which comes last so that it hides no installed module.
    if "" not in sys.path:
        sys.path.append("")
    try:
        target: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as exc:  # a module may raise anything when it is imported
        raise ConfigError(
            f"{option} {reference}: module {module_name!r} cannot be imported: {_import_problem(exc)}"
        ) from exc
    for part in attribute.split("."):
        try:
            target = getattr(target, part)
        except AttributeError:
            raise ConfigError(f"{option} {reference}: module {module_name!r} has no {attribute!r}") from None
    return target


def _import_problem(exc: BaseException) -> str:
    """The error of an import, with its file and line."""
    if isinstance(exc, SyntaxError):
        return f"{type(exc).__name__}: {exc.msg} ({exc.filename}, line {exc.lineno})"
    frames = [
        frame
        for frame in traceback.extract_tb(exc.__traceback__)
        if not frame.filename.startswith("<frozen ")
        and frame.filename not in (__file__, importlib.__file__, importlib.metadata.__file__)
    ]
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    if "partially initialized module" in str(exc):
        return (
            f"circular import: {exc}{where}; move the import into the function that uses it, "
            "or what both modules need into a third one"
        )
    missing = "; is it installed, or on PYTHONPATH?" if isinstance(exc, ModuleNotFoundError) else ""
    return f"{type(exc).__name__}: {exc}{where}{missing}"
