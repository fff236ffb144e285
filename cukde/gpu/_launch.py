"""A launch whose kernel, grid and scalars have been worked out, to be made again and again."""

from __future__ import annotations

from typing import Any, NamedTuple

from cukde import _compile


class Launch(NamedTuple):
    """What a launch takes beside its arrays."""

    kernel: tuple[Any, ...]  # arguments of ``_compile.kernel``
    grid: tuple[int, ...]
    block: tuple[int, ...]
    scalars: tuple[Any, ...]

    def __call__(self, *arrays: Any) -> None:
        """Launch on the current device and stream; a kernel takes its arrays first."""
        _compile.kernel(*self.kernel)(self.grid, self.block, (*arrays, *self.scalars))
