"""All pairs of queries and data on the tensor cores in float64: the launcher of ``f64.cuh``."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import cupy as cp

from cukde.core.gpu import compile as core_compile, device
from cukde.core.gpu.launch import DOUBLE, Specialisation, at_least, begin
from cukde.density.kept import kept
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

    def shared_bytes(self, tile: int) -> int:
        """Bytes of static shared memory of a block: two tiles of ``tile`` data rows."""
        row = 8 * (self.depth + 4 + 1 + (self.output == "laplace") + (self.columns + 4 if self.columns else 0))
        return 2 * (tile * row + 64)


@functools.cache
def task(output: Output, d: int, k: int) -> Task:
    """The task of a pass over points of ``d`` dimensions, ``k`` values."""
    depth = at_least(d, DEPTHS)
    return Task(output, depth, at_least(k, (16, 64 if depth < 64 else 32)) if output == "values" else 0)


def tasks() -> Iterator[Task]:
    """What the engine can be asked for."""
    for depth in DEPTHS:
        for output in OPERATION:
            for k in (16, 64) if output == "values" else (0,):
                yield task(output, depth, k)


@core_compile.specialised(cases=lambda: ((one, shape) for one in tasks() for shape in one.every_shape))
def specialise(task: Task, shape: pairs_splits.Shape) -> Specialisation:
    """The kernel of a task in one of its shapes."""
    name = f"{OPERATION[task.output]}_f64_products"
    defines = core_compile.macros(
        KERNEL=name,
        OUTPUT=task.output.upper(),
        F64=True,
        DEPTH=task.depth,
        COLUMNS=task.columns,
        WARPS=shape.warps,
        ROW_TILES=shape.row_tiles,
        TILE=shape.tile,
        BLOCKS=shape.blocks,
    )
    return Specialisation("density/pairs", name, defines, "8P 2q i q 2d i")


@core_compile.specialised()
def _prepare_kernel() -> Specialisation:
    return Specialisation("density/f64_operands", "prepare_f64", (), "8P 2q 2i d")


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
    _prepare_kernel().launch(grid, (_THREADS_OF_PREPARATION,), *arrays, n, m, d, depth, scale_of(h))
    return Operands(data, norms, weights, queries)


def take(of: Arguments, output: Output, values: Any | None = None, *, ratio: bool = False) -> PartialSums:
    """Take a pass. Launches: preparation, pass, merge where there are splits."""
    X = finish.contiguous(of.X, DOUBLE)
    Y, V = (None if a is None else finish.contiguous(a, DOUBLE) for a in (of.Y, values))
    h, options, (n, d), m = of.h, of.options, X.shape, of.m
    k = moment_columns(output, d, V)
    kernel_task = task(output, d, k)
    depth, column_blocks = kernel_task.depth, -(-k // kernel_task.columns) if kernel_task.columns else 1
    # The plan counts queries once for each block of columns, and floats of 4 bytes.
    floats = 2 * (kernel_task.moment_columns + 2)
    plan = pairs_splits.plan(kernel_task.shapes, n, m * column_blocks, floats, device.multiprocessors())
    kernel = specialise(kernel_task, plan.shape)
    rows = -(-plan.split_rows // _SPLIT_ROWS) * _SPLIT_ROWS
    begin(kernel, _prepare_kernel(), *finish.kernels_of_merge(-(-n // rows), k))
    terms: dict[str, Any] = {"centre": options.centre, "h": h, "depth": depth}
    weights: dict[str, Any] = {"log_weights": options.log_weights, "weights_apart": output == "laplace"}
    if options.kept is not None and Y is not None:
        key, make = ("f64", h, depth, output == "laplace"), functools.partial(prepare, X, None, **terms, **weights)
        data = kept(options.kept, "operand", (X, options.centre, options.log_weights), key, make)
        points = data._replace(queries=prepare(Y, None, **terms).data)
    else:
        points = prepare(X, Y, **terms, **weights)

    out = finish.empty(m, k)
    splits = finish.split_by(n, rows, (-(-m // plan.shape.queries), column_blocks), out)
    kernel.launch(
        splits.grid,
        (plan.shape.threads,),
        *(*points, V, *splits.sums),
        *(n, m, k, splits.rows, 1 + d / 2, 1 / scale_of(h) if output == "moments" else 1.0, options.own_out),
    )
    return finish.merge(splits, out)
