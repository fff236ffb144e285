"""The density on the sphere as a problem in R^d: that of Gaussians at unit vectors, with another constant."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from cukde.density.arguments import problem_of
from cukde.density.problem import Problem
from cukde.sphere import check, constant


def problem_on_sphere(X: Any, Y: Any, h: float, options: Mapping[str, Any]) -> Problem:
    """Check the arguments of a public call, and state the problem."""
    problem = problem_of(X, Y, h, options)
    check.columns(problem.X.shape[1])
    if problem.options.squared_radius is not None:  # values are checked
        with problem.device:
            for name, a in (("X", problem.X), ("Y", problem.Y)):
                if a is not None:
                    check.unit_rows(name, a, problem.backend)
    whitening = copy.copy(problem.whitening)  # which others share
    whitening.log_norm = constant.log_norm(problem.X.shape[1], h)
    return problem._replace(whitening=whitening)
