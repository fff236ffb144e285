r"""The fast Gauss transform of two or three columns: cells, separable expansions, and a bound on each query's error.

Space is cut into cells, cubes of width 2 rho h. With moments

    M_klm(s) = sum_{j in s} v_j alpha_j^k beta_j^l gamma_j^m      of a cell s of data, in coordinates from -1 to 1,

the sum at a query of cell t is a polynomial of its coordinates. Its coefficients are sums of T[t_1 - s_1] T[t_2 - s_2]
T[t_3 - s_3] M(s), one factor for each coordinate, over the cells at most W away in each. Done one coordinate after the
other that takes d (2 W + 1) P^(d+1) multiply-adds a cell, beside P^d a point and a query.

On a line, with D = 2 rho (t - s), Taylor's series of phi(u) = exp(-u^2/2) has the table

    (-1)^l He_{k+l}(D) phi(D) rho^(k+l) / (k! l!).

It is economised: powers of P and more are replaced by their parts of Chebyshev degree below P, in both variables. What
is left out are the terms a_kl T_k(alpha) T_l(beta) with k or l from P on. By Rodrigues' formula and Cramer's inequality
(see :mod:`cukde.density.one_dimension.plan`)

    |a_kl| <= 4 C (rho/2)^(k+l) sqrt((k+l)!) / (k! l!) exp(-g^2/4),    2 for 4 where k or l is 0, and 1 for both,

with g = 2 rho max(0, |o| - 1), the gap of boxes at the offset o. The derivative by beta of T_l is at most l^2. Taylor's
series alone takes 16 powers where this takes 11.

Error. Let e(o) be the bound of that and of rounding on a line, and a(o) = exp(-g^2/2) the most that phi can be there.
The product of d kernels is missed, for each unit of mass, by at most prod (a + e) - prod a. Coordinate by coordinate
E' = E (a + e) + A e and A' = A a. A mass outside of the window adds at most exp(-R^2/2), R = 2 rho W.

The first moments about the query are h^2 times the gradient: h^2 / (rho h) times the derivatives of the polynomial. For
them e(o) is the larger bound of the value and of the derivative, in bandwidths, a(o) the most that max(1, |u|) phi(u)
can be, and what lies outside adds at most R exp(-R^2/2). The moments, in bandwidths, are then within the same tolerance
of the sum.

A query is *accepted* where the bound E of its cell is at most rtol times the least that its sum can be, S - E for the
sum S of its polynomial. Expansions are made about cells where the mean of phi over both cells says that S will be large
enough. What is not accepted is summed point by point.

References
----------
- Greengard, L. and Strain, J. (1991). The fast Gauss transform. *SIAM J. Sci. Stat. Comput.* 12.
- Mason, J. C. and Handscomb, D. C. (2002). *Chebyshev Polynomials*. Chapman and Hall.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from cukde.density.one_dimension import plan as one_dimension_plan
from cukde.density.sums import Output

COLUMNS = 2, 3
"""Of data that the transform is for."""

MOST_CELLS = one_dimension_plan.MOST_BOXES
"""Numbers of cells below this have exact centres."""

LEAST_RTOL = 5e-13
"""Below this tolerance rounding decides, and expansions are not for it."""

SERVED: tuple[Output, ...] = ("sum", "moments")
"""What the transform sums."""

TOLERANCE = {"float32": 1e-5, "tf32": 1e-5, "float64": LEAST_RTOL}
"""Of the sums by default, by precision; all arithmetic is in double precision."""

_LEAST_WIDTH = 1.1  # of cells in bandwidths: fewer powers make more cells than they are worth
_CONTRAST = 30.0  # orders are for cells whose neighbours hold up to so many times their own mass
_PART = 1e-6  # windows are for data of which one holds no less than this part
_CRAMER = 1.0865
_MORE = 24  # powers of Taylor's series and of the bound beyond P; what follows is below 1e-20


class Plan(NamedTuple):
    """How to sum kernels of one bandwidth to a tolerance; tables by o + reach for the offset o of two cells."""

    width: float  # of a cell, in the data's units
    bandwidth: float
    rtol: float
    output: Output
    columns: int  # d
    order: int  # P, a multiple of 4
    reach: int  # W
    translation: np.ndarray  # (2 W + 1, P, P): T[o, l, k]
    error: np.ndarray  # (2 W + 1,): on a line, for a unit of mass
    most: np.ndarray  # (2 W + 1,)
    mean: np.ndarray  # (2 W + 1,): of phi over both cells
    beyond: float  # for a unit of mass further away

    @property
    def slope(self) -> float:
        """Turns derivatives of the polynomials into moments about the query, in the data's units."""
        return self.bandwidth**2 / (0.5 * self.width)


def rtol_of(precision: str, rtol: float | None) -> float:
    """Return the tolerance of a pass, ``rtol`` or the default of the precision."""
    return TOLERANCE[precision] if rtol is None else rtol


