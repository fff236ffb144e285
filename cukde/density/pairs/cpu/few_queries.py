"""Few queries at many data on the CPU: one pass over the data as they are given.

The mean of the data, the radius about it and the operands of a product each take a pass over the data, and all of them
longer than the pairs of few queries do. Here differences are squared as data are read, in double precision, and what
would be refused shows in the sums: these are then None, and the values have to be looked at.
"""

from __future__ import annotations

import math
import sys
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from cukde.density import results
from cukde.density.options import Options
from cukde.density.pairs.cpu import few
from cukde.density.plan import cpu as plan_cpu
from cukde.density.sums import Output, PartialSums, merge, to_density

# Queries up to which this takes no longer than operands of a product and what they are good for, by columns; of two and
# three columns than a transform. Measured on two threads with 2,000 to 1,000,000 data.
_MOST_QUERIES = {3: 8, 47: 16, 399: 64, math.inf: 128}

# Numbers of the data that are read at a time, and pairs, which stay in cache; and at most so many rows.
_NUMBERS_OF_BLOCK, _ROWS_OF_BLOCK = 2**16, 2**13
_BLOCKS_OF_TASK = 8

# Squared distance in bandwidths beyond which a point may lie farther out than is allowed.
_MOST_SQUARED = 1e29

# Logarithm of a weight of zero, which makes no other number infinite.
_NO_WEIGHT = -1e30


class Call(NamedTuple):
    """Data and few queries whose values are unchecked. Each method returns None where they have to be looked at."""

    X: np.ndarray  # (n, d), float32 or float64, C-contiguous
    Y: np.ndarray  # (m, d) likewise, of the same dtype
    weights: np.ndarray | None  # (n,), float64; None: all are 1

    @classmethod
    def of(cls, X: np.ndarray, Y: np.ndarray, weights: np.ndarray | None) -> Call | None:
        """Return the call of arrays of these forms; None of those that other passes are faster for."""
        (n, d), m = X.shape, len(Y)
        most = next(queries for columns, queries in _MOST_QUERIES.items() if d <= columns)
        # A process that has not loaded Numba goes without for few pairs.
        if d < 2 or n == 0 or not 0 < m <= most or (plan_cpu.few_serve(n, m, d) and "numba" not in sys.modules):
            return None
        if weights is not None and not (weights.min() >= 0 and 0 < weights.sum(dtype=np.float64) < math.inf):
            return None
        return cls(X, Y, None if weights is None else weights.astype(np.float64))

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
        logs = results.log_density(sums, self._log_constant(log_norm), dtype, np)
        return logs, self._gradient(sums, h, dtype)

    def _log_constant(self, log_norm: float) -> float:
        return log_norm - math.log(len(self.X) if self.weights is None else float(self.weights.sum()))

    def _gradient(self, sums: PartialSums, h: float, dtype: np.dtype) -> Any:
        with np.errstate(over="ignore"):
            return results.cast(sums.moments / sums.total[:, None] / (h * h), dtype)

    def _sums(self, h: float, output: Output) -> PartialSums | None:
        """Sums over all data, the same bits on every run."""
        from cukde.core.cpu import threads  # which loads Numba, as loops do
        from cukde.density.pairs.cpu import few_queries_loops as loops

        n, d = self.X.shape
        rows = max(1, min(_ROWS_OF_BLOCK, _NUMBERS_OF_BLOCK // max(d, len(self.Y))))
        of_task = _BLOCKS_OF_TASK * rows
        tasks = [(start, min(start + of_task, n)) for start in range(0, n, of_task)]
        queries = self.Y.astype(np.float64)

        def task(ends: tuple[int, int]) -> PartialSums | None:
            blocks = range(ends[0], ends[1], rows)
            parts = [self._block(loops, queries, slice(i, min(i + rows, ends[1])), h, output) for i in blocks]
            return merge(parts, np) if None not in parts else None  # type: ignore[arg-type]

        parts = threads.run(task, tasks, blas=False)
        return None if None in parts else merge(parts, np)  # type: ignore[arg-type]

    def _block(
        self, loops: ModuleType, queries: np.ndarray, rows: slice, h: float, output: Output
    ) -> PartialSums | None:
        """Sums over some data, whose pairs stay in cache."""
        X = self.X[rows]
        exponents = np.empty((len(queries), len(X)))
        loops.squares(X, queries, exponents)
        if not exponents.max() < _MOST_SQUARED * h * h:  # or NaN
            return None
        exponents *= -0.5 / (h * h)
        log_weights = None
        if self.weights is not None:
            with np.errstate(divide="ignore"):
                log_weights = np.maximum(np.log(self.weights[rows]), _NO_WEIGHT)
        pairs = _Pairs(X, queries, exponents, loops)
        return few.summed_block(pairs, X.shape[1], output, Options("float64", log_weights), None)


class _Pairs:
    """Pairs of some data, whose exponents are known."""

    near = False

    def __init__(self, X: np.ndarray, queries: np.ndarray, exponents: np.ndarray, loops: ModuleType) -> None:
        self._X, self._queries, self._exponents, self._loops = X, queries, exponents, loops

    def exponents(self) -> np.ndarray:
        return self._exponents

    def moments(self, reference: np.ndarray, terms: np.ndarray) -> PartialSums:
        moments = np.zeros(self._queries.shape)
        self._loops.add_moments(self._X, self._queries, terms, moments)
        return PartialSums(reference, terms.sum(axis=1), moments)
