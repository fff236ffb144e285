"""The density estimates, and what belongs to each: the only place that lists them.

Estimators, rules for the bandwidth, pictures, regions and commands take their functions, names and checks from here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from cukde.core import words
from cukde.density.api import kde, laplace_kde, score, sd_kde
from cukde.density.positive import api as positive
from cukde.density.problem import Problem

Method = Literal["kde", "sd", "laplace", "positive"]
"""The names of the estimates, as arguments have them."""

NotNegative = Literal["kde", "sd", "positive"]
"""Those that are densities."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """An estimate: its public functions, and what the same do with the arguments checked, of a problem."""

    method: str
    title: str  # in legends
    density: Callable[..., Any]
    of_problem: Callable[..., Any]
    score: Callable[..., Any] | None  # the gradient of its logarithm; None: it has none
    score_of_problem: Callable[[Problem], Any] | None
    rule: str  # the reference rule of cukde.bandwidth
    order: int  # the bias is of this power of the bandwidth
    moves: bool = False  # whether it is kde of moved points: with score_bandwidth, steps and own_point
    mass: Callable[..., Any] | None = None  # what it is divided by to be a density
    negative: bool = False  # whether it may be negative: there are no logarithms then, no likelihood and no samples
    score_in_domain: bool = True  # whether the score takes bounds and periods
    validated_in_domain: bool = True  # whether cross-validation does

    @property
    def of_centres(self) -> Estimate:
        """The estimate that this one is of points that have been moved."""
        return ESTIMATES["kde"] if self.moves else self

    @property
    def call(self) -> str:
        """The call of the public function."""
        return f"cukde.{self.density.__name__}(X, Y, h)"


ESTIMATES = {
    each.method: each
    for each in (
        Estimate(
            method="kde",
            title="KDE",
            density=kde,
            of_problem=Problem.density,
            score=score,
            score_of_problem=Problem.score,
            rule="silverman",
            order=2,
        ),
        Estimate(
            method="sd",
            title="SD-KDE",
            density=sd_kde,
            of_problem=Problem.density,
            score=score,
            score_of_problem=Problem.score,
            rule="sd",
            order=4,
            moves=True,
            validated_in_domain=False,
        ),
        Estimate(
            method="laplace",
            title="Laplace-corrected KDE",
            density=laplace_kde,
            of_problem=Problem.laplace_density,
            score=None,
            score_of_problem=None,
            rule="laplace",
            order=4,
            negative=True,
            validated_in_domain=False,
        ),
        Estimate(
            method="positive",
            title="positive KDE",
            density=positive.positive_kde,
            of_problem=positive.density,
            score=positive.positive_score,
            score_of_problem=positive.score,
            rule="positive",
            order=4,
            mass=positive.positive_mass,
            score_in_domain=False,
        ),
    )
}
"""By the name of the method, in the order in which messages and signatures list them.

Functions of "sd" beside its density are those of its moved points."""

METHODS = f"{{{', '.join(map(json.dumps, ESTIMATES))}}}"
"""The methods, as a Parameters section has them."""

NOT_NEGATIVE = tuple(method for method, each in ESTIMATES.items() if not each.negative)
"""Methods whose estimates are densities."""


def with_methods(has: Callable[[Estimate], object]) -> str:
    """What a message says of the methods that have something, as method="kde" or "sd"."""
    return f"method={words.either([method for method, each in ESTIMATES.items() if has(each)])}"
