"""Factors of the reference rules by their names: the best bandwidth for normal data over their standard deviation.

"scott" and "silverman" mean these factors everywhere, of the effective number of rows. The rules multiply them by the
deviation of each column, or with ``covariance=True`` by the covariance, as SciPy does. Scikit-learn takes them as they
are, of the number of rows, and so does :class:`cukde.KernelDensity`, which replaces its class.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from cukde.bandwidth import normal_reference

Factor = Callable[[float, int], float]
"""Takes a number of rows and a number of columns."""


def _scott(n: float, d: int) -> float:
    return float(n ** (-1 / (d + 4)))


def _silverman(n: float, d: int) -> float:
    return float((n * (d + 2) / 4) ** (-1 / (d + 4)))


def of_steps(steps: int) -> Factor:
    """The factor of "sd" for so many steps."""
    return functools.partial(normal_reference.factor, "sd", steps=steps)


FACTORS: dict[str, Factor] = {
    "scott": _scott,
    "silverman": _silverman,
    "sd": of_steps(1),
    "laplace": functools.partial(normal_reference.factor, "laplace"),
    "positive": functools.partial(normal_reference.factor, "positive"),
}
