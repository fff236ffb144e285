"""Small stacks on the CPU by NumPy alone: array operations over all members at once, which compile nothing."""

from __future__ import annotations

import numpy as np

from cukde.density.options import LOG_ZERO
from cukde.density.plan import compositions as plan_compositions
from cukde.density.sums import Output, PartialSums, joined, laplace_constant

_AT_ONCE = 2**18  # coordinates of pairs of an array
_LARGEST = float(np.finfo(np.float64).max)


def many(
    X: np.ndarray,
    Y: np.ndarray,
    h: np.ndarray,
    output: Output,
    *,
    log_weights: np.ndarray | None = None,
    precision: str,
) -> PartialSums | None:
    """Return the same as :func:`partial_sums` of more pairs; None where compiling takes no longer."""
    (b, n, d), m = X.shape, Y.shape[1]
    step = _AT_ONCE // max(1, n * m * d)
    if step == 0 or not plan_compositions.stack_answers_meanwhile(b, n, m, d):
        return None
    parts = []
    for start in range(0, b, step):
        members = slice(start, start + step)
        w = log_weights if log_weights is None or len(log_weights) == 1 else log_weights[members]
        parts.append(partial_sums(X[members], Y if len(Y) == 1 else Y[members], h[members], output, w))
    return joined(parts, np)


def partial_sums(
    X: np.ndarray, Y: np.ndarray, h: np.ndarray, output: Output, log_weights: np.ndarray | None
) -> PartialSums:
    """See :func:`cukde.density.stacks.cpu.passes.partial_sums`; every pair is taken in double precision."""
    h = h[:, None, None]
    steps = X.astype(np.float64)[:, None, :, :] - Y.astype(np.float64)[:, :, None, :]
    steps /= h[..., None]
    exponents = np.einsum("bijk,bijk->bij", steps, steps)
    exponents *= -0.5
    constant = laplace_constant(output, X.shape[2])
    factors = None if constant is None else exponents + constant
    if log_weights is not None:
        exponents += np.where(log_weights > LOG_ZERO, log_weights, -np.inf)[:, None, :]
    reference = np.maximum(exponents.max(axis=2), -_LARGEST)
    exponents -= reference[:, :, None]
    terms = np.exp(exponents, out=exponents)
    moments = None
    if output == "moments":
        moments = np.einsum("bij,bijk->bik", terms, steps) * h
    elif factors is not None:
        moments = np.einsum("bij,bij->bi", terms, factors)[..., None]
    return PartialSums(reference, terms.sum(axis=2), moments)
