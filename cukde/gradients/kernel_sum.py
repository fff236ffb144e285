"""Gradients of kernel sums S_ik = sum_j phi_ij V_jk, with incoming gradients G_ik.

    with respect to V:     sum_i phi_ij G_ik
    with respect to y_i:   sum_k G_ik sum_j V_jk phi_ij H^-1 (x_j - y_i)
    with respect to x_j:   sum_k V_jk sum_i G_ik phi_ij H^-1 (y_i - x_j)
    with respect to h:     sum_k sum_i G_ik sum_j V_jk phi_ij 2 q_ij / h, q = |y - x|^2 / (2 h^2)

The first is a kernel sum; each of the others takes a pass or two for each column of V.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cukde.density import results
from cukde.density.arguments import prepare
from cukde.gradients import bandwidth, sums as gradients_sums
from cukde.gradients.operation import Arrays, Operation, Struct


class KernelSum(Operation):
    """:func:`cukde.kernel_sum`."""

    operands = ("X", "V", "Y", "h")

    def _prepare(self) -> None:
        X, V, Y, h = (self.arrays.get(name) for name in self.operands)
        self._problem, v = prepare(X, Y, bandwidth.given(h), V=V, **self.options)
        self._flat = v.ndim == 1
        self._values = v.reshape(len(v), -1)

    @classmethod
    def struct(cls, arrays: Arrays, options: Mapping[str, Any]) -> Struct:
        found = gradients_sums.checked(arrays, bandwidth.given(arrays["h"]), options)
        return Struct((*found.query_shape[:1], *arrays["V"].shape[1:]), found.dtype)

    def _result(self, wanted: frozenset[str]) -> Any:
        problem = self._problem
        out = results.values(problem.sums("values", self._values), problem.dtype, self.xp)
        return out[:, 0] if self._flat else out

    def _gradients(self, g: Any, wanted: frozenset[str]) -> dict[str, Any]:
        xp, problem, V = self.xp, self._problem, self._values
        G = xp.ascontiguousarray(g.reshape(len(g), V.shape[1]), dtype=problem.X.dtype)
        by_distance = "h" in wanted and problem.whitening.bandwidth.ndim == 0
        whole = "h" in wanted and not by_distance
        if whole:  # points cancel against each other
            problem = gradients_sums.in_float64(problem)
        back = gradients_sums.exchanged(problem)
        to_data, to_queries = whole or "X" in wanted, whole or "Y" in wanted or (self.itself and "X" in wanted)
        columns = list(zip(V.T, G.T, strict=True))
        found: dict[str, Any] = {}
        if to_queries:
            found["Y"] = sum(b[:, None] * gradients_sums.kernel_gradient(problem, a)[1] for a, b in columns)
        if by_distance:
            along = sum((b * gradients_sums.distance_sums(problem, a)).sum() for a, b in columns)
            found["h"] = along * 2 / float(problem.whitening.bandwidth)
        if to_data:
            both = [gradients_sums.kernel_gradient(back, b) for _, b in columns]
            found["V"] = xp.stack([total for total, _ in both], axis=1)
            found["X"] = sum(a[:, None] * gradients for (a, _), (_, gradients) in zip(columns, both, strict=True))
        elif "V" in wanted:
            found["V"] = results.values(back.sums("values", G), xp.float64, xp)
        if whole:
            Y = problem.X if problem.Y is None else problem.Y
            found["h"] = xp.asarray(bandwidth.gradient(problem, 0.0, [(found["X"], problem.X), (found["Y"], Y)]))
        if self.itself and to_queries and to_data:
            found["X"] = found["X"] + found["Y"]
        return found
