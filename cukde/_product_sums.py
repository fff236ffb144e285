"""Sums of the kernel of a domain as a product of columns: a few exponentials a column, however many images there are.

By :mod:`cukde._product_columns`, in float64 on arrays of any backend, tile by tile. It is for backends that have no
kernel for it, and costs some 8 passes over a tile for each image of a column.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cukde._domain import Domain
from cukde._partial import Output, PartialSums, joined, merge
from cukde._product_columns import Column, columns_of

# Pairs of a tile keep all multiprocessors of a GPU busy; there are three tiles, and one for each column of moments.
_PAIRS, _DATA = 2**21, 2**11

# A term of a column's factor, some 8 passes over memory, takes as long as so many images of a pair by the engines:
# 40 ps at 4 TB/s, beside the 0.3 ps of a pair on an H200. Predicted, not measured.
IMAGES_OF_TERM = 150.0


class _Factor(NamedTuple):
    """A column's theta of all pairs of a tile: exp(exponent) size, and its derivative over itself."""

    exponent: Any
    size: Any
    derivative: Any  # h^2 d/du log theta for moments, (h^2 / 2) theta'' / theta for the Laplace correction


def product_sums(
    X: Any,
    Y: Any,
    deviations: np.ndarray,
    domain: Domain,
    output: Output,
    *,
    log_weights: Any = None,
    unlike: float,
    xp: Any,
) -> PartialSums:
    """Sum the domain's kernel of the data ``X`` (n, d) at the queries ``Y`` (m, d), both taken from its origin.

    ``deviations`` (d,) are bandwidths, ``output`` any but "values", and ``unlike`` the difference of two exponents
    beyond which the smaller term is left out.
    """
    columns = columns_of(deviations, domain, unlike)
    data = min(len(X), _DATA)
    rows = max(1, _PAIRS // data)
    parts = []
    for first in range(0, len(Y), rows):
        total: PartialSums | None = None
        for start in range(0, len(X), data):
            some = slice(start, start + data)
            weights = None if log_weights is None else log_weights[some]
            tile = _tile(Y[first : first + rows], X[some], columns, output, weights, xp)
            total = tile if total is None else merge([total, tile], xp)
        assert total is not None
        parts.append(total)
    return joined(parts, xp)


def _tile(y: Any, x: Any, columns: list[Column], output: Output, log_weights: Any, xp: Any) -> PartialSums:
    exponents = xp.full((len(y), len(x)), sum(column.log_constant for column in columns))
    if log_weights is not None:
        exponents += log_weights
    sizes, factor, moments = xp.ones_like(exponents), xp.ones_like(exponents), []
    for k, column in enumerate(columns):
        theta = _factor(column, y[:, k], x[:, k], output, xp)
        exponents += theta.exponent
        sizes *= theta.size
        if output == "moments":
            moments.append(theta.derivative)
        elif output == "laplace":
            factor -= theta.derivative
    reference = exponents.max(axis=1)
    terms = xp.exp(exponents - reference[:, None]) * sizes
    if output == "moments":
        of_columns = [(terms * moment).sum(axis=1) for moment in moments]
        return PartialSums(reference, terms.sum(axis=1), xp.stack(of_columns, axis=1))
    return PartialSums(reference, (terms * factor).sum(axis=1))


def _factor(column: Column, u: Any, v: Any, output: Output, xp: Any) -> _Factor:
    if column.waves:
        of_u, slope = column.waves_of_queries(u, output, xp)
        of_v = column.waves_of_data(v, xp)
        size = 1 + of_u @ of_v
        return _Factor(0.0, size, None if output == "sum" else (slope @ of_v) / size)
    difference = u[:, None] - v
    if column.periodic:
        difference -= column.period * xp.rint(difference / column.period)
    scale = 0.5 / column.h / column.h
    size, square = xp.ones_like(difference), difference * difference
    exponent = -scale * square
    moment = -difference if output == "moments" else square
    for cell in column.cells:
        # The image less the nearest one, and the image less the query.
        if column.periodic:
            step, place = cell * column.period, cell * column.period - difference
        else:
            z = column.image(v, cell)
            step, place = z - v, z - u[:, None]
        term = xp.exp(-scale * step * (place - difference))
        size += term
        if output != "sum":
            moment = moment + term * (place if output == "moments" else place * place)
    if output == "sum":
        return _Factor(exponent, size, None)
    derivative = moment / size
    return _Factor(exponent, size, derivative if output == "moments" else scale * derivative - 0.5)
