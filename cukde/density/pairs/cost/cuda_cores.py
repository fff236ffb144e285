"""Work of the density passes outside float16: by differences on the ordinary cores, and in float64 on tensor cores.

Sources: ``kernels_cu/density/difference.cuh`` and ``pairs_f64.cuh``.
"""

from __future__ import annotations

from cukde.core.cost import elementwise
from cukde.core.cost.cost import Part, Unit
from cukde.core.cost.peaks import Peaks
from cukde.density.pairs.cost.engines import Pass, tile

_DEPTHS = (8, 16, 32, 48, 64)  # of float64 operands
_ROWS = 128
_TILE = 64  # queries and data rows of a tile of differences
_THREADS = 256

# Instructions, in NVRTC's PTX: by which a thread stages a coordinate (its place, whether it exists, load, product,
# store); of a pair's exponent, power and sums, with looking for the largest; and of a pair in the second product for
# its loads and its loop.
_STAGING = 30
_POWER = 8
_SECOND_LOOP = 18

# Loops over dimensions are not unrolled for all of them, tiles are staged by plain loads between two barriers, and two
# blocks of 8 warps hide little of that. Measured on an H200, 65,536 points of 16 dimensions at 8,192 queries: 1.78 ms a
# density, and 27.4 ms SD-KDE.
_DIFFERENCE_EFFICIENCY = 0.64

# Products and exponentials wait for each other, and share the float64 pipes of a multiprocessor, as well as its warps
# fill the gaps: 12 or more reach the first. Measured on an H200, 32,768 points of 16 dimensions: at 4,096 queries
# 3.03 ms SD-KDE; at 8,192, by 8 warps, 0.94 ms a sum of 8 values.
_F64_EFFICIENCY, _F64_WARPS = 0.6, 12


def by_difference(of: Pass, on: Peaks) -> list[Part]:
    """Parts of the engine of differences."""
    double = of.precision == "float64"
    split = not double and of.itemsize == 8  # coordinates in two float32 terms, whose difference takes three additions
    chunk = next((c for c in ((4, 8) if double else (4, 16)) if of.d <= c), 8 if double else 16)
    columns = 0
    if of.columns:
        columns = next((c for c in ((4, 16, 32, 64) if of.output == "moments" else (1, 16, 64)) if of.columns <= c), 64)
    column_blocks = -(-of.columns // columns) if columns else 1
    staged = columns > 8
    difference = 3 if split else 1

    # Of a pair: dimensions, their loads of 16 bytes for 4 x 4 pairs, staging of both sides, exponent and power.
    chunks = -(-of.d // chunk)
    rounded = min(of.d, chunks * chunk)
    sides = 2 if staged or of.d > chunk else 1
    instructions = rounded * (difference + 1) + rounded * 2 * (1 + split) / 16
    instructions += sides * chunks * chunk / _TILE * _STAGING + chunks * (chunk > 4)
    instructions += _POWER + 2 * (of.output == "laplace")
    real = 2 * rounded + 5.0
    if columns:
        factor = difference if of.output == "moments" else 0
        instructions += columns * (1 + factor)
        if staged:  # by way of shared memory; of 64 columns a thread takes two rows at a time, of fewer four
            instructions += columns / _TILE * _STAGING + 2 + _SECOND_LOOP * (2 if columns == 64 else 1)
        else:
            instructions += columns / 4
        real += columns * (1 + (factor > 0))
    pairs = of.pairs * column_blocks
    work: dict[Unit, float] = {"instruction": instructions * pairs}
    if double:
        work |= {"float64": 2 * real * pairs, "exponential_f64": pairs}
    else:
        work["exponential"] = pairs
    points = float(of.itemsize) * of.d * (of.n + (0 if of.itself else of.m))
    values = float(of.itemsize) * of.n * of.k
    results = 8.0 * of.m * (2 + of.columns)
    blocks = -(-of.m // _TILE) * column_blocks
    return [
        Part(
            "pass",
            points + values + results,
            work,
            points + values + results + blocks * float(of.n) * (of.itemsize * of.d + of.itemsize * columns),
            footprint=2.0 * on.multiprocessors * _TILE * of.itemsize * (of.d + columns),
            blocks=float(blocks * _splits(of.n, blocks, on.multiprocessors)),
            resident=2,
            reduction=2 * pairs,
            launches=2,
            efficiency=_DIFFERENCE_EFFICIENCY,
        )
    ]


def f64(of: Pass, on: Peaks) -> list[Part]:
    """Parts of the engine in float64 on tensor cores, of 2 to 64 dimensions."""
    depth = next(c for c in _DEPTHS if of.d <= c)
    columns = 0
    if of.output == "values":
        columns = 16 if of.k <= 16 else 64 if depth < 64 else 32
    column_blocks = -(-of.k // columns) if columns else 1
    width = depth if of.output == "moments" else columns
    shape = tile("f64", on.capability, {"output": of.output, "depth": depth, "columns": columns})
    queries = 16 * shape["row_tiles"] * shape["warps"]
    rows = -(-of.n // _ROWS) * _ROWS
    operands = 8.0 * ((depth + 1) * rows + (0 if of.itself else depth * of.m))
    results = 8.0 * of.m * (2 + of.columns)
    pairs = of.pairs * column_blocks
    laplace = of.output == "laplace"
    # Of 8 data rows and a row tile, 128 pairs, 4 to a thread: products of 8 dimensions, loads of their operands; of a
    # pair 12 instructions of the float64 pipe and 4 of others a power, and its sum.
    tensor = depth / 8 + width / 8
    loads = (depth / 8 + 2 + width / 4) / shape["row_tiles"]
    instructions = (tensor + loads + 4) / 4 + 17 + 2 * laplace
    warps = shape["blocks"] * shape["warps"]
    return [
        Part("prepare", 8.0 * of.d * (of.n + (0 if of.itself else of.m)) + operands, cycles=elementwise.short()),
        Part(
            "pass",
            operands + 8.0 * of.n * of.k + results,
            {
                "tensor_f64": 2.0 * (depth + width) * pairs,
                "exponential_f64": pairs,
                "float64": (2 + 4 * laplace) * pairs,
                "instruction": instructions * pairs,
            },
            operands + results + column_blocks * -(-of.m // queries) * 8.0 * (depth + 1 + columns) * rows,
            footprint=8.0 * on.multiprocessors * shape["blocks"] * shape["tile"] * (depth + 1 + columns),
            resident=shape["blocks"],
            reduction=pairs,
            efficiency=_F64_EFFICIENCY * min(1.0, warps / _F64_WARPS),
        ),
        Part("finish", 2 * results, cycles=elementwise.short(1 + (not of.known)), launches=1 + (not of.known)),
    ]


def _splits(n: int, blocks: int, multiprocessors: int) -> int:
    """Splits of the data that give every multiprocessor four blocks, of four tiles or more."""
    return max(1, min(4 * multiprocessors // blocks, -(-n // _TILE) // 4))
