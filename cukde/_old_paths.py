"""Module names of version 0.1, so that its pickles load. The next minor release may drop this file.

A pickle names the module of a class. Classes of 0.1 named private modules that have moved since; now they name public
modules. Only modules that such pickles can name are here. None is imported before a pickle asks for it.
"""

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_NEW_NAMES = {
    "cukde._cross_validation": "cukde.bandwidth.search",
    "cukde._fit_piecewise": "cukde.piecewise.fit",
    "cukde._kendall": "cukde.kendall.api",
    "cukde._modes": "cukde.density.modes.api",
    "cukde._piecewise": "cukde.piecewise.polynomial",
    "cukde._warnings": "cukde.core.warnings",
    "cukde.perf._cost": "cukde.core.cost.cost",
    "cukde.perf._peaks": "cukde.core.cost.peaks",
}


class _OldPaths:
    """Finds the old modules, after all other finders, and loads each as an empty one that looks its names up."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the specification of an old module, or None for any other name."""
        return ModuleSpec(name, _OldPaths) if name in _NEW_NAMES else None  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: ModuleSpec) -> None:
        """Leave the making of the module to Python."""

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Let the module look names up in the one that has them now."""

        def look_up(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return getattr(importlib.import_module(_NEW_NAMES[module.__name__]), name)

        module.__getattr__ = look_up  # type: ignore[method-assign]


def install() -> None:
    """Have Python's import system find the old modules."""
    sys.meta_path.append(_OldPaths)
