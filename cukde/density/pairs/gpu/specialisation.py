"""What the engines of ``kernels_cu/density/pairs.cu`` are compiled for: names, and tasks whose tiles a table has."""

from __future__ import annotations

import dataclasses
import functools
from typing import ClassVar, NamedTuple

import numpy as np

from cukde.core.gpu.launch import FLOAT, Specialisation
from cukde.density.pairs.gpu import splits, tiles
from cukde.density.sums import Output

OPERATION: dict[Output, str] = {
    "sum": "kde",
    "moments": "score",
    "laplace": "laplace",
    "values": "kernel_sum",
}


class Compiled(NamedTuple):
    """A kernel of an engine without a table of tiles, and what its launcher must know of it."""

    kernel: Specialisation
    columns: int  # of the moments, a block; 0 where there are none
    real: np.dtype = FLOAT  # of the arithmetic
    storage: np.dtype = FLOAT  # of points


@dataclasses.dataclass(frozen=True)
class TiledTask:
    """What a kernel is specialised for, beside its tile shape; the tables of tiles know the fields."""

    ENGINE: ClassVar[str]

    output: Output
    depth: int  # columns of the operands
    columns: int = 0  # of a block of values

    @property
    def moment_columns(self) -> int:
        """Columns of the moments that a block leaves."""
        return {"laplace": 1, "moments": self.depth}.get(self.output, self.columns)

    @property
    def shapes(self) -> tuple[splits.Shape, ...]:
        """Tile shapes to choose from on the current device: one for many queries, one for few."""
        return shapes(self, tiles.table())

    @property
    def every_shape(self) -> tuple[splits.Shape, ...]:
        """The shapes that some device chooses from."""
        return tuple(dict.fromkeys(shape for table in tiles.tables() for shape in shapes(self, table)))


@functools.cache
def shapes(task: TiledTask, table: tiles.Table) -> tuple[splits.Shape, ...]:
    """Tile shapes of a task in a table."""
    return table.tiles(task.ENGINE, splits.Shape, dataclasses.asdict(task))
