"""The public module of a class that is defined in a private one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def public_in(module: str) -> Callable[[type[T]], type[T]]:
    """Have a class name ``module`` as its own, so that pickles of its objects name no private module."""

    def named(cls: type[T]) -> type[T]:
        cls.__module__ = module
        return cls

    return named
