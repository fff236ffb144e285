"""Forwarding of calls with Dask collections to the function of the same name in the family's Dask module."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec, TypeVar

import numpy as np

from cukde.core import keywords, words

P = ParamSpec("P")
T = TypeVar("T")

_PACKAGES = ("dask.", "dask_expr.", "dask_cudf.")
_USUAL = {np.ndarray, float, int, bool, str, type(None), list, tuple}  # at a third of the cost


def is_dask(a: Any) -> bool:
    """Whether ``a`` is a Dask collection, by the module of its type; nothing is imported."""
    kind = type(a)
    return kind not in _USUAL and kind.__module__.startswith(_PACKAGES)


def any_dask(args: Iterable[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether any argument of a call is a Dask collection: a form for collections then takes it."""
    return any(map(is_dask, args)) or any(map(is_dask, kwargs.values()))


def meta(a: Any) -> Any:
    """Return a sample of the blocks of a Dask collection, or None if it has none; return anything else unchanged."""
    return getattr(a, "_meta", None) if is_dask(a) else a


_plain: dict[str, Callable[..., Any]] = {}
_IN_MEMORY = ("boundary", "kinds", "nan_policy", "out", "signed")
_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def over_dask(
    module: str, before: Callable[[dict[str, Any]], None] | None = None
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Make a public function accept Dask collections; other calls take a microsecond longer.

    Calls with a collection go to the function of the same name in ``module``, the family's Dask module, after
    ``before`` has checked their arguments by name, and taken out keywords that the form does not have.
    """

    def decorated(function: Callable[P, T]) -> Callable[P, T]:
        _plain[function.__name__] = function
        names = [name for name, each in inspect.signature(function).parameters.items() if each.kind is not _KEYWORD]

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            if not any_dask(args, kwargs):
                return function(*args, **kwargs)
            given = dict(zip(names, args, strict=False)) | kwargs
            if before is not None:
                before(given)
            form: Callable[..., T] = getattr(importlib.import_module(module), function.__name__)
            return form(*args, **{name: given[name] for name in kwargs if name in given})

        return call

    return decorated


def dask_form(**own: Any) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Give a Dask form the signature of the function that it is of, but for what arrays in memory alone have.

    So a form states the options that it uses itself, and takes the others as they are. It has ``own`` keywords besides,
    with their defaults, which the docstring of ``cukde.dask.kde`` describes. With ``devices`` one task has all blocks,
    see :mod:`cukde.core.dask.together`. Floating-point errors are ignored, see :mod:`cukde.core.quiet`.
    """

    def decorated(function: Callable[..., T]) -> Callable[..., T]:
        form, of_arrays = inspect.signature(function), inspect.signature(_plain[function.__name__])
        taken = [
            form.parameters.get(name, each) for name, each in of_arrays.parameters.items() if name not in _IN_MEMORY
        ]
        more = [inspect.Parameter(name, _KEYWORD, default=value) for name, value in own.items()]
        signature = form.replace(parameters=[*taken, *more])

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> T:
            try:
                given = signature.bind(*args, **kwargs)
            except TypeError as error:
                words.unknown_keyword(error, function.__name__, kwargs, signature.parameters)
                raise TypeError(f"{function.__name__}() {error}") from None
            devices = given.arguments.pop("devices", None)
            with np.errstate(all="ignore"):
                out = function(*given.args, **given.kwargs)
                if devices is None:
                    return out
                shared = {name: value for name, value in given.arguments.items() if name not in own}
                together: Callable[..., T] = importlib.import_module("cukde.core.dask.together").together
                return together((plain(function.__name__).__module__, function.__name__), out, shared, devices)

        call.__signature__ = signature  # type: ignore[attr-defined]
        described = keywords.documented(call.__doc__, [*own], like="cukde.dask.kde") if own else call.__doc__
        call.__doc__ = keywords.documented(described, [*signature.parameters], like=f"cukde.{function.__name__}")
        return call

    return decorated


def takes_collections(function: Callable[..., Any]) -> bool:
    """Whether a public function has a form for Dask collections: it is what :func:`over_dask` has returned."""
    of = getattr(function, "__wrapped__", None)
    return of is not None and _plain.get(function.__name__) is of


def plain(name: str) -> Callable[..., Any]:
    """Return the undecorated function of this name, for the blocks of a collection."""
    return _plain[name]
