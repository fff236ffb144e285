"""Errors of the arguments of densities that a user can cause, raised before anything is summed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from types import ModuleType
from typing import Any

import numpy as np

from cukde.core import words
from cukde.core.check import array, count, number, option, unmasked
from cukde.core.dtypes import of_results
from cukde.density.rules_by_name import ABRAMSON

PRECISIONS = ("float32", "tf32", "ieee", "float64")

MOST_RTOL = 0.1
"""Largest relative tolerance of a sum."""

MOST_STEPS = 100
"""Most steps of debiasing: each comes nearer to where they lead by a half or more."""


_EPS = float(np.finfo(np.float64).eps)
_ROUNDING = 8  # times what rounding may leave of a variance that is 0
_MOST_NOISE = 0.03  # of a deviation: columns of few different numbers far from 0 count for what they are


def points(name: str, a: Any, backend: ModuleType) -> Any:
    """Return ``a`` as a two-dimensional array of points, one a row; a vector is points of one dimension."""
    out = array(name, a, backend)
    if out.ndim not in (1, 2):
        one = f": write [{out}] for a single number" if out.ndim == 0 else ""
        raise ValueError(f"{name} must have shape (rows, columns), or (rows,) for one dimension; got {out.shape}{one}")
    if out.ndim == 2 and out.shape[1] == 0:
        raise ValueError(f"{name} must have at least one column; got shape {out.shape}")
    return out


def data(X: Any, backend: ModuleType, name: str = "X") -> tuple[Any, tuple[int, ...]]:
    """Check training points; return them with shape (n, d), and the shape they came in."""
    out = points(name, X, backend)
    if out.shape[0] == 0:
        raise ValueError(f"{name} must have at least one row; got shape {out.shape}")
    return (out[:, None] if out.ndim == 1 else out), out.shape


def queries(
    Y: Any, d: int, backend: ModuleType, name: str = "Y", which: str = " like X"
) -> tuple[Any, tuple[int, ...]]:
    """Check queries against data of ``d`` columns; return them with shape (m, d), and their own shape."""
    out = points(name, Y, backend)
    if out.ndim == 1:
        if d > 1:
            raise ValueError(
                f"{name} must have {d} columns{which}; got shape {out.shape}: write {name}[None, :] for a single query"
            )
        return out[:, None], out.shape
    if out.shape[1] != d:
        raise ValueError(f"{name} must have {d} columns{which}; got shape {out.shape}")
    return out, out.shape


def values(V: Any, n: int, backend: ModuleType) -> Any:
    """Check the values of a kernel sum; return them as they are, of shape (n,) or (n, k)."""
    out = array("V", V, backend, rounded=True)
    if out.ndim not in (1, 2) or out.shape[0] != n or (out.ndim == 2 and out.shape[1] == 0):
        raise ValueError(f"V must have shape ({n},) or ({n}, k), a row for each row of X; got {out.shape}")
    return out


def one_sign(both: np.ndarray) -> None:
    """Raise where ``both`` (k,) says that a column of values has numbers above 0 and others below."""
    if both.any():
        where = f"column {int(both.argmax())} has" if both.size > 1 else "there are"
        raise ValueError(
            f"V must have no numbers of both signs in a column for log=True; {where} some: take the sums of "
            "numpy.maximum(V, 0) and of numpy.minimum(V, 0)"
        )


def result_dtype(*arrays: Any) -> np.dtype:
    """NumPy's promoted dtype, with float16 raised to float32 and integers to float64."""
    return of_results(*(a.dtype for a in arrays))


def bandwidth(h: Any, d: int, name: str = "h") -> np.ndarray:
    """Check a bandwidth on the host: a positive scalar, (d,) deviations, or a (d, d) covariance; as float64.

    The shape tells which: (), (d,) or (d, d).
    """
    if type(h) is float and 0 < h < math.inf:  # the usual case, at a tenth of the cost
        return np.asarray(h)
    out = real_numbers(name, h)
    if out.shape not in ((), (d,), (d, d)):
        raise ValueError(
            f"{name} must be a scalar, {d} standard deviations of shape ({d},), "
            f"or a covariance of shape ({d}, {d}); got shape {out.shape}"
        )
    if not np.isfinite(out).all():
        raise ValueError(f"{name} must be finite; got {h!r}")
    if out.ndim < 2 and not (out > 0).all():
        raise ValueError(f"{name} must be positive; got {h!r}")
    if out.ndim == 2:
        _symmetric(out, name)
    return out


