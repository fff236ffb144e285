"""Detectors of anomalies: densities of this library, held against float64, and scikit-learn's, with their defaults.

All are fitted to ordinary rows and have ``score_samples``, lower where a row is less like them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

import cukde
from cukde.core import dispatch
from examples.anomaly_detection import auroc
from tests import reference, tolerances

RULES = {"kde": "silverman", "sd": "sd", "laplace": "laplace"}
"""The method's own reference rule, of :mod:`cukde.bandwidth`."""


class Density(NamedTuple):
    """``cukde.KernelDensity`` by a method, at its rule or at the multiple of it that cross-validation chooses."""

    name: str
    method: Literal["kde", "sd", "laplace"]
    cross_validated: bool = False

    @property
    def bandwidth(self) -> str:
        """Where the bandwidth is from, for readers."""
        return "leave-one-out likelihood" if self.cross_validated else f"bandwidth.{RULES[self.method]}"

    def fit(self, X: Any, most: int) -> cukde.KernelDensity:
        """Fit to all rows; at most so many are cross-validated, and the rule takes the bandwidth from them to all."""
        rule = getattr(cukde.bandwidth, RULES[self.method])
        h = rule(X)
        if self.cross_validated:
            few = X[:most]
            h = h * (cukde.bandwidth.cross_validate(few, self.method).bandwidth / rule(few))
        return cukde.KernelDensity(bandwidth=h, method=self.method).fit(X)


DENSITIES = (
    Density("KDE", "kde"),
    Density("SD-KDE", "sd"),
    Density("Laplace", "laplace"),
    Density("KDE, cross-validated", "kde", True),
    Density("SD-KDE, cross-validated", "sd", True),
)


class Rival(NamedTuple):
    """A detector of scikit-learn."""

    name: str
    make: Callable[[int], Any]  # of a seed
    slow: bool  # and so fitted to a sample of many rows, and scores one


def _forest(seed: int) -> Any:
    from sklearn.ensemble import IsolationForest

    return IsolationForest(random_state=seed)


def _local_outlier_factor(seed: int) -> Any:
    from sklearn.neighbors import LocalOutlierFactor

    return LocalOutlierFactor(novelty=True)


def _kernel_density(seed: int) -> Any:
    from sklearn.neighbors import KernelDensity

    return KernelDensity()


RIVALS = (
    Rival("IsolationForest", _forest, False),
    Rival("LocalOutlierFactor", _local_outlier_factor, True),
    Rival("KernelDensity", _kernel_density, True),
)


def area(scores: Any, anomaly: np.ndarray) -> float:
    """AUROC of scores that are lower for anomalies; NaN, the logarithm of a negative density, is lower than any."""
    host = dispatch.to_host(scores)
    return auroc(np.where(np.isnan(host), np.inf, -host), anomaly)


def there(A: np.ndarray, device: str) -> Any:
    """The rows on a device."""
    if device == "cpu":
        return A
    from cukde.core.gpu import arrays as core_arrays

    return core_arrays.xp.asarray(A)


def check(of: cukde.KernelDensity, X: np.ndarray, Y: np.ndarray, device: str) -> float:
    """Hold float32 log densities of rows ``Y`` against float64, given the data of the fit; return the worst error.

    It is relative, of a density; of Laplace's relative to the absolute terms. For method "sd" as many of the moved
    points are checked, and the density is that of all as they are: no host debiases many rows in float64.

    Raises
    ------
    AssertionError
        For an error beyond ``tests/tolerances.py``.
    """
    h = dispatch.to_host(of.bandwidth_)
    got = dispatch.to_host(of.score_samples(there(Y, device))).astype(np.float64)
    if of.method == "laplace":
        return _check_laplace(got, X, Y, h, device)
    data = X
    if of.method == "sd":
        data = dispatch.to_host(of.points_)
        _check_moved(data[: len(Y)], X, h, device)
    near = reference.nearness(data, Y, h)
    want = reference.log_kde(data, Y, h)
    if of.method == "sd":
        allowed = tolerances.sd_log_error("float32", near, reference.size_in_bandwidths(data, h))
    else:
        allowed = tolerances.log_error(device, "float32", near.exponent)
    tolerances.check_log(got.astype(np.float32), want, allowed)
    return float(np.expm1(abs(got - want)).max())


def _check_moved(moved: np.ndarray, X: np.ndarray, h: np.ndarray, device: str) -> None:
    """The first rows of the data, debiased."""
    few = X[: len(moved)]
    want = few + 0.5 * reference.score(X, few, h) * h**2
    allowed = tolerances.SD_DENSITY["float32"].value
    if device == "gpu":
        spread = reference.size_in_bandwidths(X - X.mean(axis=0), h)
        allowed += 0.5 * tolerances.MEAN_SHIFT.value * spread
    tolerances.check(abs(moved - want) / h, np.asarray(allowed), "debiased points, in bandwidths")


def _check_laplace(log_p: np.ndarray, X: np.ndarray, Y: np.ndarray, h: np.ndarray, device: str) -> float:
    """Logarithms of signed densities, by the sum of absolute terms; NaN may stand where a density is not positive."""
    log_scale, total, size = reference.scaled_laplace(X, Y, h)
    allowed = tolerances.log_error(device, "float32", reference.nearness(X, Y, h).exponent)
    negative = np.isnan(log_p)
    rounding = np.where(negative, 0, 0.5 * np.finfo(np.float32).eps * abs(log_p))
    error = np.where(negative, np.maximum(total, 0), abs(np.exp(log_p - log_scale) - total)) / size
    tolerances.check(error, allowed + rounding, "Laplace-corrected density")
    return float(error.max())
