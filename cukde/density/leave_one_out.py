"""Sums of kernels at each point of the data without the point's own term.

Passes over pairs leave out own pairs themselves. Where others are faster, the own term is taken from their sums, and
from those with Laplace factors, where at least half of either is left: a bit of accuracy is lost. Other rows are summed
again without it: over the data that are no such rows, and among themselves by halves, each at the other, down to so few
that a pass over pairs takes them. There no pair is taken twice, and nothing cancels.

Data and queries may differ, as debiased data do from those at which their density is asked for: then row i of the one
belongs to row i of the other.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cukde.density.options import LOG_ZERO
from cukde.density.sums import Output, PartialSums, joined, laplace_constant, merge, moment_columns, nothing, put

Problem = Any
"""A :class:`cukde.density.problem.Problem`, whose module imports this one."""


def sums(problem: Problem, output: Output) -> PartialSums:
    """Sums of a problem's kernels without own terms, divided by the weight that is left."""
    return divided(sums_of_others(problem, output), problem)


def divided(sums: PartialSums, problem: Problem) -> PartialSums:
    """Sums without own terms, divided by the weight that is left."""
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
    out: PartialSums | None = problem.sums_without_own(output)
    if out is not None:
        return out
    if problem.domain is not None:  # an own term is one of many images
        return _by_halves(problem, output)
    n, xp = len(problem.X), problem.xp
    out, lost = _taken(problem._replace(leave_one_out=False).sums(output), problem, output)
    rows = xp.nonzero(lost)[0]
    if len(rows):
        parts = [_by_halves(_part(problem, rows, rows), output)]
        if len(rows) < n:
            parts.append(_part(problem, xp.nonzero(~lost)[0], rows).sums(output))
        put(out, rows, merge(parts, xp))
    return out


def _by_halves(problem: Problem, output: Output) -> PartialSums:
    """Sums of either half of the rows at the other, and of each half by itself."""
    n = len(problem.X)
    if n == 1:
        return nothing(1, moment_columns(output, problem.X.shape[1]) or None, problem.xp)
    out: PartialSums | None = problem.sums_without_own(output)
    if out is not None:
        return out
    halves, parts = (slice(None, n // 2), slice(n // 2, None)), []
    for own, other in (halves, halves[::-1]):
        alone = _by_halves(_part(problem, own, own), output)
        parts.append(merge([alone, _part(problem, other, own).sums(output)], problem.xp))
    return joined(parts, problem.xp)


def _part(problem: Problem, data: Any, queries: Any) -> Problem:
    """Some rows of the data, for sums of all terms at the queries of some rows."""
    X, Y, outside = problem.X, problem.X if problem.Y is None else problem.Y, problem.outside
    itself = problem.Y is None and data is queries
    of_some = problem._replace(X=X[data], Y=None if itself else Y[queries], points=None, leave_one_out=False)
    return of_some._replace(
        outside=None if outside is None else outside[queries], options=problem.options.of_rows(data)
    )


def _taken(sums: PartialSums, problem: Problem, output: Output) -> tuple[PartialSums, Any]:
    """Take own terms from sums without local factors, and say where less than half of a sum is left."""
    xp, options = problem.xp, problem.options
    X, Y = problem.whitened()
    steps = None if Y is None or Y is X else X.astype(xp.float64) - Y
    exponents = xp.zeros(len(X)) if steps is None else (-0.5 / problem.whitening.h**2) * (steps * steps).sum(axis=1)
    own = xp.exp((exponents if options.log_weights is None else exponents + options.log_weights) - sums.reference)
    constant = laplace_constant(output, X.shape[1])
    factored = own if constant is None else own * (constant + exponents)
    rest = sums.total - own
    enough = rest >= own
    moments = sums.moments
    if output == "laplace":
        moments = moments - factored[:, None]
        enough &= abs(moments[:, 0]) >= abs(factored)
    elif moments is not None and steps is not None:
        moments = moments - factored[:, None] * steps
    return PartialSums(sums.reference, rest, moments), ~enough  # of NaN, too
