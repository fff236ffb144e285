"""Small stacks on the CPU by NumPy alone: array operations over all members at once, which compile nothing."""

from __future__ import annotations

import numpy as np

from cukde.density.options import LOG_ZERO
from cukde.density.sums import Output, PartialSums, joined, laplace_constant

# Coordinates of pairs, and entries of points, up to which this takes less time than a compiled pass.
_MOST_COORDINATES = 2**12
_MOST_ENTRIES = 2**13


# Coordinates of pairs up to which this takes less than compiling does, and those of an array.
_MOST_MEANWHILE, _AT_ONCE = 2**26, 2**18

_LARGEST = float(np.finfo(np.float64).max)


def serves(b: int, n: int, m: int, d: int) -> bool:
    """Whether all pairs of so many members are few."""
    return b * n * m * d <= _MOST_COORDINATES


def has_few(A: np.ndarray, members: int) -> bool:
    """Whether points are few."""
    return members * A[:1].size <= _MOST_ENTRIES


def look(A: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """See :func:`cukde.density.stacks.cpu.passes.look`."""
    steps = A - centres[:, None, :]
    radii = np.einsum("bnk,bnk->bn", steps, steps).max(axis=1, initial=0.0)
    return radii, np.broadcast_to(np.isfinite(A).all(axis=(1, 2)), radii.shape)


def means(X: np.ndarray) -> np.ndarray:
    """See :func:`cukde.density.stacks.cpu.passes.means`."""
    return X.mean(axis=1, dtype=np.float64)


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
    if b * n * m * d > _MOST_MEANWHILE or b == 0 or step == 0:
        return None
    parts = []
    for start in range(0, b, step):
        members = slice(start, start + step)
        y, w = (a if a is None or len(a) == 1 else a[members] for a in (Y, log_weights))
        parts.append(partial_sums(X[members], y, h[members], output, w))
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
