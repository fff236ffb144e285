"""The arrays of a launch, copied to where a kernel that leaves them is caught."""

from __future__ import annotations

import ctypes
import re
from bisect import bisect
from collections.abc import Callable, Sequence

import numpy as np

from tests.host_emulation._memory import PAGE, GuardedPages

# On either side of an array lie pages that fault. The array ends where they begin, up to an alignment that
# every vector load has; what that and whole pages leave over is filled with ones, NaN to a kernel that reads it.
_GUARD_BYTES = 2**20
_ALIGNMENT = 16


class LaunchError(Exception):
    """A launch that a GPU would not have survived, or that would have given a result by luck."""


class GuardedArrays:
    """Copies of arrays, each between guard zones; arrays that overlap in memory share one copy."""

    def __init__(self, arrays: Sequence[np.ndarray]) -> None:
        spans: list[tuple[int, int, int]] = []  # apart from each other, in order
        for low, high, root in sorted((*_bounds(a), _root_address(a)) for a in arrays if a.size):
            if spans and low < spans[-1][1]:
                spans[-1] = (spans[-1][0], max(high, spans[-1][1]), spans[-1][2])
            else:
                spans.append((low, high, root))
        self._copies = [_Copy(*span) for span in spans]
        empty, lows = _Copy(0, 0, 0), [low for low, _, _ in spans]
        # A launch may take forty arrays: each is looked up once.
        self._owners = [(a, self._copies[bisect(lows, _bounds(a)[0]) - 1] if a.size else empty) for a in arrays]
        self._addresses = {
            id(a): copy.address + (a.ctypes.data - copy.low if a.size else 0) for a, copy in self._owners
        }

    def address(self, a: np.ndarray) -> int:
        """Where the copy of the array's first element lies."""
        return self._addresses[id(a)]

    def near(self, failure: str) -> tuple[int, str] | None:
        """Return the array beside which the address in a message lies, and where it lies."""
        found = re.search("at address (0x[0-9a-f]+)", failure)
        return self._first(lambda copy: copy.beside(int(found[1], 16))) if found else None

    def trespass(self) -> tuple[int, str] | None:
        """Return the first array whose surroundings were written, and where."""
        return self._first(_Copy.trespass)

    def _first(self, where: Callable[[_Copy], str | None]) -> tuple[int, str] | None:
        answers = ((i, where(copy)) for i, (_, copy) in enumerate(self._owners))
        return next(((i, answer) for i, answer in answers if answer), None)

    def write_back(self) -> None:
        """Copy what the kernel left to the originals."""
        writeable = {id(copy) for a, copy in self._owners if a.flags.writeable}
        for copy in self._copies:
            copy.write_back(writeable=id(copy) in writeable)


def _bounds(a: np.ndarray) -> tuple[int, int]:
    """First byte of an array's elements, and the one after the last."""
    start = a.ctypes.data
    if a.flags.c_contiguous:
        return start, start + a.nbytes
    reach = [(n - 1) * stride for n, stride in zip(a.shape, a.strides, strict=True)]
    return start + sum(min(0, r) for r in reach), start + sum(max(0, r) for r in reach) + a.itemsize


def _root_address(a: np.ndarray) -> int:
    """Start of the allocation that an array is a view of."""
    while isinstance(a.base, np.ndarray):
        a = a.base
    return _bounds(a)[0]


def address_in_allocation(a: np.ndarray) -> int:
    """Where an array begins, of an allocation at address 0: as aligned as the copy that a kernel gets."""
    return _bounds(a)[0] - _root_address(a)


class _Copy:
    """The bytes ``[low, high)`` of an allocation at ``root``, copied to guarded memory.

    The copy is aligned as if the allocation were device memory.
    """

    def __init__(self, low: int, high: int, root: int) -> None:
        self.low, self.high = low, high
        self._size = high - low
        open_bytes = -(-(self._size + _ALIGNMENT) // PAGE) * PAGE
        self._pages = GuardedPages(open_bytes + 2 * _GUARD_BYTES)
        start = self._pages.open(_GUARD_BYTES, open_bytes)
        self._memory = np.ctypeslib.as_array((ctypes.c_uint8 * open_bytes).from_address(start))
        last = start + open_bytes - self._size
        self.address = last - (last - (low - root)) % _ALIGNMENT
        self._before = self._memory[: self.address - start]
        self._data = self._memory[self.address - start :][: self._size]
        self._after = self._memory[self.address - start + self._size :]
        self._before[...] = 0xFF
        self._after[...] = 0xFF
        ctypes.memmove(self.address, low, self._size)

    def beside(self, address: int) -> str | None:
        """Say how far outside the copy an address lies, if it lies in the pages around it."""
        if 0 < self.address - address <= self._before.size + _GUARD_BYTES:
            return f"{self.address - address} bytes before the start"
        past = address - self.address - self._size
        return f"{past + 1} bytes past the end" if 0 <= past < self._after.size + _GUARD_BYTES else None

    def trespass(self) -> str | None:
        """Say where the memory beside the copy was written, if it was."""
        before, after = np.flatnonzero(self._before != 0xFF), np.flatnonzero(self._after != 0xFF)
        if before.size:
            return f"{self._before.size - before[-1]} bytes before the start"
        return f"{after[0] + 1} bytes past the end" if after.size else None

    def write_back(self, writeable: bool) -> None:
        """Copy the bytes back to where they came from."""
        if writeable:
            ctypes.memmove(self.low, self.address, self._size)
        elif self._data.tobytes() != ctypes.string_at(self.low, self._size):
            raise LaunchError("a kernel wrote to an array that is read-only")
