r"""The fast Gauss transform in one dimension: boxes, expansions, and a bound on the error of each box of queries.

Both backends follow the plan made here. With u = (y - x)/h and He_n the Hermite polynomials,

    phi(u) = exp(-u^2/2),    phi^(n)(u) = (-1)^n He_n(u) phi(u).

The line is cut into boxes of width 2 rho h. A point x of box s is s's centre + alpha rho h, a query y of box t is t's
centre + beta rho h, with |alpha|, |beta| <= 1. Taylor's series in both, with D = 2 rho (t - s), gives

    sum_j v_j phi(u_j) = sum_{l<P} B_l beta^l,    B_l = sum_s sum_{k<P} T[t-s, l, k] M_k(s),
    M_k(s) = sum_{j in s} v_j alpha_j^k,          T[o, l, k] = (-1)^l He_{k+l}(D) phi(D) rho^(k+l) / (k! l!),

where s runs over the boxes at most W away: O(n P + boxes W P^2 + m P) operations. The first moments about the query are
h^2 times the derivative, (h / rho) sum_l l B_l beta^(l-1). The Laplace-corrected kernel is phi - phi''/2, so its sums
take He_{k+l} - He_{k+l+2}/2 for He_{k+l}, beside those of phi, which the total is of.

The distribution function ("cdf") sums Phi(u), the standard normal's: there T[o, 0, 0] is Phi(D), and all others come of
its derivative phi / sqrt(2 pi), T[o, l, k] = -(-1)^l He_{k+l-1}(D) phi(D) rho^(k+l) / (k! l! sqrt(2 pi)). Boxes more
than W to the left of the queries' add their whole mass, those to the right nothing.

Error. By Cramer's inequality (Abramowitz and Stegun 22.14.17) |He_n(u)| phi(u) <= C sqrt(n!) exp(-u^2/4) with
C < 1.0865. Let g = 2 rho max(0, |o| - 1), which no |u| of the two boxes falls below. The remainder in alpha of a unit
mass, all powers of beta kept, and then that in beta of the P powers of alpha are, by Lagrange, at most

    C exp(-g^2/4) [ rho^P / sqrt(P!) + sum_{k<P} rho^(P+k) sqrt((P+k)!) / (P! k!) ].

This is the estimate of Greengard and Strain with both remainders written out (theirs left out one). Of the derivative
and of phi'' the factorials under the roots are those of higher n, and the derivative has a power of beta less.
A mass further than W boxes, and so than R = 2 rho W bandwidths, adds at most (3/2 + R^2/2) exp(-R^2/2) to the sum, to
the moments in bandwidths, or to the Laplace-corrected sum. Rounding is taken to be at most ``_ROUNDINGS`` eps times the
sum of |T|, for each unit of mass; beside the Laplace correction of the larger of both.

Derivatives of Phi, of which a remainder takes the P-th and higher ones, are one lower of phi / sqrt(2 pi): factorials
under the roots are those of n - 1, over sqrt(2 pi). A mass further than R is counted as all or nothing, and that is off
by Phi(-R).

A box of queries is *accepted* where the masses m_s of |v| around it show that

    sum_s m_s error[o] + (mass beyond W) beyond <= tolerance sum_s m_s least[o],

where least[o] = exp(-(2 rho (|o| + 1))^2 / 2) is the least that phi can be: then the error is at most the tolerance
times sum |v| phi at each of its queries. Of Phi the least is Phi(2 rho (o - 1)), and the mass to the left beyond W
stands among the right-hand terms too, as no Phi there is less than 1 - Phi(-R): in a left tail the error is relative to
what little there is. What is not accepted (gaps between clusters, far tails, unequal weights) is
summed point by point outward from the query until what is left out is as small: that is for the backends.

Centres are exact. The width has 10 significant bits, so (b + 1/2) width is a float64 as long as |b| < 2^42, and with it
the difference of a point and its centre is rounded once: the range may be 1e12 bandwidths.

References
----------
- Greengard, L. and Strain, J. (1991). The fast Gauss transform. *SIAM J. Sci. Stat. Comput.* 12.
- Yang, C., Duraiswami, R., Gumerov, N. A. and Davis, L. (2003). Improved fast Gauss transform and efficient kernel
  density estimation. *ICCV*.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from cukde.density.sums import Output

TOLERANCE = {"float32": 1e-6, "tf32": 1e-6, "float64": 1e-12}
"""Largest relative error of a sum, by precision; all arithmetic is in double precision."""

MOST_BOXES = 2**42
"""Box numbers of this size, and bandwidths outside ``BANDWIDTHS``, are left to the sum over all pairs."""
BANDWIDTHS = (1e-290, 1e290)

# Of a table of all boxes between the first point and the last: so many are few, or one for so many points.
FEW_BOXES, POINTS_PER_BOX = 4096, 8

# Width of a box in bandwidths. Orders are then 11 (float32) and 16 (float64); with 1 they would be 15 and 22 for half
# of the boxes, and rounding across a gap exp(2) times as much for each bandwidth of it.
_WIDTH = 0.5
# Orders and windows are for boxes whose neighbours hold up to so many times their own mass ...
_CONTRAST = 1e3
# ... and for data of which a window holds no less than this part.
_PART = 1e-6

_CRAMER = 1.0865
_ROUNDINGS = 8


def serves(precision: str, rtol: float | None) -> bool:
    """Whether the transform is as accurate as a pass has to be; ``rtol`` None asks for what it gives."""
    return precision in TOLERANCE and (rtol is None or rtol >= TOLERANCE[precision])


class Plan(NamedTuple):
    """How to sum kernels of one bandwidth to a tolerance; tables by o + reach for the offset o of two boxes."""

    width: float  # of a box, in the data's units
    unit: float  # half of it, rho h: alpha and beta are in these
    bandwidth: float
    tolerance: float
    order: int  # P
    reach: int  # W
    translation: np.ndarray  # (2 W + 1, P, P): T[o, l, k]
    of_total: np.ndarray  # (2 W + 1, P, P): the same of the total
    error: np.ndarray  # (2 W + 1,): for a unit of mass
    least: np.ndarray  # (2 W + 1,)
    beyond: float  # for a unit of mass further away

    def translations(self, output: Output) -> tuple[np.ndarray, ...]:
        """T[o, l, k] of each sum of a column: of the total, and of the Laplace-corrected one."""
        return (self.of_total, self.translation) if output == "laplace" else (self.translation,)

    @property
    def slope(self) -> float:
        """Turns the derivative with respect to beta into moments about the query, in the data's units."""
        return self.bandwidth**2 / self.unit


