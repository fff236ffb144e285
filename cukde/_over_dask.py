"""Functions that take Dask collections as well: such calls go to the function of the same name in :mod:`cukde.dask`."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T", bound=Callable[..., Any])

_PACKAGES = ("dask.", "dask_expr.", "dask_cudf.")


def is_dask(a: Any) -> bool:
    """Whether ``a`` is a collection of Dask's; its type's module tells, and nothing is imported."""
    return type(a).__module__.startswith(_PACKAGES)


def meta(a: Any) -> Any:
    """What the blocks of a collection of Dask's are like, None where it does not say; anything else is itself."""
    return getattr(a, "_meta", None) if is_dask(a) else a


def over_dask(function: T) -> T:
    """Let a public function take Dask collections; others cost it three microseconds."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for a in (*args, *kwargs.values()):
            if is_dask(a):
                _without_domain(kwargs)
                return getattr(importlib.import_module("cukde.dask"), function.__name__)(*args, **kwargs)
        return function(*args, **kwargs)

    return call  # type: ignore[return-value]


def _without_domain(options: dict[str, Any]) -> None:
    """Take out bounds and periods that are None; others are not for blocks."""
    for name in ("bounds", "periods"):
        if options.pop(name, None) is not None:
            from cukde._validate_domain import not_for_dask

            raise not_for_dask(name)
