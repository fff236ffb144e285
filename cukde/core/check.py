"""Argument checks that several families share, made before anything is computed."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from cukde.core import words
from cukde.core.frames import unread
from cukde.core.frames.columns import not_exact, taken
from cukde.core.frames.libraries import library_of
from cukde.core.frames.numbers import Numbers, has_all, has_all_of, lacking, of_objects, together
from cukde.core.over_dask import is_dask


def array(
    name: str, a: Any, backend: ModuleType, *, missing: bool = False, rounded: bool = False, points: str = "rows"
) -> Any:
    """Return ``a`` as an array of the backend, of a real numeric dtype.

    With ``missing``, masked entries, and None and pandas.NA among objects, become NaN; otherwise they are errors, whose
    advice depends on whether points are rows or columns. Integers that float64 does not have are errors, too, unless
    they may be ``rounded``, where only relative errors matter.
    """
    given = a
    if type(a) is not np.ndarray:
        a = _array_like(name, a, missing=missing, points=points)
    try:
        out = backend.asarray(a)
    except ValueError as error:
        raise ValueError(f"{name} must be a rectangular array of numbers: {error}") from None
    except (TypeError, RuntimeError, BufferError) as error:  # of a dtype, a layout or a state that others do not read
        raise TypeError(f"{name} must hold real numbers in memory; got {type(given).__name__}: {error}") from None
    if out.dtype == object and out.ndim and missing and (found := of_objects(out)) is not None:
        out = backend.asarray(_filled(name, found))
    if out.dtype.kind not in "fiub" or out.dtype.itemsize > 8:
        raise TypeError(not_real(name, given, out))
    if not rounded and (out.dtype.kind != "f" or isinstance(given, list | tuple)):
        exact(name, given, out)
    return out


def _array_like(name: str, a: Any, *, missing: bool, points: str) -> Any:
    """Return frames and masked arrays as arrays, anything else as it is."""
    if library_of(a) is not None:
        return taken(name, a)
    if not missing:
        unmasked(name, a, points)
    elif isinstance(a, np.ma.MaskedArray) and np.ma.is_masked(a):
        return _filled(name, Numbers(a.data.reshape(-1), np.ma.getmaskarray(a).reshape(-1))).reshape(a.shape)
    return a


def exact(name: str, a: Any, out: Any = None) -> None:
    """Raise for integers, of an array or of nested sequences, that float64 does not have; for times, and for records.

    ``out`` is the array that was made of it.
    """
    is_nested = isinstance(a, list | tuple)
    if is_nested and not isinstance(out, np.ndarray):
        try:
            out = np.asarray(a)
        except ValueError:  # of another shape, which is said later
            return
    out = a if out is None else out
    dtype = getattr(out, "dtype", None)
    if not isinstance(dtype, np.dtype):
        return
    if dtype.kind in "mM" or dtype.names:
        raise TypeError(not_real(name, a, out))
    if not (has_all(out) if dtype.kind in "iu" else has_all_of(out, a) if dtype.kind == "f" and is_nested else True):
        raise ValueError(not_exact(name))


def _filled(name: str, numbers: Numbers) -> np.ndarray:
    """Numbers with NaN where one is missing."""
    shape = numbers.values.shape
    flat = Numbers(*(None if each is None else each.reshape(-1) for each in numbers))
    out, rounded = together([flat])
    if rounded is not None:
        raise ValueError(not_exact(name))
    return np.asarray(out.reshape(shape))


def unmasked(name: str, a: Any, points: str = "") -> None:
    """Raise for a masked array with masked entries; what the error says to write is accepted."""
    if not isinstance(a, np.ma.MaskedArray) or not np.ma.is_masked(a):
        return
    drop = f"fill them first, e.g. {name}.filled(1)"
    if points and a.ndim == 1:
        drop = f"drop those rows first, e.g. numpy.ma.compressed({name})"
    elif points and a.ndim == 2:
        drop = f"drop those {points} first, e.g. numpy.ma.compress_{points.replace('umns', 's')}({name})"
    raise ValueError(f"{name} must not have masked entries; {drop}")


def in_memory(name: str, a: Any) -> None:
    """Raise for what is no array, sequence or frame in memory, before anything is asked of it."""
    if unread.call(a) is not None:
        raise TypeError(not_real(name, a, np.array(None)))


def no_collection(name: str, a: Any) -> None:
    """Raise for a Dask collection in a function that has no form for them."""
    if is_dask(a):
        raise TypeError(f"{name} must be an array in memory here; got a Dask collection: write {name}.compute()")


def not_real(name: str, given: Any, out: np.ndarray) -> str:
    """The error of anything but real numbers, with what to write instead where that is known."""
    kind, call = out.dtype.kind, None
    if kind == "O" and out.ndim == 0:
        call = unread.call(given, name)
    elif kind == "O" and (count := int(lacking(out).sum())):
        call = f'{count} missing: drop or fill those rows, or write nan_policy="omit" where there is one'
    elif kind == "O":
        call = _of_objects(name, out)
    elif kind == "M":
        call = f'write ({name} - {name}.min()) / numpy.timedelta64(1, "s") for seconds since the first'
    elif kind == "m":
        call = f'write {name} / numpy.timedelta64(1, "s") for seconds'
    elif out.dtype.names:
        call = f"write numpy.column_stack([{name}[field] for field in {name}.dtype.names])"
    elif "float" in out.dtype.name:  # of more than 64 bits, or such as bfloat16
        call = f"write {name}.astype('float64')"
    return (
        f"{name} must hold real numbers (float16, float32, float64, integers or booleans); got dtype {out.dtype}"
        + (f" of {type(given).__name__}" if out.ndim == 0 and kind == "O" else "")
        + (f": {call}" if call else "")
    )


def _of_objects(name: str, out: np.ndarray) -> str:
    """What to write for objects that are no missing values, if they are numbers."""
    try:
        np.asarray(out, float)
    except (TypeError, ValueError, OverflowError):
        kinds = sorted({type(each).__name__ for each in out.flat} - {"int", "float"})
        return f"of entries of type {', '.join(kinds[:3])}: convert them to numbers, or leave them out"
    return f"write numpy.asarray({name}, float)"


def floating(name: str, a: Any, backend: ModuleType) -> Any:
    """Return ``a`` as an array of the backend, floating-point in native byte order; integers become float64."""
    out = array(name, a, backend, points="")
    if out.dtype.kind == "f" and out.dtype.isnative:
        return out
    return out.astype(out.dtype.newbyteorder("=") if out.dtype.kind == "f" else np.float64, copy=False)


def given(name: str, a: Any) -> None:
    """Raise for None in place of an array."""
    if a is None:
        raise TypeError(f"{name} must be an array; got None")


def option(name: str, value: Any, options: Sequence[str], otherwise: str = "") -> None:
    """Check that a value is one of ``options``; ``otherwise`` names other accepted values."""
    if not isinstance(value, str) or value not in options:  # an array would be compared entry by entry
        known = ", ".join(map(repr, options))
        raise ValueError(f"{name} must be one of {known}{otherwise}; got {value!r}{words.meant(value, options)}")


def flag(name: str, value: Any) -> bool:
    """Return a boolean, also given as 0 or 1; arrays are refused, even those that convert to a boolean."""
    if value is True or value is False:  # the usual case
        return value
    if isinstance(value, bool | np.bool_ | int) and value in (0, 1):
        return bool(value)
    raise ValueError(f"{name} must be True or False; got {value!r}")


MOST = 2**40
"""Of numbers that a caller asks for: more would not fit into any memory, and sizes in bytes would not fit 64 bits."""


def count(name: str, value: Any, least: int = 1, most: float = math.inf) -> int:
    """Return an integer, such as a number of rows."""
    try:
        out = operator.index(value)
    except TypeError:
        out = None
    if out is None or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer; got {value!r}")
    if out < least:
        raise ValueError(f"{name} must be at least {least}; got {out}")
    if out > most:
        raise ValueError(f"{name} must be at most {most}; got {out}")
    return out


def sequence(name: str, value: Any, of: str) -> list[Any]:
    """Return what a sequence or another iterable holds."""
    try:
        return list(value)
    except TypeError:
        raise TypeError(f"{name} must be a sequence of {of}; got {value!r}") from None


def dimensions(name: str, a: Any) -> int:
    """Return how many dimensions an array or nested sequences have, or 0 for anything else."""
    try:
        return np.ndim(a)
    except ValueError as error:
        raise ValueError(f"{name} must be a rectangular array: {error}") from None


def dtype(name: str, value: Any) -> None:
    """Raise for what names no dtype."""
    try:
        np.dtype(value)
    except TypeError:
        raise TypeError(f'{name} must be a dtype, such as "float32"; got {value!r}') from None


def real(name: str, value: Any) -> float:
    """Return a real number, of an integer beyond float64 infinity."""
    if isinstance(value, bool | np.timedelta64) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number; got {value!r}")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def number(name: str, value: Any, least: float = 0, *, above: bool = False) -> float:
    """Return a finite real number of at least ``least``, or with ``above`` greater than it."""
    out = real(name, value)
    if above and not least < out < math.inf:
        raise ValueError(
            f"{name} must be {'positive' if least == 0 else f'more than {least:g}'} and finite; got {value!r}"
        )
    if not out >= least:
        raise ValueError(f"{name} must be at least {least:g}; got {value!r}")
    if out == math.inf:
        raise ValueError(f"{name} must be finite; got {value!r}")
    return out


def devices(value: Any) -> str | tuple[int, ...] | None:
    """Return "all", or numbers of devices, each of them once; None stands for the device of the data."""
    if value is None or (isinstance(value, str) and value == "all"):
        return value
    wanted = f'devices must be "all", None or numbers of GPUs, each once; got {value!r}'
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(wanted)
    numbers = list(value)
    if any(isinstance(one, bool) or not isinstance(one, Integral) for one in numbers):
        raise TypeError(wanted)
    out = tuple(map(int, numbers))
    if not out or min(out) < 0 or len(set(out)) < len(out):
        raise ValueError(wanted)
    return out


def path(name: str, value: Any) -> Path:
    """Return the path of a file; an integer, which ``open`` takes for an open file, is refused."""
    if not isinstance(value, str | os.PathLike) or not isinstance(os.fspath(value), str):
        raise TypeError(f"{name} must be the path of a file, text or os.PathLike; got {value!r}")
    if "\0" in os.fspath(value):
        raise ValueError(f"{name} must be the path of a file, without a zero character; got {value!r}")
    return Path(value)


def finite(flags: Mapping[str, bool]) -> None:
    """Raise for the first array whose flag says that it is not finite."""
    for name, flag in flags.items():
        if not flag:
            raise ValueError(f"{name} must be finite; it holds NaN or infinity: drop or fill those rows")


def proportion(name: str, value: Any) -> float:
    """Return a number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number from 0 to 1; got {value!r}")
    if not 0 <= (out := float(value)) <= 1:
        raise ValueError(f"{name} must be a number from 0 to 1; got {value!r}")
    return out
