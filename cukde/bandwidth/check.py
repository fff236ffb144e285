"""The errors a user of cross-validation can cause, raised before anything is summed where they can be."""

from __future__ import annotations

from collections.abc import Collection
from numbers import Real
from typing import Any

import numpy as np

from cukde.core import check as core_check
from cukde.density import check as density_check
from cukde.density.estimates import ESTIMATES, with_methods

OBJECTIVES = ("likelihood", "least_squares")

# Of the bandwidths of a column: one set of coordinates serves them all, whatever the precision.
_RATIO = 1e12

LEAST_OF_CHAIN = 8


def options(
    method: Any, objective: Any, per_dimension: Any, covariance: Any = False, *, in_domain: bool = False
) -> None:
    """Check method, objective and how bandwidths are searched; ``in_domain`` says that there are bounds or periods."""
    core_check.option("method", method, tuple(ESTIMATES))
    core_check.option("objective", objective, OBJECTIVES)
    core_check.flag("per_dimension", per_dimension)
    if core_check.flag("covariance", covariance) and (method != "kde" or objective != "likelihood" or in_domain):
        got = "bounds or periods" if in_domain else f"{method=} and {objective=}"
        raise ValueError(
            'covariance must be False but for method="kde" and objective="likelihood" without bounds and periods; got '
            f"{got}: write per_dimension=True for a deviation for each column"
        )
    estimate = ESTIMATES[method]
    if estimate.negative and objective == "likelihood":
        raise ValueError(
            f'objective="likelihood" is not for method="{method}", whose densities can be negative and have no '
            'logarithm there; write objective="least_squares"'
        )
    if in_domain and not estimate.validated_in_domain:
        those = with_methods(lambda each: each.validated_in_domain)
        raise ValueError(
            f"bounds and periods must be None in cross_validate but for {those}; got {method!r}: "
            f"write cukde.bandwidth.{estimate.rule}(X, bounds=bounds, periods=periods), a rule that takes them"
        )


def of_kinds(method: Any, bandwidths: Any, objective: Any, covariance: Any) -> None:
    """Raise for what is not searched where columns have categories."""
    given = {"method": method, "objective": objective, "bandwidths": bandwidths, "covariance": covariance}
    only = {"method": "kde", "objective": "likelihood", "bandwidths": None, "covariance": False}
    for name, value in given.items():
        if value is not only[name] and not (isinstance(value, str) and value == only[name]):
            raise ValueError(
                f"{name} must be {only[name]!r} where kinds are given or columns have categories; got {value!r}"
            )


def varies(widths: np.ndarray, but: str = "") -> None:
    """Raise for constant columns; ``but`` says what else they may differ by."""
    constant = np.flatnonzero(widths == 0)
    if constant.size:
        raise ValueError(
            f"X must vary in every column, among the rows of positive weight; constant columns{but}: "
            f"{', '.join(map(str, constant))}: drop them or set h by hand"
        )


def constant(columns: list[int]) -> None:
    """Raise for columns that are constant."""
    if columns:
        raise ValueError(f"X must vary in every column; constant columns: {', '.join(map(str, columns))}")


def on_a_line(periodic: bool) -> None:
    """Raise for periods beside a covariance, of which there is none around a circle."""
    if periodic:
        raise ValueError(
            "periods must be None with covariance=True, which is of data on a line; write covariance=False for a "
            "deviation around each period"
        )


def independent(covariance: np.ndarray, means: np.ndarray, dtype: np.dtype) -> None:
    """Raise for columns that depend on each other linearly, to rounding."""
    if not density_check.independent(covariance, means, dtype):
        raise ValueError(
            "X must have columns that do not depend on each other linearly, and more rows than columns, for a "
            "covariance of full rank: leave out columns, or take a deviation for each, covariance=False"
        )


