"""Bandwidths of the estimator by the names of rules, or by functions of the data."""

from __future__ import annotations

from typing import Any

from cukde.bandwidth import CrossValidation
from cukde.bandwidth.names import OF_RULES
from cukde.density import rules_by_name

FACTORS = ("scott", "silverman")
"""scikit-learn's rules, of the numbers of rows and columns alone; the same words mean others to the functions."""


def names() -> tuple[str, ...]:
    """Names that ``bandwidth`` may be."""
    return FACTORS + tuple(name for name in rules_by_name.names() if name not in FACTORS)


def rule(value: Any) -> str | None:
    """Return the name of a rule of :mod:`cukde.bandwidth`, given by it or by the function; None of anything else."""
    if isinstance(value, str):
        return None if value in FACTORS else value
    return next((name for function, name in OF_RULES.items() if function is value), None)


def of_data(value: Any, X: Any, weights: Any, method: str, steps: int = 1, **domain: Any) -> Any:
    """Return what a rule or a function makes of the data, and any other value, scikit-learn's names too, as it is.

    Rules take the bounds and periods of a ``domain``, other functions do not.
    """
    name = rule(value)
    if name is not None:
        return rules_by_name.bandwidth(name, X, weights, method, steps=int(steps), name="bandwidth", **domain)
    if not callable(value):
        return value
    h = value(X) if weights is None else value(X, weights=weights)
    if isinstance(h, str):
        raise TypeError(f"bandwidth must be a function that returns numbers; {value!r} returned {h!r}")
    return h.bandwidth if isinstance(h, CrossValidation) else h
