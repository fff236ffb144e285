"""The engine that takes a pass of the density family on a GPU, and the tiles of its kernels, without CuPy.

The rule is that of ``cukde/density/pairs/gpu/engine.py``, for data whose scaled squared radius its engines serve.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cukde.density.pairs.cost import differences
from cukde.density.sums import Output

Engine = Literal["difference", "f16", "f16_symmetric", "wide", "f64", "wide_f64"]

_MOST_DIMENSIONS = 64  # for engines whose operands lie in registers
_MOST_SYMMETRIC_VALUES = 32
_TENSOR_CORES = (8, 0)  # lowest compute capability whose tensor cores the engines use

_TILES = Path(__file__).parents[1] / "gpu" / "tables"


@dataclass(frozen=True)
class Pass:
    """A pass over all pairs of data and queries, as the backends' ``partial_sums`` takes it."""

    output: Output
    n: int
    m: int
    d: int
    precision: str
    itemsize: int  # bytes of a coordinate as it is stored
    k: int = 0  # columns of the values
    itself: bool = False  # self-interaction (Y = X)
    weighted: bool = False
    deterministic: bool = False
    checked: bool = True  # NaN and infinity are refused
    ratio: bool = False  # the caller needs no more of the moments than moments / total
    rtol: float | None = None  # see cukde/density/options.py
    share: float | None = None  # of pairs, where the pass leaves out others
    cells: int | None = None  # of queries, where the transform of two or three columns takes the pass
    local: bool = False  # each point has its own factor of the bandwidth

    @property
    def pairs(self) -> float:
        """Pairs of a data row and a query."""
        return float(self.n) * self.m

    @property
    def columns(self) -> int:
        """Columns of the second product, or 0."""
        return {"moments": self.d, "values": self.k}.get(self.output, 0)

    @property
    def symmetric(self) -> bool:
        """Whether a pair gives the sums of its reverse."""
        return self.itself and not self.weighted and not self.deterministic

    @property
    def mean_shift(self) -> bool:
        """Whether the pass finds where each data row moves to, without weights."""
        return self.output == "moments" and self.ratio and self.itself and not self.weighted

    @property
    def point_bytes(self) -> float:
        """Bytes of the points as they are stored; queries that are the data count once."""
        return float(self.itemsize * self.d) * (self.n + (0 if self.itself else self.m))

    @property
    def result_bytes(self) -> float:
        """Bytes of the sums of all queries."""
        return 8.0 * self.m * (2 + self.columns + (self.output == "laplace"))


def engine(task: Pass, capability: tuple[int, int]) -> Engine:
    """Choose the engine."""
    double = task.precision == "float64"
    if double and task.d > _MOST_DIMENSIONS:
        return "wide_f64"
    if task.precision == "ieee" or capability < _TENSOR_CORES or task.d < 2:
        return "difference"
    if double:
        return "f64"
    if task.d > _MOST_DIMENSIONS:
        return "difference" if differences.serve(task.n, task.m, task.d, task.columns) else "wide"
    if task.symmetric and task.output == "moments":
        return "f16_symmetric"
    few = task.precision == "float32" and task.k <= _MOST_SYMMETRIC_VALUES
    if task.symmetric and task.output == "values" and few:
        return "f16_symmetric"
    return "f16"


def products(task: Pass) -> int:
    """Float16 products of an exponent, in the engine that takes each ordered pair.

    Points in two terms take three products where the data lie near their mean.
    """
    return 1 if task.precision == "tf32" else 3


def tile(name: str, capability: tuple[int, int], kernel: Mapping[str, Any]) -> Mapping[str, Any]:
    """Tile of a kernel of an engine, for many queries; as ``cukde/density/pairs/gpu/tiles.py`` chooses it."""
    entries = _engines(_table(10 * capability[0] + capability[1]))[name]
    fits = (entry for entry in entries if all(kernel[key] == value for key, value in entry["of"].items()))
    shape: Mapping[str, Any] = next(fits)["tiles"][0]
    return shape


@functools.cache
def _table(architecture: int) -> Path:
    known = {int(path.stem.removeprefix("sm_")): path for path in _TILES.glob("sm_*.json")}
    older = [one for one in known if one <= architecture]
    return known[max(older) if older else min(known)]


@functools.cache
def _engines(table: Path) -> dict[str, Any]:
    engines: dict[str, Any] = json.loads(table.read_text(encoding="utf-8"))["engines"]
    return engines