def variances(of_kernel: np.ndarray) -> None:
    """Raise for variances of a covariance, (d,), that leave the range of float64 or, close to 0, its digits."""
    least, largest = np.finfo(np.float64).tiny, np.finfo(np.float64).max
    beyond = np.flatnonzero(~((of_kernel >= least) & (of_kernel <= largest)))
    if beyond.size:
        k = int(beyond[0])
        raise ValueError(
            f"X must have a spread whose square is in the range of float64, {least:.2g} to {largest:.2g}, for a "
            f"covariance; column {k} would have {of_kernel[k]:g}: rescale it, or take a deviation for each column, "
            "covariance=False"
        )


def bandwidths(values: Any, d: int) -> np.ndarray:
    """Return deviations, (B, d) float64, of (B,) numbers or (B, d) deviations on the host."""
    if isinstance(values, str):
        raise ValueError(f"bandwidths must be numbers; got {values!r}: write None for a grid about the reference rule")
    core_check.unmasked("bandwidths", values)
    try:
        out = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"bandwidths must be a rectangular array of numbers: {error}") from None
    if out.size == 0:
        raise ValueError(f"bandwidths must be at least one; got shape {out.shape}")
    if out.dtype.kind not in "fiu" or out.dtype.itemsize > 8:
        raise TypeError(f"bandwidths must be real numbers; got {values!r}")
    if out.ndim == 0:
        raise ValueError(f"bandwidths must be several, of shape (B,) or (B, {d}); got the number {values!r}: write [h]")
    if out.ndim > 2 or (out.ndim == 2 and out.shape[1] != d):
        raise ValueError(
            f"bandwidths must have shape (B,), each for every column, or (B, {d}), a deviation a column; "
            f"got shape {out.shape}"
        )
    out = out.astype(np.float64)
    if not np.isfinite(out).all():
        raise ValueError("bandwidths must be finite; they hold NaN or infinity")
    if not (out > 0).all():
        raise ValueError(f"bandwidths must be positive; the smallest is {out.min():g}")
    if (out.max(axis=0) / _RATIO >= out.min(axis=0)).any():
        raise ValueError(
            f"bandwidths must lie within a factor of {_RATIO:g}; they go from {out.min():g} to {out.max():g}"
        )
    return out if out.ndim == 2 else np.repeat(out[:, None], d, axis=1)


def within_reach(widths: np.ndarray, least: np.ndarray, *, single: bool) -> None:
    """Raise where squared distances in bandwidths would leave the range of the arithmetic.

    ``widths`` are the largest distances to a row, a column each, and ``least`` the smallest bandwidths.
    """
    limit = 1e18 if single else 1e150
    radius = float(np.linalg.norm(widths / limit / least))
    if not radius < 1:
        raise ValueError(
            f"X must span less than {limit:g} of the smallest bandwidths; it spans {radius:.3g} times as many: "
            "leave out bandwidths that are so small"
        )


def scores(values: np.ndarray) -> np.ndarray:
    """Raise where no bandwidth can be chosen, because densities leave the range of float64."""
    if np.isnan(values).any() or not np.isfinite(values.max()) or not values.any():
        raise ValueError(
            "X has densities beyond the range of float64 (2e-308 to 1.8e308, in units of 1/volume): rescale its "
            'columns to a spread of about 1, or write objective="likelihood"'
        )
    return values


CHAIN = "autocorrelation"
"""The value of ``n_eff`` that finds the number from the rows in their order."""


def n_eff(value: Any) -> float | str | None:
    """Return an effective number of rows, or the way to find it."""
    if isinstance(value, str):
        core_check.option("n_eff", value, (CHAIN,))
        return value
    if value is None:
        return None
    if getattr(value, "shape", None) == ():
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f'n_eff must be a number or "{CHAIN}"; got {value!r}')
    return float(value)


def effective_rows(value: float, n: int) -> float:
    """Return a number of rows, at most as many as there are."""
    if not 0 < value <= n:
        raise ValueError(f"n_eff must lie in (0, {n}], at most the number of rows; got {value:g}")
    return value


