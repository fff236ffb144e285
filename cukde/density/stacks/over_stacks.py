"""Functions that take stacks as well, X of three dimensions: such calls go to :mod:`cukde.density.stacks.api`."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from cukde.core.over_dask import is_dask
from cukde.density.stacks import check

T = TypeVar("T", bound=Callable[..., Any])

_LISTS = (list, tuple)


def is_stack(a: Any) -> bool:
    """Whether ``a`` has three dimensions: an array of any library, or lists; nothing is converted."""
    return _dimensions(a) == 3


def _dimensions(a: Any) -> int:
    """Dimensions of an array-like, of lists by their first entries; 0 where it does not say."""
    deep = 0
    while isinstance(a, _LISTS) and a:
        a, deep = a[0], deep + 1
    dimensions = getattr(a, "ndim", None)
    if dimensions is None:
        dimensions = len(getattr(a, "__cuda_array_interface__", {}).get("shape", ()))
    return deep + dimensions if isinstance(dimensions, int) else deep


def over_stacks(function: T) -> T:
    """Let a public function take a stack for ``X``; other calls cost it a microsecond."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not is_stack(args[0] if args else kwargs.get("X")):
            return function(*args, **kwargs)
        arguments = inspect.signature(function).bind(*args, **kwargs).arguments  # or a TypeError
        check.no_leave_one_out(arguments.pop("leave_one_out", False))
        check.no_devices(arguments.pop("devices", None))
        check.no_dask({name: is_dask(a) for name, a in arguments.items()})
        return getattr(importlib.import_module("cukde.density.stacks.api"), function.__name__)(**arguments)

    return call  # type: ignore[return-value]
