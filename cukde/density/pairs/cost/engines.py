"""A pass of the density family as its cost formulas take it, and the tiles of its kernels on a GPU, without CuPy."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cukde.core.cost.peaks import Peaks
from cukde.density.plan import gpu as plan_gpu
from cukde.density.plan.shape import Device, Shape
from cukde.density.sums import Output

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
    ran: str | None = None  # the pass that took all pairs
    screened: float | None = None  # share of pairs whose distances are found, where the pass leaves out others
    again: float = 0.0  # share of queries that another pass takes after this one
    in_vain: bool = False  # points are put in order before all pairs are taken
    looked: bool = False  # the values of the data have been inspected, or are not those of the call
    own_out: bool = False  # each query leaves out its own row of the data

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

    def shape(self, on: Peaks) -> Shape:
        """What the plan of the pass is made from."""
        return Shape(
            self.output,
            self.n,
            self.m,
            self.d,
            self.precision,
            self.k,
            self.itemsize,
            itself=self.itself,
            weighted=self.weighted,
            local=self.local,
            own_out=self.own_out,
            deterministic=self.deterministic,
            ratio=self.ratio,
            rtol=self.rtol,
            device=None if on.backend == "cpu" else Device.of(on.capability),
        )

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


def engine(task: Pass, on: Peaks) -> str:
    """Name of the pass over all pairs that takes data near their mean, by the plan.

    The centred pass has no formula in float64, in which it takes data at themselves: products about one centre stand
    for it.
    """
    name = plan_gpu.served(task.shape(on), 0.0).name
    return "f64" if name == "centred" and task.precision == "float64" else name


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
