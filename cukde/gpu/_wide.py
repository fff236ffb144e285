"""All pairs of points of many dimensions on the tensor cores: launchers of ``kernels_cu/density_wide.cu``.

Inner products come from a loop over the dimensions. Sums and Laplace's sums end in the same kernel; for moments and
sums of values it leaves a block of powers in memory, bounded whatever the sizes, and a library multiplies that.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde import _compile
from cukde._partial import Output, PartialSums
from cukde.gpu import _device, _difference, _gemm, _grid, _results, _values
from cukde.gpu._operands import LOG2_E, or_null, scale_of
from cukde.gpu._specialisation import C_TYPE, OPERATION

FEWEST_DIMENSIONS = 65

# Largest squared distance to the centre, in bandwidths: with log2 e times that below 1024 leading products add up
# exactly. One term keeps 11 bits, the percent that "tf32" is meant for.
SPREAD = 700.0

# Data rows of a tile; rows of operands come in whole tiles.
_TILE = 128


@dataclass(frozen=True)
class Layout:
    """What a multiprocessor's registers and shared memory are spent on, as the kernel's macros say."""

    warps_down: int  # of 64 queries each; beside each other there are 4
    step_depth: int  # dimensions in shared memory at a time
    stages: int  # such steps under way
    blocks: int  # of a multiprocessor at a time

    @property
    def shape(self) -> _grid.Shape:
        """As the cost rule sees it."""
        return _grid.Shape(4 * self.warps_down, 1, _TILE, self.blocks)


_LAYOUT = Layout(warps_down=1, step_depth=64, stages=2, blocks=2)

# Memory for the powers that are staged at a time, and their queries.
_STAGED_BYTES = 2**26
_STAGED_ROWS = 4096

# Bits that float16 powers are scaled up by, to be normal numbers down to 2^-27.
_SHIFT = 13.0

_PREPARE_ROWS = 4  # of a block of prepare_wide.cu
_FINISH_ROWS = 4  # of a block of finish_wide.cu


class Operand(NamedTuple):
    """Points z = (point - centre) sqrt(log2 e) / h in float16 terms, rows and columns padded with zeros."""

    hi: Any  # (padded rows, depth) uint16, the bits of float16
    lo: Any | None  # likewise, where two terms are kept
    norms: Any  # (padded rows,) float32: -|z|^2/2 of the rounded points, + log2 w
    rests: Any | None  # (padded rows,) float32: what norms that add up exactly leave, where two terms are kept
    weights: Any | None  # (padded rows,) float32: log2 w, where they are kept apart

    def part(self, begin: int, end: int) -> Operand:
        """Rows [begin, end)."""
        return Operand(*(None if a is None else a[begin:end] for a in self))


class Task(NamedTuple):
    """What the kernel is specialised for."""

    output: Output
    terms: int  # of points
    power_terms: int = 1  # that staged powers are kept in
    column_totals: bool = False

    @property
    def staged(self) -> bool:
        """Whether powers are left in memory."""
        return self.output in ("moments", "values")

    @property
    def kernel(self) -> tuple[str, str, _compile.Defines]:
        """Stem, name and macros of the kernel."""
        name = f"{OPERATION[self.output]}_wide_{'f16x2' if self.terms == 2 else 'f16'}"
        return (
            "density_wide",
            name,
            (
                ("KERNEL", name),
                ("OUTPUT", self.output.upper()),
                ("TERMS", str(self.terms)),
                ("POWER_TERMS", str(self.power_terms)),
                ("COLUMN_TOTALS", str(int(self.column_totals))),
                ("WARPS_DOWN", str(_LAYOUT.warps_down)),
                ("STEP_DEPTH", str(_LAYOUT.step_depth)),
                ("STAGES", str(_LAYOUT.stages)),
                ("BLOCKS", str(_LAYOUT.blocks)),
            ),
        )

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block: steps of both sides, and norms and rests of two tiles."""
        rows = _LAYOUT.stages * (_TILE + _LAYOUT.shape.queries)
        return self.terms * (rows * 2 * _LAYOUT.step_depth + 2 * 4 * _TILE)


