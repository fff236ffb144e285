"""Piecewise polynomials on the GPU: launchers of ``kernels_cu/piecewise/piecewise.cu`` and its companions.

Tables are made once a polynomial and a type of x; an evaluation is one launch.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core import plan as core_plan
from cukde.core.dtypes import arithmetic
from cukde.core.gpu import compile as core_compile, device
from cukde.core.gpu.launch import BITS, Launch, Specialisation
from cukde.core.gpu.repeated import Kept, Repeated
from cukde.piecewise import plan as piecewise_plan
from cukde.piecewise.pieces import Pieces, Reduction
from cukde.piecewise.plan import COEFFICIENTS, TABLE_BYTES, Search, own_kernel

# Of the kernel: threads of a block, vectors in flight a thread, blocks of a multiprocessor.
_THREADS, _IN_FLIGHT, _BLOCKS = 512, 2, 2
# Tiles of a block at least, and bytes of tables that it may fill for each, by the bits of x. Blocks that stay to
# the end reach 0.85 of a copy's speed where these reach 0.93 (float32, H200); float16 has more to compute.
_FEWEST_TILES = {16: 8, 32: 4, 64: 4}
_TABLES_OF_TILE = {16: 2**9, 32: 2**13, 64: 2**13}
_LARGE_TABLES = 2**15  # bytes beyond which a block fills them once
# Of the kernel that looks float16 numbers up in a table of all of them, too.
_LOOKUP_THREADS, _LOOKUP_IN_FLIGHT = 1024, 2
_LOOKUP_TILE = _LOOKUP_THREADS * _LOOKUP_IN_FLIGHT * 8
_SEARCH: tuple[Search, ...] = ("uniform", "guide", "tree")
_CONDITIONS = {"uniform": piecewise_plan.UNIFORM, "guide": piecewise_plan.GUIDED}
_BEYOND = {True: 0, False: 1, "clamp": 2, "periodic": 3}
_PERIODIC = _BEYOND["periodic"]
_REDUCTION: dict[Reduction | None, int] = {None: 0, "exp": 1, "log": 2}


class Knots(NamedTuple):
    """Scalars of a search, in the type of the arithmetic: ``Knots`` of ``pieces.cuh``."""

    first: Any
    last: Any
    scale: Any
    offset: Any
    cells: Any
    step: Any


class Table(NamedTuple):
    """How a kernel finds pieces."""

    search: Search
    rows: Any  # guide and all knots, or tree, of 16 bytes a row; empty for uniform knots
    height: int  # rows of the guide or the tree
    knots: Knots


class Plan(NamedTuple):
    """A specialisation and what it takes beside x and y."""

    kernel: Specialisation
    table: Table
    copies: int  # of the tables in shared memory: a power of two, by its logarithm
    tile: int  # points of a block at a time


@dataclass(frozen=True)
class Prepared:
    """A piecewise polynomial on the device, for x of one type."""

    dtype: np.dtype
    pieces: int
    coefficients: int
    columns: int
    local: bool
    rows: Any  # coefficients, (rows, pieces, columns, row width)
    levels: int  # of a tree
    most_blocks: int
    columnar: Table  # for several values at a point, and for periodic ones
    plan: Plan | None  # of one value at a point
    # Values at all float16 numbers, where that is faster, by what is done beyond the knots.
    lookups: dict[int, Any] | None


def prepare(pieces: Pieces, dtype: Any) -> Prepared:
    """Make the tables for x of a type, float16, float32 or float64, on the current device."""
    dtype = np.dtype(dtype)
    real = arithmetic(dtype)
    coefficients = cp.asnumpy(pieces.coefficients).astype(real, copy=False)
    knots = cp.asnumpy(pieces.knots).astype(real, copy=False)
    k, m, columns = coefficients.shape
    rows = cp.asarray(_in_rows(coefficients))
    levels = piecewise_plan.levels(m)
    candidates = _tables(knots, levels, knots[-1] if pieces.last is None else real.type(pieces.last))
    # Its kernel knows uniform knots and the tree.
    columnar = next(table for table in candidates if table.search != "guide")
    plan = _plan(candidates, dtype, k, m, pieces.reduction) if columns == 1 else None
    most_blocks = _BLOCKS * device.multiprocessors()
    fast = plan is None or piecewise_plan.is_fast(plan.table.search, k, pieces.reduction)
    lookups: dict[int, Any] | None = None if fast or dtype != np.float16 else {}
    return Prepared(dtype, m, k, columns, pieces.local, rows, levels, most_blocks, columnar, plan, lookups)


def evaluate(prepared: Prepared, x: Any, extrapolate: bool | str, out: Any | None = None) -> Any:
    """Evaluate at ``x``, shape (n,), contiguous; shape (n,), or (n, columns) where there are several.

    Waits for nothing.
    """
    n, beyond = x.shape[0], _BEYOND[extrapolate]
    if out is None:
        out = cp.empty(n if prepared.columns == 1 else (n, prepared.columns), prepared.dtype)
    if out.size == 0:
        return out
    if prepared.plan is None or beyond == _PERIODIC:
        table = prepared.columnar
        core_plan.note(f"columns {table.search}")
        _columns_kernel(prepared.dtype, table.search).launch(
            (min(-(-n // _THREADS), prepared.most_blocks),),
            (_THREADS,),
            *(x, prepared.rows, table.rows, out, n, prepared.columns, prepared.pieces, prepared.coefficients),
            *(prepared.levels, beyond, prepared.local),
            *table.knots,
        )
        return out
    if prepared.lookups is None or not _looked_up(n):
        core_plan.note(prepared.plan.table.search)
        _launch(prepared, prepared.plan, n, beyond)(x, prepared.rows, prepared.plan.table.rows, out)
        return out
    core_plan.note("lookup_f16")
    if beyond not in prepared.lookups:
        numbers = cp.arange(2**16, dtype=np.uint16).view(np.float16)
        prepared.lookups[beyond] = cp.empty_like(numbers)
        compute = _launch(prepared, prepared.plan, numbers.size, beyond)
        compute(numbers, prepared.rows, prepared.plan.table.rows, prepared.lookups[beyond])
    blocks = min(-(-n // _LOOKUP_TILE), device.multiprocessors())
    _LOOKUP.launch((blocks,), (_LOOKUP_THREADS,), x, prepared.lookups[beyond], out, n)
    return out


def keep(repeated: Repeated, prepared: Prepared, x: Any, extrapolate: bool | str) -> None:
    """Keep an evaluation, where it is one launch on the points as they were given."""
    plan, beyond = prepared.plan, _BEYOND[extrapolate]
    looked_up = prepared.lookups is not None and _looked_up(x.size)
    if x.size and plan is not None and beyond != _PERIODIC and not looked_up:
        kept = plan.table.search, _launch(prepared, plan, x.size, beyond), x.shape, x.dtype
        repeated.keep(Kept(*kept, (prepared.rows, plan.table.rows)), (x,), extrapolate)


def _looked_up(n: int) -> bool:
    pays = piecewise_plan.pays_to_look_up(n, device.shared_bytes_of_block())
    return pays and core_plan.wanted("lookup_f16") is not False


def _launch(prepared: Prepared, plan: Plan, n: int, beyond: int) -> Launch:
    kernel, table, copies, tile = plan
    grid = (_blocks(-(-n // tile), prepared.most_blocks, prepared.dtype, kernel.shared_bytes),)
    counts = n, prepared.pieces, prepared.coefficients, table.height, prepared.levels
    return Launch(kernel, grid, (_THREADS,), (*counts, copies, beyond, prepared.local, *table.knots))


def _blocks(tiles: int, resident: int, dtype: np.dtype, shared_bytes: int) -> int:
    """Blocks for so many tiles: more than the device holds, as long as tables are little of what they read."""
    if shared_bytes > _LARGE_TABLES:
        return min(tiles, resident)
    bits = BITS[dtype]
    each = max(_FEWEST_TILES[bits], shared_bytes // _TABLES_OF_TILE[bits])
    return max(min(tiles, resident), tiles // each)


@core_compile.listed
def specialisations() -> Iterator[Specialisation]:
    """Every kernel of this module."""
    for dtype in BITS:
        for search, shared, k in itertools.product(_SEARCH, (True, False), (*COEFFICIENTS, 0)):
            coefficients = own_kernel(dtype, k, shared)
            if coefficients == k and (search != "guide" or (shared and piecewise_plan.has_guide(dtype, k))):
                yield _kernel(dtype, search, k, shared, None, 0)
        for reduction in ("exp", "log"):  # of cukde.functions
            yield _kernel(dtype, "uniform", COEFFICIENTS[-1], True, reduction, 0)
        for search in ("uniform", "tree"):
            yield _columns_kernel(dtype, search)
    yield from (_knots_kernel(dtype) for dtype, bits in BITS.items() if bits > 16)
    yield _LOOKUP


def _in_rows(coefficients: np.ndarray) -> np.ndarray:
    """Rows of 16 bytes of the coefficients of shape (k, m, columns), zeros before the leading one."""
    k, m, columns = coefficients.shape
    width = 16 // coefficients.dtype.itemsize
    padded = np.zeros((-(-k // width) * width, m, columns), coefficients.dtype)
    padded[-k:] = coefficients
    return np.ascontiguousarray(padded.reshape(-1, width, m, columns).transpose(0, 2, 3, 1))


def _tables(knots: np.ndarray, levels: int, end: Any) -> list[Table]:
    """What finds the piece for these knots, the faster first: uniform knots alone, or guides and the tree.

    ``end`` is the last x within the range.
    """
    m, real = knots.size - 1, knots.dtype.type
    first, last = float(knots[0]), float(knots[-1])
    with np.errstate(all="ignore"):
        scale, step = real(1 / np.float64(last - first)), real((last - first) / m)
        # A little more than rounding takes, so that a knot is not in the cell before its own.
        most = max(1.0, abs(first * float(scale)), abs(last * float(scale)))
        offset = real(-first * float(scale) + 4 * float(np.finfo(real).eps) * most)
        scalars = Knots(knots[0], end, scale, offset, real(1), step)
    smallest = np.finfo(real).tiny
    tables: list[Table] = []
    if np.isfinite(scalars).all() and scale >= smallest and step >= smallest:
        for cells in (m * per_piece for per_piece in piecewise_plan.CELLS_A_PIECE):
            if cells > piecewise_plan.MOST_CELLS or (knots.dtype != np.float32 and cells > m):
                break
            placed = scalars._replace(cells=np.nextafter(real(cells), real(0)))
            cell_of, uniform = _cells(knots, placed)
            if cells == m and core_plan.wanted("uniform") is not False and _is_uniform(knots, cell_of, uniform):
                return [Table("uniform", cp.zeros((0, 16 // knots.itemsize), real), 0, placed)]
            of_cell = np.bincount(cell_of[1:-1], minlength=cells)
            crowded, fullest = int(np.count_nonzero(of_cell > 2)), int(of_cell.max())
            if knots.dtype == np.float32 and piecewise_plan.guide_serves(cells, crowded, fullest):
                tables.append(Table("guide", cp.asarray(_guide(knots, cell_of, cells)), cells, placed))
                break
    tree = _tree(knots, levels)
    tables.append(Table("tree", cp.asarray(tree), len(tree), scalars))
    return tables


def _cells(knots: np.ndarray, scalars: Knots) -> tuple[np.ndarray, np.ndarray]:
    """The cells of the knots and the uniform knots, by the arithmetic of the device."""
    n = knots.size
    cell_of, uniform = cp.zeros(n, np.int32), cp.zeros(n, knots.dtype)
    arrays = cp.asarray(knots), cell_of, uniform
    last = scalars.scale, scalars.offset, scalars.cells, scalars.first, scalars.step
    _knots_kernel(knots.dtype).launch((-(-n // _THREADS),), (_THREADS,), *arrays, n, *last)
    return cp.asnumpy(cell_of), cp.asnumpy(uniform)


def _is_uniform(knots: np.ndarray, cell_of: np.ndarray, uniform: np.ndarray) -> bool:
    """Whether a guess by the cell is the piece or the next one, and the comparison with the knot that decides.

    Cells never decrease with x. So where each knot is in the cell of its number, what lies between two knots is in the
    cell of its piece or in the next one.
    """
    return bool((uniform == knots).all() and (cell_of[1:-1] == np.arange(1, knots.size - 1)).all())


def _guide(knots: np.ndarray, cell_of: np.ndarray, cells: int) -> np.ndarray:
    """Rows of ``pieces.cuh``: two knots of a cell, the knot before it and its piece; then all knots."""
    guide = np.full((cells + -(-knots.size // 4), 4), np.nan, knots.dtype)
    before = np.searchsorted(cell_of[1:-1], np.arange(cells))  # inner knots in earlier cells
    inner, cell = np.arange(1, knots.size - 1), cell_of[1:-1]
    slot = inner - 1 - before[cell]
    crowded = np.bincount(cell, minlength=cells) > 2
    guide[:cells, 2] = knots[before]
    guide[:cells, 3] = (before.astype(np.uint32) | crowded.astype(np.uint32) << 31).view(knots.dtype)
    two = slot < 2
    guide[cell[two], slot[two]] = knots[inner[two]]
    guide[cells:].reshape(-1)[: knots.size] = knots
    return guide


def _tree(knots: np.ndarray, levels: int) -> np.ndarray:
    """The tree of ``pieces.cuh``, in whole rows of 16 bytes."""
    width = 16 // knots.itemsize
    inner = np.full(2**levels, np.nan, knots.dtype)
    inner[: knots.size - 2] = knots[1:-1]
    tree = np.full(-(-(2**levels) // width) * width, np.nan, knots.dtype)
    for level in range(levels):
        spacing = 2 ** (levels - level)
        tree[2**level : 2 ** (level + 1)] = inner[spacing // 2 - 1 :: spacing][: 2**level]
    return tree.reshape(-1, width)


def _plan(tables: list[Table], dtype: np.dtype, k: int, m: int, reduction: Reduction | None) -> Plan:
    """Choose among the tables by how many copies of them shared memory holds."""
    capability = device.capability()
    by_search: dict[str, Table] = {table.search: table for table in tables}
    cells = by_search["guide"].height if "guide" in by_search else None
    conditions = [_CONDITIONS[name] for name in by_search if name in _CONDITIONS]
    table = by_search[piecewise_plan.search(m, k, dtype, capability, cells).first(*conditions)]
    copies = piecewise_plan.copies(table.search, m, k, dtype, table.height, capability)
    shared = 0 if copies is None else piecewise_plan.table_bytes(table.search, m, k, dtype, table.height, copies)
    kernel = _kernel(dtype, table.search, k, copies is not None, reduction, shared)
    in_flight = _in_flight(dtype, piecewise_plan.own_kernel(dtype, k, copies is not None))
    return Plan(kernel, table, copies or 0, 16 // dtype.itemsize * _THREADS * in_flight)


def _in_flight(dtype: np.dtype, coefficients: int) -> int:
    """Vectors in flight: of eight numbers one, where more registers are taken by any number of coefficients."""
    return 1 if dtype == np.float16 and coefficients == 0 else _IN_FLIGHT


def _kernel(
    dtype: np.dtype, search: Search, k: int, shared: bool, reduction: Reduction | None, shared_bytes: int
) -> Specialisation:
    coefficients = own_kernel(dtype, k, shared)
    macros = {"REDUCTION": _REDUCTION[reduction], "COEFFICIENTS": coefficients, "SHARED": shared}
    macros |= {"IN_FLIGHT": _in_flight(dtype, coefficients), "BLOCKS": _BLOCKS}
    return _compiled("piecewise", dtype, search, "4P q 7i 6", shared_bytes, **macros)


@functools.cache
def _columns_kernel(dtype: np.dtype, search: Search) -> Specialisation:
    return _compiled("columns", dtype, search, "4P 2q 5i 6")


def _knots_kernel(dtype: np.dtype) -> Specialisation:
    return _compiled("knots", dtype, "uniform", "3P i 5")


def _compiled(
    stem: str, dtype: np.dtype, search: Search, types: str, shared_bytes: int = 0, **macros: int
) -> Specialisation:
    """A kernel whose last parameters are of the type of the arithmetic."""
    name = stem if stem == "piecewise" else f"piecewise_{stem}"
    defines = core_compile.macros(STORAGE=BITS[dtype], SEARCH=_SEARCH.index(search), THREADS=_THREADS, **macros)
    return Specialisation(f"piecewise/{stem}", name, defines, types + arithmetic(dtype).char, shared_bytes)


_LOOKUP = Specialisation(
    "piecewise/lookup_f16",
    "lookup_f16",
    core_compile.macros(THREADS=_LOOKUP_THREADS, IN_FLIGHT=_LOOKUP_IN_FLIGHT),
    "3P q",
    TABLE_BYTES,
)