def real_numbers(name: str, h: Any) -> np.ndarray:
    """Return a bandwidth of any shape on the host, or bandwidths, as float64."""
    no_rule(name, h)
    out = rectangular(name, h)
    if out.dtype.kind not in "fiu" or out.dtype.itemsize > 8:
        raise TypeError(f"{name} must be a real number or an array of them; got {h!r}")
    return out.astype(np.float64)


def no_rule(name: str, h: Any) -> None:
    """Raise for a function, and for the name of a rule where there are no data in memory for it."""
    if callable(h):
        raise TypeError(
            f"{name} must be a real number or an array of them; got {h!r}: write {name}=function(X), "
            "what the function makes of the data"
        )
    if isinstance(h, str):
        raise ValueError(
            f"{name} must be a number or an array here; got {h!r}: a rule for the bandwidth takes data in memory, such "
            f"as a sample of the rows, {name}=cukde.bandwidth.silverman(sample)"
        )
    if isinstance(h, tuple) and hasattr(h, "bandwidth"):
        named = getattr(h, "columns", None) is not None
        found = "dict(zip(found.columns, found.bandwidth))" if named else "found.bandwidth"
        write = f"write {name}={found} of the result, for a density by the same method"
        if getattr(h, "method", None) == ABRAMSON:
            write = f'its local factors take data in memory; write {name}=cukde.bandwidth.select(X, ["kde"]).bandwidth'
        raise ValueError(f"{name} must be a number or an array here; got a {type(h).__name__}: {write}")


def rectangular(name: str, argument: Any) -> np.ndarray:
    """Return a number or nested sequences on the host as an array."""
    unmasked(name, argument)
    try:
        return np.asarray(argument)
    except ValueError as error:
        raise ValueError(f"{name} must be a number or a rectangular array: {error}") from None


def _symmetric(covariance: np.ndarray, name: str) -> None:
    """Raise unless a covariance is symmetric to what float32 arithmetic leaves, relative to its deviations."""
    deviations = np.sqrt(np.abs(np.diag(covariance)))
    asymmetry = np.abs(covariance - covariance.T)
    if (asymmetry > 1e-6 * np.outer(deviations, deviations)).any():
        raise ValueError(f"{name} must be a symmetric covariance; its largest asymmetry is {asymmetry.max():g}")


def cholesky(covariance: np.ndarray, name: str = "h") -> np.ndarray:
    """Lower Cholesky factor of a covariance, or factors of several, or an error that says what is wrong with one."""
    symmetric = (covariance + covariance.swapaxes(-1, -2)) / 2
    try:
        return np.linalg.cholesky(symmetric)
    except np.linalg.LinAlgError:
        if covariance.ndim == 3:  # names the first that has none
            return np.stack([cholesky(one, f"{name}[{i}]") for i, one in enumerate(covariance)])
        least = np.linalg.eigvalsh(symmetric)[0]
        raise ValueError(
            f"{name} must be a positive definite covariance; its smallest eigenvalue is {least:g}"
        ) from None


def independent(covariance: np.ndarray, means: np.ndarray, dtype: Any) -> bool:
    """Whether columns of data are linearly independent, beyond what rounding makes of columns that are not.

    Data of a ``dtype`` are rounded relative to their size, ``means`` included; sums of products add that of float64.
    """
    least = least_correlation(covariance)
    if not least > 0 or len(covariance) == 1:
        return least > 0
    deviations = np.sqrt(covariance.diagonal())
    of_data = float(np.finfo(dtype).eps) if np.dtype(dtype).kind == "f" else _EPS
    noise = min(of_data * math.sqrt(len(covariance) + float(((means / deviations) ** 2).sum())), _MOST_NOISE)
    return least > _ROUNDING * (len(covariance) * _EPS + noise * noise)


