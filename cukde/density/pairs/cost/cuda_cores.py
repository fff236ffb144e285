"""Work of the density passes outside float16: by differences on CUDA cores, and in float64 on tensor cores.

Sources: ``kernels_cu/density/difference.cuh`` and ``kernels_cu/density/f64.cuh``.
"""

from __future__ import annotations

from cukde.core.cost import elementwise
from cukde.core.cost.cost import Part, Unit
from cukde.core.cost.peaks import Peaks
from cukde.density.pairs.cost.engines import Pass, tile
from cukde.density.plan import gpu as plan_gpu, rates as plan_rates

_DEPTHS = (8, 16, 32, 48, 64)  # of float64 operands
_ROWS = 128
_TILE = 64  # queries and data rows of a tile of differences
_THREADS = 256

# Instructions in NVRTC's PTX. A thread stages a coordinate: its place, whether it exists, load, product, store. A pair
# takes its exponent, its power and its sums, and the search for the largest, and begins at zero; its data row's weight
# and scale are loaded, and four of a thread's 16 are compared with the row that may be left out. In the second product
# it takes its loads and its loop. A thread's tile takes its loop and its barriers.
_STAGING = 30
_POWER = 8
_ROW = 3
_TILE_LOOP = 30
_SECOND_LOOP = 18

# Not all loops over dimensions are unrolled, plain loads stage the tiles between two barriers, and two blocks of 8
# warps hide little of that. Measured on an H200, 65,536 points in 16 dimensions at 8,192 queries: 1.78 ms for a density
# and 27.4 ms for SD-KDE.
_DIFFERENCE_EFFICIENCY = 0.64

# Products and exponentials wait for each other and share the float64 pipes of a multiprocessor. Its warps fill the
# gaps: 12 or more reach this efficiency, fewer reach their share of it. Measured on an H200, 32,768 points in 16
# dimensions: 3.03 ms for SD-KDE at 4,096 queries; 0.94 ms for a sum of 8 values at 8,192 queries, by 8 warps.
_F64_EFFICIENCY, _F64_WARPS = 0.6, 12


def small(task: Pass, on: Peaks) -> list[Part]:
    """Parts of the one launch that takes few pairs."""
    ms = plan_gpu.small_ms(task.n, task.m, task.d, task.precision, task.output, itemsize=task.itemsize)
    instructions: float = 1e-3 * ms * plan_rates.table("gpu")["peaks"]["instruction"]
    return [Part("pass", task.point_bytes + task.result_bytes, {"instruction": instructions})]


def by_difference(task: Pass, on: Peaks) -> list[Part]:
    """Parts of the engine of differences."""
    double = task.precision == "float64"
    split = (
        not double and task.itemsize == 8
    )  # coordinates in two float32 terms, whose difference takes three additions
    chunk = next((c for c in ((4, 8) if double else (4, 16)) if task.d <= c), 8 if double else 16)
    columns = 0
    if task.columns:
        columns = next(
            (c for c in ((4, 16, 32, 64) if task.output == "moments" else (1, 16, 64)) if task.columns <= c), 64
        )
    column_blocks = -(-task.columns // columns) if columns else 1
    staged = columns > 8
    difference = 3 if split else 1

    # For each pair: dimensions, their loads of 16 bytes for 4 x 4 pairs, staging of both sides, exponent and power.
    chunks = -(-task.d // chunk)
    rounded = min(task.d, chunks * chunk)
    sides = 2 if staged or task.d > chunk else 1
    instructions = rounded * (difference + 1) + rounded * 2 * (1 + split) / 16
    instructions += sides * chunks * chunk / _TILE * _STAGING + chunks * (chunk > 4)
    instructions += _POWER + _ROW + _TILE_LOOP * _THREADS / _TILE**2 + 2 * (task.output == "laplace")
    real = 2 * rounded + 5.0
    if columns:
        factor = difference if task.output == "moments" else 0
        instructions += columns * (1 + factor)
        if staged:  # through shared memory; a thread takes two rows of 64 columns at a time, and four rows of fewer
            instructions += columns / _TILE * _STAGING + 2 + _SECOND_LOOP * (2 if columns == 64 else 1)
        else:
            instructions += columns / 4
        real += columns * (1 + (factor > 0))
    pairs = task.pairs * column_blocks
    work: dict[Unit, float] = {"instruction": instructions * pairs}
    if double:
        work |= {"float64": 2 * real * pairs, "exponential_f64": pairs}
    else:
        work["exponential"] = pairs
    least = task.point_bytes + float(task.itemsize) * task.n * task.k + task.result_bytes
    blocks = -(-task.m // _TILE) * column_blocks
    splits = _splits(task.n, task.d, blocks, on.multiprocessors)
    return [
        Part(
            "pass",
            least,
            work,
            least + blocks * float(task.n) * (task.itemsize * task.d + task.itemsize * columns),
            footprint=2.0 * on.multiprocessors * _TILE * task.itemsize * (task.d + columns),
            blocks=float(blocks * splits),
            resident=2,
            reduction=2 * pairs,
            launches=1 + (splits > 1),
            efficiency=_DIFFERENCE_EFFICIENCY,
        )
    ]


def f64(task: Pass, on: Peaks) -> list[Part]:
    """Parts of the engine in float64 on tensor cores, of 2 to 64 dimensions."""
    depth = next(c for c in _DEPTHS if task.d <= c)
    columns = 0
    if task.output == "values":
        columns = 16 if task.k <= 16 else 64 if depth < 64 else 32
    column_blocks = -(-task.k // columns) if columns else 1
    width = depth if task.output == "moments" else columns
    shape = tile("f64", on.capability, {"output": task.output, "depth": depth, "columns": columns})
    queries = 16 * shape["row_tiles"] * shape["warps"]
    rows = -(-task.n // _ROWS) * _ROWS
    operands = 8.0 * ((depth + 1) * rows + (0 if task.itself else depth * task.m))
    results = task.result_bytes
    pairs = task.pairs * column_blocks
    laplace = task.output == "laplace"
    # 8 data rows and a row tile are 128 pairs, 4 for each thread: products of 8 dimensions, and loads of their
    # operands. Each pair takes 12 instructions of the float64 pipe and 4 others for a power, and its sum.
    tensor = depth / 8 + width / 8
    loads = (depth / 8 + 2 + width / 4) / shape["row_tiles"]
    instructions = (tensor + loads + 4) / 4 + 17 + 3 * laplace
    warps = shape["blocks"] * shape["warps"]
    return [
        Part("prepare", task.point_bytes + operands, cycles=elementwise.short()),
        Part(
            "pass",
            operands + 8.0 * task.n * task.k + results,
            {
                "tensor_f64": 2.0 * (depth + width) * pairs,
                "exponential_f64": pairs,
                "float64": (2 + 6 * laplace) * pairs,
                "instruction": instructions * pairs,
            },
            operands + results + column_blocks * -(-task.m // queries) * 8.0 * (depth + 1 + columns) * rows,
            footprint=8.0 * on.multiprocessors * shape["blocks"] * shape["tile"] * (depth + 1 + columns),
            resident=shape["blocks"],
            reduction=pairs,
            efficiency=_F64_EFFICIENCY * min(1.0, warps / _F64_WARPS),
        ),
        Part("finish", 2 * results, cycles=elementwise.short()),
    ]


def _splits(n: int, d: int, blocks: int, multiprocessors: int) -> int:
    """Splits of the data that give multiprocessors four blocks, of four tiles or more, or of one of many dimensions."""
    return max(1, min(4 * multiprocessors // blocks, -(-n // _TILE) // (4 if d <= _TILE else 1)))
