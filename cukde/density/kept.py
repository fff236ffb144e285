"""What passes make of data that stay, for queries that come in many calls."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class Kept:
    """Objects by name, each made of an array or of several and of a key, by the first pass that asks for it.

    The latest one of each name is kept, so that memory stays bounded, as long as it is asked for the very same arrays,
    and from the same place: ``place`` says in what order of work the current call stands. What the work of one stream
    makes may be read before it is there by the work of another.
    """

    def __init__(self, place: Callable[[], Hashable]) -> None:
        self._place = place
        self._made: dict[str, tuple[Any, Any, Any]] = {}

    def get(self, name: str, X: Any, key: Any, make: Callable[[], T]) -> T:
        """Return what was made of ``X``, an array or a tuple of arrays, and of a key, or make it now."""
        arrays = X if type(X) is tuple else (X,)
        key = self._place(), key
        of, for_key, made = self._made.get(name, ((), None, None))
        if len(of) != len(arrays) or not all(map(operator.is_, of, arrays)) or for_key != key:
            made = make()
            self._made[name] = arrays, key, made
        return made


def kept(store: Kept | None, name: str, X: Any, key: Any, make: Callable[[], T]) -> T:
    """Return what the store keeps, or without a store make it."""
    return make() if store is None else store.get(name, X, key, make)
