"""From the arguments of a public function to arrays a backend computes on."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np

from cukde import _dispatch, _validate
from cukde._partial import Output, PartialSums
from cukde._whiten import Whitening

# Stands for log(0) in weights: finite, so that differences of exponents stay numbers in every precision.
_LOG_ZERO = -1e30


@dataclass(frozen=True)
class Problem:
    """Checked arguments in the backend's arrays: data, queries, one bandwidth, weights, precision."""

    backend: ModuleType
    X: Any  # (n, d) float32 or float64, C-contiguous
    Y: Any | None  # (m, d); None: the data themselves
    query_shape: tuple[int, ...]
    log_weights: Any | None  # (n,) float64, log of weights that sum to 1; None: every weight is 1/n
    dtype: np.dtype  # of the result
    precision: str
    deterministic: bool
    whitening: Whitening
    centre: Any | None = None  # (d,) float64
    spread: float | None = None  # largest squared distance to the centre, in bandwidths; None: unknown

    @property
    def xp(self) -> Any:
        """The backend's array module."""
        return self.backend.xp

    @property
    def device(self) -> AbstractContextManager[Any]:
        """Makes the data's device the current one, so that work beside the pass runs there too."""
        device: AbstractContextManager[Any] = self.backend.device_of(self.X)
        return device

    @property
    def log_constant(self) -> float:
        """Logarithm of the kernel's normalising constant, with 1/n in it where there are no weights."""
        uniform = 0.0 if self.log_weights is not None else -float(np.log(self.X.shape[0]))
        return self.whitening.log_norm + uniform

    def moved(self, X: Any, *, contained: bool) -> Problem:
        """Return the same problem with other data, float64; ``contained`` promises that none left the hull."""
        Y = (self.X if self.Y is None else self.Y).astype(X.dtype)
        spread = self.spread
        if not contained and spread is not None:
            spread = max(self.backend.to_floats(_squared_radii(self.backend, (X, Y), self.centre, self.whitening)))
        return replace(self, X=X, Y=Y, spread=spread)

    def sums(self, output: Output, values: Any = None) -> PartialSums:
        """Run one pass over all pairs on the backend."""
        X = self.whitening.apply(self.X, self.centre, self.xp)
        Y = None if self.Y is None else self.whitening.apply(self.Y, self.centre, self.xp)
        result: PartialSums = self.backend.density.partial_sums(
            X,
            Y,
            self.whitening.h,
            output,
            values=values,
            log_weights=self.log_weights,
            precision=self.precision,
            centre=self.whitening.image(self.centre, self.xp),
            spread=self.spread,
            deterministic=self.deterministic,
        )
        return result


def prepare(
    X: Any,
    Y: Any,
    h: Any,
    *,
    weights: Any = None,
    V: Any = None,
    precision: Any = None,
    deterministic: bool = False,
    check_finite: bool = True,
    bandwidth_name: str = "h",
) -> tuple[Problem, Any]:
    """Check every argument and lay it out for the backend; return the problem and the values ``V``.

    Checks on the host come first (forms, dtypes, the bandwidth); then, with ``check_finite``, the
    reductions over the arrays, whose few numbers come back to the host in one copy.
    """
    backend = _dispatch.backend(X, Y=Y, weights=weights, V=V)
    with backend.device_of(X):
        xp = backend.xp
        itself = Y is X or Y is None
        x, query_shape = _validate.data(X, backend)
        d = x.shape[1]
        y = x
        if not itself:
            y, query_shape = _validate.queries(Y, d, backend)
        v = None if V is None else _validate.values(V, x.shape[0], backend)
        w = None if weights is None else _validate.weights(weights, x.shape[0], backend)
        dtype = _validate.result_dtype(*(a for a in (x, y, v) if a is not None))
        chosen = _validate.precision(precision, dtype)
        whitening = Whitening(_validate.bandwidth(_dispatch.to_host(h), d, bandwidth_name), d, bandwidth_name)

        storage = xp.float64 if chosen == "float64" else dtype
        x = xp.ascontiguousarray(x, dtype=storage)
        y = x if itself else xp.ascontiguousarray(y, dtype=storage)
        v = None if v is None else xp.ascontiguousarray(v, dtype=storage)
        with np.errstate(over="ignore", invalid="ignore"):  # the survey says what is wrong with such data
            centre = backend.mean(x)
        spread = None
        if check_finite:
            spread = _survey(backend, x, None if itself else y, v, w, centre, whitening)
            _validate.spread(spread, single=chosen != "float64")
        return Problem(
            backend=backend,
            X=x,
            Y=None if itself else y,
            query_shape=query_shape,
            log_weights=None if w is None else _log_weights(w, xp),
            dtype=dtype,
            precision=chosen,
            deterministic=bool(deterministic),
            whitening=whitening,
            centre=centre,
            spread=spread,
        ), v


def _survey(backend: ModuleType, x: Any, y: Any, v: Any, w: Any, centre: Any, whitening: Whitening) -> float:
    """Check that arrays are finite and weights are weights; return the squared radius in bandwidths.

    Everything is reduced where the arrays are, and comes back in one small copy.
    """
    arrays = {name: a for name, a in (("X", x), ("Y", y), ("V", v), ("weights", w)) if a is not None}
    finite = [backend.all_finite(a) for a in arrays.values()]
    of_weights = [] if w is None else [w.min(), w.max()]
    with np.errstate(over="ignore", invalid="ignore"):
        radii = _squared_radii(backend, (x, y), centre, whitening)
    figures = backend.to_floats([*finite, *of_weights, *radii])
    _validate.finite(dict(zip(arrays, map(bool, figures), strict=False)))
    if w is not None:
        _validate.weight_range(*figures[len(finite) : len(finite) + 2])
    return max(figures[-len(radii) :])


def _squared_radii(backend: ModuleType, points: Iterable[Any], centre: Any, whitening: Whitening) -> list[Any]:
    """Largest squared distance to the centre, in bandwidths, of each set of points; left on the device."""
    origin = whitening.image(centre, backend.xp)
    return [
        backend.squared_radius(whitening.apply(a, centre, backend.xp), origin) / whitening.h**2
        for a in points
        if a is not None
    ]


def _log_weights(w: Any, xp: Any) -> Any:
    w = w.astype(xp.float64)
    w = w / w.max()  # the sum of huge weights must not overflow
    with np.errstate(divide="ignore"):
        return xp.maximum(xp.log(w) - xp.log(w.sum()), _LOG_ZERO)
