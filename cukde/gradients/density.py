r"""Gradients of densities and of their logarithms, at queries or on a product grid.

With incoming gradients g_i, shares v_i = g_i p_i (of the logarithm: g_i), normalised weights w_j, and the constant c of
the kernel phi with covariance H:

    with respect to y_i:   v_i s(y_i), s the score
    with respect to x_j:   w_j sum_i g_i c phi_ij H^-1 (y_i - x_j), the g_i over p_i for the logarithm
    with respect to w_j:   (sum_i g_i c phi_ij - sum_i v_i) / (sum of all weights)
    with respect to h:     sum_i v_i 2 (1 - l_i / p_i) / h, l the Laplace-corrected density
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from cukde.core.check import flag
from cukde.core.cpu import arrays as host
from cukde.density import axes as density_axes, check as density_check, leave_one_out, results
from cukde.density.arguments import prepare
from cukde.density.grids.api import evaluate_grid
from cukde.density.problem import Problem
from cukde.density.sums import Output, PartialSums, to_density
from cukde.gradients import bandwidth, sums as gradients_sums
from cukde.gradients.operation import Arrays, Operation, Struct


class Density(Operation):
    """:func:`cukde.kde`."""

    operands: ClassVar[tuple[str, ...]] = ("X", "Y", "h", "weights")

    def _prepare(self) -> None:
        options = self.options
        self._log = flag("log", options.pop("log", False))
        X, Y, h, weights = (self.arrays.get(name) for name in Density.operands)
        self._problem: Problem = prepare(X, Y, bandwidth.given(h), weights, **options)[0]
        self._kept: dict[Output, PartialSums] = {}

    @classmethod
    def struct(cls, arrays: Arrays, options: Mapping[str, Any]) -> Struct:
        found = gradients_sums.checked(arrays, bandwidth.given(arrays["h"]), options)
        return Struct(found.query_shape[:1], found.dtype)

    def _result(self, wanted: frozenset[str]) -> Any:
        output: Output = "sum"
        if self._to_queries(wanted):
            output = "moments"
        elif self._by_laplace(wanted):
            output = "laplace"
        return to_density(self._sums(output), *self._problem.epilogue(log=self._log), self.xp)

    def _gradients(self, g: Any, wanted: frozenset[str]) -> dict[str, Any]:
        xp, problem, found = self.xp, self._problem, {}
        whole = "h" in wanted and not self._by_laplace(wanted)
        if whole:  # points cancel against each other
            problem = self._problem = gradients_sums.in_float64(problem)
            self._kept = {}
        g = g.astype(xp.float64)
        if self._to_queries(wanted) or whole:
            score = results.gradient(self._sums("moments"), problem.whitening, xp)
            found["Y"] = self._shares(g)[:, None] * score
        if self._by_laplace(wanted):
            sums = self._sums("laplace")
            along = self._shares(g) * (1 - sums.moments[:, 0] / sums.total)
            found["h"] = along.sum() * 2 / float(problem.whitening.bandwidth)
        if not whole and wanted.isdisjoint(("X", "weights")):
            return found
        log_scale = problem.whitening.log_norm - (self._log_p if self._log else 0.0) - self._log_rest
        total, gradients = gradients_sums.kernel_gradient(gradients_sums.exchanged(problem), g, log_scale)
        log_w = problem.options.log_weights
        found["X"] = gradients * (1 / len(problem.X) if log_w is None else xp.exp(log_w)[:, None])
        if "weights" in wanted:
            left = self._shares(g) / xp.exp(self._log_rest)
            others = left.sum() - left if problem.leave_one_out else left.sum()
            found["weights"] = (total - others) / self.arrays["weights"].astype(xp.float64).sum()
        if whole:
            Y = problem.X if problem.Y is None else problem.Y
            own = float(self._shares(g).sum())
            found["h"] = xp.asarray(bandwidth.gradient(problem, own, [(found["X"], problem.X), (found["Y"], Y)]))
        if self.itself and "Y" in found:
            found["X"] = found["X"] + found["Y"]
        return found

    def _to_queries(self, wanted: frozenset[str]) -> bool:
        return "Y" in wanted or (self.itself and "X" in wanted)

    def _by_laplace(self, wanted: frozenset[str]) -> bool:
        return "h" in wanted and self._problem.whitening.bandwidth.ndim == 0

    def _sums(self, output: Output) -> PartialSums:
        if output not in self._kept:
            self._kept[output] = self._problem.sums(output)
        return self._kept[output]

    @property
    def _log_p(self) -> Any:
        """Logarithms of the densities, by whatever sums there are."""
        sums = next(iter(self._kept.values()), None) or self._sums("sum")
        return sums.reference + self.xp.log(sums.total) + self._problem.log_constant

    def _shares(self, g: Any) -> Any:
        return g if self._log else g * self.xp.exp(self._log_p)

    @property
    def _log_rest(self) -> Any:
        """Logarithms of the weight that a query's sum is divided by."""
        problem = self._problem
        if not problem.leave_one_out:
            return self.xp.zeros(1)
        if problem.options.log_weights is None:
            return self.xp.full(1, np.log1p(-1 / len(problem.X)))
        return leave_one_out.log_rest(problem.options.log_weights, self.xp)


class Grid(Density):
    """:func:`cukde.evaluate_grid`, with fixed axes."""

    operands = ("X", "h", "weights")

    def _prepare(self) -> None:
        self._of_grid = dict(self.options)
        axes, self._algorithm = self.options.pop("axes"), self.options.pop("algorithm", "auto")
        self._axes = _axes(axes, self.arrays["X"], self.backend)
        self.arrays = {**self.arrays, "Y": _points(self._axes, self.backend)}
        super()._prepare()

    @classmethod
    def struct(cls, arrays: Arrays, options: Mapping[str, Any]) -> Struct:
        axes = _axes(options["axes"], arrays["X"], host)
        corner = np.zeros((1, len(axes)), density_check.result_dtype(*axes))
        found = Density.struct({**arrays, "Y": corner}, options)
        return Struct(tuple(map(len, axes)), found.dtype)

    def _result(self, wanted: frozenset[str]) -> Any:
        h, weights = bandwidth.given(self.arrays["h"]), self.arrays.get("weights")
        return evaluate_grid(self.arrays["X"], h=h, weights=weights, **self._of_grid)

    def _gradients(self, g: Any, wanted: frozenset[str]) -> dict[str, Any]:
        return super()._gradients(g.reshape(-1), wanted)


def _axes(axes: Any, X: Any, backend: Any) -> list[np.ndarray]:
    return density_axes.checked(axes, density_check.data(X, backend)[0].shape[1])


def _points(axes: list[np.ndarray], backend: Any) -> Any:
    mesh = np.meshgrid(*axes, indexing="ij")
    return backend.asarray(np.stack([coordinates.ravel() for coordinates in mesh], axis=1))
