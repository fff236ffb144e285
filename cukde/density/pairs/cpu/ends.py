"""Densities and debiased data from the sums of a pass on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cukde.density.options import Options
from cukde.density.sums import Epilogue, PartialSums, ready, to_density


def ended(partial_sums: Callable[..., PartialSums | None]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return ``density`` and ``debias`` by a pass, as :mod:`cukde.density.pairs.cpu.passes` has them by its own.

    They return None where the pass does.
    """

    def density(
        X: np.ndarray, Y: np.ndarray | None, h: float, options: Options, epilogue: Epilogue, *, points: None = None
    ) -> np.ndarray | None:
        sums = partial_sums(X, Y, h, "sum", options)
        return None if sums is None else to_density(sums, *epilogue, np)

    def debias(
        X: np.ndarray, Y: np.ndarray, h: float, score_h: float, options: Options
    ) -> tuple[np.ndarray, np.ndarray, None] | None:
        sums = partial_sums(X, None, score_h, "moments", options.at_ratio(h / score_h))
        return None if sums is None else (*ready(X, Y, sums, h, score_h), None)

    return density, debias
