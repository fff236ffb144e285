"""Numba kernels over a tile of pairs for products of columns' sums: each takes one column of a domain.

Exponents are in bits. Of a tile of queries by data there are the exponents, the sizes beside them, and what a column's
sum has as a derivative: see :mod:`cukde.density.domains.columns`, whose formulas these are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cukde.core.cpu.jit import njit
from cukde.density.pairs.cpu.tiles import _JIT, _LANES, _exp2, _largest

SUM, MOMENTS, LAPLACE = 0, 1, 2
"""What is summed: nothing beside the terms, places of images about the query, or their squares."""


@njit(**_JIT)
def images(
    u: Any, v: Any, Z: Any, period: Any, scale: Any, output: Any, exponents: Any, sizes: Any, derivative: Any
) -> None:
    """Multiply by a column's images: ``Z`` (cells, n) between walls; of a period (cells, 1), how far they are moved."""
    n = v.size
    distance, size, moment = np.empty(n), np.empty(n), np.empty(n)
    periodic = period > 0
    for i in range(u.size):
        for j in range(n):
            distance[j] = u[i] - v[j]
        if periodic:
            for j in range(n):
                distance[j] -= period * np.rint(distance[j] / period)
        for j in range(n):
            exponents[i, j] -= scale * distance[j] * distance[j]
            size[j] = 1.0
            moment[j] = -distance[j] if output == MOMENTS else distance[j] * distance[j]
        for c in range(Z.shape[0]):
            if periodic:
                step = Z[c, 0]
                for j in range(n):
                    offset = step - distance[j]
                    term = _exp2(min(-scale * step * (offset - distance[j]), 0.0))
                    size[j] += term
                    moment[j] += term * (offset if output == MOMENTS else offset * offset)
            else:
                for j in range(n):
                    offset = Z[c, j] - u[i]
                    term = _exp2(min(-scale * (Z[c, j] - v[j]) * (offset - distance[j]), 0.0))
                    size[j] += term
                    moment[j] += term * (offset if output == MOMENTS else offset * offset)
        if output != SUM:
            for j in range(n):
                derivative[i, j] = moment[j] / size[j]
        if Z.shape[0]:
            for j in range(n):
                sizes[i, j] *= size[j]


@njit(**_JIT)
def waves(of_u: Any, slope_u: Any, of_v: Any, output: Any, sizes: Any, derivative: Any) -> None:
    """Multiply by a column's waves: of queries (m, waves), and their derivatives', times those of data (waves, n)."""
    n = of_v.shape[1]
    size, slope = np.empty(n), np.empty(n)
    for i in range(of_u.shape[0]):
        size[:] = 1.0
        slope[:] = 0.0
        for k in range(of_u.shape[1]):
            a, b = of_u[i, k], slope_u[i, k]
            for j in range(n):
                size[j] += a * of_v[k, j]
            if output != SUM:
                for j in range(n):
                    slope[j] += b * of_v[k, j]
        for j in range(n):
            sizes[i, j] *= size[j]
        if output != SUM:
            for j in range(n):
                derivative[i, j] = slope[j] / size[j]


@njit(**_JIT)
def add(exponents: Any, sizes: Any, derivatives: Any, output: Any, shift: Any, total: Any, moments: Any) -> None:
    """Add the terms of each query to its total and moments, about a ``shift`` of exponents that is updated."""
    n = exponents.shape[1]
    lanes, terms = np.empty(_LANES), np.empty(n)
    for i in range(exponents.shape[0]):
        settled = min(shift[i], -_largest(exponents[i], lanes))
        rescale = np.exp2(settled - shift[i])
        shift[i] = settled
        row_sum = 0.0
        for j in range(n):
            term = _exp2(exponents[i, j] + settled) * sizes[i, j]
            terms[j] = term
            row_sum += term
        total[i] = total[i] * rescale + row_sum
        if output == LAPLACE:
            for k in range(derivatives.shape[0]):
                for j in range(n):
                    sizes[i, j] = derivatives[k, i, j] + (0.0 if k == 0 else sizes[i, j])
            corrected = 0.0
            for j in range(n):
                corrected += terms[j] * (1.0 - sizes[i, j])
            moments[i, 0] = moments[i, 0] * rescale + corrected
        if output == MOMENTS:
            for k in range(derivatives.shape[0]):
                first = 0.0
                for j in range(n):
                    first += terms[j] * derivatives[k, i, j]
                moments[i, k] = moments[i, k] * rescale + first
