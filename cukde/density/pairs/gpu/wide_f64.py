"""All pairs of points of many dimensions in float64: products by cuBLAS around ``kernels_cu/density/wide_f64.cu``.

A block of inner products, bounded whatever the sizes, is made in memory and becomes powers there; for moments and sums
of values a second product takes it from there. On devices with float64 tensor cores the library uses them.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile, device, gemm
from cukde.core.gpu.launch import DOUBLE, Specialisation, begin
from cukde.density.kept import kept
from cukde.density.pairs.gpu import difference, f64, finish as pairs_finish
from cukde.density.pairs.gpu.arguments import Arguments
from cukde.density.pairs.gpu.operands import LOG2_E, scale_of
from cukde.density.plan.gpu import (
    MOST_F64,
    MOST_ROWS_WIDE_F64,
    STAGED_BYTES as _STAGED_BYTES,
    STAGED_ROWS_F64 as _STAGED_ROWS,
)
from cukde.density.sums import Output, PartialSums, moment_columns, put

# Squared distances to the centre, in bandwidths: up to MOST_F64 powers need no reference, as in f64.cuh. Up to
# MOST_ROWS_WIDE_F64 exponents are added up from norms that double holds to 5e-13. Beyond, those of a query are good
# enough where its own distance is at most LEVELS times its largest exponent, of which the promise then is a share;
# others are summed again. Exponents of points beyond MOST_WIDE_F64 are beyond the references.
LEVELS = 2.5

# Most queries that are summed again lie in clusters far from the centre. Those that are this near to one of them are
# taken about it, by another pass over all data. Others are summed by differences, and so are groups of fewer rows: one
# query beside 190,000 rows of 261 columns takes 0.18 ms on an H200, where a pass makes operands in 0.3 ms.
_NEAR = 0.9 * MOST_ROWS_WIDE_F64
_LEAST_OF_GROUP, _MOST_GROUPS = 16, 64

# Integers that keep powers in the range of float64; values have a range of their own.
_SHIFT = 940.0
_SHIFT_OF_VALUES = 0.0

_NOTHING = -(2.0**20)  # an exponent whose power is zero

# The rounding of d products that are added up changes a power by up to 1.1e-16 r sqrt(d), r being the scaled squared
# radius (the largest change of 20,000, in 64 to 4,096 dimensions), and in several parts by as many times less. This
# keeps it to 8e-13 of the 1e-12 that is allowed, or to 4e-13 beyond MOST_F64.
_SQUARED_RADIUS_TIMES_ROOT = 7100.0
_LOWEST = -524288.0  # reference of a query that has met nothing

_DEPTHS = 8  # columns of the operands, and of the parts of a product, come in whole multiples

_TILE = 128  # queries of a block of wide_f64.cu, and data rows that it takes at a time
_THREADS = 256
_BLOCKS = 4  # of a multiprocessor at a time

_ROWS = 4  # queries of a block of wide_f64_references.cu and of wide_f64_finish.cu


def reach(output: Output, squared_radius: float) -> int:
    """How far points are: 0 where powers need no reference, 2 where some queries may be summed again, else 1."""
    return (squared_radius > MOST_F64[output]) + (squared_radius > MOST_ROWS_WIDE_F64)


def take(
    of: Arguments, output: Output, values: Any | None = None, *, ratio: bool = False, own: Any | None = None
) -> PartialSums:
    """Take a pass; the same bits on every run. Where queries are some of the rows, ``own`` says which, on the host."""
    X = pairs_finish.contiguous(of.X, DOUBLE)
    Y, V = (None if a is None else pairs_finish.contiguous(a, DOUBLE) for a in (of.Y, values))
    h, options, d = of.h, of.options, X.shape[1]
    k, log_weights = moment_columns(output, d, V), options.log_weights
    depth = -(-d // _DEPTHS) * _DEPTHS
    prepare = functools.partial(f64.prepare, Y=None, centre=options.centre, h=h, depth=depth)
    # Weights are none of the queries': where these are the data, norms are without them.
    apart = log_weights is not None and (Y is None or output == "laplace")
    data = kept(
        options.kept,
        "operand",
        (X, options.centre, log_weights),
        ("wide_f64", h, apart),
        lambda: prepare(X, log_weights=log_weights, weights_apart=apart),
    )
    queries = data if Y is None else prepare(Y)

    gpu_pass = _Pass(of._replace(X=X, Y=Y), output, data, queries, data.data if output == "moments" else V, own)
    gpu_pass.sum()
    out = gpu_pass.finished(k)
    if reach(output, options.squared_radius) > 1:
        begin(difference.specialise(output, "float64", X.dtype, d, k).kernel, *pairs_finish.kernels_of_merge(2, k))
        gpu_pass.sum_again(out, V)
    return out


@functools.lru_cache(maxsize=1024)
def _dimensions_at_a_time(depth: int, squared_radius: float) -> int:
    """Dimensions whose products are added up at a time."""
    parts = max(1, math.ceil(squared_radius * math.sqrt(depth) / _SQUARED_RADIUS_TIMES_ROOT))
    return -(-depth // (_DEPTHS * parts)) * _DEPTHS


def _clear_own(P: Any, block: gemm.Block, own: Any | None) -> None:
    """Make powers of own pairs of a block zero, by what stands for their products.

    The own row of a query has its number, or that which ``own`` says, on the host.
    """
    pitch = P.shape[1]
    if own is not None:
        columns = own[block.top : block.top + block.height] - block.left
        here = np.nonzero((columns >= 0) & (columns < block.width))[0]
        P.reshape(-1)[cp.asarray(here * pitch + columns[here])] = _NOTHING
        return
    first, last = max(block.top, block.left), min(block.top + block.height, block.left + block.width)
    begin = (first - block.top) * pitch + first - block.left
    P.reshape(-1)[begin : begin + max(0, last - first) * (pitch + 1) : pitch + 1] = _NOTHING


class _Pass:
    """The operands of a pass, a block of powers, and the sums so far."""

    def __init__(
        self,
        of: Arguments,
        output: Output,
        data: f64.Operands,
        queries: f64.Operands,
        factors: Any | None,
        own: Any | None,
    ) -> None:
        self.of, self.output, self.data, self.queries, self.factors = of, output, data, queries, factors
        self.own = own
        height, width, depth = len(queries.data), len(data.data), data.data.shape[1]
        radius = of.options.squared_radius
        far = reach(output, radius) > 0
        self.symmetric = of.Y is None and of.options.log_weights is None and not far  # no pair differs from its reverse
        self.shift = _SHIFT_OF_VALUES if output == "values" or far else _SHIFT
        # Of queries, and their norms less these.
        self.references = (cp.full(height, _LOWEST), cp.empty(height)) if far else None
        self.step = _dimensions_at_a_time(depth, 2 * min(radius, MOST_ROWS_WIDE_F64) if far else radius)
        block_rows = min(height, _STAGED_ROWS)
        self.P = cp.empty((block_rows, min(width, _STAGED_BYTES // (8 * block_rows) // _TILE * _TILE)))
        # A part of the data has a row of totals; where blocks serve both of their sides, so has a tile of queries.
        tiles = block_rows // _TILE
        parts = max(tiles, _BLOCKS * device.multiprocessors() // tiles)
        self.totals = cp.zeros((parts, height))
        self.corrected = cp.zeros((parts, height)) if output == "laplace" else None
        self.products = None if factors is None else cp.zeros((of.m, factors.shape[1]))

    def sum(self) -> None:
        """Add powers to totals, and their products with factors to products, block by block.

        Where the pass is symmetric a block serves both of its sides, but for squares on the diagonal.
        """
        P, n, m = self.P, len(self.of.X), self.of.m
        for block in gemm.blocks(len(self.queries.data), len(self.data.data), *P.shape, symmetric=self.symmetric):
            both = self.symmetric and block.left > block.top
            self._make_exponents(block)
            if self.references is not None:
                self._raise_references(block, *self.references)
            self._make_powers(block, both)
            if self.products is not None:
                # Without the rows and columns past the end.
                inside = block._replace(height=min(block.height, m - block.top), width=min(block.width, n - block.left))
                gemm.add_product(self.products, P, inside, self.factors, "f64")
                if both:
                    gemm.add_product(self.products, P, inside, self.factors, "f64", transposed=True)

    def sum_again(self, out: PartialSums, values: Any | None) -> None:
        """Sum again what products are too coarse for; the host waits for how many queries there are."""
        assert self.references is not None
        X, Y, h, options, _ = self.of
        m, own_out = self.of.m, options.own_out
        squares, level = -2 / LOG2_E * self.queries.norms[:m], -self.references[0][:m] / LOG2_E
        rows = cp.nonzero((squares > MOST_ROWS_WIDE_F64) & (squares > LEVELS * level))[0]
        rows = self._sum_groups(out, rows, values)
        if not len(rows):
            return
        if own_out:  # own rows go by the numbers of the queries: then all are summed again
            rows = cp.arange(m)
        some = pairs_finish.empty(len(rows), 0 if out.moments is None else out.moments.shape[1])
        operands = X, (X if Y is None else Y)[rows], h, self.output, values, options.log_weights
        put(out, rows, pairs_finish.merge(difference.launch("float64", *operands, out=some, own_out=own_out), some))

    def _sum_groups(self, out: PartialSums, rows: Any, values: Any | None) -> Any:
        """Sum groups of neighbours among the queries about one of their points; return queries that are in no group."""
        options, m, alone = self.of.options, self.of.m, []
        points, halves = self.queries.data[:m], self.queries.norms[:m]  # in units of h, times sqrt(log2 e)
        queries = self.of.X if self.of.Y is None else self.of.Y
        for _ in range(_MOST_GROUPS):
            if len(rows) < _LEAST_OF_GROUP:
                break
            squares = -2 * (halves + halves[rows[0]] + points @ points[rows[0]])
            near = squares[rows] <= _NEAR * LOG2_E
            group, rows = rows[near], rows[~near]
            if len(group) < _LEAST_OF_GROUP:
                alone.append(group)
                continue
            about = options._replace(centre=queries[group[0]], squared_radius=MOST_ROWS_WIDE_F64, kept=None)
            of_group = self.of._replace(Y=queries[group], options=about)
            own = cp.asnumpy(group) if options.own_out else None
            put(out, group, take(of_group, self.output, values, own=own))
        return cp.concatenate([*alone, rows])

    def _make_exponents(self, block: gemm.Block) -> None:
        """Leave the inner products of a block in its memory."""
        depth = self.data.data.shape[1]
        for first in range(0, depth, self.step):
            columns = slice(first, min(depth, first + self.step))
            gemm.gram(self.P, self.queries.data, self.data.data, block, columns, adds=first > 0)
        if self.of.options.own_out:
            _clear_own(self.P, block, self.own)

    def _raise_references(self, block: gemm.Block, references: Any, norms: Any) -> None:
        """Let references rise to the exponents of a block, and sums so far be about them."""
        y, x, P, (parts, pitch) = self.queries, self.data, self.P, self.totals.shape
        _raise_kernel().launch(
            (block.height // _ROWS,),
            (32 * _ROWS,),
            *(P, y.norms, x.norms, x.weights, references, norms, self.totals, self.corrected, self.products),
            *(self.of.m, block.top, block.left, block.width, P.shape[1], pitch, parts, self._columns),
        )

    def _make_powers(self, block: gemm.Block, both: bool) -> None:
        """Leave the powers of a block in its memory, where they are wanted, and add them to the totals."""
        y, x, (parts, pitch) = self.queries, self.data, self.totals.shape
        norms = y.norms if self.references is None else self.references[1]
        part_columns = -(-block.width // (_TILE * parts)) * _TILE
        _kernel(self.output, both).launch(
            (block.height // _TILE, -(-block.width // part_columns)),
            (_THREADS,),
            *(self.P, norms, x.norms, x.weights, self.totals, self.corrected),
            *(block.top, block.left, block.left + block.width, part_columns, self.P.shape[1], pitch),
            *(self.shift, 1 + self.of.X.shape[1] / 2),
        )

    @property
    def _columns(self) -> int:
        return 0 if self.products is None else int(self.products.shape[1])

    def finished(self, k: int) -> PartialSums:
        """Return the sums, with ``k`` moments."""
        moments, points, m = self.output == "moments", self.queries.data, self.of.m
        out, (parts, pitch) = pairs_finish.empty(m, k), self.totals.shape
        _finish_kernel().launch(
            (-(-m // _ROWS),),
            (32 * _ROWS,),
            *(self.totals, self.corrected, self.products, points if moments else None),
            *(None if self.references is None else self.references[0], *out),
            *(m, pitch, k, self._columns, points.shape[1], parts),
            *(self.shift, 1 / scale_of(self.of.h) if moments else 1.0),
        )
        return out


@core_compile.specialised()
def _raise_kernel() -> Specialisation:
    return Specialisation("density/wide_f64_references", "raise_references", (), "9P 6q 2i")


@core_compile.specialised()
def _finish_kernel() -> Specialisation:
    return Specialisation("density/wide_f64_finish", "finish_wide_f64", (), "8P 2q 4i 2d")


@core_compile.specialised(("sum", "laplace", "moments"), (False, True))
def _kernel(output: Output, column_totals: bool) -> Specialisation:
    defines = core_compile.macros(
        KEPT=output in ("moments", "values"), LAPLACE=output == "laplace", COLUMN_TOTALS=column_totals
    )
    return Specialisation("density/wide_f64", "powers_f64", defines, "6P 6q 2d")
