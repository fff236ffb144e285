"""The scikit-learn estimator of densities, on the CPU and the GPU: the functions of this library, fitted once."""

from cukde.estimators.kernel_density import KernelDensity

__all__ = ["KernelDensity"]
