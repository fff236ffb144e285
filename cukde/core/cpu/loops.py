"""Loops for compiled functions, which compile in a fiftieth of the time of what NumPy offers them.

Numba compiles an assignment of an array to a slice with the text of its errors, which takes two seconds.
"""

from __future__ import annotations

from typing import Any

from cukde.core.cpu.jit import OPTIONS, njit


@njit(**OPTIONS)
def copy(source: Any, out: Any) -> None:
    """Copy an array (n,) to another."""
    for i in range(out.size):
        out[i] = source[i]


@njit(**OPTIONS)
def lower_bound(ascending: Any, value: Any) -> Any:
    """Return the number of entries below a value."""
    low, high = 0, ascending.size
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low
