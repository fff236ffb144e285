"""Forwarding of calls with Dask collections to the function of the same name in the family's Dask module."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
T = TypeVar("T")

_PACKAGES = ("dask.", "dask_expr.", "dask_cudf.")
_USUAL = {np.ndarray, float, int, bool, str, type(None), list, tuple}  # at a third of the cost


def is_dask(a: Any) -> bool:
    """Whether ``a`` is a Dask collection, by the module of its type; nothing is imported."""
    kind = type(a)
    return kind not in _USUAL and kind.__module__.startswith(_PACKAGES)


def meta(a: Any) -> Any:
    """Return a sample of the blocks of a Dask collection, or None if it has none; return anything else unchanged."""
    return getattr(a, "_meta", None) if is_dask(a) else a


_plain: dict[str, Callable[..., Any]] = {}


def over_dask(
    module: str, before: Callable[[dict[str, Any]], None] | None = None
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Make a public function accept Dask collections; other calls take a microsecond longer.

    Calls with a collection go to the function of the same name in ``module``, the family's Dask module, after
    ``before`` has checked their keyword arguments.
    """

    def decorated(function: Callable[P, T]) -> Callable[P, T]:
        _plain[function.__name__] = function

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            for a in (*args, *kwargs.values()):
                if is_dask(a):
                    if before is not None:
                        before(kwargs)
                    form: Callable[..., T] = getattr(importlib.import_module(module), function.__name__)
                    return form(*args, **kwargs)
            return function(*args, **kwargs)

        return call

    return decorated


def takes_collections(function: Callable[..., Any]) -> bool:
    """Whether a public function has a form for Dask collections."""
    return function.__name__ in _plain


def plain(name: str) -> Callable[..., Any]:
    """Return the undecorated function of this name, for the blocks of a collection."""
    return _plain[name]
