"""Argument checks of ``gaussian_kde``, with SciPy's errors where SciPy has some."""

from __future__ import annotations

import numbers
from types import ModuleType
from typing import Any

import numpy as np

from cukde.core import check, dispatch, words
from cukde.core.entry.names import named
from cukde.density import check as density_check

_EXTENDED = np.dtype(np.longdouble)
_IS_DOUBLE = _EXTENDED.itemsize == 8  # as on Windows: the two dtypes are equal
_LEAST = 1e-150  # of a factor, whose square is a number of float64


def extended(dtype: Any) -> bool:
    """Whether a dtype is one of more than double precision."""
    return not _IS_DOUBLE and bool(dtype == _EXTENDED)


def numbers_of(name: str, a: Any, backend: ModuleType) -> Any:
    """Return ``a`` as an array of the backend of a real numeric dtype, extended precision among them."""
    check.no_collection(name, a)
    if isinstance(a, np.ndarray | np.generic) and extended(a.dtype):
        return np.asarray(a)
    return check.array(name, a, backend, points="columns")


def dataset(a: Any, backend: ModuleType) -> Any:
    """Return data of shape (d, n); a vector is data of one dimension."""
    out = backend.xp.atleast_2d(numbers_of("dataset", a, backend))
    if out.ndim > 2:
        raise ValueError(f"dataset must have shape (d, n), or (n,) for one dimension; got {out.shape}")
    if not out.size > 1:
        raise ValueError(f"`dataset` input should have multiple elements; got shape {out.shape}")
    d, n = out.shape
    if d > n:
        raise ValueError(
            "Number of dimensions is greater than number of samples. This results in a singular data covariance "
            f"matrix. Each *column* of dataset is a point, and here are {n} of {d} coordinates: for points in rows "
            "write dataset.T"
        )
    return out


def weights(w: Any, n: int, backend: ModuleType) -> Any:
    """Return weights that sum to 1, float64."""
    out = backend.xp.atleast_1d(numbers_of("weights", w, backend)).astype(np.float64)
    if out.ndim != 1:
        raise ValueError(f"`weights` input should be one-dimensional; got shape {out.shape}")
    if len(out) != n:
        raise ValueError(f"`weights` input should be of length n = {n}; got {len(out)}")
    check.finite({"weights": bool(backend.xp.isfinite(out).all())})
    largest = float(out.max())
    density_check.weight_range(float(out.min()), largest)
    out = out / largest  # the sum of huge weights must not overflow
    return out / out.sum()


def points(x: Any, d: int, backend: ModuleType, name: str = "points") -> Any:
    """Return queries of shape (d, m); a vector is a single point, or in one dimension many."""
    out = x
    if type(x) is not backend.xp.ndarray or x.dtype != np.float64:
        out = numbers_of(name, x, backend)
    if out.ndim < 2:
        out = out.reshape(1, -1)
    if out.ndim > 2:
        raise ValueError(f"{name} must have shape ({d}, m); got {out.shape}")
    if len(out) != d:
        if out.shape != (1, d):
            raise ValueError(f"{name} have dimension {len(out)}, dataset has dimension {d}")
        out = out.reshape(d, 1)
    return out


def factor(value: Any) -> Any:
    """Return the factor of a bandwidth, a positive number as it is given."""
    out = dispatch.to_host(value)
    if isinstance(out, np.ndarray) and out.size == 1:
        out = out.reshape(-1)[0]
    if not isinstance(out, numbers.Real) or isinstance(out, bool) or not _LEAST < _double(out) < 1 / _LEAST:
        raise ValueError(f"bw_method must give a positive, finite number as the factor; got {value!r}")
    return out


def method(value: Any) -> ValueError:
    """Return the error for what is no method of a bandwidth."""
    hint = words.meant(value, ("scott", "silverman")) or (
        ": for a bandwidth in units of the data, or another rule, write cukde.kde(X, Y, h)"
    )
    return ValueError(f"`bw_method` should be 'scott', 'silverman', a scalar or a callable; got {value!r}{hint}")


def freedom(left: float) -> float:
    """Return 1 less the sum of squared weights, by which a covariance is divided."""
    if not left > 0:
        raise ValueError("weights must leave more than a single point, of which there is no covariance")
    return left


def covariance(data_finite: bool) -> ValueError:
    """Return the error for data whose covariance is not finite."""
    if data_finite:
        return ValueError("dataset must have a finite covariance; rescale it")
    return ValueError("dataset must be finite; it holds NaN or infinity: drop or fill those columns")


def independent(covariance: np.ndarray, mean: np.ndarray, dtype: np.dtype) -> None:
    """Raise for data whose covariance is singular, to rounding."""
    covariance, mean = covariance.astype(np.float64, copy=False), mean.astype(np.float64, copy=False)
    if density_check.independent(covariance, mean, np.float64 if extended(dtype) else dtype):
        return
    constant = np.flatnonzero(np.diag(covariance) == 0)
    which = f" Constant: coordinates {', '.join(map(str, constant))}." if constant.size else ""
    raise np.linalg.LinAlgError(
        "The data appears to lie in a lower-dimensional subspace of the space in which it is expressed. This has "
        "resulted in a singular data covariance matrix. Consider performing principal component analysis / "
        f"dimensionality reduction and using `gaussian_kde` with the transformed data.{which}"
    )


def one_dimension(method: str, d: int) -> None:
    """Raise for data of several dimensions."""
    if d != 1:
        raise ValueError(f"{method}() only handles 1D pdfs; dataset has dimension {d}")


