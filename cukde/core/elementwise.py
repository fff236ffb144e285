"""Functions of an array, entry by entry, by their names: the family that has them adds them, others look them up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = Callable[[Any], Any]
F = TypeVar("F", bound=Function)

_BY_NAME: dict[str, Function] = {}


def add(function: F) -> F:
    """Add a function by its own name, and return it."""
    _BY_NAME[function.__name__] = function
    return function


def names() -> tuple[str, ...]:
    """Names of all functions."""
    return tuple(_BY_NAME)


def by_name(name: str) -> Function:
    """Return the function of a name."""
    return _BY_NAME[name]


def name_of(function: Any) -> str | None:
    """Return the name of a function that was added, or None for anything else."""
    return next((name for name, one in _BY_NAME.items() if one is function), None)
