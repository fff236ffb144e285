"""Kernel density estimation, its bias-reduced forms, the score, Kendall's tau, piecewise polynomials and convolution.

Functions compute on the CPU for NumPy arrays and on the GPU for CuPy arrays. Most also take Dask arrays and frames.
:mod:`cukde.perf` explains how long a call takes.
"""

import importlib
from typing import TYPE_CHECKING, Any

from cukde import bandwidth, functions, perf
from cukde._version import __version__
from cukde.conv1d.activations import activation_grad
from cukde.conv1d.api import depthwise_conv1d, depthwise_conv1d_input_grad, depthwise_conv1d_weight_grad
from cukde.core.entry.outputs import set_output
from cukde.core.warnings import (
    BandwidthRangeWarning,
    ConvergenceWarning,
    DeviceWarning,
    MemoryWarning,
    NegativeDensityWarning,
)
from cukde.density.api import (
    debias,
    density_and_score,
    kde,
    kernel_sum,
    laplace_kde,
    score,
    sd_kde,
)
from cukde.density.cdf import cdf, log_cdf
from cukde.density.compositions.conditional import conditional, marginal
from cukde.density.compositions.ratio import density_ratio
from cukde.density.compositions.regions import hdr_threshold
from cukde.density.grids.api import evaluate_grid
from cukde.density.modes.api import Modes as Modes, modes
from cukde.density.positive.api import positive_kde, positive_mass, positive_score
from cukde.density.positive.mass import Mass as Mass
from cukde.density.warmup import warmup
from cukde.kendall.api import Concordance as Concordance, concordance, kendall_matrix, kendalltau
from cukde.kendall.counts import SignificanceResult as SignificanceResult
from cukde.piecewise.fit import FittedPolynomial as FittedPolynomial, fit_piecewise
from cukde.piecewise.polynomial import PiecewisePolynomial
from cukde.piecewise.pwpa import aos_to_soa, pwpa, soa_to_aos

if TYPE_CHECKING:
    from cukde import dask as dask, jax as jax, plot, sphere, torch as torch
    from cukde.density.compositions.conditional_distribution import conditional_cdf, conditional_quantile
    from cukde.density.compositions.conditional_sample import conditional_sample
    from cukde.density.compositions.interval import DensityInterval as DensityInterval, density_interval
    from cukde.density.compositions.outlines import regions
    from cukde.density.compositions.polygons import Region as Region, Regions as Regions
    from cukde.density.hessian import hessian
    from cukde.density.information.api import entropy, kl_divergence, mutual_information
    from cukde.density.information.estimate import Information as Information
    from cukde.estimators import KernelDensity, OutlierDetector
    from cukde.estimators.gaussian_kde import gaussian_kde

__all__ = [
    "BandwidthRangeWarning",
    "ConvergenceWarning",
    "DeviceWarning",
    "KernelDensity",
    "MemoryWarning",
    "NegativeDensityWarning",
    "OutlierDetector",
    "PiecewisePolynomial",
    "__version__",
    "activation_grad",
    "aos_to_soa",
    "bandwidth",
    "cdf",
    "concordance",
    "conditional",
    "conditional_cdf",
    "conditional_quantile",
    "conditional_sample",
    "debias",
    "density_and_score",
    "density_interval",
    "density_ratio",
    "depthwise_conv1d",
    "depthwise_conv1d_input_grad",
    "depthwise_conv1d_weight_grad",
    "entropy",
    "evaluate_grid",
    "fit_piecewise",
    "functions",
    "gaussian_kde",
    "hdr_threshold",
    "hessian",
    "kde",
    "kendall_matrix",
    "kendalltau",
    "kernel_sum",
    "kl_divergence",
    "laplace_kde",
    "log_cdf",
    "marginal",
    "modes",
    "mutual_information",
    "perf",
    "plot",
    "positive_kde",
    "positive_mass",
    "positive_score",
    "pwpa",
    "regions",
    "score",
    "sd_kde",
    "set_output",
    "soa_to_aos",
    "sphere",
    "warmup",
]

_LATER = {
    "cukde.density.compositions.conditional_distribution": ("conditional_cdf", "conditional_quantile"),
    "cukde.density.compositions.conditional_sample": ("conditional_sample",),
    "cukde.density.compositions.interval": ("DensityInterval", "density_interval"),
    "cukde.density.compositions.outlines": ("regions",),
    "cukde.density.compositions.polygons": ("Region", "Regions"),
    "cukde.density.hessian": ("hessian",),
    "cukde.density.information.api": ("entropy", "kl_divergence", "mutual_information"),
    "cukde.density.information.estimate": ("Information",),
    "cukde.estimators": ("KernelDensity", "OutlierDetector"),
    "cukde.estimators.gaussian_kde": ("gaussian_kde",),
}
_MODULE_OF = {name: module for module, names in _LATER.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load what not every program needs when it is first asked for: with the estimators scikit-learn, 0.5 s."""
    if name in ("plot", "dask", "sphere", "torch", "jax"):
        return importlib.import_module(f"cukde.{name}")
    if name in _MODULE_OF:
        found = getattr(importlib.import_module(_MODULE_OF[name]), name)
        globals()[name] = found
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
