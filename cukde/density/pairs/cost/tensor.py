"""Work of the density passes in float16 terms on tensor cores: what ``pairs_f16.cuh`` and the symmetric pass count.

Instructions are those of a warp's step, 16 data rows against 16 rows of each of its row tiles, as the sources have
them: a row tile's 256 pairs are 8 to a thread. The loops of NVRTC's PTX have as many but for what finds addresses.
"""

from __future__ import annotations

import math

from cukde.core.cost import elementwise
from cukde.core.cost.cost import Part
from cukde.core.cost.peaks import Peaks
from cukde.density.pairs.cost.engines import Pass, products, tile
from cukde.density.sums import Output

_BLOCK_ROWS = 128  # rows of operands come in whole multiples
_VALUE_COLUMNS = (16, 32, 64)  # of a block of values
_LOOP = 6  # instructions of a step for its addresses and its loop

# Of 16 exponentials of one product, how many are polynomials, by depth; and the instructions of one.
_POLYNOMIALS = {16: 4, 32: 2}
_POLYNOMIAL = 10

# The symmetric pass has at most 12 warps a multiprocessor, whose steps are products, exponentials and products of
# these, one after the other, with a barrier between steps: it reaches so much of what its units do together. Measured
# on an H200: 1,048,576 points of 16 dimensions, in two terms 303.3 ms and in one 243.7 ms.
_SYMMETRIC_EFFICIENCY = 0.8

# Passes for moments and values follow references: a warp votes on whether all its exponents fit before it takes a power
# of any, so that no step overlaps the next. Measured on an H200: a score of 65,536 points of 16 dimensions at as many
# queries, 3.44 ms, of which 0.4 are the host's.
_EFFICIENCY_WITH_REFERENCES = 0.72

# What a block of the symmetric pass takes beside its tiles, in tiles, and the most tiles of a block: those of
# cukde/density/pairs/gpu/f16_symmetric.py.
_OVERLAPPED, _PLAIN = 2.0, 0.7
_MOST_TILES, _MOST_TILES_OF_VALUES = 128, 32
_TILE = 64

# Cycles of a block before and after a pass: a row's coordinates one after the other in float64, terms, norms; sums,
# logarithms, results. Nsight Compute on an H200, of 131,072 points of 16 dimensions at 16,384 queries: 14 and 12 us.
_PREPARE, _FINISH = 26_000, 22_000


