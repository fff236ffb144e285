"""Calls of sizes, dtypes and options that a call had before: all that is checked and prepared depends on these alone.

A call of few numbers is then one look for its launch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.gpu import device
from cukde.core.gpu.launch import Launch
from cukde.core.plan import asked, note

Key = tuple[Any, ...]


class Kept(NamedTuple):
    """A launch that takes the arrays of a call, its own, and the result."""

    name: str  # of the pass
    launch: Launch
    shape: tuple[int, ...]  # of the result
    dtype: np.dtype
    own: tuple[Any, ...] = ()


class Repeated:
    """What is kept of calls, at most so many."""

    def __init__(self, most: int) -> None:
        self.kept: dict[Key, Kept] = {}
        self._most = most

    def result(self, arrays: Sequence[Any], *options: Any) -> Any | None:
        """Compute where such a call was kept."""
        key = _key(arrays, options)
        try:
            kept = None if key is None else self.kept.get(key)
        except TypeError:  # of an option that has no hash
            return None
        if kept is None:
            return None
        note(kept.name)
        out = cp.empty(kept.shape, kept.dtype)
        kept.launch(*arrays, *kept.own, out)
        return out

    def keep(self, kept: Kept, arrays: Sequence[Any], *options: Any) -> None:
        """Keep a call that was this launch on the arrays as they were given."""
        key = _key(arrays, options)
        if key is None:
            return
        if len(self.kept) >= self._most:
            self.kept.clear()
        with contextlib.suppress(TypeError):
            self.kept[key] = kept


def _key(arrays: Sequence[Any], options: Sequence[Any]) -> Key | None:
    """What results and errors depend on; None for anything but arrays on the current device.

    Options of other types may be equal and yet be refused, so types are a part of it. Of the first array it counts
    whether it is aligned to 16 bytes.
    """
    if asked() is not None:
        return None
    number = device.current()
    layouts: list[tuple[Any, Any] | None] = []
    for a in arrays:
        if a is None:
            layouts.append(None)
        elif type(a) is cp.ndarray and device.holder(a) == number and a.flags.c_contiguous:
            layouts.append((a.shape, a.dtype))
        else:
            return None
    return number, device.address(arrays[0]) % 16 == 0, *layouts, options, *map(type, options)
