"""Numbers of columns: which are missing, which integers float64 does not have, and ranks that compare them exactly."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

_ALL = 2**53  # float64 has all integers up to it


class Numbers(NamedTuple):
    """Numbers of a column, of NumPy or CuPy."""

    values: Any  # real numbers of up to 8 bytes; any where one is missing
    missing: Any | None = None  # flags; None where none is missing but by NaN


def together(columns: Sequence[Numbers], *, by_order: bool = False) -> tuple[Any, int | None]:
    """Return columns as an array (n, d), NaN where a value is missing, and None.

    Columns of different dtypes are promoted as NumPy promotes them. If that rounds an integer, the array is of ranks
    of all numbers ``by_order``; otherwise the first column with such an integer is returned beside it.
    """
    kinds = [np.float64 if _lacks(each) or each.values.dtype == object else each.values.dtype for each in columns]
    dtype = np.result_type(*kinds)
    first = columns[0].values
    if dtype.kind == "f":
        rounded = [k for k, each in enumerate(columns) if not (has_all(each.values) or has_all(_present(each)))]
        if rounded and by_order and isinstance(first, np.ndarray):
            return _ranks_of(columns), None
        if rounded:
            return None, rounded[0]
    out = type(first)((len(first), len(columns)), dtype)  # of CuPy for columns on the GPU
    for k, (values, missing) in enumerate(columns):
        out[:, k] = values
        if missing is not None:
            out[missing, k] = np.nan
    return out, None


def has_all(a: Any) -> bool:
    """Whether float64 has all numbers of an array: of integers beyond 2^53 it lacks most, and all that are objects."""
    if a.dtype == object:
        return False
    if a.dtype.kind not in "iu" or a.dtype.itemsize < 8 or a.size == 0:
        return True
    return (int(a.min()) >= -_ALL and int(a.max()) <= _ALL) or not bool(_split(a)[1].any())


def has_all_of(out: np.ndarray, given: Any) -> bool:
    """Whether an array of floats has the integers of nested sequences of numbers."""
    large = np.abs(out) >= _ALL
    if not large.any():
        return True
    each = zip(out[large].tolist(), np.asarray(given, object)[large].tolist(), strict=True)
    return all(a == int(b) for a, b in each if isinstance(b, Integral))


def of_objects(a: np.ndarray, by_order: bool = False) -> Numbers | None:
    """Take real numbers, None, NaN and pandas.NA from an array of objects; None where it holds anything else.

    The numbers stay objects where float64 would round an integer among them, or ``by_order`` a fraction or a decimal.
    """
    missing = lacking(a)
    if not are_numbers(a[~missing]):
        return None
    present = a[~missing].tolist()
    found = np.array(present, None if present else np.float64)
    if found.dtype.kind not in "fiub" or found.dtype.itemsize > 8:  # fractions and decimals, beyond 64 bits
        if by_order:
            return Numbers(a, missing)
        try:
            found = np.array([float(each) for each in present])
        except OverflowError:
            return Numbers(a, missing)
    if found.dtype.kind == "f" and not has_all_of(found, present):
        return Numbers(a, missing)
    values = np.zeros(a.shape, found.dtype)
    values[~missing] = found
    return Numbers(values, missing if missing.any() else None)


def are_numbers(objects: np.ndarray) -> bool:
    """Whether all objects are real numbers."""
    return all(issubclass(kind, Real | np.bool_ | Decimal) for kind in set(map(type, objects.ravel().tolist())))


def lacking(a: np.ndarray) -> np.ndarray:
    """Flag what is missing: NaN and NaT, which differ from themselves, and among objects None and pandas.NA."""
    flags = np.frompyfunc(_is_missing, 1, 1)(a) if a.dtype == object else a != a
    return np.asarray(flags, bool)


def ranks(values: np.ndarray, omitted: np.ndarray) -> np.ndarray:
    """Return dense ranks as float64, NaN where omitted, for any dtype that NumPy can sort."""
    out = np.full(values.shape, np.nan)
    out[~omitted] = np.unique(values[~omitted], return_inverse=True)[1]
    return out


def _ranks_of(columns: Sequence[Numbers]) -> np.ndarray:
    """Ranks of all numbers of columns together: by what float64 rounds them to, and then by what that leaves."""
    shape = len(columns[0].values), len(columns)
    if any(each.values.dtype == object for each in columns):
        objects = np.empty(shape, object)
        for k, each in enumerate(columns):
            objects[:, k] = each.values
        return ranks(objects, lacking(objects) | _flags(columns, shape))
    pairs = np.zeros(shape, np.complex128)  # in lexicographic order
    for k, (values, _) in enumerate(columns):
        pairs.real[:, k] = values
        if values.dtype.kind in "iu" and values.dtype.itemsize == 8:
            pairs.real[:, k], pairs.imag[:, k] = _split(values)
    return ranks(pairs, np.isnan(pairs.real) | _flags(columns, shape))


def _flags(columns: Sequence[Numbers], shape: tuple[int, int]) -> np.ndarray:
    out = np.zeros(shape, bool)
    for k, each in enumerate(columns):
        if each.missing is not None:
            out[:, k] = each.missing
    return out


def _split(a: Any) -> tuple[Any, Any]:
    """Return integers of 64 bits as sums of two floats: rounded, and the rest."""
    bits = a.dtype.type(32)
    high = (a >> bits).astype(np.float64) * 2.0**32
    low = (a & a.dtype.type(2**32 - 1)).astype(np.float64)
    rounded = high + low
    return rounded, low - (rounded - high)


def _lacks(column: Numbers) -> bool:
    """Whether the dtype of a column has no NaN for its missing values."""
    return column.missing is not None and column.values.dtype.kind != "f"


def _present(column: Numbers) -> Any:
    return column.values if column.missing is None else column.values[~column.missing]


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ == "NAType":
        return True
    differs = value != value
    return isinstance(differs, bool | np.bool_) and bool(differs)
