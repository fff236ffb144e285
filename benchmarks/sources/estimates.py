"""The density estimators whose errors are studied: KDE, SD-KDE, and Laplace-corrected KDE in one pass or in two."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

import cukde
from benchmarks.sources import importance
from cukde.core import dispatch
from tests import reference, tolerances

FIRST = 0.7  # of the rule: where the search of the bandwidth of least MISE begins

_CHECKED = 32  # queries of a check
_STEP = 1e-10  # of h: what the tests allow a density in double precision, times some tens of bandwidths


def laplace_in_two_passes(X: Any, Y: Any, h: float, **options: Any) -> Any:
    """Laplace-corrected density by a kernel sum, and another one for its correction; options are of ``kernel_sum``.

    The squared distances of the correction are |x|^2 - 2 x y + |y|^2, and sum with the kernel column by column.
    """
    xp, d = dispatch.backend(X).xp, X.shape[1]
    total = cukde.kernel_sum(X, xp.ones(len(X), X.dtype), Y, h, **options)
    sums = cukde.kernel_sum(X, xp.concatenate([X, (X * X).sum(axis=1)[:, None]], axis=1), Y, h, **options)
    squares = sums[:, d] - 2 * (Y * sums[:, :d]).sum(axis=1) + (Y * Y).sum(axis=1) * total
    constant = math.exp(-0.5 * d * math.log(2 * math.pi * h * h)) / len(X)
    return constant * ((1 + d / 2) * total - squares / (2 * h * h))


class Method(NamedTuple):
    """An estimator as users call it, with its normal-reference rule."""

    name: str
    op: str
    estimate: Callable[[Any, Any, float], Any]
    rule: Callable[[Any], Any]

    @property
    def signed(self) -> bool:
        return self.op == "laplace_kde"

    @property
    def order(self) -> int:
        """The best bandwidth falls like n^(-1 / (d + order))."""
        return 4 if self.op == "kde" else 8

    def carried(self, h: float, size: int, n: int, d: int) -> float:
        """The bandwidth of n points of d dimensions by what was best for another size."""
        return float(h * (size / n) ** (1 / (d + self.order)))

    def bandwidth(self, X: Any) -> float:
        """Mean over the columns of the rule's bandwidths."""
        return float(self.rule(X).mean())


KDE = Method("KDE", "kde", cukde.kde, cukde.bandwidth.silverman)
SD = Method("SD-KDE", "sd_kde", cukde.sd_kde, cukde.bandwidth.sd)
FUSED = Method("Laplace, fused", "laplace_kde", cukde.laplace_kde, cukde.bandwidth.laplace)
SEPARATE = Method("Laplace, two passes", "laplace_kde", laplace_in_two_passes, cukde.bandwidth.laplace)


class Estimate:
    """A method at one sample and bandwidth, as :mod:`benchmarks.sources.importance` integrates it."""

    def __init__(self, method: Method, X: Any, h: float) -> None:
        self.signed = method.signed
        self._method, self._h, self._backend = method, h, dispatch.backend(X)
        # By its definition SD-KDE is KDE of the points that debiasing moved.
        self._points = cukde.debias(X, h) if method.op == "sd_kde" else X

    def draw(self, draws: importance.Draws) -> np.ndarray:
        """Points of the estimate, or of its absolute terms."""
        centres = self._backend.asnumpy(self._points[self._backend.xp.asarray(draws.rows)])
        steps = importance.kernel_steps(draws, self._h, centres.shape[1], self.signed)
        return (centres + steps).astype(np.float32)

    def at(self, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The estimate and the density that :meth:`draw` draws from."""
        y = self._backend.xp.asarray(Y)
        density = self._on_host(cukde.kde(self._points, y, self._h))
        if not self.signed:
            return density, density
        estimate = self._on_host(self._method.estimate(self._points, y, self._h))
        return estimate, importance.majorant(density, estimate, Y.shape[1])

    def _on_host(self, a: Any) -> np.ndarray:
        return np.asarray(self._backend.asnumpy(a), np.float64)


def where(no_gpu: str | None) -> tuple[str, ModuleType]:
    """Which backend a study runs on, and the module of its arrays."""
    if no_gpu is not None:
        return "cpu", np
    import cupy

    return "gpu", cupy


def checked(method: Method, X: Any, Y: Any, h: float) -> float:
    """Worst error of a method at the first queries against float64; raise where it is beyond the tests' tolerance.

    Relative to the density, of the Laplace correction to the sum of its absolute terms.
    """
    backend = dispatch.backend(X)
    on_gpu = backend.xp is not np
    y = Y[:_CHECKED]
    got = backend.asnumpy(method.estimate(X, y, h)).astype(np.float64)
    value, size = _exact_on_gpu(method, X, y, h) if on_gpu else _exact(method, X, y, h)
    if method.name == SEPARATE.name:  # its squares are differences of terms as large as (|x| + |y|)^2
        norms = (float((a.astype("f8") ** 2).sum(axis=1).max()) ** 0.5 for a in (X, y))
        size = size * (1 + sum(norms) ** 2 / (2 * h * h) / (1 + X.shape[1] / 2))
    dtype = str(X.dtype)
    allowed = tolerances.DENSITY["gpu" if on_gpu else "cpu", dtype].value
    if method.op == "sd_kde":
        allowed = tolerances.SD_DENSITY[dtype].value
    error = float((np.abs(got - value) / size).max())
    if not error <= allowed:
        raise ValueError(
            f"{method.name} must be within {allowed:.0e} of the oracle; got an error of {error:.2e} at n={len(X)}, "
            f"h={h:.3g}"
        )
    return error


def _exact(method: Method, X: np.ndarray, Y: np.ndarray, h: float) -> tuple[np.ndarray, np.ndarray]:
    """Density and the sum of its absolute terms."""
    if method.signed:
        return reference.laplace(X, Y, h)
    some = X[:_CHECKED]
    points = X if method.op != "sd_kde" else _moved(X, h, 0.5 * h * h * reference.score(X, some, h))
    density = reference.kde(points, Y, h)
    return density, density


def _moved(X: Any, h: float, steps: Any) -> Any:
    """Debiased points in double precision: n^2 pairs, by the library, the first points held against their steps."""
    moved = cukde.debias(X.astype(np.float64), h)
    off = float(abs(moved[: len(steps)] - X[: len(steps)] - steps).max())
    if not off <= _STEP * h:
        raise ValueError(
            f"debiased points must be within {_STEP:.0e} h of the oracle's; got {off / h:.2e} h, n={len(X)}"
        )
    return moved


def _exact_on_gpu(method: Method, X: Any, Y: Any, h: float) -> tuple[np.ndarray, np.ndarray]:
    from benchmarks.sources import exact

    n, d = X.shape
    constant = math.exp(-0.5 * d * math.log(2 * math.pi * h * h)) / n
    if method.signed:
        value, size = exact.laplace(X, Y, h)
        return constant * value.get(), constant * size.get()
    points = X
    if method.op == "sd_kde":
        points = _moved(X, h, 0.5 * exact.log_sums_and_shift(X, X[:_CHECKED], h)[1])
    density = constant * np.exp(exact.log_sums(points, Y, h).get())
    return density, density
