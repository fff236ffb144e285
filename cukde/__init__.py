"""Kernel density estimation, its bias-reduced forms, the score, and Kendall's tau, on NumPy and CuPy arrays."""

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
from cukde._kendall import concordance, kendall_matrix, kendalltau
from cukde._warmup import warmup
from cukde._warnings import NegativeDensityWarning

__version__ = "0.1.0"

__all__ = [
    "NegativeDensityWarning",
    "__version__",
    "bandwidth",
    "concordance",
    "debias",
    "density_and_score",
    "kde",
    "kendall_matrix",
    "kendalltau",
    "kernel_sum",
    "laplace_kde",
    "score",
    "sd_kde",
    "warmup",
]
