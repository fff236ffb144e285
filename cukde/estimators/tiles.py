"""One task over tiles of arrays, on either backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any


def over(task: Callable[[Any], Any], tiles: Sequence[Any], backend: ModuleType) -> list[Any]:
    """Call a task on each tile, on the CPU on several threads, with BLAS limited to one each; return its results."""
    if backend.name == "gpu" or len(tiles) == 1:
        return [task(tile) for tile in tiles]
    from cukde.core.cpu import threads  # which loads Numba

    def of_tile(tile: Any) -> Any:
        threads.checkpoint()
        return task(tile)

    return threads.run(of_tile, tiles)
