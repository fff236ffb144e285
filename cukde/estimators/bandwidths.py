"""Bandwidths of the estimator by the names of rules, or by functions of the data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cukde import bandwidth
from cukde.bandwidth.names import OF_RULES
from cukde.core import dispatch
from cukde.core.warnings import BandwidthRangeWarning, of_user
from cukde.density import rules_by_name
from cukde.density.api import kde

FACTORS = ("scott", "silverman")
"""scikit-learn's rules, of the numbers of rows and columns alone; the same words mean others to the functions."""

# A bandwidth without a unit is far from the data's where a column's own is so many times as large or as small; or, of
# smaller factors, where next to all of the density at some of the rows is their own kernels', of which the others do
# away with a half or more.
_FAR, _NEAR = 8.0, 2.0
_SAMPLE, _OWN, _HALF = 256, 0.9, 0.5


def names() -> tuple[str, ...]:
    """Names that ``bandwidth`` may be."""
    return FACTORS + tuple(name for name in rules_by_name.names() if name not in FACTORS)


def rule(value: Any) -> str | None:
    """Return the name of a rule of :mod:`cukde.bandwidth`, given by it or by the function; None of anything else."""
    if isinstance(value, str):
        return None if value in FACTORS else value
    return next((name for function, name in OF_RULES.items() if function is value), None)


def of_data(
    value: Any,
    X: Any,
    weights: Any,
    method: str,
    steps: int = 1,
    *,
    to_function: tuple[Any, Any],
    gaussian: bool = True,
    **domain: Any,
) -> tuple[Any, Any | None]:
    """Return what a rule or a function makes of the data, and any other value, scikit-learn's names too, as it is.

    Beside it are the local factors that a selection brings, or None; ``gaussian`` says whether the kernel may have any.
    Rules take the bounds and periods of a ``domain``, other functions do not, but data and weights as ``to_function``.
    """
    name = rule(value)
    if name is None and callable(value):
        rows, of_rows = to_function
        h = value(rows) if of_rows is None else value(rows, weights=of_rows)
        if isinstance(h, str):
            raise TypeError(f"bandwidth must be a function that returns numbers; {value!r} returned {h!r}")
        value = h
    if name is None and not rules_by_name.is_result(value):
        return value, None
    options: dict[str, Any] = {"steps": int(steps), "name": "bandwidth", "takes_factors": gaussian, **domain}
    return rules_by_name.with_factors(name or value, X, weights, method, **options)


def warn_of_units(name: str, h: float, X: Any, weights: Any, *, gaussian: bool, **domain: Any) -> None:
    """Warn where scikit-learn's rule of this name, which has no unit, is far from what the spread of the data says."""
    try:
        own = getattr(bandwidth, name)(X, weights=weights, **domain)
    except ValueError:  # such as of a constant column: there is nothing to compare with
        return
    ratios = dispatch.to_host(own) / h
    most, least = float(ratios.max()), float(ratios.min())
    if most <= _NEAR and least >= 1 / _FAR:
        return
    if most > _FAR or least < 1 / _FAR or _own_share(X, weights, h) > _OWN > _HALF > _own_share(X, weights, own):
        other = f'bandwidth="{name}_deviations"' if gaussian else f"bandwidth=cukde.bandwidth.{name}(X)"
        far = f"1/{most:.3g}" if most * least > 1 else f"{1 / least:.3g}"
        of_user(
            f"bandwidth={name!r} is scikit-learn's rule, which ignores the spread of the data: {h:.4g}, {far} of what "
            f"their deviations say; write {other}, which follows them, or scale the columns to a deviation of 1",
            BandwidthRangeWarning,
        )


def _own_share(X: Any, weights: Any, h: Any) -> float:
    """The median share of own kernels in the density at some of the rows."""
    step = -(-len(X) // _SAMPLE)
    log_p = dispatch.to_host(kde(X, X[::step], h, weights=weights, log=True)).astype(np.float64)
    d = X.shape[1]
    log_own = -0.5 * d * math.log(2 * math.pi) - np.log(np.broadcast_to(dispatch.to_host(h), d)).sum()
    shares = 1 / len(X) if weights is None else dispatch.to_host(weights / weights.max())[::step]
    if weights is not None:
        shares = shares / float((weights / weights.max()).sum())
    return float(np.median(shares * np.exp(np.minimum(log_own - log_p, 700.0))))
