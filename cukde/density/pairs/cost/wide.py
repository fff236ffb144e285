"""Work of the density passes in more than 64 dimensions: powers through memory, and a library's products.

Sources: ``wide.py`` and ``wide_f64.py`` in ``cukde/density/pairs/gpu/``, ``wide.cu`` and ``wide_f64.cu`` in
``kernels_cu/density/``.
"""

from __future__ import annotations

import math

from cukde.core.cost import elementwise
from cukde.core.cost.cost import Part
from cukde.core.cost.peaks import Peaks
from cukde.density.pairs.cost.engines import Pass, tile
from cukde.density.plan import gpu as plan_gpu

_TILE = 128  # data rows; rows of operands come in whole tiles
_WARP = (64, 32)  # queries and data rows of a warp
_LOADED = 512  # bytes of shared memory that a warp loads at a time

# Instructions of a pair: an exponent for each term of points, its power and its sum; and of a lane's row, whose largest
# and whose sum pass between four lanes.
_EXPONENT, _POWER, _ROW = 4, 2, 24

# Instructions of the float64 pipe for each power beside the exponential: two norms, and the sums of rows and columns.
_SUMS_F64 = 4


def f16(task: Pass, on: Peaks) -> list[Part]:
    """Parts of the engine in float16 terms."""
    terms = 1 if task.precision == "tf32" else 2
    alike = task.itself and not task.weighted
    power_terms = (
        2 if task.output == "values" or (task.output == "moments" and terms == 2 and not task.mean_shift) else 1
    )
    staged = task.output in ("moments", "values")
    layout = tile("wide", on.capability, {"output": task.output, "terms": terms, "power_terms": power_terms})
    depth = _up(task.d, layout["step_depth"])
    data, queries = _up(task.n, _TILE), _up(task.m, _TILE)
    operand = 2.0 * depth * (terms + (power_terms if task.output == "moments" else 0)) + 4 * (terms + 1)
    operands = operand * (data + (0 if alike else queries))
    prepare = Part(
        "prepare", task.itemsize * task.d * (task.n + (0 if alike else task.m)) + operands, launches=1 + (not alike)
    )

    # The blocks that run at a time share the queries of a launch; each part of the data is one tile.
    tiles = -(-min(queries, plan_gpu.STAGED_ROWS if staged else queries) // (_WARP[0] * layout["warps_down"]))
    at_a_time = on.multiprocessors * layout["blocks"]
    working = (
        2.0
        * depth
        * terms
        * (min(tiles, at_a_time) * _WARP[0] * layout["warps_down"] + max(1, at_a_time // tiles) * _TILE)
    )

    def powers(name: str, pairs: float, products: int, written: float, launches: int) -> list[Part]:
        # Loads of fragments and products of 16 dimensions, for a warp's 64 x 32 pairs.
        loads, multiplies = 6 * terms, 16 * products
        loop = (depth / 16 * (loads + multiplies + 4)) * 32 / math.prod(_WARP)
        # Then, as the sums are in registers, exponents of them with norms and quanta, and powers of these: packed for
        # memory, or less the largest of their row. A row of a lane has 8 pairs.
        pack = 0.5 * (1 + 5 * (power_terms == 2))
        after = _EXPONENT * terms + _POWER + (pack + 1 if staged else 4 + _ROW / 8) + 2 * (task.output == "laplace")
        rows = _WARP[0] * layout["warps_down"]
        asked = pairs / (rows * _TILE) * (rows + _TILE) * 2.0 * depth * terms
        return [
            Part(
                name,
                operands,
                {
                    "tensor_f16": 2.0 * depth * products * pairs,
                    "instruction": loop * pairs,
                    "shared": depth / 16 * loads * _LOADED / math.prod(_WARP) * pairs,
                },
                operands + asked,
                footprint=working,
                resident=layout["blocks"],
                launches=launches,
            ),
            Part(
                "exponents" if name == "pass" else f"{name}: exponents",
                written,
                {"exponential": pairs, "instruction": after * pairs},
                resident=layout["blocks"],
                reduction=2 * pairs,
                launches=0,
            ),
        ]

    products = 1 if terms == 1 else 4
    results = task.result_bytes
    if not staged:
        left = 8.0 * task.m
        return [
            prepare,
            *powers("pass", task.pairs, products, left, 1),
            Part("finish", left + results, cycles=elementwise.short()),
        ]
    parts = [prepare]
    if not alike:
        parts += powers("references", task.pairs, products, 8.0 * task.m, 3)
    if task.output == "values":
        parts.append(Part("values", 4.0 * task.n * task.k * 2))
    numbers = plan_gpu.STAGED_BYTES // (2 * power_terms)
    rows, columns = plan_gpu.staged_block(queries, data, plan_gpu.STAGED_ROWS, numbers, symmetric=alike)
    width = depth if task.output == "moments" else task.k
    factors = {1: 1, 2: 3}[power_terms] if task.output == "moments" else 4
    visited, blocks, adds = _staged(data, queries, rows, columns, alike)
    products = 3 if task.mean_shift and terms == 2 else products
    parts += powers("pass", visited, products, 2.0 * power_terms * visited, blocks)
    both = task.pairs / visited  # how often powers are read: twice off the diagonal of a symmetric pass
    parts.append(
        Part(
            "products",
            2.0 * factors * visited * both + factors * adds * 8.0 * width,
            {"gemm_f16": 2.0 * width * factors * task.pairs},
            launches=max(1, round(adds * factors / rows)),
        )
    )
    parts.append(Part("finish", 4.0 * width * queries + results, cycles=elementwise.short()))
    return parts


def f64(task: Pass, on: Peaks) -> list[Part]:
    """Parts of the engine in float64."""
    alike = task.itself and not task.weighted
    data, queries = _up(task.n, _TILE), _up(task.m, _TILE)
    depth = _up(task.d, 8)
    operands = 8.0 * (depth + 1) * (data + (0 if task.itself else queries))
    numbers = plan_gpu.STAGED_BYTES // 8
    rows, columns = plan_gpu.staged_block(queries, data, plan_gpu.STAGED_ROWS_F64, numbers, symmetric=alike)
    visited, blocks, adds = _staged(data, queries, rows, columns, alike)
    kept = task.columns > 0
    parts = [
        Part("prepare", task.point_bytes + operands, launches=1 + (not task.itself)),
        Part("inner products", operands + 8 * visited, {"gemm_f64": 2.0 * depth * visited}, launches=blocks),
        Part(
            "powers",
            8.0 * visited * (1 + kept),
            {
                "exponential_f64": visited,
                "float64": 2.0 * _SUMS_F64 * visited,
                "instruction": (12 + _SUMS_F64 + 6) * visited,
            },
            reduction=2 * visited,
            launches=blocks,
        ),
    ]
    if kept:
        width = depth if task.output == "moments" else task.k
        parts.append(
            Part(
                "products",
                8.0 * task.pairs + 16.0 * adds * width,
                {"gemm_f64": 2.0 * width * task.pairs},
                launches=max(1, round(adds / rows)),
            )
        )
    parts.append(Part("finish", 8.0 * task.m * (2 + 2 * task.columns)))
    return parts


def _staged(data: int, queries: int, rows: int, columns: int, symmetric: bool) -> tuple[float, int, float]:
    """Powers that are computed, the blocks that compute them, and the rows of products that add them up."""
    if not symmetric:
        across = -(-data // columns)
        return float(data) * queries, -(-queries // rows) * across, float(queries) * across
    made, blocks, adds = 0.0, 0, 0.0
    for top in range(0, queries, rows):
        height = min(rows, queries - top)
        right = data - top - height
        beside = -(-right // columns)
        made += float(height) * (height + right)
        blocks += 1 + beside
        adds += height * (1 + beside) + right
    return made, blocks, adds


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
