"""The same work without a part of the engine, for ablations."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any
from unittest import mock

from cukde.core.plan import only
from cukde.density.arguments import prepare
from cukde.density.plan.gpu import Dense
from cukde.density.sums import Output


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
    """Precision "tf32" by operands of TF32 within the block, where it otherwise takes one float16 term.

    All pairs are taken, and values are inspected before.
    """
    from benchmarks.density import study_tf32  # needs CuPy
    from cukde.density.pairs.gpu import passes
    from cukde.density.pairs.gpu.arguments import Arguments

    def engine(arguments: Any, output: Output, *, k: int = 0, ratio: bool = False) -> Dense:
        one: Dense = engine_of_library(arguments, output, k=k, ratio=ratio)
        replaced = arguments.options.precision == "tf32" and one.name in ("f16", "f16_symmetric")
        return one._replace(name="tf32") if replaced else one

    def module(name: str) -> Any:
        return study_tf32 if name == "tf32" else module_of_library(name)

    engine_of_library, module_of_library = Arguments.engine, passes._pass
    with mock.patch.object(Arguments, "engine", engine), mock.patch.object(passes, "_pass", module), only():
        yield
