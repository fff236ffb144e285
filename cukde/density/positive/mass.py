"""The integral of the corrected estimate before it is normalised: its mass."""

from __future__ import annotations

import functools
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
        Standard error of an estimated mass, as if points were independent, which errs on the high side; for an
        integrated mass, a bound by a coarser rule.
    """

    value: float
    error: float


class Part(NamedTuple):
    """Points of a part of the density: its weight, how many, and means and covariances of excess and controls."""

    log_weight: float
    size: int
    means: np.ndarray  # (3,)
    covariances: np.ndarray  # (3, 3)


def part(sums: PartialSums, steps: np.ndarray, log_weight: float, xp: Any) -> Part:
    """What sums of output "laplace" say of a part, at points that are so many ``steps`` from its rows."""
    t = correction.relative(sums)
    of_points = xp.stack([correction.excess(t, xp), t, xp.asarray(_excess_alone(steps))])
    means = of_points.mean(axis=1)
    centred = of_points - means[:, None]
    out = xp.concatenate([means[:, None], centred @ centred.T / len(t)], axis=1)
    on_host = dispatch.to_host(out)
    return Part(log_weight, len(t), on_host[:, 0], on_host[:, 1:])


def _excess_alone(steps: np.ndarray) -> np.ndarray:
    """What the excess is where a row has no other near it, less the mean of that."""
    d = steps.shape[1]
    return np.asarray(correction.excess(0.5 * (d - (steps * steps).sum(axis=1)), np) - _mean_alone(d))


@functools.cache
def _mean_alone(d: int) -> float:
    """Mean excess of a kernel by itself, over the distance from its middle, which has Chi's distribution."""
    low, high = max(0.0, math.sqrt(d) - 12), math.sqrt(d) + 12
    radius = low + (high - low) * (np.arange(4096) + 0.5) / 4096
    log_p = (d - 1) * np.log(radius) - 0.5 * radius**2
    p = np.exp(log_p - log_p.max())
    return float(p @ correction.excess(0.5 * (d - radius**2), np) / p.sum())


def estimated(parts: Sequence[Part]) -> Mass:
    r"""Estimate the mass by points drawn from the kernel estimate p itself, part by part.

    The mass is the mean of g(t) under p. The mean of t is exactly 0, as the Laplacian of p integrates to 0: so it is
    1 + E[sqrt(1 + t^2) - 1]. Controls of that excess, with the coefficients of least variance, are t and what the
    excess would be without other rows, whose mean is known too.
    """
    largest = max(one.log_weight for one in parts)
    weights = np.exp([one.log_weight - largest for one in parts])
    weights /= weights.sum()
    means = sum(w * one.means for w, one in zip(weights, parts, strict=True))
    covariances = sum(w * w / one.size * one.covariances for w, one in zip(weights, parts, strict=True))
    slopes = np.zeros(2)
    if np.isfinite(covariances).all():  # or values were not checked
        slopes = np.linalg.lstsq(covariances[1:, 1:], covariances[1:, 0], rcond=None)[0]
    variance = covariances[0, 0] - slopes @ covariances[1:, 0]
    return Mass(1 + float(means[0] - slopes @ means[1:]), math.sqrt(max(0.0, float(variance))))


def sampled(problem: Problem, count: int, rng: np.random.Generator) -> Mass:
    """Estimate the mass by ``count`` points."""
    at, sums, steps = at_samples(problem, count, rng)
    return estimated([part(sums, steps, 0.0, at.xp)])


def at_samples(problem: Problem, count: int, rng: np.random.Generator) -> tuple[Problem, PartialSums, np.ndarray]:
    """The problem at points drawn from its kernel estimate, its sums of output "laplace" there, and their steps."""
    problem = of_all(problem)
    options = problem.options
    weights = None if options.log_weights is None else np.exp(dispatch.to_host(options.log_weights))
    places, steps = draws(count, problem.X.shape[1], rng)
    of_data = problem.X, weights, options.local_factors, problem.whitening, problem.domain
    at = problem.at(drawn(*of_data, places, steps, problem.xp))
    return at, at.sums("laplace"), steps


def draws(count: int, d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Equal steps of the weight of the rows, (count,), and steps from them in bandwidths, (count, d).

    The latter are normal, of Kronecker's sequence with the strides of Roberts and a random start, by Box and Muller. So
    they are spread more evenly than independent ones: with several points a row, in up to 8 dimensions, those err as
    little if they are four times as many; where rows are as many as points, if they are as many.
    """
    places = np.minimum((rng.uniform() + np.arange(count)) / count, np.nextafter(1.0, 0.0))  # which may round to 1
    pairs, root = (d + 1) // 2, 2.0
    for _ in range(64):  # to the root of x^(2 pairs + 1) = x + 1
        root = (1 + root) ** (1 / (2 * pairs + 1))
    u = (rng.uniform(size=2 * pairs) + np.arange(count)[:, None] * root ** -np.arange(1.0, 2 * pairs + 1)) % 1
    radius, angle = np.sqrt(-2 * np.log1p(-u[:, :pairs])), 2 * math.pi * u[:, pairs:]
    return places, np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)[:, :d]


def drawn(
    X: Any,
    weights: np.ndarray | None,
    local_factors: Any,
    whitening: Whitening,
    domain: Domain | None,
    places: np.ndarray,
    steps: np.ndarray,
    xp: Any,
) -> Any:
    """Points of a kernel estimate, (count, d) float64, of what :func:`draws` returns, the same on every device.

    Data of a domain are anchored.
    """
    n, d = X.shape
    rows = xp.asarray(rows_by_weight.rows(n, weights, places))
    ways = xp.asarray(whitening.restore(whitening.h * steps, np.zeros(d)))
    if local_factors is not None:
        ways *= local_factors[rows][:, None]
    points = X[rows].astype(xp.float64) + ways
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
