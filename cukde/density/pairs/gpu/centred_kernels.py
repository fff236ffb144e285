"""Kernels of the centred pass in either arithmetic, and what their launches follow from.

In float32 products of float16 terms make exponents. In float64 a product in float16 tells which pairs can matter, and
products in double about the centre of a block of neighbours make these; what is too far out for them is summed by
differences.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cukde.core.gpu import compile as core_compile
from cukde.core.gpu.launch import C_TYPE, DOUBLE, FLOAT, Specialisation, at_least
from cukde.density.pairs.gpu import centred_order
from cukde.density.pairs.gpu.f64 import DEPTHS
from cukde.density.pairs.gpu.specialisation import OPERATION
from cukde.density.plan.gpu import MOST_COLUMNS
from cukde.density.sums import Output

OUTPUTS: tuple[Output, ...] = ("sum", "moments", "laplace")

TILE_ROWS = 32  # queries of a tile
MOST_SPAN = 2048  # blocks, whose list a thread block keeps in float32

_POINTS = "density/centred_points"  # source of the kernels of data and of queries
_MOST_STAGE = 4  # blocks of data in shared memory at a time in float32, while as many come


class Kernels(NamedTuple):
    """The kernels of an arithmetic for data of so many dimensions, and what their launches follow from."""

    real: np.dtype  # of sums
    depth: int  # columns of the operands
    block_rows: int  # of data
    block_bytes: int
    warp_rows: int  # queries of a warp that sums
    warps: int  # of a thread block that sums
    at_a_time: int  # such thread blocks of a multiprocessor, by the registers of a thread
    spans: tuple[int, int]  # blocks of a span: below the first the start of a thread block costs more than it gains
    left_out: float  # of a sum, at most, where all pairs are asked for: less than its type holds
    factor_bits: float  # of the factors of terms, where a pair is left out
    data: Specialisation
    queries: Specialisation
    sums: Callable[[int], Specialisation]  # for spans of so many blocks
    stage: int = 0  # blocks of data that a thread block keeps at a time, in float32

    @property
    def steps(self) -> int:
        """Steps of 16 dimensions."""
        return -(-self.depth // 16)


# --- float32 ---

_BLOCK_ROWS = 128


def single(output: Output, d: int, power_terms: int, storage: np.dtype, shared_bytes: int) -> Kernels:
    """Those in float32: powers in so many float16 terms, and shared memory that a thread block may have."""
    steps, moments = -(-d // 16), output == "moments"
    warps, at_a_time = _occupancy(output, steps, power_terms)
    # What the kernels declare beside their dynamic shared memory, with a little for the driver.
    static = warps * (11 * 4 * TILE_ROWS + 4 * centred_order.TILE_LINES + 64 * steps) + 1280
    of_stages = (_sums(output, steps, power_terms, MOST_SPAN, 1 + more) for more in range(_MOST_STAGE))
    stage = max(1, sum(at_a_time * (kernel.shared_bytes + static) <= shared_bytes for kernel in of_stages))
    return Kernels(
        real=FLOAT,
        depth=16 * steps,
        block_rows=_BLOCK_ROWS,
        block_bytes=_block_bytes(steps, moments),
        warp_rows=TILE_ROWS,
        warps=warps,
        at_a_time=at_a_time,
        spans=(8, MOST_SPAN),
        left_out=2.0**-25,
        factor_bits=0.0 if output == "sum" else 7.0,
        data=_data(storage, d),
        queries=_queries(storage, d),
        sums=lambda span: _sums(output, steps, power_terms, span, stage),
        stage=stage,
    )


def _occupancy(output: Output, steps: int, power_terms: int) -> tuple[int, int]:
    """Warps of a thread block that sums, and how many such a multiprocessor runs."""
    if output == "moments":
        return (4, 3) if steps == 1 else (4, 2) if steps == 2 else (8, 1)
    return (4, 4) if steps == 1 else (4, 3) if steps <= 3 else (4, 2)


def _block_bytes(steps: int, moments: bool) -> int:
    """Bytes of a block of data (``centred.cuh``)."""
    return (2 if moments else 1) * 8192 * steps + 2 * 4 * _BLOCK_ROWS + 64 * steps + 16


@core_compile.specialised(C_TYPE, (MOST_COLUMNS,))
def _data(storage: np.dtype, d: int) -> Specialisation:
    defines = core_compile.macros(STORAGE=C_TYPE[storage])
    return Specialisation(_POINTS, "centred_data", defines, "9P q 3i d", 4 * d * (_BLOCK_ROWS + 1))


@core_compile.specialised(C_TYPE, (MOST_COLUMNS,))
def _queries(storage: np.dtype, d: int) -> Specialisation:
    defines = core_compile.macros(STORAGE=C_TYPE[storage])
    return Specialisation(_POINTS, "centred_queries", defines, "12P 3q 5i d", 4 * TILE_ROWS * (d | 1))


@core_compile.specialised(
    cases=lambda: (
        (output, steps, terms, MOST_SPAN, 1)
        for output in OUTPUTS
        for steps in range(1, MOST_COLUMNS // 16 + 1)
        for terms in ((1, 2) if output == "moments" else (1,))
    )
)
def _sums(output: Output, steps: int, power_terms: int, span: int, stage: int) -> Specialisation:
    warps, blocks = _occupancy(output, steps, power_terms)
    name = f"{OPERATION[output]}_centred_f16x2"
    defines = core_compile.macros(
        KERNEL=name,
        OUTPUT=output.upper(),
        STEPS=steps,
        POWER_TERMS=power_terms,
        WARPS=warps,
        MULTIPROCESSOR_BLOCKS=blocks,
    )
    points = 4 * TILE_ROWS * warps * (16 * steps + 8)
    shared = 2 * stage * _block_bytes(steps, output == "moments") + points + 4 * span
    return Specialisation("density/centred_sums", name, defines, "10P 7i 3f", shared)


# --- float64 ---

BLOCK_ROWS_F64 = 64
LISTED_F64 = 480
"""Blocks, whose list a thread block keeps at a time."""

_SCREENS, _EXACTS = 3, 2  # parts of blocks in shared memory
_OCCUPANCY_F64 = {8: (8, 2), 16: (8, 2), 32: (12, 1), 48: (8, 1), 64: (8, 1)}


def double(output: Output, d: int) -> Kernels:
    """Those in float64."""
    depth = at_least(d, DEPTHS)
    warps, at_a_time = _OCCUPANCY_F64[depth]
    return Kernels(
        real=DOUBLE,
        depth=depth,
        block_rows=BLOCK_ROWS_F64,
        block_bytes=_screen_bytes(depth) + _exact_bytes(depth),
        warp_rows=16,
        warps=warps,
        at_a_time=at_a_time,
        spans=(16, 2**31),
        left_out=2.0**-54,
        factor_bits={"sum": 0.0, "moments": 4.0}.get(output, 7.0),
        data=_data_f64(depth, d),
        queries=_queries_f64(depth, d),
        sums=lambda span: _sums_f64(output, depth),
    )


def _screen_bytes(depth: int) -> int:
    """Bytes of what a block is screened by (``centred_f64.cuh``)."""
    columns = -(-depth // 16) * 16
    return 2 * BLOCK_ROWS_F64 * columns + 4 * BLOCK_ROWS_F64 + 4 * columns + 16


def _exact_bytes(depth: int) -> int:
    """Bytes of the operands of a block in double."""
    return 8 * BLOCK_ROWS_F64 * (depth + 6) + 8 * depth + 16


@core_compile.specialised(cases=lambda: zip(DEPTHS, DEPTHS, strict=True))
def _data_f64(depth: int, d: int) -> Specialisation:
    defines = core_compile.macros(F64=True, DEPTH=depth, STORAGE=C_TYPE[DOUBLE])
    return Specialisation(_POINTS, "centred_f64_data", defines, "9P q i d", 8 * d * (BLOCK_ROWS_F64 + 1))


@core_compile.specialised(cases=lambda: zip(DEPTHS, DEPTHS, strict=True))
def _queries_f64(depth: int, d: int) -> Specialisation:
    defines = core_compile.macros(F64=True, DEPTH=depth, STORAGE=C_TYPE[DOUBLE])
    return Specialisation(_POINTS, "centred_queries", defines, "12P 3q 5i d", 4 * TILE_ROWS * (d | 1))


@core_compile.specialised(OUTPUTS, DEPTHS)
def _sums_f64(output: Output, depth: int) -> Specialisation:
    warps, blocks = _OCCUPANCY_F64[depth]
    name = f"{OPERATION[output]}_f64_centred"
    defines = core_compile.macros(
        F64=True,
        KERNEL=name,
        OUTPUT=output.upper(),
        DEPTH=depth,
        WARPS=warps,
        MULTIPROCESSOR_BLOCKS=blocks,
    )
    shared = _SCREENS * _screen_bytes(depth) + _EXACTS * _exact_bytes(depth) + 4 * LISTED_F64
    return Specialisation("density/centred_sums_f64", name, defines, "10P 6i 2f d", shared)
