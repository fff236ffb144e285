"""Which kernel evaluates a piecewise polynomial: the plans of both backends, and the thresholds behind them.

Only the knots tell which searches can find a piece: uniform knots by arithmetic, others by a guide where few knots
share one of its cells, and any by a tree. Sizes decide among these.
"""

from __future__ import annotations

import functools
from typing import Any, Literal

import numpy as np

from cukde.core.dtypes import arithmetic
from cukde.core.plan import Candidate, Plan
from cukde.piecewise.pieces import Reduction

Search = Literal["uniform", "guide", "tree"]

# Conditions on knots.
UNIFORM, OTHERS, GUIDED = "uniform knots", "knots that are not uniform", "few knots share a cell of a guide"

# On a GPU. Numbers of coefficients with a kernel of their own, of float64 the last one alone.
COEFFICIENTS = (2, 3, 4)
MOST_COPIES = 8  # of the tables in shared memory; eight threads read 16 bytes each at a time

# A guide saves the steps of a search, and loses as much to banks of shared memory where it is not there in copies: on
# an H200 one copy is slower than a tree for 256 pieces, and faster for 4,096.
_FEWEST_COPIES_OF_GUIDE = 4
_PIECES_OF_LONG_SEARCH = 1024

# Cells of a guide, knots that one may have, and the share of cells that may have more than the two of a row.
CELLS_A_PIECE = (1, 2, 4)
_TYPICAL_CELLS = 2  # with one cell a piece, 8 % of the cells have more than two of random knots
MOST_CELLS = 2**22  # see pieces.cuh: magic
_MOST_KNOTS_OF_CELL = 8
_CROWDED = 0.02

# Of a table of all float16 numbers: each block reads it first. From so many points on, at the latest, that is less than
# what is saved (H200).
FEWEST_LOOKUPS, TABLE_BYTES = 2**22, 2**17

# On the CPU: part of a piece by which knots may differ from equal spacing, buckets of a table for others, and knots in
# a bucket among which two comparisons decide.
NEAR_UNIFORM = 0.25
BUCKETS_A_PIECE = (2, 4, 8, 16)
FEW_KNOTS = 3


@functools.lru_cache(maxsize=1024)
def on_gpu(
    n: int,
    pieces: int,
    k: int,
    dtype: Any,
    *,
    capability: tuple[int, int],
    shared_bytes: int,
    columns: int = 1,
    periodic: bool = False,
    reduction: Reduction | None = None,
) -> Plan:
    """Plan an evaluation at n points of a dtype, of polynomials of k coefficients and ``columns`` values at a point.

    ``shared_bytes`` is what a block of the device can ask for.
    """
    what = f"{n:,} points {np.dtype(dtype).name}, {pieces:,} pieces of {k} coefficients"
    if columns > 1 or periodic:
        candidates = Candidate("columns uniform", None, UNIFORM), Candidate("columns tree")
        return Plan(f"{what}, {columns} columns{', periodic' if periodic else ''}", candidates)
    refused = "" if np.dtype(dtype) == np.float16 else "not float16"
    if not refused and not pays_to_look_up(n, shared_bytes):
        refused = f"fewer than {FEWEST_LOOKUPS:,} points, or a block holds less than {TABLE_BYTES:,} bytes"
    lookups = Candidate("lookup_f16", None, OTHERS if is_fast("uniform", k, reduction) else "", refused)
    return Plan(what, (lookups, *search(pieces, k, np.dtype(dtype), capability).candidates))


@functools.lru_cache(maxsize=1024)
def search(pieces: int, k: int, dtype: np.dtype, capability: tuple[int, int], cells: int | None = None) -> Plan:
    """Plan how pieces are found, one value at a point, where a guide has so many cells."""
    guide = "" if has_guide(dtype, k) else "vectors of eight leave no registers, or the cells of float64 no room"
    cells = _TYPICAL_CELLS * pieces if cells is None else cells
    if not guide and copies("guide", pieces, k, dtype, cells, capability) is None:
        guide = "too few copies fit into shared memory, or none"
    return Plan(
        f"Search among {pieces:,} pieces",
        (Candidate("uniform", None, UNIFORM), Candidate("guide", None, GUIDED, guide), Candidate("tree")),
    )


