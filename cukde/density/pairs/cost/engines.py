"""Which engine takes a pass of the density family on a GPU, and the tiles of its kernels, without CuPy.

The engine rule is that of ``cukde/density/pairs/gpu/engine.py`` for data within the spread that its engines serve.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cukde.density.sums import Output

Engine = Literal["difference", "f16", "f16_symmetric", "wide", "f64", "wide_f64"]

_MOST_DIMENSIONS = 64  # of the engines whose operands lie in registers
_MOST_SYMMETRIC_VALUES = 32
_TENSOR_CORES = (8, 0)  # compute capability from which the engines can use them

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
    itself: bool = False  # the queries are the data
    weighted: bool = False
    deterministic: bool = False
    known: bool = True  # the spread, on the host
    ratio: bool = False  # of moments only moments / total is wanted

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
        """Whether a pair is as good as its reverse."""
        return self.itself and not self.weighted and not self.deterministic


def engine(of: Pass, capability: tuple[int, int]) -> Engine:
    """Choose the engine."""
    double = of.precision == "float64"
    if double and of.d > _MOST_DIMENSIONS:
        return "wide_f64"
    if of.precision == "ieee" or capability < _TENSOR_CORES or of.d < 2:
        return "difference"
    if double:
        return "f64"
    if of.d > _MOST_DIMENSIONS:
        return "wide"
    if of.symmetric and of.output == "moments" and (of.ratio or of.known):
        return "f16_symmetric"
    few = of.precision == "float32" and of.k <= _MOST_SYMMETRIC_VALUES
    if of.symmetric and of.output == "values" and few and of.known:
        return "f16_symmetric"
    return "f16"


def products(of: Pass) -> int:
    """Float16 products of an exponent of the ordered engine.

    Of two terms a point, data that lie near their mean take three; up to 16 dimensions an unknown spread takes four.
    """
    if of.precision == "tf32":
        return 1
    own = of.ratio and of.output == "moments" and of.itself and not of.weighted
    return 4 if of.d <= 16 and not of.known and not own else 3


def tile(name: str, capability: tuple[int, int], of: Mapping[str, Any]) -> Mapping[str, Any]:
    """Tile of a kernel of an engine, for many queries; as ``cukde/density/pairs/gpu/tiles.py`` chooses it."""
    entries = _engines(_table(10 * capability[0] + capability[1]))[name]
    found: Mapping[str, Any] = next(
        entry["tiles"][0] for entry in entries if all(of[key] == value for key, value in entry["of"].items())
    )
    return found


@functools.cache
def _table(architecture: int) -> Path:
    known = {int(path.stem.removeprefix("sm_")): path for path in _TILES.glob("sm_*.json")}
    older = [one for one in known if one <= architecture]
    return known[max(older) if older else min(known)]


@functools.cache
def _engines(table: Path) -> dict[str, Any]:
    engines: dict[str, Any] = json.loads(table.read_text(encoding="utf-8"))["engines"]
    return engines