@functools.lru_cache(64)
def plan(h: float, rtol: float, output: Output = "sum", columns: int = 2) -> Plan:
    """Choose cells, order and window for a bandwidth and one of the outputs ``SERVED``."""
    order, widest = _cells(rtol, output, columns)
    width = one_dimension_plan.rounded(widest * h)
    rho = width / (2 * h)
    reach = next(w for w in range(1, 1000) if _beyond(2 * rho * w, output) <= _PART * rtol)
    gap, most = _most(2 * rho, reach, output)
    translation = _economised(2 * rho * np.arange(-reach, reach + 1), order, rho)
    error = truncation(order, rho, output) * np.exp(-0.25 * gap**2)
    error += one_dimension_plan.rounding(translation, rho, output)
    mean, beyond = _mean(2 * rho, reach), _beyond(2 * rho * reach, output)
    return Plan(width, h, rtol, output, columns, order, reach, translation, error, most, mean, beyond)


@functools.lru_cache(64)
def _cells(rtol: float, output: Output, columns: int) -> tuple[int, float]:
    """Fewest powers for cells of ``_LEAST_WIDTH``, a multiple of 4 as so many are read at once; and their widest cells.

    The bound holds of data spread evenly, and up to the contrast.
    """

    def within(order: int, width: float) -> bool:
        gap, most = _most(width, 30, output)
        error = columns * truncation(order, 0.5 * width, output) * np.exp(-0.25 * gap**2).sum()
        allowed = rtol / _CONTRAST * (math.sqrt(2 * math.pi) / width) ** columns
        return bool(error * most.sum() ** (columns - 1) <= allowed)

    order = next(p for p in range(4, 100, 4) if within(p, _LEAST_WIDTH))
    widths = np.arange(_LEAST_WIDTH, 4, 0.02)
    return order, float(widths[[within(order, float(width)) for width in widths]].max())


def _most(width: float, reach: int, output: Output) -> tuple[np.ndarray, np.ndarray]:
    """Gaps of cells at each offset, and the most that their points add."""
    gap = width * np.maximum(0, np.abs(np.arange(-reach, reach + 1)) - 1)
    most = np.exp(-0.5 * gap**2)
    if output == "moments":
        most = np.maximum(most, np.maximum(1.0, gap) * np.exp(-0.5 * np.maximum(1.0, gap) ** 2))
    return gap, most


def _mean(width: float, reach: int) -> np.ndarray:
    """Mean of phi over two cells, whose differences have a triangular density."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    apart = width * (np.arange(-reach, reach + 1)[:, None] + np.concatenate((nodes - 1, nodes + 1)) / 2)
    triangle = np.concatenate((1 + nodes, 1 - nodes)) / 4 * np.concatenate((weights, weights))
    mean: np.ndarray = np.exp(-0.5 * apart**2) @ triangle
    return mean


def _beyond(distance: float, output: Output) -> float:
    """Return the most that a unit of mass at a distance of one bandwidth or more, or further away, adds."""
    return (max(1.0, distance) if output == "moments" else 1.0) * math.exp(-0.5 * distance**2)


@functools.lru_cache(1024)
def truncation(order: int, rho: float, output: Output) -> float:
    """Bound of what an economised series misses of neighbouring boxes: a unit of mass, the moments in bandwidths."""
    count = order + _MORE
    powers = np.arange(count)
    factorials = np.array([math.lgamma(n + 1) for n in range(2 * count)])
    both = powers[:, None] + powers  # of the query's variable, and of the data's
    logs = both * math.log(0.5 * rho) + 0.5 * factorials[both] - factorials[powers][:, None] - factorials[powers]
    twice = np.where(powers == 0, 1.0, 2.0)
    terms = np.exp(logs) * twice[:, None] * twice
    terms[:order, :order] = 0.0
    bound = terms.sum()
    if output == "moments":
        bound = max(bound, (powers**2 @ terms).sum() / rho)
    return float(_CRAMER * bound)


def _economised(distances: np.ndarray, order: int, rho: float) -> np.ndarray:
    """Return T[o, l, k] of boxes whose centres are so many bandwidths apart."""
    table = one_dimension_plan.translation(distances, order + _MORE, rho, "sum")
    powers = _economy(order)
    return np.ascontiguousarray(powers @ table @ powers.T)


@functools.cache
def _economy(order: int) -> np.ndarray:
    """Coefficients of the powers below P of what Chebyshev polynomials below P give of each power: (P, P + more)."""
    count = order + _MORE
    chebyshev = [[1], [0, 1]]
    for n in range(2, order):
        doubled = [0, *(2 * c for c in chebyshev[n - 1])]
        before = chebyshev[n - 2] + [0, 0]
        chebyshev.append([a - b for a, b in zip(doubled, before, strict=True)])
    out = np.zeros((order, count))
    for power in range(count):
        exact = [Fraction(0)] * order
        for n in range(power % 2, min(order, power + 1), 2):
            part = Fraction(math.comb(power, (power - n) // 2) * (2 if n else 1), 2**power)
            for k, c in enumerate(chebyshev[n]):
                exact[k] += part * c
        out[:, power] = [float(c) for c in exact]
    return out