def copies(
    search: Search, pieces: int, k: int, dtype: np.dtype, height: int, capability: tuple[int, int]
) -> int | None:
    """Copies of the tables in shared memory, by their binary logarithm; None where none serves.

    ``height`` is that of the guide or the tree, in rows of 16 bytes.
    """
    most = 99 * 1024 if capability >= (8, 0) else 64 * 1024
    few = search == "guide" and pieces < _PIECES_OF_LONG_SEARCH
    for level in reversed(range(MOST_COPIES.bit_length())):
        if table_bytes(search, pieces, k, dtype, height, level) <= most:
            return None if few and 1 << level < _FEWEST_COPIES_OF_GUIDE else level
    return None


def table_bytes(search: Search, pieces: int, k: int, dtype: np.dtype, height: int, level: int) -> int:
    """Bytes of the coefficients' copies, and of as many guides, or of one tree."""
    rows, table = row_bytes(pieces, k, dtype), 16 * height
    return (rows + table << level) if search == "guide" else (rows << level) + table


def height(search: Search, pieces: int, dtype: np.dtype) -> int:
    """Rows of 16 bytes of a table, of a guide those that random knots take."""
    if search == "tree":
        return -(-(2 ** levels(pieces)) // row_width(dtype))
    return _TYPICAL_CELLS * pieces if search == "guide" else 0


def levels(pieces: int) -> int:
    """Levels of a tree."""
    return (pieces - 1).bit_length()


def row_width(dtype: np.dtype) -> int:
    """Numbers of a row of 16 bytes."""
    return 16 // arithmetic(dtype).itemsize


def row_bytes(pieces: int, k: int, dtype: np.dtype) -> int:
    """Bytes of the coefficients of all pieces, in rows."""
    return 16 * pieces * -(-k // row_width(dtype))


def own_kernel(dtype: np.dtype, k: int, shared: bool = True) -> int:
    """The number of coefficients that a kernel is compiled for; 0: any."""
    compiled = COEFFICIENTS if arithmetic(dtype) == np.float32 else COEFFICIENTS[-1:]
    return k if shared and k in compiled else 0


def has_guide(dtype: np.dtype, k: int) -> bool:
    """A cell of a guide is 16 bytes of float32; vectors of eight and any number of coefficients leave no registers."""
    return dtype == np.float32 or (dtype == np.float16 and own_kernel(dtype, k) != 0)


def guide_serves(cells: int, crowded: int, fullest: int) -> bool:
    """Whether few knots share a cell: ``crowded`` cells have more than two, and one as many as ``fullest``."""
    return crowded <= _CROWDED * cells and fullest <= _MOST_KNOTS_OF_CELL


def is_fast(search: Search, k: int, reduction: Reduction | None) -> bool:
    """Whether values are computed as fast as they are looked up: uniform knots and few coefficients."""
    return search == "uniform" and k in COEFFICIENTS and reduction is None


def pays_to_look_up(points: int, shared_bytes: int) -> bool:
    """Whether so many points are looked up faster than a function of some tens of instructions is computed."""
    return points >= FEWEST_LOOKUPS and shared_bytes >= TABLE_BYTES


@functools.lru_cache(maxsize=1024)
def on_cpu(n: int, pieces: int, k: int, dtype: Any, *, columns: int = 1) -> Plan:
    """Plan an evaluation in blocks of points."""
    what = f"{n:,} points {np.dtype(dtype).name}, {pieces:,} pieces of {k} coefficients, {columns} columns"
    return Plan(what, (Candidate("uniform", None, UNIFORM), Candidate("guide")))