def prepare(
    points: Any,
    centre: Any,
    h: float,
    *,
    terms: int,
    log_weights: Any | None = None,
    weights_apart: bool = False,
    spread: Any | None = None,
) -> Operand:
    """Operand of points, shape (n, d), float32 or float64, in so many terms.

    All else is as for :func:`cukde.gpu._operands.prepare`.
    """
    n, d = points.shape
    rows, depth = -(-n // _TILE) * _TILE, -(-d // _LAYOUT.step_depth) * _LAYOUT.step_depth
    operand = Operand(
        cp.empty((rows, depth), np.uint16),
        cp.empty((rows, depth), np.uint16) if terms == 2 else None,
        cp.empty(rows, np.float32),
        cp.empty(rows, np.float32) if terms == 2 else None,
        cp.empty(rows, np.float32) if weights_apart and log_weights is not None else None,
    )
    _compile.kernel(*_prepare_kernel(points.dtype))(
        (rows // _PREPARE_ROWS,),
        (32 * _PREPARE_ROWS,),
        (
            points,
            centre,
            or_null(log_weights),
            *map(or_null, operand),
            or_null(spread),
            np.int64(n),
            np.int32(d),
            np.int32(depth),
            scale_of(h),
        ),
    )
    return operand


def run(
    X: Any,
    Y: Any | None,
    h: float,
    output: Output,
    values: Any,
    log_weights: Any,
    *,
    terms: int,
    centre: Any,
    spread_known: bool,
    ratio: bool,
) -> PartialSums:
    """Sum over all pairs; the same bits on every run.

    Parameters
    ----------
    X, Y : array, shape (n, d) and (m, d)
        Of one dtype; ``Y`` None are the data themselves.
    terms : {1, 2}
        Float16 terms of a point.
    spread_known : bool
        The spread is within the limit. Otherwise it is found on the device, and where it is beyond, the
        difference kernel does the work.
    ratio : bool
        See :func:`cukde.gpu.density.partial_sums`.
    """
    n, d = X.shape
    m = n if Y is None else Y.shape[0]
    k = {"moments": d, "values": 0 if values is None else values.shape[1]}.get(output, 0)
    spread = None if spread_known else cp.zeros(1, np.float32)
    limit = SPREAD * LOG2_E
    apart = output == "laplace"
    data = prepare(X, centre, h, terms=terms, log_weights=log_weights, weights_apart=apart, spread=spread)
    alike = Y is None and log_weights is None
    queries = data if alike else prepare(X if Y is None else Y, centre, h, terms=terms, spread=spread)
    out = _results.empty(m, k)
    if spread is not None:
        stand_in = _difference.specialise(output, "float32", X.dtype, d, k)
        guard = _difference.Guard(spread, limit, None, 0.0)
        _difference.launch(stand_in, X, Y, h, output, values, log_weights, out=out, guard=guard, one_split=True)
    of = _Pass(data, queries, terms, n, m, spread, limit)
    if output in ("sum", "laplace"):
        shift = (1 + d / 2) / math.log(2) if output == "laplace" else 0.0
        references, totals = of.summed(Task(output, terms), shift)
        of.finish(output, references, totals, None, out)
    elif output == "values":
        of.of_values(_values.prepare(values), out, symmetric=alike)
    else:
        of.moments(out, h, symmetric=alike, ratio=ratio)
    return out


class _Side(NamedTuple):
    """What belongs to the rows of one side of a block of powers."""

    rows: int
    end: int
    operand: Operand
    factors: list[list[Any]]  # for each term, of all column blocks
    totals: Any | None
    products: list[Any]

    @classmethod
    def of(
        cls,
        operand: Operand,
        begin: int,
        end: int,
        terms: list[tuple[int, Any]],
        totals: Any | None,
        products: Any | None,
    ) -> _Side:
        """Views of rows [begin, end) of all that is given; totals and products are those of the rows as queries."""
        return cls(
            end - begin,
            end,
            operand.part(begin, end),
            [[block[begin:end] for block in B] for _, B in terms],
            None if totals is None else totals[:, begin:],
            [] if products is None else [block[begin:end] for block in products],
        )


class _Pass(NamedTuple):
    """The operands of a pass."""

    data: Operand
    queries: Operand
    terms: int
    n: int
    m: int
    spread: Any | None
    limit: float

    def summed(self, task: Task, shift: float) -> tuple[Any, Any]:
        """References and totals, (parts, m) float32, of output "sum" or "laplace"."""
        plan = _grid.plan((_LAYOUT.shape,), self.n, self.m, 2, _device.multiprocessors())
        references = cp.empty((plan.splits, self.m), np.float32)
        totals = cp.empty((plan.splits, self.m), np.float32)
        self._launch(
            task,
            (plan.query_blocks, plan.splits),
            self.queries,
            self.data,
            references=references,
            totals=totals,
            n=self.n,
            m=self.m,
            part_rows=plan.split_rows,
            shift=shift,
        )
        return references, totals

    def references(self) -> Any:
        """Exponents of the largest term of each query, (m,) float32, rounded: so they change no bit of exact sums."""
        return cp.rint(self.summed(Task("sum", self.terms), 0.0)[0].max(axis=0))

    def moments(self, out: PartialSums, h: float, *, symmetric: bool, ratio: bool) -> None:
        """Output "moments"."""
        # Of one term of powers and points the mean shift is as good as by the symmetric engine of few dimensions, where
        # each point's own term is left out: it would outweigh all others, and its rounding them.
        one_term = self.terms == 1 or (symmetric and ratio)
        terms = [(0, self.data.hi)] if one_term else [(0, self.data.hi), (1, self.data.hi), (0, self.data.lo)]
        task = Task("moments", self.terms, 1 if one_term else 2)
        references = None if symmetric else self.references()
        products = cp.zeros((1, len(self.queries.hi), self.data.hi.shape[1]), np.float32)
        totals = self._staged(task, references, products, [(p, B[None]) for p, B in terms], "f16", _SHIFT, symmetric)
        self.finish("moments", references, totals, products, out, own=symmetric, shift=_SHIFT, unit=1 / scale_of(h))

    def of_values(self, values: _values.Values, out: PartialSums, *, symmetric: bool) -> None:
        """Output "values"."""
        task = Task("values", self.terms, 2)
        references = None if symmetric else self.references()
        products = cp.zeros((len(values.hi), len(self.queries.hi), values.hi.shape[2]), np.float32)
        terms = [(0, values.hi), (1, values.hi), (0, values.lo)]
        totals = self._staged(task, references, products, terms, "bf16", 0.0, symmetric)
        self.finish("values", references, totals, products, out)

    def _staged(
        self,
        task: Task,
        references: Any | None,
        products: Any,
        terms: list[tuple[int, Any]],
        numbers: _gemm.Format,
        shift: float,
        symmetric: bool,
    ) -> Any:
        """Add powers times the terms' operands to ``products``, block by block; return the totals, (parts, rows).

        ``terms`` are pairs: which term of the powers, and an array of shape (blocks, rows, width).
        """
        height, width = len(self.queries.hi), len(self.data.hi)
        tile = _LAYOUT.shape.queries
        block_rows = min(height, _STAGED_ROWS)
        block_columns = min(width, _STAGED_BYTES // (2 * task.power_terms * block_rows) // _TILE * _TILE)
        powers = cp.empty((task.power_terms, block_rows, block_columns), np.uint16)
        # A part of the data has a row of totals; where blocks serve both of their sides, so has a tile of queries.
        at_a_time = _device.multiprocessors() * _LAYOUT.blocks
        totals = cp.zeros((max(block_rows // tile, at_a_time), height), np.float32)

        def side(of: Operand, begin: int, end: int, *, is_query: bool) -> _Side:
            return _Side.of(of, begin, end, terms, totals if is_query else None, products if is_query else None)

        for begin in range(0, height, block_rows):
            top = side(self.queries, begin, min(height, begin + block_rows), is_query=True)
            # Where queries are the data, the square on the diagonal stands alone, and what follows serves both sides.
            first = top.end if symmetric else 0
            lefts = [(left, min(width, left + block_columns)) for left in range(first, width, block_columns)]
            for left_begin, left_end in [(begin, top.end), *lefts] if symmetric else lefts:
                left = side(self.data, left_begin, left_end, is_query=symmetric)
                both = symmetric and left_begin > begin
                part_rows = _part_rows(top.rows // tile, left.rows // _TILE, at_a_time)
                self._launch(
                    task._replace(column_totals=both),
                    (top.rows // tile, -(-left.rows // part_rows)),
                    top.operand,
                    left.operand,
                    references=None if references is None else references[begin:],
                    totals=top.totals,
                    column_totals=left.totals if both else None,
                    powers=powers,
                    n=left.rows,
                    m=min(top.rows, self.m - begin),
                    part_rows=part_rows,
                    skip_own=symmetric and task.output == "moments" and not both,
                    shift=shift,
                )
                for (p, _), of_left, of_top in zip(terms, left.factors, top.factors, strict=True):
                    P = powers[p, : top.rows, : left.rows]
                    for b in range(len(products)):
                        _gemm.add_product(top.products[b], P, of_left[b], numbers)
                        if both:
                            _gemm.add_product(left.products[b], P, of_top[b], numbers, transposed=True)
        return totals

    def _launch(
        self,
        task: Task,
        grid: tuple[int, int],
        queries: Operand,
        data: Operand,
        *,
        references: Any | None,
        totals: Any,
        n: int,
        m: int,
        part_rows: int,
        shift: float,
        column_totals: Any | None = None,
        powers: Any | None = None,
        skip_own: bool = False,
    ) -> None:
        stem, name, defines = task.kernel
        _compile.kernel(stem, name, defines, task.shared_bytes)(
            grid,
            (_LAYOUT.shape.threads,),
            (
                queries.hi,
                or_null(queries.lo),
                queries.norms,
                or_null(queries.rests),
                data.hi,
                or_null(data.lo),
                data.norms,
                or_null(data.rests),
                or_null(data.weights),
                or_null(self.spread),
                or_null(references),
                totals,
                or_null(column_totals),
                or_null(None if powers is None else powers[0]),
                or_null(None if task.power_terms == 1 or powers is None else powers[1]),
                np.int64(n),
                np.int64(m),
                np.int64(totals.strides[0] // totals.itemsize),
                np.int64(0 if powers is None else powers.shape[2]),
                np.int64(part_rows),
                np.int32(queries.hi.shape[1]),
                np.int32(skip_own),
                np.float32(self.limit),
                np.float32(shift),
            ),
        )

    def finish(
        self,
        output: Output,
        references: Any | None,
        totals: Any,
        products: Any | None,
        out: PartialSums,
        *,
        own: bool = False,
        shift: float = 0.0,
        unit: float = 1.0,
    ) -> None:
        """Write the sums."""
        _compile.kernel(*_finish_kernel(output))(
            (-(-self.m // _FINISH_ROWS),),
            (32 * _FINISH_ROWS,),
            (
                or_null(references),
                totals,
                or_null(products),
                self.queries.hi,
                or_null(self.queries.lo),
                or_null(self.spread),
                out.reference,
                out.total,
                or_null(out.moments),
                np.int64(self.m),
                np.int64(totals.shape[1]),
                np.int64(0 if products is None else products.shape[1]),
                np.int32(0 if out.moments is None else out.moments.shape[1]),
                np.int32(0 if products is None else products.shape[2]),
                np.int32(totals.shape[0]),
                np.int32(own),
                np.float32(self.limit),
                np.float32(shift),
                np.float64(unit),
            ),
        )


def specialisations() -> Iterator[tuple[str, str, _compile.Defines]]:
    """Stem, name and macros of every kernel of this module."""
    for dtype in C_TYPE:
        yield _prepare_kernel(dtype)
    for output in OPERATION:
        yield _finish_kernel(output)
        for terms in (1, 2):
            task = Task(output, terms)
            if not task.staged:
                yield task.kernel
                continue
            of_output = (2,) if output == "values" else (1,) if terms == 1 else (1, 2)
            for power_terms in of_output:
                for column_totals in (False, True):
                    yield task._replace(power_terms=power_terms, column_totals=column_totals).kernel


@functools.lru_cache(maxsize=1024)
def _part_rows(query_tiles: int, tiles: int, blocks: int) -> int:
    """Data rows of a part: as many parts as make no more blocks than run at a time."""
    parts = max(1, min(tiles, blocks // query_tiles))
    return -(-tiles // parts) * _TILE


@functools.cache
def _prepare_kernel(dtype: np.dtype) -> tuple[str, str, _compile.Defines]:
    return "prepare_wide", "prepare_wide", (("STORAGE", C_TYPE[dtype]),)


@functools.cache
def _finish_kernel(output: Output) -> tuple[str, str, _compile.Defines]:
    return "finish_wide", "finish_wide", (("OUTPUT", output.upper()),)