def least_correlation(covariance: np.ndarray) -> float:
    """The least eigenvalue of the correlations of a covariance; 0 if a column is constant or has no finite variance."""
    variances = covariance.diagonal()
    if not (variances.min() > 0 and np.isfinite(covariance).all()):
        return 0.0
    deviations = np.sqrt(variances)
    return float(np.linalg.eigvalsh(covariance / deviations / deviations[:, None])[0])


def weights(w: Any, n: int, backend: ModuleType, name: str = "weights", rows_of: str = "X") -> Any:
    """Check the form of weights; their values come with the pre-pass reductions, see :func:`weight_range`."""
    out = array(name, w, backend, rounded=True)
    if out.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), one for each row of {rows_of}; got {out.shape}")
    return out


def precision(name: Any, dtype: np.dtype) -> str:
    """Check a precision; None is the dtype's own."""
    if name is None:
        return "float32" if dtype.itemsize == 4 else "float64"
    if not isinstance(name, str) or name not in PRECISIONS:
        hint = words.meant(name, PRECISIONS)
        raise ValueError(f"precision must be one of {', '.join(PRECISIONS)} or None; got {name!r}{hint}")
    return str(name)


def result_name(dtype: Any) -> np.dtype:
    """Check the dtype of a result."""
    if not isinstance(dtype, str | np.dtype) or dtype not in ("float32", "float64"):
        raise ValueError(f'dtype must be "float32" or "float64"; got {dtype!r}')
    return np.dtype(dtype)


def negative(name: Any) -> None:
    """Check what a Laplace-corrected density does with negative values."""
    if not isinstance(name, str) or name not in ("keep", "clip"):
        raise ValueError(f'negative must be "keep" or "clip"; got {name!r}')


_SIGNED = ": kde, laplace_kde and evaluate_grid take weights of both signs with signed=True"


def weight_range(least: float, largest: float, name: str = "weights") -> None:
    """Raise for negative weights and for weights that are all zero."""
    if least < 0:
        raise ValueError(
            f"{name} must not be negative; the smallest is {least:g}{_SIGNED if name == 'weights' else ''}"
        )
    if largest == 0:
        raise ValueError(f"{name} must not all be zero")


_OF_SIGNED = {
    "log": (False, "a density with weights of both signs may be negative, and then has no logarithm"),
    "leave_one_out": (False, "write cukde.kernel_sum(X, weights, X, h), and take off each row's own weight"),
    "boundary": ("reflect", "the linear kernels' factor is not linear in the weights"),
    "negative": ("keep", "numpy.maximum(p, 0) clips the result"),
}


def of_signed(options: Mapping[str, Any]) -> None:
    """Raise for options that densities with weights of both signs do not have."""
    for name, (needed, instead) in _OF_SIGNED.items():
        if name in options and options[name] != needed:
            raise ValueError(f"{name} must be {needed!r} with signed=True; got {options[name]!r}: {instead}")


def no_rule_of_signed(h: Any) -> None:
    """Raise for a bandwidth that a rule would make of the weights."""
    if isinstance(h, str) or getattr(h, "method", None) == ABRAMSON:
        raise ValueError(
            f"h must be a number or an array with signed=True; got {h!r}: rules take weights that are not negative, "
            "such as cukde.bandwidth.silverman(X, weights=abs(weights))"
        )


def signed_sum(total: float, absolute: float, least: float) -> None:
    """Raise for weights whose sum is not positive, beyond what rounding makes of 0."""
    if not total > least * absolute:
        raise ValueError(
            "weights must have a positive sum with signed=True, which they are divided by; it is "
            f"{total / absolute:.3g} of the sum of their absolute values: write cukde.kernel_sum(X, weights, Y, h), "
            "which divides by nothing"
        )


def factor_range(least: float, largest: float) -> None:
    """Raise for factors of the bandwidth whose squares would leave the range of single precision."""
    low, high = 1e-8, 1e16
    if least <= 0:
        raise ValueError(f"local_factors must be positive; the smallest is {least:g}")
    if least < low or largest > high:
        raise ValueError(
            f"local_factors must lie between {low:g} and {high:g}; they reach from {least:g} to {largest:g}: "
            "divide them by their geometric mean and multiply h by it, or limit them with numpy.clip"
        )


