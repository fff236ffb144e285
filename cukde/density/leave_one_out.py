"""Sums of kernels at each point of the data without the point's own term.

Where the backend has a pass that leaves out own terms, it takes up to some billion pairs, and more where most sums
would lose their digits. Elsewhere the own term is taken from the sum, and from that with Laplace factors, where at
least half of either is left: a bit of accuracy is lost. Other rows are summed again without it: over the data that are
no such rows, and among themselves by halves, each at the other, down to blocks of which all pairs are formed but the
diagonal. There no pair is taken twice, and nothing cancels.

Data and queries may differ, as debiased data do from those at which their density is asked for: then row i of the one
belongs to row i of the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cukde.density import backends
from cukde.density.options import LOG_ZERO, Options
from cukde.density.pairs.tolerance import PRODUCTS_IN_DOUBLE
from cukde.density.sums import Output, PartialSums, joined, laplace_constant, merge, moment_columns, nothing, put

Problem = Any
"""A :class:`cukde.density.problem.Problem`, whose module imports this one."""

Sums = Callable[[Problem], PartialSums]

# Rows of a block of which all pairs are formed: arrays of all pairs stay in a processor's cache, and keep a GPU busy.
_BLOCK = {"cpu": 128, "gpu": 1024}

# Of so many rows or more a sample says whether more than this share is summed again; then all are.
_LEAST_ROWS, _SAMPLE, _MOST_SHARE = 4096, 256, 0.5

# Pairs up to which a pass without own terms takes about the time of one with them.
_MOST_PAIRS = 4e9


def sums(problem: Problem, output: Output) -> PartialSums:
    """Sums of a problem's kernels without own terms, divided by the weight that is left."""
    return _divided(sums_of_others(problem, output), problem)


def sums_of(problem: Problem, sums: Sums) -> PartialSums:
    """The same by any sums that have no moments, in 2 n calls of them."""
    return _divided(_by_halves(problem, sums, lambda row: nothing(1, None, row.xp), 1), problem)


def _divided(sums: PartialSums, problem: Problem) -> PartialSums:
    xp, log_weights = problem.xp, problem.options.log_weights
    if log_weights is None:
        n = len(problem.X)
        return sums._replace(reference=sums.reference + math.log(n / (n - 1)))
    return sums._replace(reference=sums.reference - log_rest(log_weights, xp))


def limited(sums: PartialSums, h: float, xp: Any) -> PartialSums:
    """Sums whose mean shifts are no longer than sqrt(d) bandwidths; longer ones, r times that, are 1/r of it.

    A score of data smoothed by h is no longer than that in the quadratic mean, over the smoothed density. Without its
    own term the mean shift of a row far from all others leads to the nearest, however far.
    """
    d = sums.moments.shape[-1]
    squares = (sums.moments**2).sum(axis=-1) / (sums.total * h) ** 2
    return sums._replace(moments=sums.moments * (d / xp.maximum(squares, d))[..., None])


def log_rest(log_weights: Any, xp: Any) -> Any:
    """Logarithms of the weight that is left without each row, of weights that sum to 1."""
    heaviest, log_others = heaviest_and_others(log_weights, xp)
    w = xp.exp(log_weights)
    w[heaviest] = 0  # next to nothing may be left without it: that is the sum of the others itself
    out = xp.log1p(-w)
    out[heaviest] = log_others
    return out


def heaviest_and_others(log_weights: Any, xp: Any) -> tuple[int, float]:
    """The row of the largest weight, and the logarithm of the sum of the others; -inf where they have none."""
    heaviest = int(log_weights.argmax())
    others = log_weights.copy()
    others[heaviest] = -np.inf
    most = float(others.max())
    return heaviest, most + math.log(float(xp.exp(others - most).sum())) if most > LOG_ZERO else -math.inf


