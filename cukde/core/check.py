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
from cukde.core.frames.columns import taken
from cukde.core.frames.libraries import library_of


def array(name: str, a: Any, backend: ModuleType) -> Any:
    """Return ``a`` as an array of the backend, of a real numeric dtype."""
    if isinstance(a, np.ma.MaskedArray) and np.ma.is_masked(a):
        raise ValueError(
            f"{name} must not have masked entries; drop those rows first, e.g. numpy.ma.compress_rows({name})"
        )
    try:
        out = backend.asarray(a)
        if out.dtype == object and library_of(a) is not None:  # a frame of mixed or nullable columns
            out = backend.asarray(taken(name, a))
    except ValueError as error:
        raise ValueError(f"{name} must be a rectangular array of numbers: {error}") from None
    if out.dtype.kind not in "fiub" or out.dtype.itemsize > 8:
        raise TypeError(
            f"{name} must hold real numbers (float16, float32, float64, integers or booleans); got dtype {out.dtype}"
        )
    return out


def floating(name: str, a: Any, backend: ModuleType) -> Any:
    """Return ``a`` as an array of the backend, floating-point in native byte order; integers become float64."""
    out = array(name, a, backend)
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


def count(name: str, value: Any) -> int:
    """Return an integer of at least 1, such as a number of rows."""
    try:
        out = operator.index(value)
    except TypeError:
        out = None
    if out is None or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer; got {value!r}")
    if out < 1:
        raise ValueError(f"{name} must be at least 1; got {out}")
    return out


def number(name: str, value: Any, least: float = 0, *, above: bool = False) -> float:
    """Return a finite real number of at least ``least``, or with ``above`` greater than it."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number; got {value!r}")
    try:
        out = float(value)
    except OverflowError:
        out = math.inf
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
