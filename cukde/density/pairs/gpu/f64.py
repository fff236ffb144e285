"""All pairs of queries and data on the tensor cores in float64: the launcher of ``f64.cuh``."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import cupy as cp

from cukde.core.gpu import compile as core_compile, device
from cukde.core.gpu.launch import DOUBLE, Specialisation, at_least, begin
from cukde.density.kept import Kept, kept
from cukde.density.pairs.gpu import finish, splits as pairs_splits
from cukde.density.pairs.gpu.arguments import Arguments
from cukde.density.pairs.gpu.operands import scale_of
from cukde.density.pairs.gpu.specialisation import OPERATION, TiledTask
from cukde.density.sums import Output, PartialSums, moment_columns

DEPTHS = (8, 16, 32, 48, 64)  # columns of the operands

_ROWS = 128  # operands of the data come in whole multiples
_ROWS_OF_PREPARATION = 16  # of a block of f64_operands.cu
_THREADS_OF_PREPARATION = 128

_SPLIT_ROWS = 64  # splits come in whole multiples, of tiles

SHARED_BYTES = 48 * 1024  # that a block may have


@dataclass(frozen=True)
class Task(TiledTask):
    """What a kernel of the engine is specialised for, beside its tile shape."""

    ENGINE: ClassVar[str] = "f64"

    output: Output
    depth: int  # columns of the operands
    columns: int = 0  # of the values, a block

    def shared_bytes(self, tile: int) -> int:
        """Bytes of static shared memory of a block: two tiles of ``tile`` data rows."""
        row = 8 * (self.depth + 4 + 1 + (self.output == "laplace") + (self.columns + 4 if self.columns else 0))
        return 2 * (tile * row + 64)


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
def specialise(kernel_task: Task, shape: pairs_splits.Shape) -> Specialisation:
    """The kernel of a task in one of its shapes."""
    name = f"{OPERATION[kernel_task.output]}_f64_products"
    defines = core_compile.macros(
        KERNEL=name,
        OUTPUT=kernel_task.output.upper(),
        F64=True,
        DEPTH=kernel_task.depth,
        COLUMNS=kernel_task.columns,
        WARPS=shape.warps,
        ROW_TILES=shape.row_tiles,
        TILE=shape.tile,
        BLOCKS=shape.blocks,
    )
    return Specialisation("density/pairs", name, defines, "8P 2q i q 2d i")


_PREPARE = Specialisation("density/f64_operands", "prepare_f64", (), "8P 2q 2i d")


class Operands(NamedTuple):
    """Points z = (point - centre) sqrt(log2 e) / h, with what f64_operands.cu makes beside them."""

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
) -> Operands:
    """Operands of the data and of the queries, by one launch."""
    n, d = X.shape
    m = 0 if Y is None else Y.shape[0]
    rows = -(-n // _ROWS) * _ROWS
    data, norms = cp.empty((rows, depth)), cp.empty(rows)
    weights = cp.empty(rows) if weights_apart else None
    queries = data if Y is None else cp.empty((m, depth))
    grid = -(-max(rows, m) // _ROWS_OF_PREPARATION), 1 if Y is None else 2
    arrays = X, Y, centre, log_weights, data, norms, weights, queries
    _PREPARE.launch(grid, (_THREADS_OF_PREPARATION,), *arrays, n, m, d, depth, scale_of(h))
    return Operands(data, norms, weights, queries)


def _prepare_queries(
    X: Any, Y: Any, centre: Any, h: float, depth: int, *, log_weights: Any | None, weights_apart: bool, store: Kept
) -> Operands:
    """Operands of the queries, and of the data unless they are kept."""
    data = kept(
        store,
        "operand",
        (X, centre, log_weights),
        ("f64", h, depth, weights_apart),
        lambda: prepare(X, None, centre, h, depth, log_weights=log_weights, weights_apart=weights_apart),
    )
    return data._replace(queries=prepare(Y, None, centre, h, depth).data)


def run(
    X: Any,
    Y: Any | None,
    h: float,
    output: Output,
    values: Any,
    log_weights: Any,
    *,
    centre: Any,
    store: Kept | None = None,
    own_out: bool = False,
) -> PartialSums:
    """Sum over all pairs.

    Launches: preparation, pass, merge where there are splits. ``store`` keeps the operands of the data, where the
    queries are others. With ``own_out`` row i is left out of the sums of query i.
    """
    X, Y, V = (None if a is None else finish.contiguous(a, DOUBLE) for a in (X, Y, values))
    n, d = X.shape
    m = n if Y is None else Y.shape[0]
    k = moment_columns(output, d, V)
    kernel_task = task(output, d, k)
    depth, apart = kernel_task.depth, output == "laplace"
    column_blocks = -(-k // kernel_task.columns) if kernel_task.columns else 1
    columns = {"moments": kernel_task.depth, "laplace": 1}.get(output, kernel_task.columns)
    # The plan counts queries once for each block of columns, and floats of 4 bytes.
    plan = pairs_splits.plan(kernel_task.shapes, n, m * column_blocks, 2 * (columns + 2), device.multiprocessors())
    kernel = specialise(kernel_task, plan.shape)
    rows = -(-plan.split_rows // _SPLIT_ROWS) * _SPLIT_ROWS
    begin(kernel, _PREPARE, *finish.kernels_of_merge(-(-n // rows), k))
    if store is not None and Y is not None:
        points = _prepare_queries(X, Y, centre, h, depth, log_weights=log_weights, weights_apart=apart, store=store)
    else:
        points = prepare(X, Y, centre, h, depth, log_weights=log_weights, weights_apart=apart)

    out = finish.empty(m, k)
    splits = finish.split_by(n, rows, (-(-m // plan.shape.queries), column_blocks), out)
    unit = 1 / scale_of(h) if output == "moments" else 1.0
    kernel.launch(
        splits.grid,
        (plan.shape.threads,),
        *(*points, V, *splits.sums),
        *(n, m, k, splits.rows, 1 + d / 2, unit, own_out),
    )
    return finish.merge(splits, out)


def take(of: Arguments, output: Output, values: Any | None, *, ratio: bool) -> PartialSums:
    """Take a pass."""
    options, operands = of.options, (of.X, of.Y, of.h, output, values, of.options.log_weights)
    return run(*operands, centre=options.centre, store=options.kept, own_out=options.own_out)


@core_compile.listed
def specialisations() -> Iterator[Specialisation]:
    """Every kernel of this module."""
    yield _PREPARE
    for kernel_task in tasks():
        yield from (specialise(kernel_task, shape) for shape in kernel_task.every_shape)