def tolerance(rtol: Any) -> float | None:
    """Return a relative tolerance of a sum; 0 takes all pairs, and None is the precision's own."""
    if rtol is None:
        return None
    if isinstance(rtol, bool) or not isinstance(rtol, Real):
        raise TypeError(f"rtol must be a number from 0 to 0.1, or None; got {rtol!r}")
    if not 0 <= (out := float(rtol)) <= MOST_RTOL:
        raise ValueError(f"rtol must be a number from 0 to 0.1, or None; got {rtol!r}")
    return out


def representable_distance(distance: float, dtype: np.dtype) -> None:
    """Raise for bandwidths so large that no two numbers of a dtype lie as far apart as the passes tell."""
    most = float(np.finfo(dtype).max) / 4
    if distance > most:
        raise ValueError(
            f"h must be smaller: data of {dtype} cannot spread over as many bandwidths as there are passes for"
        )


def steps(value: Any) -> int:
    """Return how often points are moved."""
    out = count("steps", value)
    if out > MOST_STEPS:
        raise ValueError(f"steps must be at most {MOST_STEPS}, from where on points no longer move; got {out}")
    return out


def one_step(h: Any, steps: int, *, own_point: bool, name: str = "h") -> None:
    """Raise where a search is to choose the bandwidth of an estimate that it has no score for."""
    searched = h in ("cross_validate", "select") if isinstance(h, str) else hasattr(h, "methods")
    if searched and (steps > 1 or not own_point):
        asked, got = (
            f"steps={steps}" if steps > 1 else "own_point=False",
            repr(h) if isinstance(h, str) else "a Selection",
        )
        raise ValueError(f'{name} must be a number or "sd" for {asked}; got {got}, of one step with the own point')


def squared_radius(radius: float, single: bool, name: str = "X", *, of_queries: bool = False) -> None:
    """Raise where squared distances in bandwidths leave the range of the arithmetic that sums them.

    ``of_queries`` says that ``name`` is what queries are called, which alone are so far.
    """
    limit = 1e36 if single else 1e300
    if of_queries and not radius < limit:
        raise ValueError(
            f"{name} must lie within {limit**0.5:g} bandwidths of the centre of the data; leave out points that are "
            "so far from them"
        )
    if not radius < limit:
        raise ValueError(
            f"{name} and Y must lie within {limit**0.5:g} bandwidths of their centre; rescale the data or enlarge h"
        )


def queries_are_data(*, itself: bool) -> None:
    """Raise for queries that are not the data, where each leaves out its own datum."""
    if not itself:
        raise ValueError(
            "leave_one_out=True needs the data themselves as queries: pass X for Y, or the same values in their order "
            "(the same collection of Dask's)"
        )


def rows_to_leave_out(n: int, option: str = "leaving out a row's own kernel") -> None:
    """Raise where nothing is left without a row; ``n`` rows have a weight."""
    if n < 2:
        raise ValueError(f"{option} needs two rows or more that have a weight; got {n}")


def effective_rows(value: Any, n: float) -> float | None:
    """Return the number of independent rows that ``n`` rows are worth; None: it is not given."""
    if value is None:
        return None
    out = number("n_eff", value, least=1)
    if out > n:
        raise ValueError(f"n_eff must be at most the number of rows of X, {n}; got {value!r}")
    return out


def one_column(d: int) -> None:
    """Raise for data of several columns."""
    if d > 1:
        raise ValueError(
            f"X must have one column for a distribution function; got {d}: call it for each column, "
            "e.g. cdf(X[:, 0], Y[:, 0], h)"
        )


def boundary(options: Mapping[str, Any]) -> bool:
    """Whether kernels at bounds are linear; local factors have none."""
    value = options.get("boundary", "reflect")
    option("boundary", value, ("reflect", "linear"))
    if value == "linear" and options.get("local_factors") is not None:
        raise ValueError('boundary must be "reflect" with local_factors: each kernel would have bounds of its own')
    return bool(value == "linear")
