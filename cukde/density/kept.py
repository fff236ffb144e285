"""What passes make of data that stay, for queries that come in many calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Kept:
    """Objects by name, each made of an array and of a key by the first pass that asks for it.

    The latest one of each name is kept, so that memory stays bounded, as long as it is asked for the very same array.
    """

    def __init__(self) -> None:
        self._made: dict[str, tuple[Any, Any, Any]] = {}

    def get(self, name: str, X: Any, key: Any, make: Callable[[], T]) -> T:
        """Return what was made of the array ``X`` and a key, or make it now."""
        array, for_key, made = self._made.get(name, (None, None, None))
        if array is not X or for_key != key:
            made = make()
            self._made[name] = X, key, made
        return made


def kept(store: Kept | None, name: str, X: Any, key: Any, make: Callable[[], T]) -> T:
    """Return what the store keeps, or without a store make it."""
    return make() if store is None else store.get(name, X, key, make)
