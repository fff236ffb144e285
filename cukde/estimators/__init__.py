"""Density estimators with the interfaces of scikit-learn and SciPy, on the CPU and the GPU."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cukde.estimators.kernel_density import KernelDensity
    from cukde.estimators.outliers import OutlierDetector

__all__ = ["KernelDensity", "OutlierDetector"]

_MODULES = {"KernelDensity": "kernel_density", "OutlierDetector": "outliers"}


def __getattr__(name: str) -> Any:
    """Load the class when it is first asked for: SciPy's interface does without scikit-learn, half a second."""
    if name in _MODULES:
        found = getattr(importlib.import_module(f"cukde.estimators.{_MODULES[name]}"), name)
        globals()[name] = found
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
