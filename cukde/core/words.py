"""Words that a user may have meant: options and keywords that are misspelt, or called otherwise in other libraries."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T", bound=Callable[..., Any])

_FACTOR = "h, in units of the data, not SciPy's factor of their deviations"
_ELSEWHERE = {
    "bandwidth": {"h": "h", "bw_method": "bw_method"},
    "bw": {"h": "h", "bandwidth": "bandwidth", "bw_method": "bw_method"},
    "bw_method": {"h": _FACTOR, "bandwidth": _FACTOR.replace("h", "bandwidth", 1)},
    "h": {"bandwidth": "bandwidth", "bw_method": "bw_method, a factor of the deviations"},
    "sample_weight": {"weights": "weights"},
    "weights": {"sample_weight": "sample_weight"},
    "data": {"X": "X", "dataset": "dataset"},
}
"""Keywords of other functions and libraries, and what they are called here, for each parameter that there may be."""


def meant(word: Any, known: Iterable[str]) -> str:
    """Return what a message adds if one of the known words is like this one."""
    by_small_letters = {each.lower(): each for each in known}
    close = difflib.get_close_matches(word.lower(), by_small_letters, 1) if isinstance(word, str) else []
    return f": did you mean {by_small_letters[close[0]]!r}?" if close else ""


def either(options: Sequence[str]) -> str:
    """What a message says of several options that serve."""
    *others, last = [f'"{option}"' for option in options]
    return f"{', '.join(others)} or {last}" if others else last


def suggested(function: T) -> T:
    """Let the TypeError of an unknown keyword say what it is called here; other calls take no longer."""
    parameters = inspect.signature(function).parameters

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            unknown_keyword(error, function.__qualname__.removesuffix(".__init__"), kwargs, parameters)
            raise

    return call  # type: ignore[return-value]


def unknown_keyword(error: TypeError, name: str, given: Mapping[str, Any], parameters: Mapping[str, Any]) -> None:
    """Raise for the first keyword that a function does not have, if that is what the error says."""
    for keyword in given if "unexpected keyword argument" in str(error) else ():
        if keyword not in parameters:
            elsewhere = _ELSEWHERE.get(keyword, {})
            here = next((here for parameter, here in elsewhere.items() if parameter in parameters), None)
            hint = meant(keyword, parameters) if here is None else f": here it is {here}"
            raise TypeError(f"{name}() got an unexpected keyword argument {keyword!r}{hint}") from None