def chains(value: Any, n: int) -> int:
    """Return the number of chains that rows consist of, of enough rows each."""
    count = core_check.count("chains", value)
    if n % count or n // count < LEAST_OF_CHAIN:
        raise ValueError(
            f"chains must divide the {n} rows of X into chains of the same length, at least {LEAST_OF_CHAIN} rows; "
            f"got {count}"
        )
    return count


def two_rows(n: int, effective: float | None = None, *, dependent: bool = False) -> None:
    """Raise where a deviation cannot be had: one row, or weights that leave but one."""
    if n < 2:
        raise ValueError(f"X must have at least 2 rows for a bandwidth; got {n}")
    if dependent and effective is not None and effective <= 1:
        raise ValueError(f"n_eff must leave more than one effective row, beside the weights; got {effective:.3g}")
    if effective is not None and effective <= 1:
        raise ValueError("weights must not all rest on one row: a bandwidth needs two that count")


def one_column(d: int) -> None:
    """Raise for more columns than a rule for one dimension takes."""
    if d > 1:
        raise ValueError(
            f"X must have one column for the improved Sheather-Jones rule; got {d}: write "
            "cukde.bandwidth.silverman(X) or cukde.bandwidth.scott(X), which give a deviation for each column"
        )


WIDEST = (
    "the improved Sheather-Jones rule has no bandwidth for {:.3g} effective rows, as of few rows or of one that has "
    "most of the weight; the result is the widest that any density of this standard deviation needs: leave out rows "
    "that outweigh the others, or write cukde.bandwidth.silverman(X, weights=weights)"
)


def plug_in(h: float | None, *, in_domain: bool = False) -> float:
    """Return the bandwidth that the improved Sheather-Jones rule found; raise where it found none."""
    if h is None and in_domain:
        raise ValueError(
            "X has no bandwidth by the improved Sheather-Jones rule: its values are too few, or spread evenly between "
            "two bounds or around a period, or many rows share values that lie further apart than the bandwidth would "
            "be; write cukde.bandwidth.silverman(X, weights=weights, bounds=bounds, periods=periods)"
        )
    if h is None:
        raise ValueError(
            "X has no bandwidth by the improved Sheather-Jones rule: many rows share, or all but share, values that "
            "lie further apart than the bandwidth would be; write cukde.bandwidth.silverman(X)"
        )
    return h


def ranges(widths: np.ndarray) -> None:
    """Raise for constant columns, and for a range that float64 cannot hold."""
    varies(widths)
    endless = np.flatnonzero(np.isinf(widths))
    if endless.size:
        raise ValueError(f"X must span less than 1.8e308 in every column; column {endless[0]} does not: rescale it")


LEAST_ROWS_OF_FOLDS = 10


def methods(names: Any, known: Collection[str]) -> tuple[str, ...]:
    """Return names of methods to choose from."""
    if isinstance(names, str):
        raise TypeError(f"methods must be a sequence of names; got {names!r}: write [{names!r}]")
    out = tuple(core_check.sequence("methods", names, "names"))
    if not out:
        raise ValueError(f"methods must be at least one of {', '.join(map(repr, known))}; got none")
    for name in out:
        core_check.option("methods", name, tuple(known))
    if len(set(out)) < len(out):
        raise ValueError(f"methods must be different; got {out}")
    return out


def most_rows(value: Any) -> int:
    """Return how many rows are compared at most."""
    out = core_check.count("most_rows", value)
    if out < LEAST_ROWS_OF_FOLDS:
        raise ValueError(f"most_rows must be at least {LEAST_ROWS_OF_FOLDS}; got {out}")
    return out


def rows_of_folds(n: int) -> None:
    """Raise where there are too few rows to leave some out."""
    if n < LEAST_ROWS_OF_FOLDS:
        raise ValueError(
            f"X must have at least {LEAST_ROWS_OF_FOLDS} rows of positive weight to choose a method by; got {n}: write "
            "cukde.bandwidth.silverman(X) and cukde.kde"
        )
