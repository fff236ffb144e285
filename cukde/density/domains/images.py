r"""Sums of kernels over a domain with walls and periods: the data, and their images that matter as more data.

The kernel of a domain is the sum of the Gaussian over all images of a point: mirrored at each wall, and at the images
of the walls, or moved by whole periods. A column is cut into cells, of the width between its walls or of its period;
each holds one image, cell 0 the point itself. One pass sums the data, further passes their images in chunks; by their
references these merge.

What is left out. Of a point x and an image z in the cells (i_k), and queries in the box [lo, hi] within cell 0, let
y* be the place of the box nearest to z, a column at a time, D_k = |y*_k - z_k| and r_k the distance of y*_k to the
image nearest to it. For queries y of the box,

    q = sum_k D_k^2 / (2 h_k^2)  <=  sum_k (y_k - z_k)^2 / (2 h_k^2),
    e = sum_k (D_k^2 - r_k^2) / (2 h_k^2)  <=  the same less the least such exponent of any image of x:

in cell 0 the nearest image is x between walls, so that the difference of the squares is linear in y_k and not negative,
and for periods it is convex in y_k and 0 about z: both are least where the box is nearest to z. So the term of z is at
most exp(-q), and at most exp(-e) times the largest term of its point. An image is left out where q > Q or e > E, with

    (1 - 1/8) E = 46 + log G,    (1 - 1/8) Q = 46 + log G + log(1 + d + 2 Q') + log W - log S.

S is the least over the queries of what the data themselves add up to, W the sum of their weights, Q' the limit without
this term, which is for the factors of moments and of the Laplace correction; 46 has room for those of E. And G bounds
the sum over all images of exp(-q/8) and of exp(-e/8): in cell i of width l, D >= (|i| - 1) l and r <= l, so

    G = prod_k G_k,    G_k = 5 + 2 (h_k / l_k) sqrt(4 pi),

as sum_{j >= 1} exp(-j^2 l^2 / (16 h^2)) <= (h / l) sqrt(4 pi). As exp(-q) <= exp(-7 Q / 8) exp(-q / 8) where q > Q, all
that is left out is then at most 2 exp(-46) = 2.1e-20 of the sum, times 100 or less for E's factors.

A covariance may link periodic columns with others that are free or periodic. Then q takes h_k^2 = H_kk times the
largest eigenvalue of H's matrix of correlations. A shift t of the lattice has, of the exponent less the least over
real shifts, (t - t*)^T A (t - t*) / 2, with A^-1 the covariance C of the periodic columns given the free ones and t*
the difference of query and point less its regression on the free columns: e takes h_k^2 = C_kk times the largest
eigenvalue of C's correlations, D_k less the largest such regression, and for E the most that rounding t* to the lattice
costs is added, |A| sum_k l_k^2 / 8.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from cukde.core import dispatch
from cukde.density.domains import check, columns
from cukde.density.domains.columns import Column, columns_of
from cukde.density.domains.domain import Domain
from cukde.density.plan import compositions as plan_compositions
from cukde.density.sums import Output, PartialSums, merge

Problem = Any
"""A :class:`cukde.density.problem.Problem`, whose module imports this one."""

_LEFT_OUT = 46.0  # minus its logarithm
_SHARE = 1 / 8  # of an exponent, which pays for the number of images

# Rows of images that a pass takes at least, where there are as many.
_ROWS = 2**18
# Points by which images are counted before a pass.
_SAMPLE = 512

# Stands for the logarithm of a total that is 0 by rounding: the least that it can be is a subnormal number.
_LOG_LEAST = -745.0


class _Column(NamedTuple):
    """One column of the geometry above; cells from -``most`` to ``most``."""

    period: float  # infinite where there is none
    walls: tuple[float, float]  # infinite where there is none
    low: float  # of the queries
    high: float
    h_q: float  # h_k of q in the head of this file
    h_e: float  # h_k of e there
    slack: float
    linked: bool
    most: int

    @property
    def number(self) -> int:
        """Cells but that of the point itself."""
        if math.isinf(self.period) and math.isinf(self.walls[1] - self.walls[0]):
            return 0 if math.isinf(min(map(abs, self.walls))) else 1
        return 2 * self.most

    @property
    def cells(self) -> list[int]:
        """These cells, nearest first."""
        return [i for j in range(1, self.number // 2 + 1) for i in (j, -j)] if self.number != 1 else [1]

    def image(self, v: Any, cell: int) -> Any:
        """Where the image of points in a cell lies."""
        return columns.image(v, cell, self.period, self.walls[1] - self.walls[0])

    def exponents(self, v: Any, z: Any, xp: Any) -> tuple[Any, Any]:
        """The column's shares in q and e of images z of the points v."""
        nearest = xp.minimum(xp.maximum(z, self.low), self.high)
        distance = abs(nearest - z)
        q = 0.5 * (distance / self.h_q) ** 2
        if self.linked:
            return q, 0.5 * (xp.maximum(distance - self.slack, 0.0) / self.h_e) ** 2
        if math.isfinite(self.period):
            least = abs(distance - self.period * xp.rint(distance / self.period))
        elif math.isfinite(self.walls[0]) or math.isfinite(self.walls[1]):
            least = abs(nearest - v)
        else:
            return q, xp.zeros_like(q)
        return q, 0.5 * (distance - least) / self.h_e * ((distance + least) / self.h_e)


