"""Memory that a pass needs while it runs, by one allocation: its pieces lie in one chunk.

An allocation takes about as long on the host as the launch of a kernel. A piece keeps its chunk; what is returned to a
user is never one, as it would keep the whole chunk from being used again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

_ALIGNMENT = 256  # that of an allocation of CUDA's

Spec = tuple[tuple[int, ...], np.dtype]
"""Shape and dtype of a piece."""


class Piece(NamedTuple):
    """Memory that only kernels read and write: what a launch takes of an array, without the array."""

    data: Any  # a pointer of CuPy's, which keeps the chunk
    shape: tuple[int, ...]
    dtype: np.dtype


class Layout:
    """Where groups of pieces lie in a chunk, and then ``zeros``, which begin as such. None stands for no piece."""

    def __init__(self, groups: Sequence[Sequence[Spec | None]], zeros: Sequence[Spec | None] = ()) -> None:
        self.bytes = 0
        self._groups = [tuple(map(self._place, group)) for group in groups]
        self._first_zero = self.bytes
        self._groups.append(tuple(map(self._place, zeros)))

    def _place(self, piece: Spec | None) -> tuple[int, tuple[int, ...], np.dtype] | None:
        if piece is None:
            return None
        (shape, dtype), offset = piece, self.bytes
        self.bytes += -(-math.prod(shape) * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
        return offset, shape, dtype

    def allocate(self) -> list[list[Any]]:
        """Return the pieces of a new chunk by their groups, the last the zeros, on the current device and stream."""
        chunk = cp.empty(self.bytes, np.uint8)
        if isinstance(chunk, np.ndarray):  # where kernels run on the host, they look at the arrays that they get
            chunk[self._first_zero :] = 0
            return [[None if piece is None else _view(chunk, *piece) for piece in group] for group in self._groups]
        start = chunk.data
        if self._first_zero < self.bytes:
            (start + self._first_zero).memset_async(0, self.bytes - self._first_zero)
        make = Piece._make
        return [
            [None if piece is None else make((start + piece[0], piece[1], piece[2])) for piece in group]
            for group in self._groups
        ]


def arrays(specs: Sequence[Spec | None]) -> list[Any]:
    """Arrays of their own in place of pieces, for what is returned to a user."""
    return [None if spec is None else cp.empty(*spec) for spec in specs]


def _view(chunk: np.ndarray, offset: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return chunk[offset : offset + math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape)


def part(a: Any, first: int, shape: tuple[int, ...]) -> Any:
    """Entries of a vector, an array or a piece, from one of them on."""
    if isinstance(a, Piece):
        return Piece(a.data + first * a.dtype.itemsize, shape, a.dtype)
    return a[first : first + math.prod(shape)].reshape(shape)
