"""Kernel density estimation, its bias-reduced forms, the score, Kendall's tau and piecewise polynomials.

On NumPy and CuPy arrays.
"""

from cukde import bandwidth, functions
from cukde._density import (
    debias,
    density_and_score,
    kde,
    kernel_sum,
    laplace_kde,
    score,
    sd_kde,
)
from cukde._fit_piecewise import fit_piecewise
from cukde._kendall import concordance, kendall_matrix, kendalltau
from cukde._piecewise import PiecewisePolynomial
from cukde._pwpa import aos_to_soa, pwpa, soa_to_aos
from cukde._warmup import warmup
from cukde._warnings import NegativeDensityWarning

__version__ = "0.1.0"

__all__ = [
    "NegativeDensityWarning",
    "PiecewisePolynomial",
    "__version__",
    "aos_to_soa",
    "bandwidth",
    "concordance",
    "debias",
    "density_and_score",
    "fit_piecewise",
    "functions",
    "kde",
    "kendall_matrix",
    "kendalltau",
    "kernel_sum",
    "laplace_kde",
    "pwpa",
    "score",
    "sd_kde",
    "soa_to_aos",
    "warmup",
]
