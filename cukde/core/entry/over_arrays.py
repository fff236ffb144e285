"""The decorator of public functions that take arrays without columns: those of other libraries come back as such."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from cukde.core import check as core_check
from cukde.core.entry import namespaces, plain
from cukde.core.over_dask import takes_collections
from cukde.core.quiet import quiet

T = TypeVar("T", bound=Callable[..., Any])


def over_arrays(function: T) -> T:
    """Let a function take arrays of PyTorch, JAX and others of the array API.

    Other calls take less than a microsecond longer. Results come back as the first of its arguments that is of another
    library.
    """
    names = [*inspect.signature(function).parameters]
    are_plain = plain.PLAIN.issuperset
    lazily = takes_collections(function)
    own = int(names[0] == "self")  # of a method: never an array
    function = function if own else quiet(function)  # methods are, with the others of their class

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if are_plain(map(type, args[own:])) and are_plain(map(type, kwargs.values())):
            return function(*args, **kwargs)
        if not own and not lazily:  # a method of polynomials takes them itself
            for name, a in (*zip(names, args, strict=False), *kwargs.items()):
                core_check.no_collection(name, a)
        plain.see(args)
        first = next((a for a in (*args, *kwargs.values()) if namespaces.is_foreign(a)), None)
        if first is None:
            return function(*args, **kwargs)
        by_position = [_taken(names[min(k, len(names) - 1)], a) for k, a in enumerate(args)]
        by_name = {name: _taken(name, a) for name, a in kwargs.items()}
        return namespaces.mapped(function(*by_position, **by_name), first)

    return call  # type: ignore[return-value]


def _taken(name: str, a: Any) -> Any:
    return namespaces.taken(name, a) if namespaces.is_foreign(a) else a
