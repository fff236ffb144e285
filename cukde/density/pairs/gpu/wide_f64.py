"""All pairs of points of many dimensions in float64: products by cuBLAS around ``kernels_cu/density/wide_f64.cu``.

A block of inner products, bounded whatever the sizes, is made in memory and becomes powers there; for moments and sums
of values a second product takes it from there. On devices with float64 tensor cores the library uses them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import cupy as cp

from cukde.core.gpu import compile as core_compile, device, gemm
from cukde.core.gpu.launch import DOUBLE, Specialisation, begin
from cukde.density.kept import Kept, kept
from cukde.density.pairs.gpu import difference, f64, finish as pairs_finish
from cukde.density.pairs.gpu.arguments import Arguments
from cukde.density.pairs.gpu.operands import LOG2_E, scale_of
from cukde.density.plan.gpu import MOST_F64, MOST_ROWS_WIDE_F64
from cukde.density.sums import Output, PartialSums, moment_columns, put

# Squared distances to the centre, in bandwidths: up to MOST_F64 powers need no reference, as in f64.cuh. Up to
# MOST_ROWS_WIDE_F64 exponents are added up from norms that double holds to 5e-13. Beyond, those of a query are good
# enough where its own distance is at most LEVELS times its largest exponent, of which the promise then is a share;
# others are summed again by differences. Exponents of points beyond MOST_WIDE_F64 are beyond the references.
LEVELS = 2.5

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

# Memory for the powers at a time, and their queries.
_STAGED_BYTES = 2**26
_STAGED_ROWS = 2048

_TILE = 128  # queries of a block of wide_f64.cu, and data rows that it takes at a time
_THREADS = 256
_BLOCKS = 4  # of a multiprocessor at a time

_ROWS = 4  # queries of a block of wide_f64_references.cu and of wide_f64_finish.cu


def reach(output: Output, squared_radius: float) -> int:
    """How far points are: 0 where powers need no reference, 2 where some queries may be summed again, else 1."""
    return (squared_radius > MOST_F64[output]) + (squared_radius > MOST_ROWS_WIDE_F64)


def run(
    X: Any,
    Y: Any | None,
    h: float,
    output: Output,
    values: Any,
    log_weights: Any,
    *,
    centre: Any,
    squared_radius: float,
    store: Kept | None = None,
    own_out: bool = False,
) -> PartialSums:
    """Sum over all pairs, or with ``own_out`` those of row i and query i left out; the same bits on every run.

    ``store`` keeps the operands of the data.
    """
    X, Y, V = (None if a is None else pairs_finish.contiguous(a, DOUBLE) for a in (X, Y, values))
    n, d = X.shape
    m = n if Y is None else Y.shape[0]
    k = moment_columns(output, d, V)
    depth = -(-d // _DEPTHS) * _DEPTHS
    prepare = functools.partial(f64.prepare, Y=None, centre=centre, h=h, depth=depth)
    # Weights are none of the queries': where these are the data, norms are without them.
    apart = log_weights is not None and (Y is None or output == "laplace")
    data = kept(
        store,
        "operand",
        (X, centre, log_weights),
        ("wide_f64", h, apart),
        lambda: prepare(X, log_weights=log_weights, weights_apart=apart),
    )
    queries = data if Y is None else prepare(Y)

    out = pairs_finish.empty(m, k)
    far = reach(output, squared_radius) > 0
    rows = len(queries.data)
    gpu_pass = _Pass(
        data,
        queries,
        n,
        m,
        output,
        symmetric=Y is None and log_weights is None and not far,
        shift=_SHIFT_OF_VALUES if output == "values" or far else _SHIFT,
        at_zero=1 + d / 2,
        own_out=own_out,
        references=(cp.full(rows, _LOWEST), cp.empty(rows)) if far else None,
        step=_dimensions_at_a_time(depth, 2 * min(squared_radius, MOST_ROWS_WIDE_F64) if far else squared_radius),
    )
    factors = data.data if output == "moments" else V
    products = None if factors is None else cp.zeros((m, factors.shape[1]))
    totals, corrected = gpu_pass.sums(factors, products)
    gpu_pass.finish(totals, corrected, products, out, unit=1 / scale_of(h) if output == "moments" else 1.0)
    if reach(output, squared_radius) > 1:
        begin(difference.specialise(output, "float64", X.dtype, d, k).kernel, *pairs_finish.kernels_of_merge(2, k))
        gpu_pass.again_by_differences(out, X, Y, h, V, log_weights)
    return out


@functools.lru_cache(maxsize=1024)
def _dimensions_at_a_time(depth: int, squared_radius: float) -> int:
    """Dimensions whose products are added up at a time."""
    parts = max(1, math.ceil(squared_radius * math.sqrt(depth) / _SQUARED_RADIUS_TIMES_ROOT))
    return -(-depth // (_DEPTHS * parts)) * _DEPTHS


def _clear_own(P: Any, block: gemm.Block) -> None:
    """Make powers of a block zero whose query and data row have one number, by what stands for their products."""
    first, last = max(block.top, block.left), min(block.top + block.height, block.left + block.width)
    pitch = P.shape[1]
    begin = (first - block.top) * pitch + first - block.left
    P.reshape(-1)[begin : begin + max(0, last - first) * (pitch + 1) : pitch + 1] = _NOTHING


class _Pass(NamedTuple):
    """The operands of a pass, and what it makes of them."""

    data: f64.Operands
    queries: f64.Operands
    n: int
    m: int
    output: Output
    symmetric: bool  # the queries are the data, and no weights tell a pair from its reverse
    shift: float
    at_zero: float
    own_out: bool
    references: tuple[Any, Any] | None  # and norms of the queries less these
    step: int  # dimensions of a product

    def sums(self, factors: Any | None, products: Any | None) -> tuple[Any, Any | None]:
        """Add powers times ``factors`` to ``products``, block by block; return the totals, (parts, rows).

        With output "laplace" its moments come beside them, likewise. Where the pass is symmetric a block serves both of
        its sides, but for squares on the diagonal.
        """
        height, width = len(self.queries.data), len(self.data.data)
        block_rows = min(height, _STAGED_ROWS)
        block_columns = min(width, _STAGED_BYTES // (8 * block_rows) // _TILE * _TILE)
        P = cp.empty((block_rows, block_columns))
        # A part of the data has a row of totals; where blocks serve both of their sides, so has a tile of queries.
        tiles = block_rows // _TILE
        parts = max(tiles, _BLOCKS * device.multiprocessors() // tiles)
        totals = cp.zeros((parts, height))
        corrected = cp.zeros((parts, height)) if self.output == "laplace" else None
        for block in gemm.blocks(height, width, block_rows, block_columns, symmetric=self.symmetric):
            both = self.symmetric and block.left > block.top
            self._make_exponents(P, block)
            if self.references is not None:
                self._raise_references(P, block, totals, corrected, products)
            self._make_powers(P, block, totals, corrected, parts, both)
            if products is not None:
                # Without the rows and columns past the end.
                inside = block._replace(
                    height=min(block.height, self.m - block.top), width=min(block.width, self.n - block.left)
                )
                gemm.add_product(products, P, inside, factors, "f64")
                if both:
                    gemm.add_product(products, P, inside, factors, "f64", transposed=True)
        return totals, corrected

    def again_by_differences(
        self, out: PartialSums, X: Any, Y: Any | None, h: float, values: Any | None, log_weights: Any | None
    ) -> None:
        """Sum again what products are too coarse for; the host waits for how many queries there are."""
        assert self.references is not None
        squares, level = -2 / LOG2_E * self.queries.norms[: self.m], -self.references[0][: self.m] / LOG2_E
        rows = cp.nonzero((squares > MOST_ROWS_WIDE_F64) & (squares > LEVELS * level))[0]
        # Own rows go by the numbers of the queries: then all are summed again.
        chosen = [] if not len(rows) else [cp.arange(self.m) if self.own_out else rows]
        columns = 0 if out.moments is None else out.moments.shape[1]
        for numbers in chosen:
            queries, some = (X if Y is None else Y)[numbers], pairs_finish.empty(len(numbers), columns)
            operands = X, queries, h, self.output, values, log_weights
            launched = difference.launch("float64", *operands, out=some, own_out=self.own_out)
            put(out, numbers, pairs_finish.merge(launched, some))

    def _make_exponents(self, P: Any, block: gemm.Block) -> None:
        """Leave the inner products of a block in ``P``."""
        depth = self.data.data.shape[1]
        for first in range(0, depth, self.step):
            columns = slice(first, min(depth, first + self.step))
            gemm.gram(P, self.queries.data, self.data.data, block, columns, adds=first > 0)
        if self.own_out:
            _clear_own(P, block)

    def _raise_references(
        self, P: Any, block: gemm.Block, totals: Any, corrected: Any | None, products: Any | None
    ) -> None:
        """Let references rise to the exponents of a block, and sums so far be about them."""
        assert self.references is not None
        y, x = self.queries, self.data
        columns = 0 if products is None else products.shape[1]
        _RAISE.launch(
            (block.height // _ROWS,),
            (32 * _ROWS,),
            *(P, y.norms, x.norms, x.weights, *self.references, totals, corrected, products),
            *(self.m, block.top, block.left, block.width, P.shape[1], totals.shape[1], totals.shape[0], columns),
        )

    def _make_powers(
        self, P: Any, block: gemm.Block, totals: Any, corrected: Any | None, parts: int, both: bool
    ) -> None:
        """Leave the powers of a block in ``P``, where they are wanted, and add them to the totals."""
        y, x = self.queries, self.data
        norms = y.norms if self.references is None else self.references[1]
        part_columns = -(-block.width // (_TILE * parts)) * _TILE
        _kernel(self.output, both).launch(
            (block.height // _TILE, -(-block.width // part_columns)),
            (_THREADS,),
            *(P, norms, x.norms, x.weights, totals, corrected),
            *(block.top, block.left, block.left + block.width, part_columns, P.shape[1], totals.shape[1]),
            *(self.shift, self.at_zero),
        )

    def finish(
        self, totals: Any, corrected: Any | None, products: Any | None, out: PartialSums, *, unit: float
    ) -> None:
        """Write the sums."""
        points = self.queries.data
        k = 0 if out.moments is None else out.moments.shape[1]
        width = 0 if products is None else products.shape[1]
        parts, pitch = totals.shape
        _FINISH.launch(
            (-(-self.m // _ROWS),),
            (32 * _ROWS,),
            *(totals, corrected, products, points if self.output == "moments" else None),
            *(None if self.references is None else self.references[0], *out),
            *(self.m, pitch, k, width, points.shape[1], parts, self.shift, unit),
        )


def take(of: Arguments, output: Output, values: Any | None, *, ratio: bool) -> PartialSums:
    """Take a pass."""
    options, operands = of.options, (of.X, of.Y, of.h, output, values, of.options.log_weights)
    more: dict[str, Any] = {"centre": options.centre, "store": options.kept, "own_out": options.own_out}
    return run(*operands, squared_radius=options.squared_radius, **more)


@core_compile.listed
def specialisations() -> Iterator[Specialisation]:
    """Every kernel of this module."""
    outputs: tuple[Output, ...] = ("sum", "laplace", "moments")
    for output in outputs:
        for column_totals in (False, True):
            yield _kernel(output, column_totals)
    yield _RAISE
    yield _FINISH


_RAISE = Specialisation("density/wide_f64_references", "raise_references", (), "9P 6q 2i")
_FINISH = Specialisation("density/wide_f64_finish", "finish_wide_f64", (), "8P 2q 4i 2d")


@functools.cache
def _kernel(output: Output, column_totals: bool) -> Specialisation:
    defines = core_compile.macros(
        KEPT=output in ("moments", "values"), LAPLACE=output == "laplace", COLUMN_TOTALS=column_totals
    )
    return Specialisation("density/wide_f64", "powers_f64", defines, "6P 6q 2d")
