"""Sums over all pairs that can matter, of any data of 2 to 64 dimensions: launchers of ``centred*.cu``.

Data lie in blocks of neighbours, each with a centre of its own, and queries are written anew about the centre of every
block that they meet: products on the tensor cores are good wherever block and query are near, however far the data
reach. Blocks that add nothing to a query are left out by a bound. Everything is decided on the device: launches follow
from the sizes alone, and nothing waits.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from cukde.core.gpu import compile as core_compile, device
from cukde.core.gpu.launch import C_TYPE, DOUBLE, FLOAT, Specialisation, begin
from cukde.core.gpu.scratch import Layout, Spec
from cukde.density.pairs.gpu import centred_kernels, centred_order, finish as pairs_finish
from cukde.density.pairs.gpu.arguments import Arguments
from cukde.density.pairs.gpu.centred_kernels import TILE_ROWS, Kernels
from cukde.density.pairs.gpu.finish import Density
from cukde.density.pairs.gpu.operands import scale_of
from cukde.density.sums import Output, PartialSums, moment_columns

# Error of an exponent that is allowed in any case, in bits; beyond, 3.2 eps times the reference, 5.5 far out.
_BUDGET = {"float32": 4e-5, "tf32": 1.4e-3}

_SHIFT = 2.0  # bits that powers of moments in float16 are scaled up by

_WAVES = 8  # of thread blocks, so that long ones and short ones even out


ENDS_IN_DENSITIES = True


class _Plan(NamedTuple):
    """What a pass of given sizes takes beside its arrays and its bandwidth."""

    of: Kernels
    sums: Specialisation
    before: tuple[Specialisation, ...]  # what is launched before the sums are merged
    blocks: int  # of data
    tiles: int  # of queries
    groups: int  # thread blocks beside each other
    span: int  # blocks of data in each span
    spans: int
    rows: int  # of sums
    width: int  # of the moments
    layout: Layout  # frame; points, blocks of data, boxes; points, tiles of queries, centres, references; sums


@functools.lru_cache(maxsize=1024)
def _plan(
    output: Output,
    precision: str,
    n: int,
    m: int,
    d: int,
    storage: np.dtype,
    itself: bool,
    ratio: bool,
    multiprocessors: int,
    shared_bytes: int,
) -> _Plan:
    is_double, moments = precision == "float64", output == "moments"
    if is_double:
        of, storage = centred_kernels.double(output, d), DOUBLE
    else:
        power_terms = 2 if moments and not ratio and precision != "tf32" else 1
        of = centred_kernels.single(output, d, power_terms, storage, shared_bytes)
    blocks, tiles, groups = -(-n // of.block_rows), -(-m // TILE_ROWS), -(-m // (of.warp_rows * of.warps))
    least, most = of.spans
    at_a_time = _WAVES * multiprocessors * of.at_a_time // groups
    span = min(most, -(-blocks // max(1, min(blocks // least, at_a_time))))
    spans, rows, width = -(-blocks // span), groups * of.warps * of.warp_rows, of.depth if moments else 1
    of_point = (d,) if is_double else (d, 2)
    data: list[Spec | None] = [
        ((n, *of_point), of.real),
        ((blocks, of.block_bytes), np.dtype(np.uint8)),
        ((centred_order.BOX_LINES, blocks), FLOAT),
    ]
    queries: list[Spec | None] = [
        None if itself else ((m, *of_point), of.real),
        ((centred_order.TILE_LINES, tiles), FLOAT),
        ((tiles * TILE_ROWS if is_double else tiles, 16 * of.steps), FLOAT),
        ((tiles * TILE_ROWS,), of.real),
    ]
    of_sums = (spans, rows), of.real
    third = {"moments": ((spans, rows, width), of.real), "laplace": of_sums}.get(output)
    order = centred_order.kernels(storage, n, m, d, itself=itself)
    return _Plan(
        of,
        of.sums(span),
        (of.sums(span), of.data, of.queries, *order),
        *(blocks, tiles, groups, span, spans, rows, width),
        Layout([centred_order.frame_specs(d), data, queries, [of_sums, of_sums, third]]),
    )


def _plan_of(of: Arguments, output: Output, *, ratio: bool) -> _Plan:
    X, Y, _, options, _ = of
    sizes = len(X), of.m, X.shape[1]
    of_device = device.multiprocessors(), device.shared_bytes_of_block()
    return _plan(output, options.precision, *sizes, X.dtype, Y is None, ratio, *of_device)


def begin_kernels(of: Arguments, output: Output, *, ratio: bool) -> None:
    """Begin to compile what a pass would launch that others may be chosen over."""
    begin(*_plan_of(of, output, ratio=ratio).before, likely=True)


def take(
    of: Arguments,
    output: Output,
    values: Any | None = None,
    *,
    ratio: bool = False,
    density: Density | None = None,
) -> PartialSums:
    """Take a pass, on the current device and stream; the same bits on every run.

    Parameters
    ----------
    ratio : bool
        Only moments / total is wanted: powers then have one term in float16.
    density : Density, optional
        With output "sum" or "laplace": write the density there, and no sums.
    """
    plan = _plan_of(of, output, ratio=ratio)
    kernels, moments, h, options = plan.of, output == "moments", of.h, of.options
    dtype, is_double = None if density is None else density.out.dtype, kernels.real == DOUBLE
    begin(*plan.before, _finish_kernel(output, kernels.real, dtype))
    X, Y = of.X, of.Y
    if is_double:
        X, Y = (None if a is None else pairs_finish.contiguous(a, DOUBLE) for a in (X, Y))
    (n, d), m, scale = X.shape, of.m, scale_of(h)
    frame, data, queries, of_sums, _ = plan.layout.allocate()
    ordered = Y is not None and not options.own_out  # or queries are in the order of the data, each beside its own row
    order = centred_order.order(X, Y if ordered else None, frame, scale)
    of_queries, first = (order[n:], n) if ordered else (order, 0)

    points, blocks, boxes = data
    kernels.data.launch(
        (plan.blocks,),
        (kernels.block_rows,),
        *(X, order, options.log_weights, *frame, *data),
        *((n, d) if is_double else (n, d, kernels.steps, moments)),
        scale,
    )
    placed, tiles, of_tiles, references = queries
    kernels.queries.launch(
        (plan.tiles,),
        (4 * TILE_ROWS,),
        *(Y, of_queries, *frame, points, blocks, boxes, *queries),
        *(m, n, first, plan.blocks, d, kernels.steps, moments and not is_double, options.own_out, scale),
    )
    # Half of what may be left out for whole blocks, half for pairs.
    tolerance = 0.5 * max(options.tolerance, kernels.left_out)
    of_block, of_pair = math.log2(tolerance / plan.blocks), math.log2(tolerance / n) - kernels.factor_bits
    plan.sums.launch(
        (plan.groups, plan.spans),
        (32 * kernels.warps,),
        *(points if placed is None else placed, points, blocks, boxes, tiles, of_tiles, references, *of_sums),
        *(m, n, plan.blocks, plan.span, *(() if is_double else (kernels.stage,)), d, options.own_out),
        *(of_block, of_pair, scale if is_double else _BUDGET[options.precision]),
    )
    out = pairs_finish.empty(m, moment_columns(output, d)) if density is None else PartialSums(None, None)
    shift = _SHIFT if moments and not is_double else 0.0
    _finish_kernel(output, kernels.real, dtype).launch(
        (-(-m // 4),),
        (128,),
        *(*of_sums, of_queries, *out),
        *(() if density is None else density.arguments),
        *(m, plan.rows, first, plan.spans, plan.width, d, shift, 1 / scale),
    )
    return out


def _ends() -> Iterator[tuple[Output, np.dtype, np.dtype | None]]:
    for output in centred_kernels.OUTPUTS:
        for real in C_TYPE:
            yield from ((output, real, dtype) for dtype in ((None,) if output == "moments" else (None, *C_TYPE)))


@core_compile.specialised(cases=_ends)
def _finish_kernel(output: Output, real: np.dtype, dtype: np.dtype | None) -> Specialisation:
    """The kernel that merges sums of a type over spans, into densities of a dtype or into sums."""
    macros = {"OUTPUT": output.upper(), "REAL": C_TYPE[real]}
    if dtype is not None:
        macros["DENSITY"] = C_TYPE[dtype]
    types = "7P 3q 3i 2d" if dtype is None else "8P d i 3q 3i 2d"
    return Specialisation("density/centred_finish", "centred_finish", core_compile.macros(**macros), types)
