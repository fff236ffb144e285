"""The density estimator with scikit-learn's interface, on the CPU and the GPU."""

from cukde.estimators.kernel_density import KernelDensity

__all__ = ["KernelDensity"]


def __dir__() -> list[str]:
    return sorted(__all__)
