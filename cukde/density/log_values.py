"""Logarithms of kernel sums of values that all have one sign: sums of kernels with the values for weights."""

from __future__ import annotations

from typing import Any

from cukde.density import check
from cukde.density.problem import Problem, log_weights


def log_values(problem: Problem, V: Any) -> Any:
    """Logarithms of the absolute kernel sums of each column of values, (m, k) float64; -inf where all are 0."""
    xp = problem.xp
    check.one_sign(problem.backend.asnumpy((V > 0).any(axis=0) & (V < 0).any(axis=0)))
    some = problem.backend.asnumpy((V != 0).any(axis=0))
    m = len(problem.X if problem.Y is None else problem.Y)
    out = xp.full((m, V.shape[1]), -xp.inf)
    for k in some.nonzero()[0].tolist():
        log_w, log_sum = log_weights(abs(V[:, k].astype(xp.float64)), xp)
        of_values = problem._replace(options=problem.options._replace(log_weights=log_w))
        sums = of_values.sums("sum")
        out[:, k] = sums.reference + xp.log(sums.total) + log_sum
    return out
