"""Kernel density estimation, its bias-reduced forms and the score, on NumPy and CuPy arrays."""

from cukde import bandwidth
from cukde._density import (
    debias,
    density_and_score,
    kde,
    kernel_sum,
    laplace_kde,
    score,
    sd_kde,
)
from cukde._warmup import warmup
from cukde._warnings import NegativeDensityWarning

__version__ = "0.1.0"

__all__ = [
    "NegativeDensityWarning",
    "__version__",
    "bandwidth",
    "debias",
    "density_and_score",
    "kde",
    "kernel_sum",
    "laplace_kde",
    "score",
    "sd_kde",
    "warmup",
]
