r"""The distribution of one column given others, as that of kernels at few nodes, whose weights a kernel sum finds.

Rows are sorted by the column x and cut into bands. Within a band of half the width a, in bandwidths, the distribution
function of the kernel is a function of x that a polynomial through p Chebyshev nodes s_l interpolates:

    Phi((y - x) / h) = sum_l L_l(x) Phi((y - s_l) / h) + e,    |e| <= c sqrt((p - 1)!) a^p / (2^(p-1) p!),  c = 0.44,

as the p-th derivative of Phi is a Hermite function (Cramer's inequality). With K the kernel of the given columns

    F(y | g) = sum_j K(g - x_j) Phi((y - x_j) / h) / sum_j K(g - x_j) = sum_l W_l(g) Phi((y - s_l) / h),
    W_l(g) = sum_j K(g - x_j) L_l(x_j) / sum_j K(g - x_j),

and L_l are values of a kernel sum: its passes over pairs know nothing of y. Then any number of queries and levels are
sums over the nodes. Rows of a band that are no more than p are nodes, and their kernels are taken one by one.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from cukde.core import check as core_check
from cukde.density.compositions.column_kernel import log_kernels
from cukde.density.options import LOG_ZERO
from cukde.density.problem import Problem

HALF_WIDTH = 2.0
"""Of a band, in bandwidths."""

COLUMNS = 32
"""Nodes of a pass, at least where there are as many: bands of few rows share one."""

_ERROR = {"float64": 2e-13}  # of the interpolation
_SINGLE = 1e-7


class _Pass(NamedTuple):
    """Rows of the data, and the values of each of them for some nodes."""

    rows: Any  # (r,)
    values: Any  # (r, k)


class Nodes(NamedTuple):
    """Where the kernels are, (k,) float64 in order, and how their weights are found."""

    at: Any
    passes: list[_Pass]
    alone: Any  # (r,): rows that are nodes themselves
    order: Any  # (k,): of the passes' nodes, and then of these rows

    @classmethod
    def of(cls, x: Any, h: float, problem: Problem) -> Nodes:
        """Choose nodes for data ``x`` (n,) float64 in the units of ``h``; the problem is that of the given columns."""
        xp, backend, log_w = problem.xp, problem.backend, problem.options.log_weights
        order = xp.argsort(x)
        if log_w is not None:
            order = order[log_w[order] > LOG_ZERO]
            core_check.finite({"weights": len(order) > 0})  # where that was not asked for
        sorted_x = x[order]
        host = backend.asnumpy(sorted_x)
        error = _ERROR.get(problem.options.precision, _SINGLE)
        at, passes, alone = [], [], []
        waiting: list[tuple[int, int, Any, Any]] = []
        start = columns = 0
        while start < len(host):
            stop = max(start + 1, int(np.searchsorted(host, host[start] + 2 * HALF_WIDTH * h, side="right")))
            ends = float(host[start]), float(host[stop - 1])
            nodes, values = _interpolation(sorted_x[start:stop], *ends, h, error, xp)
            if values is None:
                alone.append(order[start:stop])
            else:
                waiting.append((start, stop, nodes, values))
                columns += len(nodes)
            start = stop
            if waiting and (columns >= COLUMNS or start == len(host)):
                rows = xp.concatenate([order[begin:end] for begin, end, _, _ in waiting])
                table = xp.zeros((len(rows), columns))
                row = column = 0
                for _, _, some, own in waiting:
                    table[row : row + len(own), column : column + len(some)] = own
                    row, column = row + len(own), column + len(some)
                    at.append(some)
                passes.append(_Pass(rows, table))
                waiting, columns = [], 0
        rest = xp.concatenate(alone) if alone else order[:0]
        nodes = xp.concatenate([*at, x[rest]])
        by_place = xp.argsort(nodes)
        return cls(nodes[by_place], passes, rest, by_place)

    def weights(self, problem: Problem) -> Any:
        """Weights of the nodes, (m, k) float64 with rows of sum 1, at the queries of the given columns' problem."""
        xp = problem.xp
        parts = []
        for rows, values in self.passes:
            some = problem.options.of_rows(rows)
            of_rows = problem._replace(X=problem.X[rows], options=some, points=None)
            sums = of_rows.sums("values", values.astype(problem.X.dtype, copy=False))
            parts.append((sums.reference, sums.moments))
        if len(self.alone):
            assert problem.Y is not None
            logs, log_w = log_kernels(problem, problem.X[self.alone], problem.Y), problem.options.log_weights
            logs = logs if log_w is None else logs + log_w[self.alone]
            reference = logs.max(axis=1)
            parts.append((reference, xp.exp(logs - reference[:, None])))
        references = xp.stack([reference for reference, _ in parts])
        scales = xp.exp(references - references.max(axis=0))
        out = xp.concatenate([scale[:, None] * own for scale, (_, own) in zip(scales, parts, strict=True)], axis=1)
        out /= out.sum(axis=1, keepdims=True)
        return out[:, self.order]


def _interpolation(x: Any, low: float, high: float, h: float, error: float, xp: Any) -> tuple[Any, Any | None]:
    """Nodes of points between two ends, and the values of their polynomials at the points, (r, p); None: the points."""
    half = 0.5 * (high - low)
    if not 0 < half < math.inf:  # of one value, or unchecked
        return x[:1], xp.ones((len(x), 1))
    count = _count(math.ceil(8 * half / h) / 8, error)
    if len(x) <= count:
        return x, None
    angles = (np.arange(count) + 0.5) * math.pi / count
    k = np.arange(count)
    to_nodes = np.cos(k[:, None] * angles) * np.where(k == 0, 1.0, 2.0)[:, None] / count
    u = xp.clip((x - (low + half)) / half, -1.0, 1.0)
    values = xp.cos(xp.arccos(u)[:, None] * xp.asarray(k)) @ xp.asarray(to_nodes)
    return xp.asarray(low + half + half * np.cos(angles)), values


@functools.cache
def _count(half: float, error: float) -> int:
    """Nodes that interpolate within an error over half a width, in bandwidths."""
    p = 1
    while p < 64 and math.log(0.44 * 2) + 0.5 * math.lgamma(p) + p * math.log(max(half, 1e-9) / 2) - math.lgamma(
        p + 1
    ) > math.log(error):
        p += 1
    return p
