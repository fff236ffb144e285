"""All pairs of points of many dimensions on the tensor cores: launchers of ``kernels_cu/density/wide.cu``.

Inner products come from a loop over the dimensions. Sums and Laplace's sums end in the same kernel; for moments and
sums of values it leaves a block of powers in memory, bounded whatever the sizes, and a library multiplies that.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile, device, gemm
from cukde.core.gpu.launch import C_TYPE, Specialisation, begin
from cukde.density.kept import kept
from cukde.density.pairs.gpu import (
    finish as pairs_finish,
    splits,
    tiles as pairs_tiles,
    values as pairs_values,
)
from cukde.density.pairs.gpu.arguments import Arguments
from cukde.density.pairs.gpu.operands import scale_of
from cukde.density.pairs.gpu.specialisation import OPERATION
from cukde.density.plan.gpu import STAGED_BYTES as _STAGED_BYTES, STAGED_ROWS as _STAGED_ROWS, staged_block
from cukde.density.sums import Output, PartialSums, moment_columns

# Squared distance to the centre, in bandwidths, up to which two terms of points and one of factors are always enough:
# within a length of 32 in bits, the `far_quantum` of wide_differences.cuh.
NEAR = 700.0

# Least quanta of rows with pairs that are taken again: `far_quantum`, and of references, which may be half a bit off.
_FAR, _FAR_OF_REFERENCES = 1 / 64, 1 / 4

# Data rows of a tile; rows of operands come in whole tiles.
_TILE = 128

_ALIGNMENT = 128  # of shared memory


@dataclass(frozen=True)
class Layout:
    """What a multiprocessor's registers and shared memory are spent on, as the kernel's macros say."""

    warps_down: int  # of 64 queries each; beside each other there are 4
    step_depth: int  # dimensions in shared memory at a time
    stages: int  # such steps under way
    blocks: int  # of a multiprocessor at a time

    @property
    def shape(self) -> splits.Shape:
        """As the cost rule sees it."""
        return splits.Shape(4 * self.warps_down, 1, _TILE, self.blocks)

    def shared_bytes(self, task: Task) -> int:
        """Dynamic shared memory of a block: steps of both sides, and sums of queries."""
        queries = self.shape.queries
        steps = task.terms * self.stages * (_TILE + queries) * 2 * self.step_depth
        # Of four warps beside each other the totals, references, and Laplace's sums; at least one number of each.
        of_shares = 4 * (queries + (1 if task.staged else queries) + (queries if task.output == "laplace" else 1))
        return -(-(steps + 4 * of_shares) // _ALIGNMENT) * _ALIGNMENT


# Bits that float16 powers are scaled up by, to be normal numbers down to 2^-27.
_SHIFT = 13.0

_PREPARE_ROWS = 4  # of a block of wide_operands.cu
_FINISH_ROWS = 4  # of a block of wide_finish.cu


class Operand(NamedTuple):
    """Points z = (point - centre) sqrt(log2 e) / h in float16 terms, rows and columns padded with zeros."""

    hi: Any  # (padded rows, depth) uint16, the bits of float16, in units of the rows' quanta
    lo: Any | None  # likewise, where two terms are kept
    third: Any | None  # what they leave, where points may be far from the centre
    factor: Any | None  # likewise of z itself, for products with powers
    factor_rest: Any | None  # what that leaves of z
    norms: Any  # (padded rows,) float32: -|z|^2/2 of the points as kept, + log2 w
    rests: Any | None  # (padded rows,) float32: what norms that add up exactly leave, where two terms are kept
    quanta: Any  # (padded rows,) float32
    corrections: Any | None  # (padded rows,) float32: what third terms add to the norms
    weights: Any | None  # (padded rows,) float32: log2 w, where there are weights


class Task(NamedTuple):
    """What the kernel is specialised for, beside its layout."""

    output: Output
    terms: int  # of points
    power_terms: int = 1  # that staged powers are kept in
    column_totals: bool = False

    @property
    def staged(self) -> bool:
        """Whether powers are left in memory."""
        return self.output in ("moments", "values")

    @property
    def of_references(self) -> Task:
        """The task whose pass finds the references of this one."""
        return Task("sum", self.terms)


def task(output: Output, terms: int, *, of_themselves: bool = False) -> Task:
    """The task of a pass over points in so many terms.

    ``of_themselves`` asks for the mean shift by self-interaction (Y = X) without weights. One term of powers and points
    will do for that if the term of a point with itself is left out: its rounding would outweigh all others.
    """
    two_terms = output == "values" or (output == "moments" and terms == 2 and not of_themselves)
    return Task(output, terms, 2 if two_terms else 1)


def tasks() -> Iterator[Task]:
    """What the engine can be asked for; column totals share the layout."""
    choices = itertools.product(OPERATION, (1, 2), (False, True))
    yield from dict.fromkeys(task(output, terms, of_themselves=itself) for output, terms, itself in choices)


def layout(task: Task) -> Layout:
    """Layout of a task's kernels on the current device."""
    return _layout(task, pairs_tiles.table())


