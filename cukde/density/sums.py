"""Partial kernel sums: what both backends return, and how blocks of data merge exactly.

A block of data rows contributes ``exp(reference) * total`` to each query's kernel sum. Keeping the largest
exponent apart from the sum makes the sum finite and accurate however far a query lies, and lets any
number of blocks merge without loss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

Output = Literal["sum", "moments", "laplace", "laplace_moments", "values", "cdf"]
"""What a pass over all pairs accumulates; see :class:`PartialSums`. "cdf" is of one dimension."""


class PartialSums(NamedTuple):
    """Sums over one block of data rows, a row a query.

    With q_ij = |y_i - x_j|^2 / (2 h^2) and the exponent ``a_ij = -q_ij + log w_j`` (natural logarithms)::

        output "sum"              total_i    = sum_j exp(a_ij - reference_i)
        output "moments"          the same, and moments_ik = sum_j exp(a_ij - reference_i) (x_jk - y_ik)
        output "laplace"          the same, and moments_i0 = sum_j exp(a_ij - reference_i) (1 + d/2 - q_ij)
        output "laplace_moments"  the same, and
                                  moments_ik = sum_j exp(a_ij - reference_i) (2 + d/2 - q_ij) (x_jk - y_ik)
        output "values"           moments_ik = sum_j exp(a_ij - reference_i) V_jk, and total as for "sum", or NaN: not
                                  summed
        output "cdf"              total_i    = sum_j w_j Phi((y_i - x_j) / h) exp(-reference_i), d = 1, the normal's
                                  function Phi

    Moments of "laplace_moments" are h^2 times the gradient, with respect to the query, of those of "laplace".

    Moments are taken about the query, so blocks merge whatever each of them was centred on, and nothing
    cancels where the data lie far from the origin. All arrays are float64.

    With local factors f_j of the bandwidth h is f_j h, and w_j is divided by the power d of f_j. With the option
    ``of_gradient`` the terms of "moments" and "laplace_moments" that have (x_jk - y_ik) are divided by f_j^2, too: h^2
    times gradients, as they are without factors.
    """

    reference: Any  # (m,)
    total: Any  # (m,)
    moments: Any = None  # (m, moment_columns(output, d, V)); None where there are no columns


class Epilogue(NamedTuple):
    """How sums become densities: times ``exp(log_constant)``, or the logarithm of that, rounded to a dtype."""

    log_constant: float
    log: bool
    dtype: np.dtype


def moment_columns(output: Output, d: int, values: Any = None) -> int:
    """Columns of the moments of an output over data of ``d`` columns, or over their ``values`` (n, k)."""
    if values is not None:
        return int(values.shape[1])
    return {"moments": d, "laplace": 1, "laplace_moments": d}.get(output, 0)


def laplace_constant(output: Output, d: int) -> float | None:
    """What the factors of an output have beside -q_ij; None of outputs without such factors."""
    return {"laplace": 1 + 0.5 * d, "laplace_moments": 2 + 0.5 * d}.get(output)


def merge(blocks: Sequence[PartialSums], xp: Any) -> PartialSums:
    """Merge the partial sums of disjoint blocks of data rows for the same queries.

    ``xp`` is the array module of the blocks (NumPy or CuPy).
    """
    if len(blocks) == 1:
        return blocks[0]
    references = xp.stack([block.reference for block in blocks])
    reference = references.max(axis=0)
    factors = xp.exp(references - reference)
    total = (factors * xp.stack([block.total for block in blocks])).sum(axis=0)
    if blocks[0].moments is None:
        return PartialSums(reference, total)
    moments = factors[0][:, None] * blocks[0].moments
    for factor, block in zip(factors[1:], blocks[1:], strict=True):  # one after the other, as these are large
        moments += factor[:, None] * block.moments
    return PartialSums(reference, total, moments)


def joined(parts: Sequence[PartialSums], xp: Any) -> PartialSums:
    """Put together the sums of the same data at queries that come one after the other."""
    columns = zip(*parts, strict=True)
    return PartialSums(*(None if some[0] is None else xp.concatenate(some) for some in columns))


def put(out: PartialSums, rows: Any, sums: PartialSums) -> None:
    """Write the sums of some queries to their rows of others."""
    for to, of in zip(out, sums, strict=True):
        if to is not None:
            to[rows] = of


def nothing(m: int, k: int | None, xp: Any) -> PartialSums:
    """Sums over no data at ``m`` queries, with ``k`` columns of moments: they merge with any others without a trace."""
    least = xp.full(m, -np.finfo(np.float64).max)
    return PartialSums(least, xp.zeros(m), None if k is None else xp.zeros((m, k)))


def of_logarithms(logs: Any, xp: Any) -> PartialSums:
    """Sums whose logarithms are given, float64; -inf where there is nothing."""
    some = logs > -np.inf
    return PartialSums(xp.where(some, logs, -np.finfo(np.float64).max), some.astype(xp.float64))


def log_sum(logs: Sequence[float]) -> float:
    """Logarithm of the sum of a few numbers, by their logarithms; -inf of none."""
    largest = max(logs, default=-math.inf)
    if largest == -math.inf:
        return largest
    return largest + math.log(math.fsum(math.exp(one - largest) for one in logs))


def to_density(sums: PartialSums, log_constant: float, log: bool, dtype: np.dtype, xp: Any) -> Any:
    """Return ``exp(log_constant + reference) total`` of output "sum", or its logarithm, rounded to ``dtype``.

    Beyond the range of a dtype a density is infinite, without a warning, as on the GPU.
    """
    out = sums.reference + xp.log(sums.total) + log_constant
    if log and out.dtype == dtype:
        return out
    if not log:
        out = xp.exp(out)
    return out.astype(dtype, copy=False)


def ready(X: Any, Y: Any, sums: PartialSums, h: float, score_h: float) -> tuple[Any, Any]:
    """Points moved by half of (h / score_h)^2 of their mean shift, and queries, both float64, for the next pass."""
    return debiased(X, sums, 0.5 * (h / score_h) ** 2), Y.astype(np.float64, copy=False)


def debiased(X: Any, sums: PartialSums, step: Any) -> Any:
    """Points moved by ``step`` times their mean shift, from their output "moments"; of a stack, (b, n, d).

    They take the memory of the moments.
    """
    moved = sums.moments
    moved *= (step / sums.total)[..., None]
    moved += X
    return moved
