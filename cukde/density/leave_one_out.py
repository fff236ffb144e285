"""Sums of kernels at each point of the data without the point's own term.

Passes over pairs leave out own pairs themselves. Where others are faster, the own term is taken from their sums, and
from those with Laplace factors, where at least half of either is left: a bit of accuracy is lost. Other rows are summed
again without it: over the data that are no such rows, and among themselves by halves, each at the other, down to so few
that a pass over pairs takes them. There no pair is taken twice, and nothing cancels. On a domain an own term has the
row's images, too; covariances and local factors have no short formula for it, and all their rows go by halves.

Data and queries may differ, as debiased data do from those at which their density is asked for: then row i of the one
belongs to row i of the other.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cukde.density.domains import pairs
from cukde.density.options import LOG_ZERO
from cukde.density.sums import Output, PartialSums, joined, laplace_constant, merge, moment_columns, nothing, put

Problem = Any
"""A :class:`cukde.density.problem.Problem`, whose module imports this one."""

_FEW = 256  # rows on a domain of which all pairs are taken at once


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
    if not _has_terms(problem, output):
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


def _has_terms(problem: Problem, output: Output) -> bool:
    """Whether own terms have a short formula: on a domain where they are products of columns."""
    if problem.domain is None:
        return True
    product = problem.whitening.bandwidth.ndim < 2 and problem.options.local_factors is None
    return product and output != "laplace_moments"


def _by_halves(problem: Problem, output: Output) -> PartialSums:
    """Sums of either half of the rows at the other, and of each half by itself."""
    n = len(problem.X)
    if n == 1:
        return nothing(1, moment_columns(output, problem.X.shape[1]) or None, problem.xp)
    out: PartialSums | None = problem.sums_without_own(output)
    if out is not None:
        return out
    if problem.domain is not None and n <= _FEW and _has_terms(problem, output):
        return _by_pairs(problem, output)
    halves, parts = (slice(None, n // 2), slice(n // 2, None)), []
    for own, other in (halves, halves[::-1]):
        alone = _by_halves(_part(problem, own, own), output)
        parts.append(merge([alone, _part(problem, other, own).sums(output)], problem.xp))
    return joined(parts, problem.xp)


def _by_pairs(problem: Problem, output: Output) -> PartialSums:
    """The same of few rows on a domain, by all their pairs at once."""
    xp, log_weights, own = problem.xp, problem.options.log_weights, range(len(problem.X))
    Y = problem.X if problem.Y is None else problem.Y
    logs, factors = _on_domain(problem, Y[:, None], problem.X[None], output)
    if log_weights is not None:
        logs = logs + log_weights
    logs[own, own] = -np.inf
    reference = logs.max(axis=1)
    terms = xp.exp(logs - reference[:, None])
    moments = None if factors is None else (terms[..., None] * factors).sum(axis=1)
    return PartialSums(reference, terms.sum(axis=1), moments)


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
    xp, log_weights = problem.xp, problem.options.log_weights
    logs, factors = _own(problem, output)
    own = xp.exp((logs if log_weights is None else logs + log_weights) - sums.reference)
    rest = sums.total - own
    enough = rest >= own
    if factors is None:
        return PartialSums(sums.reference, rest, sums.moments), ~enough  # of NaN, too
    of_moments = own[:, None] * factors
    moments = sums.moments - of_moments
    if output == "laplace":
        enough &= (abs(moments) >= abs(of_moments))[:, 0]
    return PartialSums(sums.reference, rest, moments), ~enough


def _own(problem: Problem, output: Output) -> tuple[Any, Any | None]:
    """Logarithms of own kernels, and what is theirs in moments over them; None where that is nothing."""
    xp = problem.xp
    if problem.domain is not None:
        return _on_domain(problem, problem.X if problem.Y is None else problem.Y, problem.X, output)
    X, Y = problem.whitened()
    steps = None if Y is None or Y is X else X.astype(xp.float64) - Y
    exponents = xp.zeros(len(X)) if steps is None else (-0.5 / problem.whitening.h**2) * (steps * steps).sum(axis=1)
    constant = laplace_constant(output, X.shape[1])
    factors = None if constant is None else (constant + exponents)[:, None]
    if output == "laplace":
        return exponents, factors
    if output == "sum" or steps is None:
        return exponents, None
    return exponents, steps if factors is None else factors * steps


def _on_domain(problem: Problem, u: Any, v: Any, output: Output) -> tuple[Any, Any | None]:
    """The same of queries u and points v on a domain, broadcast; moments are in the coordinates of passes."""
    h = np.broadcast_to(problem.whitening.bandwidth, (problem.X.shape[1],)).astype(np.float64)
    logs, factors = pairs.terms(u, v, h, problem.domain, output, problem.xp)
    if output == "moments" and not problem.whitening.plain:
        factors = factors / problem.xp.asarray(h)
    return logs, factors
