"""The kernel of a domain at pairs of points, where these are few: own terms, and rows far from all others.

Which images or waves a column has, and what the moments of a term are, stands in :mod:`cukde.density.domains.columns`.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from cukde.density.domains.columns import Column, columns_of
from cukde.density.domains.domain import Domain
from cukde.density.sums import Output

_UNLIKE = 60.0  # images whose exponents are larger by this are left out: 1e-26 of the nearest


def terms(u: Any, v: Any, h: np.ndarray, domain: Domain, output: Output, xp: Any) -> tuple[Any, Any | None]:
    """Logarithms of the kernel of queries u and points v, (..., d) from the origin, and factors of moments (..., k).

    ``h`` are the columns' bandwidths, (d,). The factors are those of the output "moments" or "laplace", or None.
    """
    columns = enumerate(columns_of(h, domain, _UNLIKE))
    of_columns = [_of_column(column, u[..., k], v[..., k], xp) for k, column in columns]
    logs, firsts, seconds = zip(*of_columns, strict=True)
    log: Any = sum(logs)
    if output == "moments":
        return log, xp.stack(firsts, axis=-1)
    return log, (1 - sum(seconds))[..., None] if output == "laplace" else None


def _of_column(column: Column, u: Any, v: Any, xp: Any) -> tuple[Any, Any, Any]:
    """Logarithm of theta, h^2 times its first derivative over it, and h^2 / 2 times its second."""
    h = column.h
    if column.waves:
        total, first, second = 1.0, 0.0, 0.0
        around = column.period if column.periodic else 2 * column.width
        for wave in range(1, column.waves + 1):
            unit = min(2 * np.pi * h / around, 1e3) * wave
            decay, frequency = 2 * np.exp(-0.5 * unit**2), 2 * np.pi * wave / around
            if column.periodic:
                value, slope = xp.cos(frequency * (u - v)), -xp.sin(frequency * (u - v))
            else:
                value, slope = (f(frequency * u) * xp.cos(frequency * v) for f in (xp.cos, lambda a: -xp.sin(a)))
            total = total + decay * value
            first = first + decay * unit * slope
            second = second - 0.5 * decay * unit**2 * value
        return xp.log(total) + column.log_constant, h * first / total, second / total
    steps = [(column.image(v, cell) - u) / h for cell in (0, *column.cells)]
    least = functools.reduce(xp.minimum, [step * step for step in steps])
    shares = [xp.exp(-0.5 * (step * step - least)) for step in steps]
    total = sum(shares)
    first = sum(share * step for share, step in zip(shares, steps, strict=True))
    second = sum(0.5 * share * (step * step - 1) for share, step in zip(shares, steps, strict=True))
    return xp.log(total) - 0.5 * least, h * first / total, second / total
