"""Work of the density passes in float16 terms on tensor cores, by ordered and by unordered pairs.

Sources: ``kernels_cu/density/f16.cuh`` and ``kernels_cu/density/f16_symmetric.cu``. Instructions are those
of one step of a warp: 16 data rows against 16 rows of each of its row tiles. The 256 pairs of a row tile are 8 for each
thread. The loops of NVRTC's PTX have as many instructions, apart from those that find addresses.
"""

from __future__ import annotations

import math

from cukde.core.cost import elementwise
from cukde.core.cost.cost import Part
from cukde.core.cost.peaks import Peaks
from cukde.density.pairs.cost.engines import Pass, products, tile
from cukde.density.plan import gpu as plan_gpu
from cukde.density.sums import Output

_BLOCK_ROWS = 128  # rows of operands come in whole multiples
_VALUE_COLUMNS = (16, 32, 64)  # of a block of values
_LOOP = 6  # instructions in a step for its addresses and its loop
_LOADED = 512  # bytes of shared memory that a warp loads at a time: four matrices of 8 x 8, or an operand of 16 x 16

# How many of 16 exponentials of one product are polynomials, by depth; and the instructions of a polynomial.
_POLYNOMIALS = {16: 4, 32: 2}
_POLYNOMIAL = 10

# The symmetric pass has at most 12 warps on a multiprocessor. Their steps are products, exponentials and products of
# these, one after the other, with a barrier between steps; so its units reach this part of their rate together.
# Measured on an H200, 1,048,576 points in 16 dimensions: 303.3 ms in two terms and 243.7 ms in one.
_SYMMETRIC_EFFICIENCY = 0.8

# Passes for moments and values use references: a warp votes on whether all its exponents fit before it takes a power of
# any, so no step overlaps the next. Measured on an H200: the score of 65,536 points in 16 dimensions at as many queries
# takes 3.44 ms, of which 0.4 ms are the host's.
_EFFICIENCY_WITH_REFERENCES = 0.72

_TILE = 64  # columns of the symmetric pass

# Cycles of a block before a pass: a row's coordinates one after the other in float64, terms, norms; and after it: sums,
# logarithms, results. Nsight Compute on an H200, 131,072 points in 16 dimensions at 16,384 queries: 14 and 12 us.
_PREPARE, _FINISH = 26_000, 22_000