def every_layout(task: Task) -> tuple[Layout, ...]:
    """The layouts that some device takes."""
    return tuple(dict.fromkeys(_layout(task, table) for table in pairs_tiles.tables()))


@functools.cache
def _layout(task: Task, table: pairs_tiles.Table) -> Layout:
    return table.tiles("wide", Layout, named(task))[0]


def named(task: Task) -> dict[str, Any]:
    """A task as the tables of tiles know it."""
    return {"output": task.output, "terms": task.terms, "power_terms": task.power_terms}


def prepare(
    points: Any,
    centre: Any,
    h: float,
    depth: int,
    *,
    terms: int,
    near: bool,
    factor_terms: int = 0,
    log_weights: Any | None = None,
    weights_apart: bool = False,
) -> Operand:
    """Operand of points, shape (n, d), float32 or float64, in so many terms, and in others for products with powers.

    ``near`` says that none is far from the centre.

    Those of one pass have the same ``depth``, in whole steps of its kernels.
    All else is as for :func:`cukde.density.pairs.gpu.operands.prepare`.
    """
    n, d = points.shape
    rows = -(-n // _TILE) * _TILE
    bits, numbers = ((rows, depth), np.uint16), ((rows,), np.float32)
    operand = Operand(
        hi=cp.empty(*bits),
        lo=cp.empty(*bits) if terms == 2 else None,
        third=None if near else cp.empty(*bits),
        factor=cp.empty(*bits) if factor_terms > 0 else None,
        factor_rest=cp.empty(*bits) if factor_terms == 2 else None,
        norms=cp.empty(*numbers),
        rests=cp.empty(*numbers) if terms == 2 else None,
        quanta=cp.empty(*numbers),
        corrections=None if near else cp.empty(*numbers),
        weights=None if log_weights is None else cp.empty(*numbers),
    )
    grid, block = (rows // _PREPARE_ROWS,), (32 * _PREPARE_ROWS,)
    scalars = n, d, depth, weights_apart, scale_of(h)
    _prepare_kernel(points.dtype).launch(grid, block, points, centre, log_weights, *operand, *scalars)
    return operand


def take(
    of: Arguments,
    output: Output,
    values: Any | None = None,
    *,
    ratio: bool = False,
    tiling: Layout | None = None,
) -> PartialSums:
    """Take a pass; the same bits on every run.

    A small scaled squared radius saves work, and none is too large. ``tiling`` is by default that of the device's
    table.
    """
    X, Y, h, options, _ = of
    n, d = X.shape
    terms, apart = 1 if options.precision == "tf32" else 2, output == "laplace"
    alike = Y is None and options.log_weights is None
    symmetric = alike and not options.own_out  # with own pairs, whose exponents are the largest
    kernel_task = task(output, terms, of_themselves=symmetric and ratio)
    tiling = tiling or layout(kernel_task)
    # Whole steps of both passes, whose lengths are powers of 2.
    step = max(tiling.step_depth, layout(kernel_task.of_references).step_depth)
    depth = -(-d // step) * step
    near = options.squared_radius is not None and options.squared_radius <= NEAR
    factor_terms = 0 if output != "moments" else kernel_task.power_terms if near else 2
    begin(
        *_kernels(kernel_task, tiling, alike=symmetric, several=n > _STAGED_ROWS),
        _finish_kernel(output),
        _prepare_kernel(X.dtype),
    )
    made = functools.partial(prepare, centre=options.centre, h=h, depth=depth, terms=terms, near=near)
    data = kept(
        options.kept,
        "operand",
        (X, options.centre, options.log_weights),
        ("wide", h, depth, terms, near, apart, factor_terms),
        lambda: made(X, factor_terms=factor_terms, log_weights=options.log_weights, weights_apart=apart),
    )
    queries = data if alike else made(X if Y is None else Y)
    out = pairs_finish.empty(of.m, moment_columns(output, d, values))
    gpu_pass = _Pass(kernel_task, tiling, data, queries, of)
    if kernel_task.staged:
        V = None if values is None else pairs_values.prepare(values)
        gpu_pass.of_factors(V, out, symmetric=symmetric)
    else:
        shift = (1 + d / 2) / math.log(2) if output == "laplace" else 0.0
        gpu_pass.finish(*gpu_pass.summed(kernel_task, tiling, shift), out)
    return out


def _kernels(task: Task, tiling: Layout, *, alike: bool, several: bool) -> Iterator[Specialisation]:
    """Kernels of sums: of references and then of all pairs, or of data alike in ``several`` blocks of rows."""
    if task.staged and not alike:
        yield _kernel(task.of_references, layout(task.of_references))
    if task.staged and alike and several:
        yield _kernel(task._replace(column_totals=True), tiling)
    yield _kernel(task, tiling)


class _Pass(NamedTuple):
    """A pass and its operands."""

    task: Task
    tiling: Layout
    data: Operand
    queries: Operand
    of: Arguments

    def summed(
        self, task: Task, tiling: Layout, shift: float, *, far_from: float = _FAR
    ) -> tuple[Any, Any, Any | None]:
        """References, totals and of "laplace" moments, (parts, m) float32, of output "sum" or "laplace"."""
        arrays = 3 if task.output == "laplace" else 2
        n, m = len(self.of.X), self.of.m
        plan = splits.plan((tiling.shape,), n, m, arrays, device.multiprocessors())
        shape = plan.splits, m
        references, totals = cp.empty(shape, np.float32), cp.empty(shape, np.float32)
        moments = cp.empty(shape, np.float32) if task.output == "laplace" else None
        block = gemm.Block(0, 0, m, n)
        of_sums = references, totals, None
        self._launch(task, tiling, block, plan.split_rows, *of_sums, moments=moments, shift=shift, far_from=far_from)
        return references, totals, moments

    def references(self) -> Any:
        """Exponents of the largest term of each query, (m,) float32, rounded: so they change no bit of exact sums."""
        task = self.task.of_references
        far_from = _FAR if task.terms == 1 else _FAR_OF_REFERENCES
        return cp.rint(self.summed(task, layout(task), 0.0, far_from=far_from)[0].max(axis=0))

    def _factors(self, values: pairs_values.Values | None) -> list[tuple[int, Any]]:
        """What powers are multiplied by: pairs of a term of theirs, and of an array, (blocks, rows, width)."""
        if values is not None:
            return [(0, values.hi), (1, values.hi), (0, values.lo), (1, values.lo)]
        of_points = [(p, self.data.factor) for p in range(self.task.power_terms)] + [(0, self.data.factor_rest)]
        return [(p, B[None]) for p, B in of_points if B is not None]

    def of_factors(self, values: pairs_values.Values | None, out: PartialSums, *, symmetric: bool) -> None:
        """Outputs "moments" and "values": powers times points or values, block by block.

        Sums of moments over pairs that products are not good enough for are added to ``out`` by the way. Where
        ``symmetric``, queries are the data, and but for squares on the diagonal a block serves both of its sides.
        """
        task, moments = self.task, values is None
        for of_far_pairs in out[1:] if moments else ():
            of_far_pairs.fill(0)
        references = None if symmetric else self.references()
        numbers: gemm.Format = "f16" if moments else "bf16"
        factors = self._factors(values)
        height, width = len(self.queries.hi), len(self.data.hi)
        blocks, _, columns = factors[0][1].shape
        products = cp.zeros((blocks, height, columns), np.float32)
        numbers_staged = _STAGED_BYTES // (2 * task.power_terms)
        block_rows, block_columns = staged_block(height, width, _STAGED_ROWS, numbers_staged, symmetric=symmetric)
        powers = cp.empty((task.power_terms, block_rows, block_columns), np.uint16)
        # A part of the data has a row of totals; where blocks serve both of their sides, so has a tile of queries.
        tile, at_a_time = self.tiling.shape.queries, device.multiprocessors() * self.tiling.blocks
        heights = {block_rows, height % block_rows or block_rows}
        most = max(_parts(rows // tile, block_columns // _TILE, at_a_time) for rows in heights)
        totals = cp.zeros((max(most, block_rows // tile) if symmetric else most, height), np.float32)
        views = [(powers[p], to, factor) for p, B in factors for to, factor in zip(products, B, strict=True)]
        shift, far = (_SHIFT, out) if moments else (0.0, None)
        for block in gemm.blocks(height, width, block_rows, block_columns, symmetric=symmetric):
            both = symmetric and block.left > block.top
            part_rows = _part_rows(block.height // tile, block.width // _TILE, at_a_time)
            of_block = task._replace(column_totals=both), self.tiling, block, part_rows
            self._launch(*of_block, references, totals, powers, far=far, shift=shift)
            for P, to, factor in views:
                gemm.add_product(to, P, block, factor, numbers)
                if both:
                    gemm.add_product(to, P, block, factor, numbers, transposed=True)
        own, unit = symmetric and moments, 1 / scale_of(self.of.h) if moments else 1.0
        self.finish(references, totals, products, out, self_interaction=own, shift=shift, unit=unit)

    def _launch(
        self,
        task: Task,
        tiling: Layout,
        block: gemm.Block,
        part_rows: int,
        references: Any | None,
        totals: Any,
        powers: Any | None,
        *,
        shift: float,
        moments: Any | None = None,
        far: PartialSums | None = None,
        far_from: float = _FAR,
    ) -> None:
        """Take the pairs of a block; own terms of symmetric moments are added in the end."""
        y, x, (X, Y, h, options, _) = self.queries, self.data, self.of
        own_out = options.own_out or (task.output == "moments" and references is None)
        grid = -(-block.height // tiling.shape.queries), -(-block.width // part_rows)
        of_powers = (None, None) if powers is None else (powers[0], powers[1] if task.power_terms == 2 else None)
        _kernel(task, tiling).launch(
            grid,
            (tiling.shape.threads,),
            *(y.hi, y.lo, y.third, y.norms, y.rests, y.quanta, y.corrections),
            *(x.hi, x.lo, x.third, x.norms, x.rests, x.quanta, x.corrections, x.weights, X if Y is None else Y, X),
            *(references, totals, moments, *of_powers, *((None, None) if far is None else far[1:])),
            *(block.top, min(block.height, self.of.m - block.top), block.left, block.left + block.width, part_rows),
            *(totals.shape[1], 0 if powers is None else powers.shape[2], y.hi.shape[1], X.shape[1]),
            *(X.dtype == np.float64, own_out, scale_of(h), shift, far_from),
        )

    def finish(
        self,
        references: Any | None,
        totals: Any,
        products: Any | None,
        out: PartialSums,
        *,
        self_interaction: bool = False,
        shift: float = 0.0,
        unit: float = 1.0,
    ) -> None:
        """Write the sums."""
        m, output = self.of.m, self.task.output
        rows, width = (0, 0) if products is None or output == "laplace" else products.shape[1:]
        k = 0 if out.moments is None else out.moments.shape[1]
        parts, pitch = totals.shape
        _finish_kernel(output).launch(
            (-(-m // _FINISH_ROWS),),
            (32 * _FINISH_ROWS,),
            *(references, totals, products, self.queries.hi, self.queries.lo, self.queries.quanta, *out),
            *(m, pitch, rows, k, width, parts, self_interaction, shift, unit),
        )


def _parts(query_tiles: int, tiles: int, at_a_time: int) -> int:
    """Parts of the data, at most, that make no more blocks than run at a time; fewer tiles have no more parts."""
    return max(1, min(tiles, at_a_time // query_tiles))


def _part_rows(query_tiles: int, tiles: int, at_a_time: int) -> int:
    """Data rows of a part."""
    return -(-tiles // _parts(query_tiles, tiles, at_a_time)) * _TILE


def _cases() -> Iterator[tuple[Task, Layout]]:
    for task in tasks():
        for column_totals in (False, True) if task.staged else (False,):
            yield from ((task._replace(column_totals=column_totals), tiling) for tiling in every_layout(task))


@core_compile.specialised(cases=_cases)
def _kernel(task: Task, tiling: Layout) -> Specialisation:
    name = f"{OPERATION[task.output]}_wide_{'f16x2' if task.terms == 2 else 'f16'}"
    defines = core_compile.macros(
        KERNEL=name,
        OUTPUT=task.output.upper(),
        TERMS=task.terms,
        POWER_TERMS=task.power_terms,
        COLUMN_TOTALS=task.column_totals,
        WARPS_DOWN=tiling.warps_down,
        STEP_DEPTH=tiling.step_depth,
        STAGES=tiling.stages,
        BLOCKS=tiling.blocks,
    )
    return Specialisation("density/wide", name, defines, "24P 7q 4i 3f", tiling.shared_bytes(task))


@core_compile.specialised(C_TYPE)
def _prepare_kernel(dtype: np.dtype) -> Specialisation:
    defines = core_compile.macros(STORAGE=C_TYPE[dtype])
    return Specialisation("density/wide_operands", "prepare_wide", defines, "13P q 3i d")


@core_compile.specialised(OPERATION)
def _finish_kernel(output: Output) -> Specialisation:
    defines = core_compile.macros(OUTPUT=output.upper())
    return Specialisation("density/wide_finish", "finish_wide", defines, "9P 3q 4i f d")
