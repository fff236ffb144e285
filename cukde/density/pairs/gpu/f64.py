"""All pairs of queries and data on the tensor cores in float64: the launcher of ``pairs_f64.cuh``."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile, device
from cukde.core.gpu.launch import DOUBLE, at_least, or_null
from cukde.density.pairs.gpu import difference, finish, splits as pairs_splits, tiles
from cukde.density.pairs.gpu.operands import LOG2_E, scale_of
from cukde.density.pairs.gpu.specialisation import OPERATION, Specialisation
from cukde.density.sums import Output, PartialSums

# Largest squared distance to the centre, in bandwidths, up to which powers of 2 stay in the range of float64 with no
# reference: see pairs_f64.cuh. The density is off by 2e-13 there (2 to 64 dimensions,
# emulated), of the 1e-12 that is allowed.
LIMIT: dict[Output, float] = {"sum": 620.0, "moments": 620.0, "laplace": 620.0, "values": 350.0}

DEPTHS = (8, 16, 32, 48, 64)  # columns of the operands

_ROWS = 128  # operands of the data come in whole multiples
_ROWS_OF_PREPARATION = 16  # of a block of prepare_f64.cu
_THREADS_OF_PREPARATION = 128

_SPLIT_ROWS = 64  # splits come in whole multiples: tiles of the difference kernel, which may stand in

SHARED_BYTES = 48 * 1024  # that a block may have


def serves(output: Output, d: int, spread: float | None) -> bool:
    """Whether the engine takes points of ``d`` dimensions and a spread (None: not known on the host)."""
    return 2 <= d <= DEPTHS[-1] and (spread is None or spread <= LIMIT[output])


@dataclass(frozen=True)
class Task:
    """What a kernel of the engine is specialised for, beside its tile shape; the tables of tiles know its fields."""

    output: Output
    depth: int  # columns of the operands
    columns: int = 0  # of the values, a block

    @property
    def shapes(self) -> tuple[pairs_splits.Shape, ...]:
        """Tile shapes to choose from on the current device: one for many queries, one for few."""
        return _shapes(self, tiles.table())

    @property
    def every_shape(self) -> tuple[pairs_splits.Shape, ...]:
        """The shapes that some device chooses from."""
        return tuple(dict.fromkeys(shape for table in tiles.tables() for shape in _shapes(self, table)))

    def shared_bytes(self, tile: int) -> int:
        """Bytes of static shared memory of a block: two tiles of ``tile`` data rows."""
        row = 8 * (self.depth + 4 + 1 + (self.output == "laplace") + (self.columns + 4 if self.columns else 0))
        return 2 * (tile * row + 64)


@functools.cache
def _shapes(posed: Task, table: tiles.Table) -> tuple[pairs_splits.Shape, ...]:
    return table.tiles("f64", pairs_splits.Shape, dataclasses.asdict(posed))


@functools.cache
def task(output: Output, d: int, k: int) -> Task:
    """Pose the task of a pass: points of ``d`` dimensions, ``k`` values."""
    depth = at_least(d, DEPTHS)
    return Task(output, depth, at_least(k, (16, 64 if depth < 64 else 32)) if output == "values" else 0)


def tasks() -> Iterator[Task]:
    """What the engine can be asked for."""
    for depth in DEPTHS:
        for output in OPERATION:
            for k in (16, 64) if output == "values" else (0,):
                yield task(output, depth, k)


@functools.cache
def specialise(posed: Task, shape: pairs_splits.Shape) -> Specialisation:
    """The kernel of a task in one of its shapes."""
    name = f"{OPERATION[posed.output]}_f64_products"
    defines = (
        ("KERNEL", name),
        ("OUTPUT", posed.output.upper()),
        ("F64", "1"),
        ("DEPTH", str(posed.depth)),
        ("COLUMNS", str(posed.columns)),
        ("WARPS", str(shape.warps)),
        ("ROW_TILES", str(shape.row_tiles)),
        ("TILE", str(shape.tile)),
        ("BLOCKS", str(shape.blocks)),
    )
    return Specialisation("f64", name, defines, shape.threads, posed.columns, DOUBLE, DOUBLE)


class Operands(NamedTuple):
    """Points z = (point - centre) sqrt(log2 e) / h, with what prepare_f64.cu makes beside them."""

    data: Any  # (padded rows, depth)
    norms: Any  # (padded rows,)
    weights: Any | None  # (padded rows,), for output "laplace"
    queries: Any  # (m, depth), or the data


def prepare(
    X: Any,
    Y: Any | None,
    centre: Any,
    h: float,
    depth: int,
    *,
    log_weights: Any | None = None,
    weights_apart: bool = False,
    spread: Any | None = None,
) -> Operands:
    """Operands of the data and of the queries, by one launch; ``spread`` is raised to the largest |z|^2."""
    n, d = X.shape
    m = 0 if Y is None else Y.shape[0]
    rows = -(-n // _ROWS) * _ROWS
    data, norms = cp.empty((rows, depth)), cp.empty(rows)
    weights = cp.empty(rows) if weights_apart else None
    queries = data if Y is None else cp.empty((m, depth))
    core_compile.kernel("density/f64_operands", "prepare_f64", ())(
        (-(-max(rows, m) // _ROWS_OF_PREPARATION), 1 if Y is None else 2),
        (_THREADS_OF_PREPARATION,),
        (
            X,
            or_null(Y),
            centre,
            or_null(log_weights),
            data,
            norms,
            or_null(weights),
            queries,
            or_null(spread),
            n,
            m,
            np.int32(d),
            np.int32(depth),
            scale_of(h),
        ),
    )
    return Operands(data, norms, weights, queries)


def run(
    X: Any,
    Y: Any | None,
    h: float,
    output: Output,
    values: Any,
    log_weights: Any,
    *,
    centre: Any,
    spread_known: bool,
) -> PartialSums:
    """Sum over all pairs.

    Where the spread is not known to be within the limit it is found on the device, and beyond it the difference
    kernel does the work, split by split in the same memory. Launches: preparation, pass, difference kernel where it
    may be needed, merge where there are splits.
    """
    X = X.astype(DOUBLE, copy=False)
    Y = None if Y is None else Y.astype(DOUBLE, copy=False)
    V = None if values is None else finish.contiguous(values, DOUBLE)
    n, d = X.shape
    m = n if Y is None else Y.shape[0]
    k = d if output == "moments" else 0 if V is None else V.shape[1]
    posed = task(output, d, k)
    spread = None if spread_known else cp.zeros(1, np.float32)
    limit = LIMIT[output] * LOG2_E
    points = prepare(
        X, Y, centre, h, posed.depth, log_weights=log_weights, weights_apart=output == "laplace", spread=spread
    )

    out = finish.empty(m, k)
    column_blocks = -(-k // posed.columns) if posed.columns else 1
    columns = posed.depth if output == "moments" else posed.columns
    # The plan counts queries once for each block of columns, and floats of 4 bytes.
    plan = pairs_splits.plan(posed.shapes, n, m * column_blocks, 2 * (columns + 2), device.multiprocessors())
    rows = -(-plan.split_rows // _SPLIT_ROWS) * _SPLIT_ROWS
    splits = finish.split_by(n, rows, (-(-m // plan.shape.queries), column_blocks), out)
    chosen = specialise(posed, plan.shape)
    core_compile.kernel(chosen.stem, chosen.name, chosen.defines)(
        (*splits.blocks, splits.parts),
        (chosen.threads,),
        (
            points.data,
            points.norms,
            or_null(points.weights),
            points.queries,
            or_null(V),
            or_null(spread),
            splits.reference,
            splits.total,
            or_null(splits.moments),
            n,
            m,
            np.int32(k),
            splits.rows,
            np.float32(limit),
            1 + d / 2,
            1 / scale_of(h) if output == "moments" else 1.0,
        ),
    )
    if spread is not None:
        guard = difference.Guard(spread, limit, None, 0.0)
        difference.launch("float64", X, Y, h, output, values, log_weights, out=out, guard=guard, splits=splits)
    return finish.merge(splits, out)


def specialisations() -> Iterator[tuple[str, str, core_compile.Defines]]:
    """Stem, name and macros of every kernel of this module."""
    yield "density/f64_operands", "prepare_f64", ()
    for posed in tasks():
        for shape in posed.every_shape:
            chosen = specialise(posed, shape)
            yield chosen.stem, chosen.name, chosen.defines