def depth_of(d: int) -> int:
    """Columns of the operands of points in ``d`` dimensions."""
    return -(-d // 16) * 16


def padded(rows: int) -> int:
    """Rows of the operands of so many points."""
    return -(-rows // _BLOCK_ROWS) * _BLOCK_ROWS


def value_columns(k: int) -> tuple[int, int]:
    """Blocks of values, and the columns of a block."""
    columns = next((c for c in _VALUE_COLUMNS if k <= c), _VALUE_COLUMNS[-1])
    return -(-k // columns), columns


def operand_bytes(rows: int, d: int, terms: int, norm: int) -> float:
    """Bytes of an operand: the terms of its points, and ``norm`` bytes for each row."""
    return float(padded(rows) * (2 * depth_of(d) * terms + norm))


def ordered(task: Pass, on: Peaks) -> list[Part]:
    """Parts of the engine that takes each ordered pair."""
    count = products(task)
    terms, depth = 1 if count == 1 else 2, depth_of(task.d)
    own = task.mean_shift
    blocks, columns = value_columns(task.k) if task.output == "values" else (1, 0)
    width = depth if task.output == "moments" else columns
    seconds = _second_products(task.output, count, own)
    reference = width > 0 and not own
    shape = tile(
        "f16",
        on.capability,
        {
            "output": task.output,
            "products": count,
            "depth": depth,
            "columns": columns,
            "moment_terms": {0: 0, 1: 1}.get(seconds, 2),
            "has_reference": reference,
        },
    )
    row_tiles = shape["row_tiles"]

    groups = depth // 16
    loads = 1 + groups * (terms + (terms > 1 and groups > 1)) + width // 16 * min(seconds, 2)
    soft = _POLYNOMIALS.get(depth, 0) / 16 if count == 1 and width == 0 else 0.0
    first = 2 * (1 + count * groups)
    power = 8 * (1 - soft) + 8 * soft * _POLYNOMIAL
    laplace = task.output == "laplace"
    total = 1 if own else 8 * (1 + laplace)  # a product with ones, or an addition each; of two sums
    check = 8 * reference + 8 * (laplace and task.weighted)
    fragments = (
        2 + 2 * laplace + width // 2 + 4 * own
    )  # of a row tile's sums, added to those of all tiles once for each tile
    second = (4 + 20 * (seconds > 1)) * (width > 0) + width // 8 * seconds
    moved = 2 * fragments * 16 / shape["tile"]
    instructions = (first + power + total + check + second + moved + (loads + _LOOP) / row_tiles) / 8

    queries = 16 * row_tiles * shape["warps"]
    row_bytes = terms * 2 * depth + 16 + 4 * columns
    data = operand_bytes(task.n, task.d, terms, 16) + 4 * padded(task.n) * columns * blocks
    asked = operand_bytes(0 if task.itself else task.m, task.d, terms, 16)
    left = 4.0 * task.m * (1 + laplace + reference + width * blocks)
    parts = [_prepared(task, data - 4 * padded(task.n) * columns * blocks + asked)]
    if task.output == "values":
        parts.append(_values_prepared(task, columns * blocks))
    parts.append(
        Part(
            "pass",
            data + asked + left,
            {
                "exponential": blocks * task.pairs * (1 - soft),
                "tensor_f16": blocks * task.pairs * (16 + 2 * depth * count + 2 * width * seconds + 16 * own),
                "instruction": blocks * task.pairs * instructions,
                "shared": blocks * task.pairs * loads * _LOADED / (256 * row_tiles),
            },
            data + asked + left + blocks * -(-task.m // queries) * float(padded(task.n)) * row_bytes,
            footprint=float(on.multiprocessors * shape["blocks"] * shape["tile"] * row_bytes),
            resident=shape["blocks"],
            reduction=blocks * task.pairs * (total + moved) / 8,
            efficiency=_EFFICIENCY_WITH_REFERENCES if reference else 1.0,
        )
    )
    # Another kernel serves queries whose sums are too small.
    parts.append(_finished(left + asked + task.result_bytes, width == 0))
    return parts


def symmetric(task: Pass, on: Peaks) -> list[Part]:
    """Parts of the engine that takes each unordered pair once."""
    terms, depth = 1 if task.precision == "tf32" else 2, depth_of(task.d)
    count = 1 if terms == 1 else 3
    columns = value_columns(task.k)[1] if task.output == "values" else 0
    width, of_values = columns or depth, columns > 0
    exact = of_values or not task.ratio
    layout = tile("f16_symmetric", on.capability, {"depth": depth, "terms": count, "columns": columns})
    row_tiles, shared, overlap = layout["row_tiles"], layout["phi_is_shared"], layout["overlap"]
    rows, at_a_time = 64 * row_tiles, on.multiprocessors * layout["blocks"]

    groups, factors, seconds = depth // 16, width // 16, 4 if of_values else 1
    kept = 2 if of_values else 1  # terms of phi and of its factors
    loads = terms * groups + kept * factors + 2
    per_step: float = loads + _LOOP
    exponents = 1 + 8 + 2 * count * groups + 8
    packed = 4 + 20 * of_values
    row_sums = 2 * factors * seconds + (8 if exact else 1)
    # Sums of the columns: phi goes through shared memory, or is transposed in registers and passed between warps.
    if shared:
        across = 4 * kept + kept + kept * factors
    else:
        # The compiler keeps the transposes of factors that do not come from shared memory.
        across = 4 * kept + (kept * factors if exact else 0)
        per_step += 2 * (2 * factors + 1) * 3 / 4 + 1
    column_sums = across + 2 * factors * seconds + (8 if exact else 1)
    instructions = (exponents + packed + row_sums + column_sums + per_step / row_tiles) / 8

    size = padded(task.n)
    tiles = -(-size // rows) * (size // _TILE + row_tiles) / 2
    visited = float(task.n) * (task.n + rows) / 2
    overhead = plan_gpu.BLOCK_OVERHEAD[overlap]
    most = min(plan_gpu.MOST_TILES_OF_VALUES if of_values else plan_gpu.MOST_TILES, max(1, size // _TILE))
    chunk = max(1, min(round(math.sqrt(2 * overhead * tiles / at_a_time)), most))
    # The rule of the launcher: blocks begin and end, and on average half of a block is left when the others are done.
    waste = overhead / chunk + 0.5 * chunk * at_a_time / tiles

    data = operand_bytes(task.n, task.d, terms, 4) + 4.0 * size * columns
    sums = 4.0 * size * (width + 1)
    tile_bytes = _TILE * (terms * 2 * depth + 4 + 4 * columns + 4 * (width + 1))
    parts = [_prepared(task, operand_bytes(task.n, task.d, terms, 4))]
    if of_values:
        parts.append(_values_prepared(task, columns))
    parts.append(
        Part(
            "pass",
            data + sums,
            {
                "exponential": visited,
                "tensor_f16": visited * (2 * depth * count + 4 * width * seconds + 32 * (not exact)),
                "instruction": visited * instructions,
                # Phi of 256 pairs is written and read where it goes that way.
                "shared": visited * (loads / row_tiles + 2 * kept * shared) * _LOADED / 256,
            },
            data + sums + tiles * tile_bytes,
            footprint=float(at_a_time * tile_bytes),
            resident=layout["blocks"],
            reduction=visited * (2 * (8 if exact else 1)) / 8,
            efficiency=_SYMMETRIC_EFFICIENCY / (1 + waste),
        )
    )
    parts.append(_finished(data + sums + task.result_bytes, stands_in=False))
    return parts


def _prepared(task: Pass, written: float) -> Part:
    return Part("prepare", task.point_bytes + written, cycles=_PREPARE)


def _finished(traffic: float, stands_in: bool) -> Part:
    return Part("finish", traffic, cycles=_FINISH + elementwise.short(int(stands_in)), launches=1 + stands_in)


def _values_prepared(task: Pass, columns: int) -> Part:
    return Part("values", float(task.n) * task.k * task.itemsize + 4.0 * padded(task.n) * columns)


def _second_products(output: Output, count: int, own: bool) -> int:
    """Products of powers with moments or values, by the terms of both."""
    if output == "moments":
        return 1 if own or count == 1 else 3
    return (3 if count == 1 else 4) if output == "values" else 0
