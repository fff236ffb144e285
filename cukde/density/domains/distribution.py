r"""The distribution function of a density on a line with ends or a period, by sums of that of the whole line.

Taken from the end of the domain, or from 0 where there is a period, the density at a query u is the sum of kernels at
all its images: the mass up to u is what the kernels of the data themselves have on the images of [0, u]. With S(y) the
sum of the normal distribution functions at y, and U(y) that of what is beyond,

    one end below     S(u) - S(-u)
    one end above     S(u) + U(-u)                                     from minus infinity, u <= 0
    width l           sum_k S(2 k l + u) - S(2 k l - u)
    period T          sum_k S(k T + u) - S(k T)

Images to the right of the data, k > 0, are differences of U, so that no term cancels but by the length of [0, u]. With
h below 0.15 of T, or of 2 l, images beyond the third add nothing (exponents larger by 46). Wider kernels have few
waves: with those of :mod:`cukde.density.domains.columns`, integrated,

    width l           u / l + sum_k (2 / (pi k)) a_k sin(pi k u / l) mean_j cos(pi k v_j / l)
    period T          u / T + sum_k (1 / (pi k)) a_k mean_j (sin(w_k (u - v_j)) + sin(w_k v_j)),   w_k = 2 pi k / T
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cukde.density import backends
from cukde.density.domains.columns import columns_of
from cukde.density.domains.images import Problem
from cukde.density.sums import PartialSums

_NARROW = 1 / 12  # of a period: only the nearest images count
_FAR = 46.0


def sums(problem: Problem, sign: int) -> PartialSums:
    """Return the mass up to the queries, or with ``sign`` -1 the mass beyond them, as sums of output "cdf"."""
    low, high = (float(end[0]) for end in problem.domain.ends)
    period = float(problem.domain.period[0])
    v, u = problem.X[:, 0], (problem.X if problem.Y is None else problem.Y)[:, 0]
    if sign < 0:
        turned = period if math.isfinite(period) else low + high if math.isfinite(high - low) else 0.0
        v, u, low, high = turned - v, turned - u, turned - high, turned - low
    h = problem.whitening.bandwidth
    h = math.sqrt(float(h[0, 0])) if h.ndim == 2 else float(h.reshape(-1)[0])
    around = period if math.isfinite(period) else 2 * (high - low)
    (column,) = columns_of(np.array([h]), problem.domain, _FAR)
    if column.waves:
        return _of_waves(problem, v, u, h, around, column.waves)
    most = 0 if math.isinf(around) else 1 if h <= _NARROW * around else 3
    if math.isfinite(low) or math.isfinite(period):
        base = 0.0 * u if math.isfinite(period) else -u
        lower = [k * around + y for k in range(-most, 0) for y in (u, base)] + [u, base]
        upper = [k * around + y for k in range(1, most + 1) for y in (base, u)]
        signs = [1.0, -1.0] * ((len(lower) + len(upper)) // 2)
    else:
        lower, upper, signs = [u], [-u], [1.0, 1.0]
    parts = [*_normal(problem, v, h, lower, 1), *_normal(problem, v, h, upper, -1)]
    return _signed(parts, signs, problem.xp)


def _normal(problem: Problem, v: Any, h: float, queries: Sequence[Any], side: int) -> list[PartialSums]:
    """Sum the normal distribution function at several arrays of queries in one pass; with -1 what is beyond them."""
    if not queries:
        return []
    xp, m = problem.xp, len(queries[0])
    X = xp.ascontiguousarray(side * v[:, None])
    Y = xp.ascontiguousarray(side * xp.concatenate(list(queries))[:, None])
    options = problem.options._replace(squared_radius=None, kept=None, centre=problem.backend.mean(X))
    out = backends.line(problem.backend, X, Y).partial_sums(X, Y, h, "cdf", options)
    starts = range(0, m * len(queries), m) if m else [0] * len(queries)
    return [PartialSums(out.reference[start : start + m], out.total[start : start + m]) for start in starts]


def _signed(parts: Sequence[PartialSums], signs: Sequence[float], xp: Any) -> PartialSums:
    """Add and subtract sums; what rounding leaves below 0 is 0."""
    references = xp.stack([part.reference for part in parts])
    reference = references.max(axis=0)
    terms = xp.exp(references - reference) * xp.stack([part.total for part in parts])
    total = (terms * xp.asarray(signs)[:, None]).sum(axis=0)
    return PartialSums(reference, xp.maximum(total, 0.0))


def _of_waves(problem: Problem, v: Any, u: Any, h: float, around: float, waves: int) -> PartialSums:
    xp, periodic = problem.xp, bool(problem.domain.periodic[0])
    weights = None if problem.options.log_weights is None else xp.exp(problem.options.log_weights)
    total = u / around if periodic else 2 * u / around

    def mean(a: Any) -> Any:
        return a.mean() if weights is None else (weights * a).sum()

    for k in range(1, waves + 1):
        w = 2 * math.pi * k / around
        a = math.exp(-0.5 * min(w * h, 1e3) ** 2) / (math.pi * k)
        cosine = mean(xp.cos(w * v))
        if periodic:
            total += a * (xp.sin(w * u) * cosine + 2 * xp.sin(0.5 * w * u) ** 2 * mean(xp.sin(w * v)))
        else:
            total += 2 * a * xp.sin(w * u) * cosine
    share = 0.0 if weights is not None else -math.log(len(v))  # which the end multiplies by
    return PartialSums(xp.full(len(u), -share), xp.maximum(total, 0.0))