def vector(name: str, a: Any, d: int) -> np.ndarray:
    """Return ``d`` numbers on the host, float64; of one dimension also a number."""
    out = np.atleast_1d(np.squeeze(_on_host(name, a)))
    if out.shape != (d,):
        raise ValueError(f"{name} does not have dimension {d}; got shape {out.shape}")
    return out


def matrix(name: str, a: Any, d: int) -> np.ndarray:
    """Return a symmetric matrix on the host, float64; of one dimension also a number."""
    out = np.atleast_2d(_on_host(name, a))
    if out.shape != (d, d):
        raise ValueError(f"{name} does not have dimension {d}; got shape {out.shape}")
    check.finite({name: bool(np.isfinite(out).all())})
    return density_check.bandwidth(out, d, name)


def bounds(low: Any, high: Any, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds of a box on the host, ``d`` numbers each, infinite or not."""
    out = []
    for name, a in (("low_bounds", low), ("high_bounds", high)):
        side = _on_host(name, a)
        if side.ndim > 1 or (side.ndim == 1 and len(side) not in (1, d)):
            raise ValueError(f"{name} must be {d} numbers; got shape {side.shape}")
        side = np.array(np.broadcast_to(side, (d,)))
        _no_nan(name, side)
        out.append(side)
    return out[0], out[1]


def bound(name: str, value: Any) -> float:
    """Return a bound of an interval, infinite or not."""
    out = _on_host(name, value)
    if out.size != 1:
        raise ValueError(f"{name} must be a number; got shape {out.shape}")
    _no_nan(name, out)
    return float(out.reshape(-1)[0])


def levels(q: Any, backend: ModuleType) -> Any:
    """Return levels of quantiles, float64, from 0 to 1."""
    out = numbers_of("q", q, backend).astype(np.float64)
    if not bool(((out >= 0) & (out <= 1)).all()):
        raise ValueError(f"q must hold numbers from 0 to 1; got {q!r}")
    return out


def places(x: Any, backend: ModuleType) -> Any:
    """Return queries of a distribution function, float64, infinite or not."""
    out = numbers_of("x", x, backend).astype(np.float64)
    if bool(backend.xp.isnan(out).any()):
        raise ValueError("x must not hold NaN: drop or fill those entries")
    return out


def dimensions(chosen: Any, d: int) -> np.ndarray:
    """Return the numbers of dimensions to keep, from 0."""
    given = np.atleast_1d(density_check.rectangular("dimensions", dispatch.to_host(chosen)))
    if given.ndim != 1 or not np.issubdtype(given.dtype, np.integer):
        raise ValueError(
            "Elements of `dimensions` must be integers - the indices of the marginal variables being retained; "
            f"got {chosen!r}"
        )
    out = np.where(given < 0, d + given, given)
    if len(np.unique(out)) != len(out):
        raise ValueError(f"All elements of `dimensions` must be unique; got {chosen!r}")
    invalid = (out < 0) | (out >= d)
    if invalid.any():
        raise ValueError(f"Dimensions {given[invalid]} are invalid for a distribution in {d} dimensions.")
    return out


def other(kde: Any, d: int) -> None:
    """Raise for what is no estimate of as many dimensions."""
    if not all(hasattr(kde, name) for name in ("dataset", "covariance", "weights", "d", "n")):
        raise TypeError(f"other must be a gaussian_kde; got {type(kde).__name__}")
    if kde.d != d:
        raise ValueError(f"KDEs are not the same dimensionality: {d} and {kde.d}")


def same_coordinates(names: Any, of_other: Any) -> None:
    """Raise for two estimates whose coordinates have other names, or the same in another order."""
    if named(names) and named(of_other) and names != of_other:
        raise ValueError(f"KDEs must have the same coordinates in the same order: {names} and {of_other}")


def random_state(seed: Any, state: Any) -> Any:
    """Return a source of random numbers, as SciPy makes it of ``seed`` or its alias."""
    if seed is not None and state is not None:
        raise ValueError("seed and random_state are two names of one argument; give one of them")
    given = state if seed is None else seed
    if given is None or given is np.random:
        return np.random.mtrand._rand
    if isinstance(given, np.random.RandomState | np.random.Generator):
        return given
    if isinstance(given, numbers.Integral) and not isinstance(given, bool):
        if not 0 <= int(given) < 2**32:
            raise ValueError(f"seed must be from 0 to {2**32 - 1}; got {given}")
        return np.random.RandomState(int(given))
    raise ValueError(f"seed must be None, an integer, a numpy.random.RandomState or Generator; got {given!r}")


def kernel_covariance(diagonal: np.ndarray) -> None:
    """Raise where a factor takes the variances of the kernel beyond float64."""
    if not ((diagonal > 0) & (diagonal < np.inf)).all():
        raise ValueError(
            "bw_method must give a factor that leaves the covariance in the range of float64; got variances "
            f"from {diagonal.min():g} to {diagonal.max():g}: rescale dataset"
        )


def _double(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # of large integers
        return np.inf


def _on_host(name: str, a: Any) -> np.ndarray:
    check.in_memory(name, a)
    out = density_check.rectangular(name, dispatch.to_host(a))
    if out.dtype.kind not in "fiu":
        raise TypeError(f"{name} must hold real numbers; got {a!r}")
    return out.astype(np.float64)


def _no_nan(name: str, a: np.ndarray) -> None:
    if np.isnan(a).any():
        raise ValueError(f"{name} must not hold NaN")
