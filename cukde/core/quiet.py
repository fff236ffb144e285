"""Floating-point errors of NumPy, which no public call raises or warns of.

Densities underflow far from the data and overflow in float32, and checks of numbers compute with those that they
refuse. What a caller has set by ``numpy.seterr``, or makes of warnings, is for the caller's own arithmetic. So public
functions and methods run with these errors ignored, and so do the tasks of Dask, which run in other threads.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T", bound=Callable[..., Any])
C = TypeVar("C", bound=type)


def quiet(function: T) -> T:
    """Let a function run with floating-point errors ignored."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*args, **kwargs)

    return call  # type: ignore[return-value]


def quiet_methods(cls: C) -> C:
    """The same of the public methods and properties of a class, and of its constructor and call."""
    for name, value in list(vars(cls).items()):
        if name.startswith("_") and name not in ("__init__", "__call__"):
            continue
        if isinstance(value, classmethod):
            setattr(cls, name, classmethod(quiet(value.__func__)))
        elif isinstance(value, property) and value.fget is not None:
            setattr(cls, name, property(quiet(value.fget), value.fset, value.fdel, value.__doc__))
        elif inspect.isfunction(value):
            setattr(cls, name, quiet(value))
    return cls


def called(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function so; a task of Dask, whose function may have no name to be pickled by."""
    with np.errstate(all="ignore"):
        return function(*args, **kwargs)
