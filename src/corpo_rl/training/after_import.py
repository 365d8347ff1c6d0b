"""Doing something to a module right after it is imported, without importing it here."""

import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any


def after_import(name: str, then: Callable[[ModuleType], None]) -> None:
    """Call `then` with the module of that name: now if it is imported already, else as soon as it is.

    A plug-in runs in every process, and may have something to do in the few that import a certain module. Importing it
    everywhere for that would cost all of them its time and memory.

    Args:
        name: Dotted name.
        then: Called once, before the importing statement sees the module. What it raises, the import raises.

    Example:
        >>> after_import("json", lambda module: print(module.__name__))
        json
    """
    module = sys.modules.get(name)
    if module is not None:
        then(module)
    else:
        sys.meta_path.insert(0, _Watcher(name, then))


class _Watcher(MetaPathFinder):
    """Finds one module as the other finders do, and has its loader call us back."""

    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._then = then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_then(module: ModuleType) -> None:
                execute(module)
                self._then(module)

            loader: Any = spec.loader
            loader.exec_module = execute_and_then
        return spec
