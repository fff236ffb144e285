"""Sums that gradients are made of: those of a problem with data and queries exchanged, and with factors of any sign.

A gradient with respect to a datum sums over queries what the estimate sums over data, so it is a pass of the same kind
whose data are the queries, weighted by the incoming gradient. Passes take logarithms of weights, which are not
negative: positive and negative factors are two passes, over the rows of either sign. Moments are taken about the point
at which they are summed, so nothing cancels far from the origin, and references keep sums over far points finite.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cukde.core.cpu import arrays as host
from cukde.density import arguments, keywords, leave_one_out
from cukde.density.problem import Problem
from cukde.density.sums import Output

_ZERO = -1e30  # the logarithm of a weight of zero


def checked(arrays: Mapping[str, Any], h: Any, options: Mapping[str, Any]) -> arguments.Checked:
    """Check forms and options of arrays on the host, whose values are of no matter."""
    X, Y, V, weights = (arrays.get(name) for name in ("X", "Y", "V", "weights"))
    keywords.of_passes({name: value for name, value in options.items() if name in keywords.OF_PASSES})
    return arguments.checked(host, X, Y, h, weights, V, precision=options.get("precision"))


def exchanged(problem: Problem) -> Problem:
    """The problem whose data are the queries and whose queries are the data, without weights."""
    options = problem.options._replace(log_weights=None, kept=None)
    if problem.Y is None:
        return problem._replace(options=options, points=None)
    return problem._replace(X=problem.Y, Y=problem.X, options=options, points=None)


def in_float64(problem: Problem) -> Problem:
    """The same with all arithmetic in float64."""
    f = problem.xp.float64
    Y = None if problem.Y is None else problem.Y.astype(f, copy=False)
    options = problem.options._replace(precision="float64", kept=None)
    return problem._replace(X=problem.X.astype(f, copy=False), Y=Y, options=options, points=None)


def signed(problem: Problem, output: Output, factors: Any, log_scale: Any = 0.0) -> tuple[Any, Any]:
    """Totals (m,) and moments (m, k) of an output, of data with ``factors`` (n,) of any sign times exp(log_scale).

    Weights of the problem are not used. With ``leave_one_out`` a query leaves out the datum of its own row; nothing is
    divided by what is left.
    """
    xp = problem.xp
    total: Any = 0.0
    moments: Any = 0.0
    logs = xp.log(abs(factors.astype(xp.float64))) + log_scale
    for sign in (1.0, -1.0):
        rows = xp.nonzero(xp.sign(factors) == sign)[0]
        if len(rows) == 0:
            continue
        part, shift = weighted(problem, logs, None if len(rows) == len(logs) else rows)
        sums = leave_one_out.sums_of_others(part, output) if part.leave_one_out else part.sums(output)
        factor = sign * xp.exp(sums.reference + shift)
        total = total + factor * sums.total
        moments = moments + factor[:, None] * sums.moments
    if isinstance(total, float):  # every factor is 0
        queries = problem.X if problem.Y is None else problem.Y
        columns = 1 if output == "laplace" else problem.X.shape[1]
        return xp.zeros(len(queries)), xp.zeros((len(queries), columns))
    return total, moments


def weighted(problem: Problem, logs: Any, rows: Any = None) -> tuple[Problem, Any]:
    """The problem of all or some rows, with logarithms of weights brought to a sum of 1, and that of their sum."""
    xp, options = problem.xp, problem.options
    of_rows = logs if rows is None else logs[rows]
    top = of_rows.max()
    shift = top + xp.log(xp.exp(of_rows - top).sum())
    held = xp.maximum(of_rows - shift, _ZERO)
    if rows is not None and problem.leave_one_out:  # whose data and queries belong together
        held, of_rows = xp.full(len(logs), _ZERO), held
        held[rows] = of_rows
    elif rows is not None:
        queries = problem.X if problem.Y is None else problem.Y
        problem = problem._replace(X=xp.ascontiguousarray(problem.X[rows]), Y=queries)
    return problem._replace(options=options._replace(log_weights=held, kept=None), points=None), shift


def in_own_coordinates(problem: Problem, moments: Any) -> Any:
    """Moments of the whitened coordinates over h^2: sums of phi H^-1 (x - y), a row a query."""
    return problem.whitening.score(moments / problem.whitening.h**2, problem.xp)


def kernel_gradient(problem: Problem, factors: Any, log_scale: Any = 0.0) -> tuple[Any, Any]:
    """Totals, and their gradients with respect to the queries, of signed factors."""
    total, moments = signed(problem, "moments", factors, log_scale)
    return total, in_own_coordinates(problem, moments)


def distance_sums(problem: Problem, factors: Any) -> Any:
    """Sums of phi q, q = |y - x|^2 / (2 h^2), of signed factors, by the pass of the Laplace correction."""
    total, moments = signed(problem, "laplace", factors)
    return (1 + 0.5 * problem.X.shape[1]) * total - moments[:, 0]


def centred(problem: Problem, A: Any) -> Any:
    """Points from the problem's centre, float64."""
    out: Any = A.astype(np.float64) - problem.options.centre
    return out
