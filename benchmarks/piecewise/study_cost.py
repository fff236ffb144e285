"""What the source's variants of piecewise polynomials cost: mostly a linear scan over knots.

Instructions are counted from what NVRTC makes of ``kernels_cu/study/piecewise_variants.cu`` for sm_90. They bind a
scan: all threads of a warp load the same knot, and coefficients come from the first cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cukde.perf import Counted, Part, Peaks

_THREADS = 256

# Of a knot that a scan with breaks passes: the last piece's number and the own one, is there a knot, load, compare, and
# two branches; its address where the scan is not unrolled.
_KNOT, _KNOT_ADDRESS = 9, 1
# What a branch that is taken costs beside itself, in instructions that are not issued: measured, the scans that are not
# unrolled, which take one for each knot, against those that are (benchmarks/results/piecewise_h200.json).
_TAKEN = 3
# Of a knot and a point of a scan without branches: two comparisons and a selection, for which there are half the lanes.
# Of a knot alone: the next one's number, likewise, the load, and a sum, which of several points fits between those.
_POINT_OF_KNOT, _KNOT_OF_ALL = 6, 4
_CONVERSION = 1  # of a float16 number
# Of a point: its place and memory; of a coefficient its address, load, product and sum, and the loop's.
_POINT, _COEFFICIENT = 45, 7
_STAGED = 8  # of a coefficient that a block brings to shared memory
_BARRIERS = 20  # instructions' time of two barriers


def cost(
    on: Peaks,
    *,
    n: int,
    pieces: int,
    degree: int,
    dtype: Any = "float32",
    kind: str = "BASE",
    layout: str = "aos",
    arithmetic: str = "",
    elements: int = 1,
    order: str = "random",
) -> Counted:
    """Count a variant at ``n`` points that are in ``order`` "random" or "sorted", evenly over the pieces.

    ``layout`` changes where coefficients lie, not how many instructions there are.
    """
    size, half = np.dtype(dtype).itemsize, np.dtype(dtype) == np.float16
    if kind == "BRANCH_FREE":
        of_knot = _POINT_OF_KNOT + (_KNOT_OF_ALL + half * _CONVERSION) / elements
        scan = pieces * of_knot
    else:
        unrolled = 1 if kind == "BASE" else power_of_two(pieces, 16 // elements)
        of_knot = _KNOT + _KNOT_ADDRESS / unrolled + _TAKEN / unrolled + half * _CONVERSION
        scan = _passed(pieces, order) * of_knot
    staged = 0.0
    if kind == "SHARED":
        chunks = -(-(degree + 1) // power_of_two(degree + 1, 16))
        staged = _STAGED * pieces * (degree + 1) / _THREADS + chunks * _BARRIERS
    packed = 2 if arithmetic == "PACKED" else 1  # sums of two points in one instruction
    horner = (_COEFFICIENT + 1 / packed - 1) * (degree + 1)
    part = Part(
        "points",
        bytes=2 * n * size + (pieces * (degree + 2) + 1) * size,
        work={"instruction": n * (scan + staged + _POINT + horner), "fma": 2.0 * degree * n},
        blocks=-(-n // (_THREADS * elements)),
    )
    return Counted((part,), "counted from kernels_cu/study/piecewise_variants.cu")


def sizes(variant: Any, x: Any, coefficients: Any, knots: Any, out: Any) -> dict[str, Any]:
    """Sizes of a call of the launcher; points are taken for random ones."""
    return {
        "n": x.size,
        "pieces": len(knots) - 1,
        "degree": coefficients.size // (len(knots) - 1) - 1,
        "dtype": x.dtype.name,
        **variant._asdict(),
    }


def _passed(pieces: int, order: str) -> float:
    """Knots that a warp passes until all of its threads have found their pieces: the largest of 32 pieces, or one."""
    if order not in ("random", "sorted"):
        raise ValueError(f'order must be "random" or "sorted"; got {order!r}')
    threads = 32 if order == "random" else 1
    return pieces - sum((k / pieces) ** threads for k in range(1, pieces))


def power_of_two(of: int, most: int) -> int:
    """The greatest one that is at most ``of`` and ``most``."""
    return min(most, 1 << (of.bit_length() - 1))