class _Reach(NamedTuple):
    """Which images matter to a pass."""

    columns: tuple[_Column, ...]
    far: float  # Q
    unlike: float  # E

    @property
    def combinations(self) -> float:
        """Images of a point, itself among them, that have to be judged."""
        return math.prod(1.0 + column.number for column in self.columns)

    def images(self, X: Any, rows: int, xp: Any) -> Iterator[tuple[Any, Any]]:
        """Yield indices of points and their images, so many points at a time."""
        for start in range(0, len(X), rows):
            index, images = self.of(X[start : start + rows], xp)
            yield index + start, images

    def of(self, X: Any, xp: Any, most: float = math.inf) -> tuple[Any, Any]:
        """Indices of points and their images; those of the first columns where these give more than ``most``."""
        index, moved = xp.arange(len(X)), xp.zeros(len(X), bool)
        q = e = xp.zeros(len(X))
        places: list[Any] = []
        for k, column in enumerate(self.columns):
            v = X[:, k][index]
            kept = []
            for cell in (0, *column.cells):
                z = column.image(v, cell)
                far, unlike = column.exponents(v, z, xp)
                far, unlike = far + q, unlike + e
                # The point itself stays until the last column: its images in others may matter.
                rows = xp.flatnonzero((far <= self.far) & (unlike <= self.unlike))
                kept.append((rows, z[rows], far[rows], unlike[rows], moved[rows] | (cell != 0)))
            rows, z, q, e, moved = (xp.concatenate(parts) for parts in zip(*kept, strict=True))
            index, places = index[rows], [coordinates[rows] for coordinates in places] + [z]
            if len(index) > most:
                break
        rows = xp.flatnonzero(moved)
        return index[rows], xp.stack([coordinates[rows] for coordinates in places], axis=1)


def sums(problem: Problem, output: Output, values: Any = None) -> PartialSums:
    """Sum the kernel of the domain that a problem has over its data; 0 at queries outside."""
    assert problem.domain is not None
    plain = problem._replace(domain=None, outside=None)
    out = plain.sums(output, values)
    if len(out.reference):
        out = _with_images(plain, problem.domain, output, out, values)
    if problem.outside is None:
        return out
    inside = ~problem.outside
    return PartialSums(
        out.reference, _of_rows(inside, out.total, problem.xp), _of_rows(inside, out.moments, problem.xp)
    )


def _of_rows(inside: Any, a: Any, xp: Any) -> Any:
    """Entries of rows inside, 0 for others; None stays None."""
    return None if a is None else xp.where(inside if a.ndim == 1 else inside[:, None], a, 0.0)


