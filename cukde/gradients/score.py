r"""Gradients of the score s_i = H^-1 M_i, where M_i is the mean of x_j - y_i by the shares r_ij of the kernels at y_i.

With incoming gradients g_i, a_i = H^-1 g_i, C_i the covariance of the x_j by these shares, and b_ij = a_i (x_j - y_i) -
a_i M_i, by which a datum changes the product:

    with respect to y_i:   H^-1 C_i a_i - a_i
    with respect to x_j:   sum_i r_ij (a_i + b_ij H^-1 (y_i - x_j))
    with respect to w_j:   sum_i r_ij b_ij / w_j

These are sums of values: second moments of the data at the queries, and products of a_i and y_i at the data, about the
centre of the data. All are in whitened coordinates, where H is a number, and in float64, since terms cancel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cukde.density.arguments import prepare
from cukde.gradients import bandwidth, sums as gradients_sums
from cukde.gradients.operation import Arrays, Operation, Struct

MOST_COLUMNS = 16
"""Of data: the sums have d^2 + 3 d + 1 columns."""


class Score(Operation):
    """:func:`cukde.score`."""

    operands = ("X", "Y", "h", "weights")

    def _prepare(self) -> None:
        X, Y, h, weights = (self.arrays.get(name) for name in self.operands)
        self._problem = prepare(X, Y, bandwidth.given(h), weights, **self.options)[0]
        _refuse_columns(self._problem.X.shape[1])

    @classmethod
    def struct(cls, arrays: Arrays, options: Mapping[str, Any]) -> Struct:
        found = gradients_sums.checked(arrays, bandwidth.given(arrays["h"]), options)
        _refuse_columns(found.x.shape[1])
        return Struct(found.query_shape, found.dtype)

    def _result(self, wanted: frozenset[str]) -> Any:
        return self._problem.score()

    def _gradients(self, g: Any, wanted: frozenset[str]) -> dict[str, Any]:
        xp, problem = self.xp, gradients_sums.in_float64(self._problem)
        whitening = problem.whitening
        n, d = problem.X.shape
        if not g.size:
            return {name: xp.zeros(np.shape(self.arrays[name])) for name in wanted}
        X, Y = problem.whitened()
        origin = whitening.image(problem.options.centre, xp)
        x = X - origin
        y = x if Y is None else Y - origin
        h2 = whitening.h**2
        g = g.reshape(len(y), d).astype(xp.float64)
        a = (g if whitening.plain else whitening.apply(g, xp.zeros(d), xp)) / h2

        left, right = _pairs(d)
        at_queries = problem.sums("values", xp.concatenate([xp.ones((n, 1)), x, x[:, left] * x[:, right]], axis=1))
        sums = at_queries.moments
        mean = sums[:, 1 : 1 + d] / sums[:, :1]
        second = xp.empty((len(y), d, d))
        second[:, left, right] = second[:, right, left] = sums[:, 1 + d :] / sums[:, :1]
        product = (a * mean).sum(axis=1)
        to_y = ((second @ a[:, :, None])[:, :, 0] - mean * product[:, None]) / h2 - a

        found = {"Y": whitening.score(to_y, xp)}
        if wanted == {"Y"}:
            return found
        products = (a[:, :, None] * y[:, None, :]).reshape(len(y), d * d)
        values = xp.concatenate([a, products, product[:, None] * y, product[:, None]], axis=1)
        log_total = at_queries.reference + xp.log(sums[:, 0])
        back, shift = gradients_sums.weighted(gradients_sums.exchanged(problem), -log_total)
        at_data = back.sums("values", values)
        of_values = at_data.moments * xp.exp(at_data.reference + shift)[:, None]
        A, B, D, E = xp.split(of_values, [d, d + d * d, 2 * d + d * d], axis=1)
        b = (A * x).sum(axis=1) - E[:, 0]  # the sum of all r_ij b_ij / w_j, as b_ij = a_i x_j - product_i
        to_x = A + ((x[:, None, :] @ B.reshape(n, d, d))[:, 0] - D - b[:, None] * x) / h2
        log_w = problem.options.log_weights
        found["X"] = whitening.score(to_x if log_w is None else to_x * xp.exp(log_w)[:, None], xp)
        if "weights" in wanted:
            found["weights"] = b / self.arrays["weights"].astype(xp.float64).sum()
        if "h" in wanted:
            score = whitening.score((mean - y) / h2, xp)
            points = problem.X if Y is None else problem.Y
            parts = [(found["X"], problem.X), (found["Y"], points)]
            found["h"] = xp.asarray(bandwidth.gradient(problem, score.T @ g, parts))
        if self.itself:
            found["X"] = found["X"] + found["Y"]
        return found


def _pairs(d: int) -> tuple[list[int], list[int]]:
    """Columns of products, each pair once."""
    both = [(i, j) for i in range(d) for j in range(i, d)]
    return [i for i, _ in both], [j for _, j in both]


def _refuse_columns(d: int) -> None:
    if d > MOST_COLUMNS:
        raise ValueError(
            f"X must have at most {MOST_COLUMNS} columns for gradients of the score, whose sums have d^2 columns; got "
            f"{d}: write the score as the gradient of log kde with respect to Y"
        )
