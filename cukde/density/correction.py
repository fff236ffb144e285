r"""The factor that makes a density of fourth order of a kernel estimate, and never a negative one.

With the estimate p and the Laplace-corrected one L = p - (h^2/2) Laplacian(p), the relative correction is

.. math::

    t = \frac Lp - 1 = -\frac{h^2}{2} \frac{\Delta p}{p}
    = \frac d2 - \frac{\sum_j w_j \phi_j q_j}{\sum_j w_j \phi_j}, \qquad q_j = \frac{|y - x_j|^2}{2 h^2},

and the factor is g(t) = exp(asinh(t)) = t + sqrt(1 + t^2). It is 1 + t + t^2 / 2 + O(t^4), as exp(t) is, which Jones
and Foster take. But it grows as 2t, and falls as -1/(2t), where exp(t) would make a point by itself exp(d/2) times as
high, and halve the variance of its kernel: tails keep the width of the kernel.
"""

from __future__ import annotations

import math
from typing import Any

from cukde.density.sums import Output, PartialSums
from cukde.density.whitening import Whitening

OF_SCORE: tuple[Output, ...] = ("moments", "laplace", "laplace_moments")
"""Outputs whose sums :func:`score` takes, in its order."""


def relative(sums: PartialSums) -> Any:
    """Relative corrections t, (m,), of the sums of output "laplace": at most d/2, NaN where nothing is summed."""
    return sums.moments[..., 0] / sums.total - 1


def log_factor(t: Any, xp: Any) -> Any:
    """Logarithms of the factors."""
    return xp.arcsinh(t)


def excess(t: Any, xp: Any) -> Any:
    """Factors less 1 + t, that is sqrt(1 + t^2) - 1: of small t no digit cancels."""
    return t * t / (1 + xp.hypot(1.0, t))


def largest_factor(d: int) -> float:
    """The largest factor in ``d`` dimensions, at a point that has no other near it."""
    return 0.5 * d + math.hypot(1.0, 0.5 * d)


def score(plain: PartialSums, corrected: PartialSums, curved: PartialSums, whitening: Whitening, xp: Any) -> Any:
    r"""Gradient of the log density in the data's own coordinates, (m, d) float64.

    .. math:: \nabla \log(p g) = s + \frac{\nabla t}{\sqrt{1 + t^2}}, \qquad
        \nabla t = \frac{1}{h^2} \frac{\sum_j w_j \phi_j (2 + d/2 - q_j)(x_j - y)}{\sum_j w_j \phi_j} - (1 + t) s

    The sums are those of outputs "moments", for the score s, "laplace", and "laplace_moments".
    """
    t, squares = relative(corrected), whitening.h**2
    s = plain.moments / (plain.total * squares)[:, None]
    slope = curved.moments / (curved.total * squares)[:, None] - (1 + t)[:, None] * s
    return whitening.score(s + slope / xp.hypot(1.0, t)[:, None], xp)
