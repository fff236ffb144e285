"""Sums of Gaussian kernels of many small densities at once on the GPU: one launch over members and queries.

The launch is that of the difference kernel, with a member where a single density has a split of its data.
"""

from __future__ import annotations

from typing import Any, Literal

import cupy as cp
import numpy as np

from cukde.density.pairs.gpu import difference
from cukde.density.sums import PartialSums

_MOST_MEMBERS = 65_535  # of a launch: the third axis of a grid


def means(X: Any) -> Any:
    """Means of the rows of members, (b, d) float64."""
    return X.mean(axis=1, dtype=np.float64)


def look(A: Any, centres: Any) -> tuple[np.ndarray, np.ndarray]:
    """Largest squared distances of members' points to their centres (b,), and of each member whether all are finite.

    ``A`` (b, m, d), or (1, m, d) of points that members share. Waits for the device: everything comes back to the host
    in one copy.
    """
    if A.shape[1] == 0:
        return np.zeros(len(centres)), np.ones(len(centres), bool)
    radii = ((A - centres[:, None]) ** 2).sum(axis=2).max(axis=1)
    finite = cp.isfinite(A).all(axis=(1, 2))
    both = cp.asnumpy(cp.stack([radii, cp.broadcast_to(finite, radii.shape).astype(radii.dtype)]))
    return both[0], both[1] > 0


def partial_sums(
    X: Any,
    Y: Any,
    h: np.ndarray,
    output: Literal["sum", "moments", "laplace"],
    *,
    log_weights: Any = None,
    precision: str,
) -> PartialSums:
    """Sum kernels of the data of each member at its queries; arrays of the result begin with the axis of members.

    Arguments are those of :func:`cukde.density.stacks.cpu.passes.partial_sums`; data are C-contiguous, and ``h`` on the
    host. Pairs are taken in double for "float64", otherwise in float32, where float64 points keep 48 bits of each
    coordinate. On the current device and stream; nothing waits for the result.

    Notes
    -----
    Every run gives the same bits. Cost: 3 d n m flops and an exponential a pair, and for moments 3 d n m more: 512
    members of n = 1,000, m = 256 and d = 4 in float32 are 15 instructions for each of 1.3e8 pairs, 0.06 ms of an H200
    by counting, and 0.1 ms with the wait for each tile; 17 MB of points are read, and 2 MB of sums written. A whole
    call takes 1.4 ms, by its checks and launches (``benchmarks/results/stacks_h200.json``).
    """
    dtype = np.promote_types(X.dtype, Y.dtype)
    X, Y = (cp.ascontiguousarray(A, dtype=dtype) for A in (X, Y))
    (b, n, d), m = X.shape, Y.shape[1]
    k = {"sum": 0, "moments": d, "laplace": 1}[output]
    out = PartialSums(cp.empty((b, m)), cp.empty((b, m)), cp.empty((b, m, k)) if k else None)
    if log_weights is not None:
        log_weights = cp.ascontiguousarray(cp.broadcast_to(log_weights, (b, n)))
    for first in range(0, b if m else 0, _MOST_MEMBERS):
        members = slice(first, first + _MOST_MEMBERS)
        difference.launch_stack(
            "float64" if precision == "float64" else "ieee",
            X[members],
            Y if len(Y) == 1 else Y[members],
            h[members],
            output,
            None if log_weights is None else log_weights[members],
            out=PartialSums(*(None if a is None else a[members] for a in out)),
        )
    return out