def _with_images(
    plain: Problem, domain: Domain, output: Output, plain_sums: PartialSums, values: Any = None
) -> PartialSums:
    """Add what the images add to the sums of the data themselves; images have the ``values`` of their points."""
    xp = plain.xp
    scales = _Scales.of(plain, domain)
    # Sums of values may leave out the total.
    reach = _reach(plain, domain, scales, plain_sums if values is None else plain.sums("sum"))
    if reach is None:
        return plain_sums
    product = scales.product and output not in ("laplace_moments", "values")  # which images alone have
    if product and _many(reach, plain, columns_of(scales.h_e, domain, reach.unlike)):
        Y = plain.X if plain.Y is None else plain.Y
        products: PartialSums = dispatch.passes("cukde.density.domains", plain.backend).product_sums(
            plain.X, Y, scales.h_e, domain, output, log_weights=plain.options.log_weights, unlike=reach.unlike
        )
        if output != "moments" or plain.whitening.plain:
            return products
        return products._replace(moments=products.moments / xp.asarray(scales.h_e))  # of whitened coordinates
    check.few_images(reach.combinations)
    total, waiting, count = plain_sums, [], 0
    rows = max(1, int(_ROWS // reach.combinations))
    most = max(_ROWS, len(plain.X))
    for index, images in reach.images(plain.X, rows, xp):
        if len(index):
            waiting.append((index, images))
            count += len(index)
        if count >= most:
            total, waiting, count = merge([total, _pass(plain, output, waiting, values)], xp), [], 0
    return merge([total, _pass(plain, output, waiting, values)], xp) if waiting else total


def _pass(plain: Problem, output: Output, parts: list[tuple[Any, Any]], values: Any = None) -> PartialSums:
    """Sum kernels of images at the queries."""
    xp = plain.xp
    index = xp.concatenate([rows for rows, _ in parts])
    images = xp.ascontiguousarray(xp.concatenate([z for _, z in parts]))
    options = plain.options.of_rows(index)._replace(squared_radius=None)  # the backend finds out how far they lie
    Y = plain.X if plain.Y is None else plain.Y
    of_images = None if values is None else values[index]
    return plain._replace(X=images, Y=Y, options=options, points=None).sums(output, of_images)


class _Scales(NamedTuple):
    """Bandwidths of the columns by which images are judged, (d,) each; see the head of this file."""

    h_q: np.ndarray
    h_e: np.ndarray
    linked: np.ndarray  # periodic columns that a covariance links with others
    regression: np.ndarray  # (d, d): of such columns on the free ones
    rounding: float
    log_factors: float  # minus the logarithm of the least local factor, d times, and once more for a gradient's terms
    product: bool  # whether the kernel is one of columns, the same for all points

    @classmethod
    def of(cls, plain: Problem, domain: Domain) -> _Scales:
        h, d = plain.whitening.bandwidth, len(domain.low)
        linked, regression, rounding = np.zeros(d, bool), np.zeros((d, d)), 0.0
        covariance = h if h.ndim == 2 else np.diag(np.broadcast_to(h, (d,))) ** 2
        deviations = np.sqrt(np.diag(covariance)) if h.ndim == 2 else np.broadcast_to(h, (d,)).astype(np.float64)
        h_q, h_e = deviations, deviations.copy()
        others = covariance != np.diag(np.diag(covariance))
        if others.any():
            h_q = deviations * math.sqrt(_largest(covariance / np.outer(deviations, deviations)))
            linked = domain.periodic & others.any(axis=1)
        if linked.any():
            free = ~domain.periodic & ~domain.bounded
            inner = np.ix_(linked, linked)
            conditional = covariance[inner]
            if free.any():
                slopes = np.linalg.solve(covariance[np.ix_(free, free)], covariance[np.ix_(free, linked)]).T
                conditional = conditional - slopes @ covariance[np.ix_(free, linked)]
                regression[np.ix_(linked, free)] = abs(slopes)
            width = np.sqrt(np.diag(conditional))
            h_e[linked] = width * math.sqrt(_largest(conditional / np.outer(width, width)))
            rounding = _largest(np.linalg.inv(conditional)) * float((domain.period[linked] ** 2).sum()) / 8
        log_factors = 0.0
        if plain.options.local_factors is not None:
            factors = plain.options.local_factors
            least, largest = map(float, (factors.min(), factors.max()))
            h_q, h_e = h_q * largest, h_e * largest
            if least > 0:  # or they were not checked
                log_factors = -(d + plain.options.of_gradient) * math.log(least)
                rounding = rounding / least / least
        product = not others.any() and plain.options.local_factors is None
        return cls(h_q, h_e, linked, regression, rounding, log_factors, product)


def _largest(symmetric: np.ndarray) -> float:
    return float(np.linalg.eigvalsh(symmetric)[-1])


def _reach(plain: Problem, domain: Domain, scales: _Scales, plain_sums: PartialSums) -> _Reach | None:
    """Find the box of the queries and the least sum, and by them the limits; None without a finite query."""
    xp, d = plain.xp, len(domain.low)
    X, Y = plain.X, plain.X if plain.Y is None else plain.Y
    logs = plain_sums.reference + xp.maximum(xp.log(plain_sums.total), _LOG_LEAST)
    least = xp.where(xp.isfinite(logs), logs, np.inf).min()
    edges = [f(xp.where(xp.isfinite(A), A, s * np.inf), axis=0) for A in (Y, X) for f, s in ((xp.min, 1), (xp.max, -1))]
    figures = plain.backend.asnumpy(xp.concatenate([*edges, least.reshape(1)]))  # one copy to the host
    low, high, first, last = figures[:-1].reshape(4, d)
    if not np.isfinite(figures).all():
        return None
    cell = domain.cell
    with np.errstate(all="ignore"):
        slack = scales.regression @ np.maximum(abs(high - first), abs(last - low))
        number = 5 + 2 * math.sqrt(4 * math.pi) * (np.maximum(scales.h_q, scales.h_e) / cell) + 2 * (slack / cell)
        number = np.where(np.isfinite(cell), number, 5)
        log_number = float(np.log(np.minimum(number, 1e300)).sum())
    unlike = (_LEFT_OUT + log_number) / (1 - _SHARE) + scales.rounding
    mass = 0.0 if plain.options.log_weights is not None else math.log(len(X))
    far = _LEFT_OUT + log_number + mass + scales.log_factors - float(figures[-1])
    far = min((max(far, 0.0) + math.log(1 + d + 2 * max(far, 0.0))) / (1 - _SHARE), 1e300)
    found = []
    for k in range(d):
        with np.errstate(all="ignore"):
            by_distance = 1 + math.sqrt(2 * far) * (scales.h_q[k] / cell[k])
            if scales.linked[k]:
                by_size = 1 + (slack[k] + math.sqrt(2 * unlike) * scales.h_e[k]) / cell[k]
            else:
                by_size = 1 + math.sqrt(1 + 2 * unlike * min(scales.h_e[k] / cell[k], 1e100) ** 2)
        most = int(min(by_distance, by_size, 1e9)) if math.isfinite(cell[k]) else 0
        walls = float(domain.ends[0, k]), float(domain.ends[1, k])
        box, h_q, h_e = (float(low[k]), float(high[k])), float(scales.h_q[k]), float(scales.h_e[k])
        linked = float(slack[k]), bool(scales.linked[k])
        found.append(_Column(float(domain.period[k]), walls, *box, h_q, h_e, *linked, most))
    return _Reach(tuple(found), far, unlike)


def _many(reach: _Reach, plain: Problem, of_products: list[Column]) -> bool:
    """Whether the images take longer than the sum of products of columns."""
    if plan_compositions.cells_are_many(max(column.most for column in reach.columns)):
        return True
    limit = plan_compositions.images_of_products(plain.backend.name, sum(column.terms for column in of_products))
    if reach.combinations <= limit:
        return False
    few = int(np.clip(_ROWS / max(8 * limit, 1.0), 1, _SAMPLE))
    sample = plain.backend.asnumpy(plain.X[:: -(-len(plain.X) // few)])
    most = limit * len(sample)
    return len(reach.of(sample, np, most)[0]) > most
