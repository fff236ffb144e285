"""Density estimators with the interfaces of scikit-learn and SciPy, on the CPU and the GPU."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cukde.estimators.kernel_density import KernelDensity

__all__ = ["KernelDensity"]


def __getattr__(name: str) -> Any:
    """Load the class when it is first asked for: SciPy's interface does without scikit-learn, half a second."""
    if name == "KernelDensity":
        from cukde.estimators.kernel_density import KernelDensity

        globals()[name] = KernelDensity
        return KernelDensity
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
