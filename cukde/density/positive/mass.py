"""The integral of the corrected estimate before it is normalised: its mass."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cukde.core import check as core_check, dispatch, reprs
from cukde.core.public import public_in
from cukde.density import correction, rows_by_weight
from cukde.density.domains.domain import Domain
from cukde.density.positive.quadrature import Nodes
from cukde.density.problem import Problem
from cukde.density.sums import PartialSums, to_density
from cukde.density.whitening import Whitening

_QUERIES = 2**20  # of a pass, which bounds memory


@public_in("cukde")
@reprs.readable
class Mass(NamedTuple):
    """The result of :func:`cukde.positive_mass`.

    Attributes
    ----------
    value : float
        The integral, at least 1 up to its error.
    error : float
        Standard error of an estimated mass; for an integrated mass, a bound by a coarser rule.
    """

    value: float
    error: float


class Part(NamedTuple):
    """Points of a part of the density: its weight, how many, and means and covariances of t and the excess."""

    log_weight: float
    size: int
    means: np.ndarray  # (2,)
    covariances: np.ndarray  # (2, 2)


def part(sums: PartialSums, log_weight: float, xp: Any) -> Part:
    """What sums of output "laplace" at points of a part say of it."""
    t = correction.relative(sums)
    both = xp.stack([t, correction.excess(t, xp)])
    means = both.mean(axis=1)
    centred = both - means[:, None]
    out = xp.concatenate([means[:, None], centred @ centred.T / len(t)], axis=1)
    on_host = dispatch.to_host(out)
    return Part(log_weight, len(t), on_host[:, 0], on_host[:, 1:])


def estimated(parts: Sequence[Part]) -> Mass:
    r"""Estimate the mass by points drawn from the kernel estimate p itself, part by part.

    The mass is the mean of g(t) under p. The mean of t is exactly 0, as the Laplacian of p integrates to 0: so it is
    1 + E[sqrt(1 + t^2) - 1], and t is a control variate of that excess, with the coefficient of least variance.
    """
    largest = max(one.log_weight for one in parts)
    weights = np.exp([one.log_weight - largest for one in parts])
    weights /= weights.sum()
    means = sum(w * one.means for w, one in zip(weights, parts, strict=True))
    covariances = sum(w * w / one.size * one.covariances for w, one in zip(weights, parts, strict=True))
    slope = covariances[0, 1] / covariances[0, 0] if covariances[0, 0] > 0 else 0.0
    variance = covariances[1, 1] - slope * covariances[0, 1]
    return Mass(1 + float(means[1] - slope * means[0]), math.sqrt(max(0.0, float(variance))))


def sampled(problem: Problem, count: int, rng: np.random.Generator) -> Mass:
    """Estimate the mass by ``count`` points."""
    at, sums = at_samples(problem, count, rng)
    return estimated([part(sums, 0.0, at.xp)])


def at_samples(problem: Problem, count: int, rng: np.random.Generator) -> tuple[Problem, PartialSums]:
    """The problem at points drawn from its kernel estimate, and its sums of output "laplace" there."""
    problem = of_all(problem)
    options = problem.options
    weights = None if options.log_weights is None else np.exp(dispatch.to_host(options.log_weights))
    points = drawn(problem.X, weights, options.local_factors, problem.whitening, problem.domain, count, rng, problem.xp)
    at = problem.at(points)
    return at, at.sums("laplace")


def drawn(
    X: Any,
    weights: np.ndarray | None,
    local_factors: Any,
    whitening: Whitening,
    domain: Domain | None,
    count: int,
    rng: np.random.Generator,
    xp: Any,
) -> Any:
    """Points of a kernel estimate, (count, d) float64: rows of the data in equal steps of weight, moved by kernels.

    The random numbers are drawn on the host: they are the same on every device. Data of a domain are anchored.
    """
    n, d = X.shape
    places = np.minimum((rng.uniform() + np.arange(count)) / count, np.nextafter(1.0, 0.0))  # which may round to 1
    rows = xp.asarray(rows_by_weight.rows(n, weights, places))
    steps = xp.asarray(whitening.restore(whitening.h * rng.normal(size=(count, d)), np.zeros(d)))
    if local_factors is not None:
        steps *= local_factors[rows][:, None]
    points = X[rows].astype(xp.float64) + steps
    return points if domain is None else domain.restored(domain.folded(points, xp), xp)


def integrated(problem: Problem, nodes: Nodes) -> Mass:
    """Integrate by the trapezoidal rule over nodes of a grid; the error is the difference to that of every second.

    Both are far below a bandwidth apart: the rule then converges faster than any power of its step.
    """
    problem = _in_double(of_all(problem))
    fine = coarse = 0.0
    for points, weights, coarse_weights in nodes.blocks(_QUERIES):
        at = problem.at(problem.xp.asarray(points))
        sums = at.sums("laplace")
        p = to_density(sums, at.log_constant, False, np.dtype(np.float64), at.xp)
        # Where rounding takes the last node over an end, nothing is summed.
        values = at.xp.where(p > 0, p * correction.excess(correction.relative(sums), at.xp), 0.0)
        fine += float(values @ at.xp.asarray(weights))
        coarse += float(values @ at.xp.asarray(coarse_weights))
    return Mass(1 + fine, abs(fine - coarse))


def of_all(problem: Problem) -> Problem:
    """The problem of all rows, whose values are checked now if they were not: points are made of them."""
    problem = problem._replace(leave_one_out=False)
    if problem.options.squared_radius is not None:
        return problem
    core_check.finite({"X": bool(problem.xp.isfinite(problem.X).all())})
    return problem.located()


def _in_double(problem: Problem) -> Problem:
    """The same for nodes far closer to each other than the rounding of single precision."""
    double = np.dtype(np.float64)
    options = problem.options._replace(precision="float64")
    return problem._replace(X=problem.X.astype(double), dtype=double, options=options)
