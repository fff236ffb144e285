"""The kernels beside the Gaussian: their names, and what a radial kernel integrates to in any dimension.

With ``t`` the distance in bandwidths: tophat 1, epanechnikov 1 - t^2, linear 1 - t, cosine cos(pi t / 2), all for
t < 1 and 0 beyond; exponential exp(-t) everywhere. These are scikit-learn's.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

Kernel = Literal["tophat", "epanechnikov", "exponential", "linear", "cosine"]

KERNELS: tuple[Kernel, ...] = get_args(Kernel)

BOUNDED: tuple[Kernel, ...] = ("tophat", "epanechnikov", "linear", "cosine")
"""Those that are 0 from a bandwidth on."""


def _cosine_series() -> tuple[float, ...]:
    """Coefficients g_k, lowest first, of cos(pi t / 2) / (1 - t^2) in powers of t^2.

    They are what partial sums of the cosine's own series leave of its value 0 at t = 1: g_k = -sum_{i > k} a_i. Eleven
    of them are accurate to 1e-19 of the value for t <= 1.
    """
    terms = [(-1) ** i * (math.pi / 2) ** (2 * i) / math.factorial(2 * i) for i in range(20)]
    return tuple(-math.fsum(terms[k + 1 :]) for k in range(11))


COSINE_SERIES = _cosine_series()
"""cos(pi t / 2) = (1 - t^2) sum_k g_k t^(2 k): near its zero at t = 1 no digit cancels."""


def log_constant(kernel: Kernel, d: int) -> float:
    r"""Logarithm of the constant that makes a kernel of bandwidth 1 integrate to 1 in ``d`` dimensions.

    The integral of a radial kernel K over space is :math:`d V_d \int_0^\infty K(t) t^{d-1} dt`, with
    :math:`V_d = \pi^{d/2} / \Gamma(d/2 + 1)` the volume of the unit ball. The cosine's integral,

    .. math:: \int_0^1 \cos(\pi t / 2) t^{d-1} dt = \sum_k \frac{2 g_k}{(d + 2k)(d + 2k + 2)},

    has terms that fall by a factor of four or more, so nothing cancels at any d, as it would in a recurrence by parts.
    """
    log_volume = 0.5 * d * math.log(math.pi) - math.lgamma(0.5 * d + 1)
    return -(log_volume + _log_mean(kernel, d))


def _log_mean(kernel: Kernel, d: int) -> float:
    """Logarithm of a kernel's integral in units of the unit ball's volume."""
    if kernel == "tophat":
        return 0.0
    if kernel == "epanechnikov":
        return math.log(2 / (d + 2))
    if kernel == "exponential":
        return math.lgamma(d + 1)
    if kernel == "linear":
        return -math.log(d + 1)
    return math.log(d * math.fsum(2 * g / ((d + 2 * k) * (d + 2 * k + 2)) for k, g in enumerate(COSINE_SERIES)))


def edge(kernel: Kernel, d: int, single: bool) -> tuple[float, float]:
    """The squared distances in bandwidths between which a pair is taken again: in double, and by a division.

    It must not fall on the wrong side of 1, where a tophat jumps and a logarithm ends: that is what rounding can do.
    Summed in float32 the kernels that fall to 0 need more on the inside: near the edge rounding is not small beside
    them, but 1/32 from it, where each is at least 1/64, it is less than 1e-5. The longer a sum, the more it rounds.
    """
    rounding = (d + 4) * (2.0**-22 if single else 2.0**-50)
    inside = max(rounding, max(4.0, math.sqrt(d)) / 128) if single and kernel != "tophat" else rounding
    return 1 - inside, 1 + rounding
