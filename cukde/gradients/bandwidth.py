"""Gradients with respect to the bandwidth: a number, a deviation for each column, or a covariance.

All are had from those of data and queries. Under a linear map A of points, with covariances A H A', a density is
divided by the determinant of A, a score becomes A'^-1 times it, and a kernel sum stays. The derivative of that along
every A at the identity gives 2 G H = -(own + sum of gradients times points). G is the gradient with respect to H, and
``own`` is the derivative of the result's own change under the map: of the determinant, or of the transformed score.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cukde.core import dispatch
from cukde.density import check
from cukde.density.problem import Problem
from cukde.gradients.sums import centred


def given(h: Any) -> Any:
    """A bandwidth on the host as the density family takes it; rules have no gradient here."""
    if isinstance(h, str) or hasattr(h, "bandwidth") or callable(h):
        raise TypeError(
            f"h must be a number or an array for gradients; got {h!r}: a rule depends on the data in a way of its own; "
            "write h=cukde.bandwidth.silverman(X) of detached data"
        )
    out = check.real_numbers("h", dispatch.to_host(h))
    return float(out) if out.ndim == 0 else out


def gradient(problem: Problem, own: Any, parts: Sequence[tuple[Any, Any]]) -> np.ndarray:
    """Gradient in the shape of the bandwidth, on the host, from pairs of gradients and the points that they belong to.

    ``own`` is a number times the identity, or (d, d).
    """
    bandwidth, d = problem.whitening.bandwidth, problem.X.shape[1]
    total = own * np.eye(d) if np.ndim(own) == 0 else dispatch.to_host(own)
    for gradients, points in parts:
        total = total + dispatch.to_host(gradients.T @ centred(problem, points))
    if bandwidth.ndim < 2:
        along = -np.diagonal(total)
        return np.asarray(along.sum() / bandwidth if bandwidth.ndim == 0 else along / bandwidth)
    out = -0.5 * np.linalg.solve(bandwidth, total.T).T
    return (out + out.T) / 2
