"""All pairs of points of many dimensions in float64: products by cuBLAS around ``kernels_cu/density/wide_f64.cu``.

A block of inner products, bounded whatever the sizes, is made in memory and becomes powers there; for moments and sums
of values a second product takes it from there. On devices with float64 tensor cores the library uses them.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import cupy as cp

from cukde.core.gpu import compile as core_compile, device, gemm
from cukde.core.gpu.launch import DOUBLE, Specialisation
from cukde.density.kept import kept
from cukde.density.pairs.gpu import f64, finish as pairs_finish
from cukde.density.pairs.gpu.arguments import Arguments
from cukde.density.pairs.gpu.operands import LOG2_E, scale_of
from cukde.density.plan.gpu import (
    MOST_F64,
    MOST_NORMS_F64,
    STAGED_BYTES as _STAGED_BYTES,
    STAGED_ROWS_F64 as _STAGED_ROWS,
    staged_block,
)
from cukde.density.sums import Output, PartialSums, moment_columns

# Squared distances to the centre, in bandwidths: up to MOST_F64 powers need no reference, as in f64.cuh. Beyond
# MOST_NORMS_F64 norms and products leave more than 5e-13 of an exponent. Then points are split in two terms, and
# products of the first are exact (wide_f64_split.cu): three times the multiply-adds, and no query is taken twice.

# Integers that keep powers in the range of float64; values have a range of their own.
_SHIFT = 940.0
_SHIFT_OF_VALUES = 0.0

_NOTHING = -(2.0**28)  # an exponent whose power is zero

# The rounding of d products that are added up changes a power by up to 1.1e-16 r sqrt(d), r being the scaled squared
# radius (the largest change of 20,000, in 64 to 4,096 dimensions), and in several parts by as many times less. This
# keeps it to 8e-13 of the 1e-12 that is allowed, or to 4e-13 beyond MOST_F64.
_SQUARED_RADIUS_TIMES_ROOT = 7100.0
_LOWEST = -(2.0**26)  # reference of a query that has met nothing

_DEPTHS = 8  # columns of the operands, and of the parts of a product, come in whole multiples

_TILE = 128  # queries of a block of wide_f64.cu, and data rows that it takes at a time
_THREADS = 256
_BLOCKS = 4  # of a multiprocessor at a time

_ROWS = 4  # queries of a block of wide_f64_references.cu and of wide_f64_finish.cu

_SPLIT_BITS = 25  # of the first terms of split points, so that sums of their products, and norms, have at most 53
_SPLIT_ROWS, _SPLIT_THREADS, _NORMS = 16, 128, 8  # of a block of wide_f64_split.cu; columns of norms


def take(of: Arguments, output: Output, values: Any | None = None, *, ratio: bool = False) -> PartialSums:
    """Take a pass; the same bits on every run."""
    X = pairs_finish.contiguous(of.X, DOUBLE)
    Y, V = (None if a is None else pairs_finish.contiguous(a, DOUBLE) for a in (of.Y, values))
    h, options, d = of.h, of.options, X.shape[1]
    depth = -(-d // _DEPTHS) * _DEPTHS
    split = options.squared_radius > MOST_NORMS_F64
    prepare = functools.partial(f64.prepare, Y=None, centre=options.centre, h=h, depth=depth)
    # Weights are none of the queries': where these are the data, norms are without them.
    apart = split or (options.log_weights is not None and (Y is None or output == "laplace"))
    data = kept(
        options.kept,
        "operand",
        (X, options.centre, options.log_weights),
        ("wide_f64", h, apart),
        lambda: prepare(X, log_weights=options.log_weights, weights_apart=apart),
    )
    queries = data if Y is None else prepare(Y)
    gpu_pass = _Pass(of._replace(X=X, Y=Y), output, data, queries, data.data if output == "moments" else V, split)
    gpu_pass.sum()
    return gpu_pass.finished(moment_columns(output, d, V))


@functools.lru_cache(maxsize=1024)
def _dimensions_at_a_time(depth: int, squared_radius: float) -> int:
    """Dimensions whose products are added up at a time."""
    parts = max(1, math.ceil(squared_radius * math.sqrt(depth) / _SQUARED_RADIUS_TIMES_ROOT))
    return -(-depth // (_DEPTHS * parts)) * _DEPTHS


def _clear_own(P: Any, block: gemm.Block) -> None:
    """Make powers of own pairs of a block zero, by what stands for their products."""
    pitch = P.shape[1]
    first, last = max(block.top, block.left), min(block.top + block.height, block.left + block.width)
    begin = (first - block.top) * pitch + first - block.left
    P.reshape(-1)[begin : begin + max(0, last - first) * (pitch + 1) : pitch + 1] = _NOTHING


class _Split:
    """Operands of exponents of points far from the centre, of one block at a time."""

    def __init__(self, queries: Any, data: Any, squared_radius: float) -> None:
        self._points = queries, data
        self._queries: tuple[int, Any] = (-1, None)
        bits = math.ceil(0.5 * math.log2(squared_radius * LOG2_E)) - _SPLIT_BITS
        self._rounding = math.ldexp(1.5, 52 + bits)

    def exponents(self, P: Any, block: gemm.Block) -> None:
        """Leave those of a block in its memory."""
        if self._queries[0] != block.top:
            self._queries = block.top, self._operands(0, block.top, block.height)
        queries, data = self._queries[1], self._operands(1, block.left, block.width)
        here, exact = block._replace(top=0, left=0), self._points[0].shape[1] + _NORMS
        gemm.gram(P, queries, data, here, slice(0, exact))
        gemm.gram(P, queries, data, here, slice(exact, data.shape[1]), adds=True)

    def _operands(self, which: int, first: int, rows: int) -> Any:
        points = self._points[which]
        depth = points.shape[1]
        out = cp.empty((rows, 3 * depth + 2 * _NORMS))
        grid = (-(-rows // _SPLIT_ROWS),)
        _split_kernel().launch(
            grid, (_SPLIT_THREADS,), points[first : first + rows], out, rows, depth, 1 - which, self._rounding
        )
        return out


class _Pass:
    """The operands of a pass, a block of powers, and the sums so far."""

    def __init__(
        self,
        of: Arguments,
        output: Output,
        data: f64.Operands,
        queries: f64.Operands,
        factors: Any | None,
        split: bool,
    ) -> None:
        height, width, depth = len(queries.data), len(data.data), data.data.shape[1]
        radius = of.options.squared_radius
        far = radius > MOST_F64[output]
        self.split = _Split(queries.data, data.data, radius) if split else None
        if split:  # exponents have the norms already
            data, queries = (one._replace(norms=cp.zeros(len(one.data))) for one in (data, queries))
        self.of, self.output, self.data, self.queries, self.factors = of, output, data, queries, factors
        self.symmetric = of.Y is None and of.options.log_weights is None and not far  # no pair differs from its reverse
        self.shift = _SHIFT_OF_VALUES if output == "values" or far else _SHIFT
        # Of queries, and their norms less these.
        self.references = (cp.full(height, _LOWEST), cp.empty(height)) if far else None
        self.step = _dimensions_at_a_time(depth, 2 * radius if far else radius)
        self.P = cp.empty(staged_block(height, width, _STAGED_ROWS, _STAGED_BYTES // 8, symmetric=self.symmetric))
        # A part of the data has a row of totals; where blocks serve both of their sides, so has a tile of queries.
        tiles = len(self.P) // _TILE
        parts = max(tiles if self.symmetric else 1, _BLOCKS * device.multiprocessors() // tiles)
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

    def _make_exponents(self, block: gemm.Block) -> None:
        """Leave the inner products of a block in its memory, or the exponents of split points."""
        depth = self.data.data.shape[1]
        if self.split is not None:
            self.split.exponents(self.P, block)
        else:
            for first in range(0, depth, self.step):
                columns = slice(first, min(depth, first + self.step))
                gemm.gram(self.P, self.queries.data, self.data.data, block, columns, adds=first > 0)
        if self.of.options.own_out:
            _clear_own(self.P, block)

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
def _split_kernel() -> Specialisation:
    return Specialisation("density/wide_f64_split", "split_f64", (), "2P q 2i d")


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
