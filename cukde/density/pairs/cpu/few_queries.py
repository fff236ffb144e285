"""Few queries at many data on the CPU: one pass over the data as they are given.

The mean of the data and the radius about it each take a pass over the data, and both longer than the pairs of few
queries do. Here coordinates are added up as data are read, and what would be refused shows in their sums: results are
then None, and the values have to be looked at.
"""

from __future__ import annotations

import math
import sys
from typing import Any, NamedTuple

import numpy as np

from cukde.core.cpu import meanwhile
from cukde.core.plan import note
from cukde.density import results
from cukde.density.options import LOG_ZERO, Options
from cukde.density.pairs.cpu import few
from cukde.density.plan import cpu as plan_cpu
from cukde.density.sums import Output, PartialSums, to_density


class Call(NamedTuple):
    """Data and few queries whose values are unchecked. Each method returns None where they have to be looked at."""

    X: np.ndarray  # (n, d), float32 or float64, C-contiguous
    Y: np.ndarray  # (m, d) likewise, of the same dtype
    weights: np.ndarray | None  # (n,), float64; None: all are 1
    precision: str

    @classmethod
    def of(cls, X: np.ndarray, Y: np.ndarray, weights: np.ndarray | None, precision: str) -> Call | None:
        """Return the call of arrays of these forms; None of those that other passes are faster for."""
        (n, d), m = X.shape, len(Y)
        if not plan_cpu.few_queries_serve(n, m, d, precision, has_loops="numba" in sys.modules):
            return None
        if weights is not None and not (weights.min() >= 0 and 0 < weights.sum(dtype=np.float64) < math.inf):
            return None
        return cls(X, Y, None if weights is None else weights.astype(np.float64), precision)

    def density(self, h: float, log_norm: float, dtype: np.dtype, *, log: bool, form: str = "kde") -> Any | None:
        """Densities, (m,), or their logarithms; ``log_norm`` is the logarithm of the kernel's constant."""
        sums = self._sums(h, "sum" if form == "kde" else "laplace")
        if sums is None:
            return None
        epilogue = self._log_constant(log_norm), log, dtype, np
        if form == "kde":
            return to_density(sums, *epilogue)
        return results.positive(sums, *epilogue) if form == "positive" else results.laplace(sums, *epilogue)[0]

    def score(self, h: float, dtype: np.dtype) -> Any | None:
        """Gradients of the log density, (m, d)."""
        sums = self._sums(h, "moments")
        return None if sums is None else self._gradient(sums, h, dtype)

    def density_and_score(self, h: float, log_norm: float, dtype: np.dtype) -> tuple[Any, Any] | None:
        """Log densities, (m,), and their gradients, (m, d)."""
        sums = self._sums(h, "moments")
        if sums is None:
            return None
        logs = to_density(sums, self._log_constant(log_norm), True, dtype, np)
        return logs, self._gradient(sums, h, dtype)

    def _log_constant(self, log_norm: float) -> float:
        return log_norm - math.log(len(self.X) if self.weights is None else float(self.weights.sum()))

    def _gradient(self, sums: PartialSums, h: float, dtype: np.dtype) -> Any:
        with np.errstate(over="ignore"):
            return results.cast(sums.moments / sums.total[:, None] / (h * h), dtype)

    def _sums(self, h: float, output: Output) -> PartialSums | None:
        """Sums over all data, the same bits on every run."""
        from cukde.density.pairs.cpu import passes  # which loads Numba

        note("few queries", output=output)
        X, weights = self.X, self.weights
        (n, d), m = X.shape, len(self.Y)
        if plan_cpu.one_array_pays(n, m, d, moments=output == "moments"):
            return self._of_one_array(h, output)
        options = Options(self.precision)
        if weights is not None:
            if not weights.min() > 0:
                X, weights = X[weights > 0], weights[weights > 0]
            options = options._replace(log_weights=np.log(weights))
        sums, given = None, (X, self.Y, h, output, options)
        attempt = meanwhile.Attempt(other=True)  # passes of values that are looked at are answered by NumPy
        with attempt:
            sums = passes.sums_of_unchecked(*given)
        attempt.later(passes.sums_of_unchecked, given, {})
        return sums

    def _of_one_array(self, h: float, output: Output) -> PartialSums | None:
        """The same of so few pairs that all of them are one array."""
        from cukde.density.pairs.cpu import few_queries_loops  # which loads Numba

        X, Y = self.X, self.Y.astype(np.float64)
        squares = np.empty((len(Y), len(X)))
        few_queries_loops.squares(X, Y, squares)
        if not squares.max() < plan_cpu.most_square(h):  # or NaN
            return None
        log_weights = None
        if self.weights is not None:
            with np.errstate(divide="ignore"):
                log_weights = np.maximum(np.log(self.weights), LOG_ZERO)
        pairs = _Pairs(X, Y, np.multiply(squares, -0.5 / (h * h), out=squares))
        return few.summed_block(pairs, X.shape[1], output, Options("float64", log_weights), None)


class _Pairs:
    """Pairs whose exponents are known."""

    near = False

    def __init__(self, X: np.ndarray, Y: np.ndarray, exponents: np.ndarray) -> None:
        self._X, self._Y, self._exponents = X, Y, exponents

    def exponents(self) -> np.ndarray:
        return self._exponents

    def moments(self, reference: np.ndarray, terms: np.ndarray) -> PartialSums:
        from cukde.density.pairs.cpu import few_queries_loops

        moments = np.empty(self._Y.shape)
        few_queries_loops.moments(self._X, self._Y, terms, moments)
        return PartialSums(reference, terms.sum(axis=1), moments)
