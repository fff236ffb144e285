"""Argument checks of Kendall's tau; where SciPy raises an error too, its type and its first words are SciPy's."""

from __future__ import annotations

import operator
from types import ModuleType
from typing import Any

import numpy as np

from cukde.core import check as core_check
from cukde.core.frames.numbers import are_numbers, has_all_of, lacking, ranks

NAN_POLICIES = ("propagate", "omit", "raise")


def alternative(value: Any) -> None:
    """Check the alternative hypothesis."""
    if not isinstance(value, str) or value not in ("two-sided", "less", "greater"):
        raise ValueError(f"`alternative` must be 'less', 'greater', or 'two-sided'; got {value!r}")


def comparable(dtype: np.dtype) -> bool:
    """Whether the backends compare values of this dtype: real numbers of up to 8 bytes."""
    return dtype.kind in "fiub" and dtype.itemsize <= 8


def sample(name: str, a: Any, backend: ModuleType) -> Any:
    """Return a sample as an array of the backend; dtypes that only NumPy can compare are accepted on the CPU."""
    try:
        out = _asarray(name, a, backend)
    except ValueError as error:
        raise ValueError(f"{name} must be a rectangular array: {error}") from None
    if out.dtype.kind == "c" or out.dtype.names:
        raise TypeError(f"{name} must hold values that have an order; got dtype {out.dtype}")
    if not comparable(out.dtype) and backend.xp is not np:
        raise TypeError(f"{name} must hold real numbers of up to 8 bytes on the GPU; got dtype {out.dtype}")
    return out.reshape(1) if out.ndim == 0 else out


def ranked(name: str, values: np.ndarray, omitted: np.ndarray) -> np.ndarray:
    """Return ranks of values that NumPy compares, NaN where omitted."""
    try:
        return ranks(values, omitted)
    except TypeError as error:
        raise TypeError(f"{name} must hold values that have an order: {error}") from None


def mask_on_host(name: str, backend: ModuleType) -> None:
    """Check that a masked sample stays on the CPU."""
    if backend.xp is not np:
        raise TypeError(
            f'{name} must not be masked on the GPU; write {name}.astype(float).filled(numpy.nan) and nan_policy="omit"'
        )


def matrix(name: str, A: Any, backend: ModuleType, nan_policy: str | None = None) -> Any:
    """Return a matrix with a variable in each column, as an array of the backend.

    With a policy, which blocks of a matrix have not, objects and masked arrays become ranks, NaN where one is missing.
    """
    masked = np.ma.is_masked(A)
    if masked and nan_policy != "omit":
        raise ValueError(
            f'{name} must not have masked entries; write nan_policy="omit" where there is one, or drop those rows, '
            f"numpy.ma.compress_rows({name})"
        )
    try:
        out = _asarray(name, A.data if masked else A, backend)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a rectangular array of numbers: {error}") from None
    flags = lacking(out) if out.dtype == object and nan_policy is not None else None
    if not comparable(out.dtype) and (flags is None or out.ndim == 0 or not are_numbers(out[~flags])):
        raise ValueError(core_check.not_real(name, A, out))
    if out.ndim != 2:
        raise ValueError(f"{name} must have shape (rows, columns), a variable a column; got {out.shape}")
    if masked or flags is not None:
        flags = lacking(out) if flags is None else flags
        out = backend.asarray(ranked(name, out, flags | np.ma.getmaskarray(A) if masked else flags))
    return out


def _asarray(name: str, a: Any, backend: ModuleType) -> Any:
    """Return an array of the backend, of objects where NumPy would round integers beside floats."""
    out = backend.asarray(a)
    if isinstance(a, list | tuple) and out.dtype.kind == "f" and not has_all_of(out, a):
        return np.asarray(a, object)
    if out.dtype == object and out.ndim == 0:
        core_check.in_memory(name, a)
    return out


def same_rows(A: Any, B: Any) -> None:
    """Check that two matrices have the same number of rows."""
    if B.shape[0] != A.shape[0]:
        raise ValueError(f"B must have {A.shape[0]} rows like A; got shape {B.shape}")


def length(x: Any, y: Any) -> int:
    """Return the common size of two flattened samples; as in SciPy, a size below 2 is not compared with the other."""
    if x.size != y.size and min(x.size, y.size) > 1:
        raise ValueError(f"{_INCOMPATIBLE} x has {x.size} values and y has {y.size}; give axis to broadcast them")
    return int(min(x.size, y.size))


def common_shape(x: Any, y: Any) -> tuple[int, ...]:
    """Return the shape to which two samples broadcast."""
    try:
        return np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        raise ValueError(f"{_INCOMPATIBLE} x has shape {x.shape} and y {y.shape}") from None


_INCOMPATIBLE = "Array shapes are incompatible for broadcasting."


def axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return one axis or several as a tuple of non-negative axes, in the given order."""
    out = []
    for a in axis if core_check.dimensions("axis", axis) else (axis,):
        try:
            i = operator.index(a)
        except TypeError:
            raise TypeError(f"axis must be an integer, a tuple of integers, or None; got {axis!r}") from None
        if not -ndim <= i < ndim:
            raise np.exceptions.AxisError(i, ndim)
        out.append(i % ndim)
    if len(set(out)) < len(out):
        raise ValueError(f"axis must not name one twice; got {axis!r}")
    return tuple(out)


def no_nan(rows: np.ndarray | None = None, **arrays: Any) -> None:
    """Raise for the first array that holds NaN; ``rows`` says instead which rows of masked samples hold it."""
    if rows is not None:
        if rows.any():
            raise ValueError(_NAN_FOUND.format("a sample"))
        return
    for name, a in arrays.items():
        if a.dtype.kind == "f" and bool((a != a).any()):
            raise ValueError(_NAN_FOUND.format(name))


def nan_in_columns(name: str, columns: list[int], rows: list[int]) -> None:
    """Raise for ``columns`` of a matrix that hold NaN, the first of them in ``rows``."""
    few = ", ".join(map(str, rows[:5]))
    which = f"{name}, in {len(columns)} of its columns (column {columns[0]} at rows {few}),"
    raise ValueError(_NAN_FOUND.format(which))


_NAN_FOUND = "The input contains nan values: {} does; drop them or fill them"


def one_name(distribution: str) -> None:
    """Raise where ``distribution`` is given beside ``method``, its other name."""
    if distribution != "auto":
        raise TypeError("distribution and method must not both be given: method is SciPy's name of distribution")


def exact_without_ties(tied: Any) -> None:
    """Raise where ties rule out the exact distribution."""
    if bool(tied.any()):
        raise ValueError('Ties found, exact method cannot be used: set distribution to "auto" or "asymptotic"')
