r"""The fast Gauss transform in two dimensions: cells, separable expansions, and a bound on the error of each cell.

The plane is cut into square cells of width 2 rho h. In each coordinate the kernel phi(u) = exp(-u^2/2) has the
expansion of :mod:`cukde.density.one_dimension.plan`, and the kernel of the plane is their product. With the moments

    M_kl(s) = sum_{j in s} v_j alpha_j^k beta_j^l        of a cell s of data, alpha and beta the coordinates of a point,

the sum at a query (alpha, beta) of cell t is sum_{kl} B_kl alpha^k beta^l, where

    B(t) = sum_s T[t_1 - s_1] M(s) T[t_2 - s_2]^T

runs over the cells at most W away in each coordinate. Done one coordinate after the other that takes 2 (2 W + 1) P^3
multiply-adds a cell, beside P^2 a point and a query.

Error. Let e(o) be the bound of both remainders and of rounding for boxes at the offset o on a line, and a(o) =
exp(-g^2/2) the most that phi can be there. The product of two kernels is then missed, for each unit of mass, by at most

    e(o_1) a(o_2) + (a(o_1) + e(o_1)) e(o_2).

A mass outside of the window adds at most exp(-R^2/2), R = 2 rho W.

The first moments about the query are h^2 times the gradient: h^2 / (rho h) times the derivatives of the polynomial by
alpha and beta. For them e(o) is the larger bound of the value and of the derivative, in bandwidths, a(o) the most that
max(1, |u|) phi(u) can be, and what lies outside adds at most R exp(-R^2/2). The moments, in bandwidths, are then within
the same tolerance of the sum.

A cell of queries is *accepted* where the masses
around it show that all this is at most rtol times sum_s m_s least(o_1) least(o_2), the least that the sum can be: then
the relative error is at most rtol at each of its queries. What is not accepted is summed point by point.

References
----------
- Greengard, L. and Strain, J. (1991). The fast Gauss transform. *SIAM J. Sci. Stat. Comput.* 12.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from cukde.density.one_dimension import plan as one_dimension_plan
from cukde.density.sums import Output

MOST_CELLS = one_dimension_plan.MOST_BOXES
"""Numbers of cells below this have exact centres."""

LEAST_RTOL = 5e-13
"""Below this tolerance rounding decides, and expansions are not for it."""

SERVED: tuple[Output, ...] = ("sum", "moments")
"""What the transform sums."""

TOLERANCE = {"float32": 1e-5, "tf32": 1e-5, "float64": LEAST_RTOL}
"""Of the sums by default, by precision; all arithmetic is in double precision."""

_WIDTH = 1.0  # of a cell in bandwidths: 0.5 takes 4 times as many cells of half the work, and 40 % of the powers
_CONTRAST = 30.0  # orders are for cells whose neighbours hold up to so many times their own mass
_PART = 1e-6  # windows are for data of which one holds no less than this part


class Plan(NamedTuple):
    """How to sum kernels of one bandwidth to a tolerance; tables by o + reach for the offset o of two cells."""

    width: float  # of a cell, in the data's units
    bandwidth: float
    rtol: float
    output: Output
    order: int  # P, a multiple of 4
    reach: int  # W
    translation: np.ndarray  # (2 W + 1, P, P): T[o, l, k]
    error: np.ndarray  # (2 W + 1,): on a line, for a unit of mass
    most: np.ndarray  # (2 W + 1,)
    least: np.ndarray  # (2 W + 1,)
    beyond: float  # for a unit of mass further away

    @property
    def slope(self) -> float:
        """Turns derivatives of the polynomials into moments about the query, in the data's units."""
        return self.bandwidth**2 / (0.5 * self.width)


def rtol_of(precision: str, rtol: float | None) -> float:
    """Return the tolerance of a pass, ``rtol`` or the default of the precision."""
    return TOLERANCE[precision] if rtol is None else rtol


def width_of(h: float) -> float:
    """Width of a cell: about ``_WIDTH`` bandwidths, with 10 significant bits, so that centres are exact."""
    mantissa, exponent = math.frexp(_WIDTH * h)
    return math.ldexp(math.floor(mantissa * 1024), exponent - 10)


@functools.lru_cache(64)
def plan(h: float, rtol: float, output: Output = "sum") -> Plan:
    """Choose cells, order and window for a bandwidth and one of the outputs ``SERVED``."""
    width = width_of(h)
    rho = width / (2 * h)
    reach = next(w for w in range(1, 1000) if _beyond(2 * rho * w, output) <= _PART * rtol)
    offsets = np.arange(-reach, reach + 1)
    least = np.exp(-0.5 * (2 * rho * (np.abs(offsets) + 1)) ** 2)
    gap = 2 * rho * np.maximum(0, np.abs(offsets) - 1)
    most = np.exp(-0.5 * gap**2)
    if output == "moments":
        most = np.maximum(most, np.maximum(1.0, gap) * np.exp(-0.5 * np.maximum(1.0, gap) ** 2))
    near = np.exp(-0.25 * gap**2)
    allowed = rtol / _CONTRAST * least.sum() ** 2 / (2 * most.sum() * near.sum())
    # A multiple of 4: so many numbers are read at once.
    order = next(p for p in range(4, 100, 4) if one_dimension_plan.truncation(p, rho, output) <= allowed)
    translation = one_dimension_plan.translation(2 * rho * offsets, order, rho, output)
    error = one_dimension_plan.truncation(order, rho, output) * near
    error += one_dimension_plan.rounding(translation, rho, output)
    beyond = _beyond(2 * rho * reach, output)
    return Plan(width, h, rtol, output, order, reach, translation, error, most, least, beyond)


def _beyond(distance: float, output: Output) -> float:
    """Return the most that a unit of mass at a distance of one bandwidth or more, or further away, adds."""
    return (max(1.0, distance) if output == "moments" else 1.0) * math.exp(-0.5 * distance**2)