def depth_of(d: int) -> int:
    """Columns of the operands of points of ``d`` dimensions."""
    return -(-d // 16) * 16


def padded(rows: int) -> int:
    """Rows of the operands of so many."""
    return -(-rows // _BLOCK_ROWS) * _BLOCK_ROWS


def value_columns(k: int) -> tuple[int, int]:
    """Blocks of values, and the columns of one."""
    columns = next((c for c in _VALUE_COLUMNS if k <= c), _VALUE_COLUMNS[-1])
    return -(-k // columns), columns


def operand_bytes(rows: int, d: int, terms: int, norm: int) -> float:
    """Bytes of an operand: terms of its points, and ``norm`` bytes a row."""
    return float(padded(rows) * (2 * depth_of(d) * terms + norm))


def ordered(of: Pass, on: Peaks) -> list[Part]:
    """Parts of the engine that takes each ordered pair."""
    count = products(of)
    terms, depth = 1 if count == 1 else 2, depth_of(of.d)
    own = of.ratio and of.output == "moments" and of.itself and not of.weighted
    blocks, columns = value_columns(of.k) if of.output == "values" else (1, 0)
    width = depth if of.output == "moments" else columns
    seconds = _second_products(of.output, count, own)
    reference = width > 0 and not own
    shape = tile(
        "f16",
        on.capability,
        {
            "output": of.output,
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
    total = 1 if own else 8  # a product with ones, or an addition each
    check = 8 * reference + 8 * (of.output == "laplace" and of.weighted)
    fragments = 2 + width // 2 + 4 * own  # of a row tile's sums, moved to those of all tiles once a tile
    second = (4 + 20 * (seconds > 1)) * (width > 0) + width // 8 * seconds
    moved = 2 * fragments * 16 / shape["tile"]
    instructions = (first + power + total + check + second + moved + (loads + _LOOP) / row_tiles) / 8

    queries = 16 * row_tiles * shape["warps"]
    row_bytes = terms * 2 * depth + 16 + 4 * columns
    data = operand_bytes(of.n, of.d, terms, 16) + 4 * padded(of.n) * columns * blocks
    asked = operand_bytes(0 if of.itself else of.m, of.d, terms, 16)
    left = 4.0 * of.m * (1 + reference + width * blocks)
    parts = [_prepared(of, data - 4 * padded(of.n) * columns * blocks + asked)]
    if of.output == "values":
        parts.append(_values_prepared(of, columns * blocks))
    parts.append(
        Part(
            "pass",
            data + asked + left,
            {
                "exponential": blocks * of.pairs * (1 - soft),
                "tensor_f16": blocks * of.pairs * (16 + 2 * depth * count + 2 * width * seconds + 16 * own),
                "instruction": blocks * of.pairs * instructions,
            },
            data + asked + left + blocks * -(-of.m // queries) * float(padded(of.n)) * row_bytes,
            footprint=float(on.multiprocessors * shape["blocks"] * shape["tile"] * row_bytes),
            resident=shape["blocks"],
            reduction=blocks * of.pairs * (total + moved) / 8,
            efficiency=_EFFICIENCY_WITH_REFERENCES if reference else 1.0,
        )
    )
    # A kernel stands in for queries whose sums are too small, or beyond the limit of an unknown spread.
    stands_in = width == 0 or not of.known
    results = 8.0 * of.m * (2 + of.columns)
    parts.append(_finished(left + asked + results, stands_in))
    return parts


def symmetric(of: Pass, on: Peaks) -> list[Part]:
    """Parts of the engine that takes each unordered pair once."""
    terms, depth = 1 if of.precision == "tf32" else 2, depth_of(of.d)
    count = 1 if terms == 1 else 3
    columns = value_columns(of.k)[1] if of.output == "values" else 0
    width, of_values = columns or depth, columns > 0
    exact = of_values or not of.ratio
    known = {"depth": depth, "terms": count, "columns": columns}
    layout = tile("f16_symmetric", on.capability, known)
    row_tiles, shared, overlap = layout["row_tiles"], layout["phi_is_shared"], layout["overlap"]
    rows, at_a_time = 64 * row_tiles, on.multiprocessors * layout["blocks"]

    groups, factors, seconds = depth // 16, width // 16, 4 if of_values else 1
    kept = 2 if of_values else 1  # terms of phi and of its factors
    per_step: float = terms * groups + kept * factors + 2 + _LOOP
    exponents = 1 + 8 + 2 * count * groups + 8
    packed = 4 + 20 * of_values
    row_sums = 2 * factors * seconds + (8 if exact else 1)
    # The columns' sums: phi by way of shared memory, or transposed in registers and handed on.
    if shared:
        across = 4 * kept + kept + kept * factors
    else:
        # The compiler keeps the transposes of factors that do not come from shared memory.
        across = 4 * kept + (kept * factors if exact else 0)
        per_step += 2 * (2 * factors + 1) * 3 / 4 + 1
    column_sums = across + 2 * factors * seconds + (8 if exact else 1)
    instructions = (exponents + packed + row_sums + column_sums + per_step / row_tiles) / 8

    size = padded(of.n)
    tiles = -(-size // rows) * (size // _TILE + row_tiles) / 2
    visited = float(of.n) * (of.n + rows) / 2
    overhead = _OVERLAPPED if overlap else _PLAIN
    most = min(_MOST_TILES_OF_VALUES if of_values else _MOST_TILES, max(1, size // _TILE))
    chunk = max(1, min(round(math.sqrt(2 * overhead * tiles / at_a_time)), most))
    # The launcher's own rule: blocks begin and end, and on average half of one is left when the others are done.
    waste = overhead / chunk + 0.5 * chunk * at_a_time / tiles

    data = operand_bytes(of.n, of.d, terms, 4) + 4.0 * size * columns
    sums = 4.0 * size * (width + 1)
    tile_bytes = _TILE * (terms * 2 * depth + 4 + 4 * columns + 4 * (width + 1))
    parts = [_prepared(of, operand_bytes(of.n, of.d, terms, 4))]
    if of_values:
        parts.append(_values_prepared(of, columns))
    parts.append(
        Part(
            "pass",
            data + sums,
            {
                "exponential": visited,
                "tensor_f16": visited * (2 * depth * count + 4 * width * seconds + 32 * (not exact)),
                "instruction": visited * instructions,
            },
            data + sums + tiles * tile_bytes,
            footprint=float(at_a_time * tile_bytes),
            resident=layout["blocks"],
            reduction=visited * (2 * (8 if exact else 1)) / 8,
            efficiency=_SYMMETRIC_EFFICIENCY / (1 + waste),
        )
    )
    parts.append(_finished(data + sums + 8.0 * of.n * (2 + of.columns), not of.known))
    return parts


def _prepared(of: Pass, written: float) -> Part:
    read = float(of.itemsize * of.d) * (of.n + (0 if of.itself else of.m))
    return Part("prepare", read + written, cycles=_PREPARE)


def _finished(traffic: float, stands_in: bool) -> Part:
    return Part("finish", traffic, cycles=_FINISH + elementwise.short(int(stands_in)), launches=1 + stands_in)


def _values_prepared(of: Pass, columns: int) -> Part:
    return Part("values", float(of.n) * of.k * of.itemsize + 4.0 * padded(of.n) * columns)


def _second_products(output: Output, count: int, own: bool) -> int:
    """Products of powers and moments or values, by the terms of both."""
    if output == "moments":
        return 1 if own or count == 1 else 3
    return (3 if count == 1 else 4) if output == "values" else 0
