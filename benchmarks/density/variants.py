"""The same work without a part of the engine, for ablations."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any
from unittest import mock

from cukde.density.arguments import prepare


def laplace_kde_in_two_passes(X: Any, Y: Any, h: float) -> Any:
    """Density in one pass, sum of phi r^2 / (2 h^2) in another, by the same engine."""
    problem, _ = prepare(X, Y, h)
    density = problem.sums("sum")
    corrected = problem.sums("laplace")  # a pass for the second sum costs what this one does
    exp = problem.xp.exp
    total = density.total * exp(density.reference)
    second = (1 + X.shape[1] / 2) * total - corrected.moments[:, 0] * exp(corrected.reference)
    return ((1 + X.shape[1] / 2) * total - second) * math.exp(problem.log_constant)


@contextlib.contextmanager
def tf32_operands() -> Iterator[None]:
    """Precision "tf32" by operands of TF32 within the block, where it otherwise takes one float16 term."""
    from cukde.density.pairs.gpu import engine  # needs CuPy

    with mock.patch.object(engine, "ENGINE_OF_TF32", "tf32"):
        yield
