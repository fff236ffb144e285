r"""The constant of the von Mises-Fisher kernel, of concentration kappa = 1/h^2, on the unit sphere of R^d.

    C exp(kappa y.x) = (C exp(kappa)) exp(-|y - x|^2 / (2 h^2)),   C = kappa^nu / ((2 pi)^(d/2) I_nu(kappa)),

with nu = d/2 - 1. What is computed here is log(C exp(kappa)), which stays finite and keeps its digits for any kappa:
from the power series of I_nu for small ones, the expansion of Hankel for large ones, SciPy's scaled function between.

Source: Mardia, K. V. and Jupp, P. E. (2000). Directional Statistics. Wiley, section 9.3.2.
"""

from __future__ import annotations

import functools
import math

import numpy as np

_SMALL, _TERMS = 30.0, 120  # of the power series, whose terms are positive
_LARGE, _OF_HANKEL = 1e3, 12  # times nu^2 + 1; each term is less than nu^2 / (2 kappa k) times the last
_LEAST = 1e-280  # of SciPy's function, which underflows

LOG_2_PI = math.log(2 * math.pi)


@functools.lru_cache(maxsize=1024)
def log_norm(d: int, h: float) -> float:
    """Logarithm of the kernel's value at its own point, for a bandwidth."""
    return float(log_norms(d, np.array([h**-2.0]))[0])


def log_norms(d: int, kappa: np.ndarray) -> np.ndarray:
    """The same for concentrations, (k,), 0 and more."""
    nu = 0.5 * d - 1
    small = kappa <= _SMALL
    out = np.empty(len(kappa))
    # C tends to 1 over the area of the sphere; the power of kappa in I_nu is gone from this quotient.
    log_area = math.log(2) + 0.5 * d * math.log(math.pi) - math.lgamma(0.5 * d)
    out[small] = kappa[small] - log_area - np.log(_series(nu, kappa[small]))
    some = kappa[~small]
    out[~small] = nu * np.log(some) - 0.5 * d * LOG_2_PI - log_scaled_bessel(nu, some)
    return out


def log_scaled_bessel(nu: float, kappa: np.ndarray) -> np.ndarray:
    """Logarithm of I_nu(kappa) exp(-kappa), of positive kappa (k,)."""
    from scipy.special import ive

    out = np.empty(len(kappa))
    large = kappa > _LARGE * (nu * nu + 1)
    out[large] = np.log(_hankel(nu, kappa[large])) - 0.5 * (LOG_2_PI + np.log(kappa[large]))
    with np.errstate(all="ignore"):
        scaled = ive(nu, kappa)
        usual = ~large & (scaled > _LEAST)
        out[usual] = np.log(scaled[usual])
    for k in np.flatnonzero(~large & ~usual):
        out[k] = _of_tiny(nu, float(kappa[k]))
    return out


def _series(nu: float, kappa: np.ndarray) -> np.ndarray:
    """The power series of Gamma(nu + 1) (2 / kappa)^nu I_nu(kappa)."""
    term, out = np.ones(len(kappa)), np.ones(len(kappa))
    for k in range(1, _TERMS):
        term = term * (0.25 * kappa * kappa / (k * (nu + k)))
        out += term
    return out


def _hankel(nu: float, kappa: np.ndarray) -> np.ndarray:
    """The expansion of sqrt(2 pi kappa) exp(-kappa) I_nu(kappa) for large kappa."""
    term, out = np.ones(len(kappa)), np.ones(len(kappa))
    for k in range(1, _OF_HANKEL):
        term = term * (((2 * k - 1) ** 2 - 4 * nu * nu) / (8 * k * kappa))
        out += term
    return out


def _of_tiny(nu: float, kappa: float) -> float:
    """The same of a value that float64 does not hold, by logarithms of the terms of the power series."""
    from scipy.special import gammaln, logsumexp

    largest = 0.5 * (math.sqrt(nu * nu + kappa * kappa) - nu)
    k = np.arange(int(largest + 12 * math.sqrt(largest + 1)) + 40)
    terms = (2 * k + nu) * math.log(0.5 * kappa) - gammaln(k + 1) - gammaln(nu + k + 1)
    return float(logsumexp(terms)) - kappa