def sums_of_others(problem: Problem, output: Output) -> PartialSums:
    """The same sums, not divided."""
    n, xp = len(problem.X), problem.xp

    def summed(part: Problem) -> PartialSums:
        out: PartialSums = part.sums(output)
        return out

    def direct(part: Problem) -> PartialSums:
        return _direct(part, output)

    if problem.domain is not None:  # an own term is one of many images
        columns = moment_columns(output, problem.X.shape[1]) or None
        return _by_halves(problem, summed, lambda row: nothing(1, columns, xp), 1)
    if float(n) * n <= _MOST_PAIRS and (out := _by_one_pass(problem, output)) is not None:
        return out
    block = _BLOCK[problem.backend.name]
    if n <= block:
        return direct(problem)
    if n >= _LEAST_ROWS:
        rows = slice(None, None, -(-n // _SAMPLE))
        some = _taken(summed(_part(problem, slice(None), rows)), _part(problem, rows, rows), output)[1]
        if float(some.mean()) > _MOST_SHARE:
            alone = _by_one_pass(problem, output)
            return _by_halves(problem, summed, direct, block) if alone is None else alone
    out, lost = _taken(summed(problem._replace(leave_one_out=False)), problem, output)
    rows = xp.nonzero(lost)[0]
    if len(rows):
        parts = [_by_halves(_part(problem, rows, rows), summed, direct, block)]
        if len(rows) < n:
            parts.append(summed(_part(problem, xp.nonzero(~lost)[0], rows)))
        put(out, rows, merge(parts, xp))
    return out


def _by_one_pass(problem: Problem, output: Output) -> PartialSums | None:
    """Sums by a pass that leaves out own terms, of data at themselves; None where there is none."""
    without_own = backends.without_own(problem.backend)
    if without_own is None or problem.devices or not (problem.Y is None or problem.Y is problem.X):
        return None
    out: PartialSums | None = without_own(problem.whitened()[0], problem.whitening.h, output, problem.options)
    return out


def _by_halves(problem: Problem, sums: Sums, of_block: Sums, block: int) -> PartialSums:
    """Sums of either half of the rows at the other, and of each half by itself."""
    n = len(problem.X)
    if n <= block:
        return of_block(problem)
    halves, parts = (slice(None, n // 2), slice(n // 2, None)), []
    for own, other in (halves, halves[::-1]):
        alone = _by_halves(_part(problem, own, own), sums, of_block, block)
        parts.append(merge([alone, sums(_part(problem, other, own))], problem.xp))
    return joined(parts, problem.xp)


def _part(problem: Problem, data: Any, queries: Any) -> Problem:
    """Some rows of the data, for sums of all terms at the queries of some rows."""
    options = problem.options

    def rows(a: Any, of: Any) -> Any:
        return a if a is None or (isinstance(of, slice) and of == slice(None)) else a[of]

    options = options._replace(
        log_weights=rows(options.log_weights, data), local_factors=rows(options.local_factors, data), kept=None
    )
    return problem._replace(
        X=rows(problem.X, data),
        Y=rows(problem.X if problem.Y is None else problem.Y, queries),
        outside=rows(problem.outside, queries),
        options=options,
        points=None,
        leave_one_out=False,
    )


def _taken(sums: PartialSums, problem: Problem, output: Output) -> tuple[PartialSums, Any]:
    """Take own terms from sums, and say where less than half of a sum is left."""
    xp, options = problem.xp, problem.options
    X, Y = problem.whitened()
    d = X.shape[1]
    steps = None if Y is None or Y is X else X.astype(xp.float64) - Y
    exponents = xp.zeros(len(X)) if steps is None else (-0.5 / problem.whitening.h**2) * (steps * steps).sum(axis=1)
    exponents = _of_factors(exponents, options)
    constant = laplace_constant(output, d)
    own = xp.exp(_of_data(exponents, options, d, xp) - sums.reference)
    factored = own if constant is None else own * (constant + exponents)
    rest = sums.total - own
    enough = rest >= own
    moments = sums.moments
    if output == "laplace":
        moments = moments - factored[:, None]
        enough &= abs(moments[:, 0]) >= abs(factored)
    elif moments is not None and steps is not None:
        moments = moments - _of_gradient(factored, options)[:, None] * steps
    return PartialSums(sums.reference, rest, moments), ~enough  # of NaN, too


def _of_factors(exponents: Any, options: Options) -> Any:
    """Exponents of squared distances by the bandwidths of the data, which are along the last axis."""
    return exponents if options.local_factors is None else exponents / options.local_factors**2


def _of_data(exponents: Any, options: Options, d: int, xp: Any) -> Any:
    """The same with the weights of the data and the constants of their kernels."""
    if options.local_factors is not None:
        exponents = exponents - d * xp.log(options.local_factors)
    return exponents if options.log_weights is None else exponents + options.log_weights


def _of_gradient(terms: Any, options: Options) -> Any:
    """Terms by which moments take differences; the data are along the last axis."""
    return terms / options.local_factors**2 if options.of_gradient and options.local_factors is not None else terms


def _direct(problem: Problem, output: Output) -> PartialSums:
    """Form all pairs but the diagonal, in double precision."""
    xp, options = problem.xp, problem.options
    pairs = _Pairs(problem)
    constant = laplace_constant(output, pairs.X.shape[1])
    exponents = _of_factors(pairs.squares() * (-0.5 / problem.whitening.h**2), options)
    factors = 1.0 if constant is None else constant + exponents
    exponents = _of_data(exponents, options, pairs.X.shape[1], xp)
    xp.fill_diagonal(exponents, -np.inf)
    reference = xp.maximum(exponents.max(axis=1), -np.finfo(np.float64).max)
    terms = xp.exp(exponents - reference[:, None])
    total, moments = terms.sum(axis=1), None
    terms = terms * factors
    if output == "laplace":
        moments = terms.sum(axis=1)[:, None]
    elif output != "sum":
        moments = pairs.moments(_of_gradient(terms, options))
    return PartialSums(reference, total, moments)


class _Pairs:
    """Squared distances of all rows of data and queries, whitened, and sums of their differences.

    By products about the mean of the data where these are accurate, else by differences, one dimension at a time.
    """

    def __init__(self, problem: Problem) -> None:
        self._xp = xp = problem.xp
        X, Y = problem.whitened()
        self.X = X.astype(xp.float64, copy=False)
        self.Y = self.X if Y is None else Y.astype(xp.float64, copy=False)
        self._lost = lost = problem.lost()
        if lost is not None:
            self._lost = lost[0], lost[0] if lost[1] is None else lost[1]
        centre = self.X.mean(axis=0)
        about = self.X - centre, self.Y - centre
        self._norms = [(a * a).sum(axis=1) for a in about]
        radius = max(float(norms.max()) for norms in self._norms) / problem.whitening.h**2
        most = PRODUCTS_IN_DOUBLE["float64" if problem.options.precision == "float64" else "float32"]
        self._about = about if lost is None and radius <= most else None

    def squares(self) -> Any:
        """Return squared distances: a row for each query, a column for each row of the data."""
        if self._about is not None:
            data, queries = self._about
            return self._xp.maximum(self._norms[0] + self._norms[1][:, None] - 2 * (queries @ data.T), 0)
        out = self._xp.zeros((len(self.Y), len(self.X)))
        for k in range(self.X.shape[1]):
            out += self._differences(k) ** 2
        return out

    def moments(self, terms: Any) -> Any:
        """Return the sums over the data of terms times differences from the queries."""
        if self._about is not None:
            data, queries = self._about
            return terms @ data - terms.sum(axis=1)[:, None] * queries
        columns = [(terms * self._differences(k)).sum(axis=1) for k in range(self.X.shape[1])]
        return self._xp.stack(columns, axis=1)

    def _differences(self, k: int) -> Any:
        out = self.X[:, k] - self.Y[:, k, None]
        if self._lost is not None:
            out += self._lost[0][:, k] - self._lost[1][:, k, None]
        return out