@functools.lru_cache(64)
def plan(h: float, output: Output, tolerance: float) -> Plan:
    """Choose boxes, order and window for a bandwidth; "values" are summed as "sum" is."""
    width = rounded(_WIDTH * h)
    rho = width / (2 * h)
    reach = next(w for w in range(1, 1000) if left_out(2 * rho * w, output) <= _PART * tolerance)
    offsets = np.arange(-reach, reach + 1)
    least = _least(2 * rho, offsets, output)
    gap = 2 * rho * np.maximum(0, np.abs(offsets) - 1)
    near = np.exp(-0.25 * gap**2)
    order = _order(output, tolerance)
    table = translation(2 * rho * offsets, order, rho, output)
    of_total = translation(2 * rho * offsets, order, rho, "sum") if output == "laplace" else table
    error = truncation(order, rho, output) * near
    error += rounding(np.maximum(np.abs(table), np.abs(of_total)), rho, output)
    beyond = left_out(2 * rho * reach, output)
    return Plan(width, width / 2, h, tolerance, order, reach, table, of_total, error, least, beyond)


def rounded(width: float) -> float:
    """A width of boxes with 10 significant bits, so that their centres are exact."""
    mantissa, exponent = math.frexp(width)
    return math.ldexp(math.floor(mantissa * 1024), exponent - 10)


@functools.cache
def _order(output: Output, tolerance: float) -> int:
    """Fewest powers for which boxes of equal mass, and up to the contrast, are within the tolerance.

    For "cdf" those to the right of a query, of which it hears least.
    """
    offsets = np.arange(100)
    least = _least(_WIDTH, -offsets, output).sum()
    near = np.exp(-0.25 * (_WIDTH * np.maximum(0, offsets - 1)) ** 2).sum()
    allowed = tolerance / _CONTRAST * least / near
    return next(p for p in range(2, 100) if truncation(p, _WIDTH / 2, output) <= allowed)


