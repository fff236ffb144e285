"""Functions that users give to be fitted: of arrays or of single numbers, with results of any library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cukde.core import dispatch

# What functions of numbers, of tensors or with a branch raise at an array.
_NOT_OF_ARRAYS = TypeError, ValueError, AttributeError, RuntimeError
_BEYOND_DOMAIN = ValueError, ArithmeticError


def sampled(func: Callable[..., Any]) -> Callable[[np.ndarray], np.ndarray]:
    """Return func for arrays of any shape, with checked results.

    func itself gets arrays of shape (n,), and one number at a time from the first array on that it cannot take.
    """
    if not callable(func):
        raise TypeError(f"func must be a function of x; got {func!r}")
    by_number = False

    def values(x: np.ndarray) -> np.ndarray:
        nonlocal by_number
        flat = x.reshape(-1)
        y, why = None, None
        with np.errstate(all="ignore"):  # values that are not finite raise below
            if not by_number:
                y, why = _of_array(func, flat)
            if y is None and flat.size:
                y = _of_numbers(func, flat, why)
                by_number = True
        if y is None:
            y = np.empty(0)
        finite = np.isfinite(y)
        if not finite.all():
            i = int(np.argmin(finite))
            raise ValueError(f"func must be finite on the domain; got {y[i]} at x = {float(flat[i])!r}")
        return y.reshape(x.shape)

    return values


def _of_array(func: Callable[..., Any], x: np.ndarray) -> tuple[np.ndarray | None, Exception | str | None]:
    """Return the values at an array, or None and why there are none: what func raised, or what is wrong with them."""
    try:
        y = _on_host(func(x.copy()))
    except _NOT_OF_ARRAYS as error:
        return None, error
    if y.shape != x.shape:
        return None, f"func must return one value for each x: called with shape {x.shape}, it returned shape {y.shape}"
    if y.dtype.kind == "O":
        return None, f"func must return real numbers; got dtype {y.dtype}"
    return _real(y), None


def _of_numbers(func: Callable[..., Any], x: np.ndarray, why: Exception | str | None) -> np.ndarray:
    """Return the values one by one; ``why`` says why there are none at an array."""
    out = np.empty(x.shape)
    for i, number in enumerate(x.tolist()):
        try:
            y = func(number)
        except _BEYOND_DOMAIN as error:
            raise ValueError(f"func must be finite on the domain; it raises at x = {number!r}: {error}") from error
        except _NOT_OF_ARRAYS as error:
            if why is None:
                raise
            if isinstance(why, str):
                raise ValueError(why) from error
            raise TypeError(
                f"func must take an array of float64 or a number; an array raised {type(why).__name__}: {why}; and the "
                f"number {number!r} {type(error).__name__}: {error}; write a function of an array, such as "
                "lambda x: f(torch.from_numpy(x)) for PyTorch's f"
            ) from why
        out[i] = _number(y, why)
    return out


def _number(y: Any, why: Exception | str | None) -> float:
    """Return a single value as a float; any other is what ``why`` says, or an error of its own."""
    try:
        value = _on_host(y)
        if value.shape == () and value.dtype.kind == "O" and not isinstance(y, str | bytes | None):
            return float(y)  # of a type of its own, such as those of mpmath and fractions
    except (*_NOT_OF_ARRAYS, OverflowError) as error:
        raise ValueError(f"func must return real numbers; got {y!r}: {error}") from None
    if value.shape != ():
        what = f"func must return one value for each x: called with a number, it returned shape {value.shape}"
        raise ValueError(why if isinstance(why, str) else what)
    return float(_real(value))


def _real(y: np.ndarray) -> np.ndarray:
    if y.dtype.kind not in "fiub":
        raise ValueError(f"func must return real numbers; got dtype {y.dtype}")
    return y.astype(np.float64)


def _on_host(y: Any) -> np.ndarray:
    """Return what func returned as a NumPy array: lists, arrays on a GPU, and tensors with gradients, too."""
    detach = getattr(y, "detach", None)
    return np.asarray(dispatch.to_host(y if detach is None else detach()))
