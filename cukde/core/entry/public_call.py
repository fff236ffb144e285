"""The decorator of public functions that take data in columns, between their users and the code that takes arrays."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from cukde.core import words
from cukde.core.entry import outputs, plain, returned as entry_returned
from cukde.core.entry.given import Chosen, Entry, Given
from cukde.core.entry.returned import Returned
from cukde.core.over_dask import any_dask, takes_collections

T = TypeVar("T", bound=Callable[..., Any])


def public_call(
    returned: Returned | None = None,
    *,
    chosen: Chosen | None = None,
) -> Callable[[T], T]:
    """Let a public function take frames, and arrays of other libraries.

    Calls with plain arrays take less than a microsecond longer. Parameters say by their names what is done: data ``X``;
    what goes with their rows; points in the same columns; bandwidths and options by column. ``nan_policy`` is for this
    decorator, unless it has other values there; the function only names it in its signature.

    Parameters
    ----------
    returned : callable, optional
        Brings a result to what its user expects, by the functions of :mod:`cukde.core.entry.returned`. Default: to
        arrays of the library of ``X``.
    chosen : callable, optional
        For a function whose queries have some of the columns of ``X``: takes the arguments, the names of the columns
        and their number, and returns the positions of those columns. Such a function finds the names at ``X``.
    """

    def decorated(function: T) -> T:
        parameters = inspect.signature(function).parameters
        keyword = inspect.Parameter.KEYWORD_ONLY
        positional = tuple(name for name, each in parameters.items() if each.kind is not keyword)
        rest = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        required = (name for name, each in parameters.items() if each.default is each.empty and each.kind not in rest)
        needed = frozenset(required)
        policies = getattr(parameters.get("nan_policy"), "default", None)
        own = frozenset(["nan_policy"] if policies == "raise" else [])
        are_plain = plain.PLAIN.issuperset
        rest_too = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
        entry = Entry(positional, needed, own, chosen, takes_collections(function), "kinds" in parameters)
        to_user = returned or entry_returned.as_arrays

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with np.errstate(all="ignore"):  # see :mod:`cukde.core.quiet`
                try:
                    if not (rest_too or kwargs.keys() <= parameters.keys()) and not any_dask(args, kwargs):
                        raise TypeError("an unexpected keyword argument")
                    if (
                        are_plain(map(type, args))
                        and are_plain(map(type, kwargs.values()))
                        and own.isdisjoint(kwargs)
                        and not (outputs.forced and outputs.asked_for(sys._getframe(1)))
                    ):
                        return function(*args, **kwargs)
                    given = Given(entry, args, kwargs, sys._getframe(1))
                    result = function(*given.args, **given.arguments)
                except TypeError as error:
                    words.unknown_keyword(error, function.__name__, kwargs, parameters)
                    raise
                return result if given.lazy else to_user(given, result)

        return call  # type: ignore[return-value]

    return decorated