def _least(width: float, offsets: np.ndarray, output: Output) -> np.ndarray:
    """Return the least that a pair adds, of boxes so many ``width`` bandwidths apart."""
    if output == "cdf":
        return np.array([0.5 * math.erfc(-width * (o - 1) / math.sqrt(2)) for o in offsets])
    least: np.ndarray = np.exp(-0.5 * (width * (np.abs(offsets) + 1)) ** 2)
    return least


def left_out(distance: float, output: Output = "sum") -> float:
    """Return the most that a unit of mass at this distance or further, in bandwidths, adds to any of the sums.

    For "cdf" the most by which Phi there differs from 0 or 1.
    """
    if output == "cdf":
        return 0.5 * math.erfc(distance / math.sqrt(2))
    return (1.5 + 0.5 * distance**2) * math.exp(-0.5 * distance**2)


def truncation(order: int, rho: float, output: Output) -> float:
    """Bound of both remainders for neighbouring boxes: a unit of mass, the moments in bandwidths."""

    def root(n: int) -> float:  # of n!, for the derivative that the output takes
        if output == "cdf":
            return math.exp(0.5 * math.lgamma(n)) / math.sqrt(2 * math.pi)
        if output == "laplace":
            return math.exp(0.5 * math.lgamma(n + 1)) + 0.5 * math.exp(0.5 * math.lgamma(n + 3))
        return math.exp(0.5 * math.lgamma(n + 1))

    def term(power: int, n: int, *factorials: int) -> float:
        return rho**power * root(n) / math.prod(map(math.factorial, factorials))

    bound = term(order, order, order) + sum(term(order + k, order + k, order, k) for k in range(order))
    if output == "moments":
        slope = term(order, order + 1, order)
        slope += sum(term(order - 1 + k, order + k, order - 1, k) for k in range(order))
        bound = max(bound, slope)
    return _CRAMER * bound


def translation(distances: np.ndarray, order: int, rho: float, output: Output) -> np.ndarray:
    """Return T[o, l, k] of boxes whose centres are so many bandwidths apart."""
    derivatives = _hermite(distances, 2 * order + 1)
    if output == "laplace":
        derivatives[:-2] -= 0.5 * derivatives[2:]
    elif output == "cdf":
        derivatives[1:] = -derivatives[:-1] / math.sqrt(2 * math.pi)
        derivatives[0] = [0.5 * math.erfc(-u / math.sqrt(2)) for u in distances]
    powers = np.arange(order)
    scaled = rho**powers / np.array([math.factorial(k) for k in powers], float)
    table: np.ndarray = derivatives[powers[:, None] + powers].transpose(2, 0, 1)
    return np.ascontiguousarray(table * ((-1.0) ** powers * scaled)[:, None] * scaled)


def rounding(table: np.ndarray, rho: float, output: Output) -> np.ndarray:
    """Bound of what rounding adds at each offset of a table T, for a unit of mass."""
    bound: np.ndarray = _ROUNDINGS * np.finfo(np.float64).eps * _sizes(table, rho, output)
    return bound


def _hermite(u: np.ndarray, count: int) -> np.ndarray:
    """He_n(u) phi(u) for n < count, shape (count, len(u))."""
    out = np.empty((count, len(u)))
    out[0] = np.exp(-0.5 * u * u)
    out[1] = u * out[0]
    for n in range(2, count):
        out[n] = u * out[n - 1] - (n - 1) * out[n - 2]
    return out


def _sizes(translation: np.ndarray, rho: float, output: Output) -> np.ndarray:
    """Sum of |T| of each offset: what rounding is relative to; for moments, of the derivative if that is more."""
    rows = np.abs(translation).sum(axis=2)
    size: np.ndarray = rows.sum(axis=1)
    if output == "moments":
        size = np.maximum(size, rows @ np.arange(rows.shape[1]) / rho)
    return size


def few_boxes(points: int) -> int:
    """Boxes between the first point and the last up to which a table of all of them is kept."""
    return max(FEW_BOXES, points // POINTS_PER_BOX)
