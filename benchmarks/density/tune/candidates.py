"""Tiles worth measuring: what may fit the registers and the shared memory of a multiprocessor."""

from __future__ import annotations

import itertools

from cukde.density.pairs.gpu import f64, wide
from cukde.density.pairs.gpu.f16 import SHARED_BYTES, Task
from cukde.density.pairs.gpu.f16_symmetric import Layout, laid_out, shared_bytes
from cukde.density.pairs.gpu.splits import Shape

# Of a multiprocessor, and the most that a thread can have.
_REGISTERS, _MOST_REGISTERS = 65536, 255

# Blocks of a multiprocessor, by warps of a block; of those that registers may allow, the largest few are tried.
_BLOCKS = {4: (8, 6, 5, 4, 3, 2), 8: (4, 3, 2, 1)}
_TRIED = 5

# Of a thread, beside the fragments that it keeps: addresses, counters, operands on their way. Kernels need more.
_REGISTERS_BESIDE = 24

_EXPONENTS_OF_WIDE = 64  # of a thread of the engine of many dimensions, for each term of a point

_DYNAMIC_BYTES = 99 * 1024  # of a block, on every device since sm_80
_BYTES_OF_BLOCK = 1024  # that the system keeps of shared memory for each block


def shapes(task: Task, shared_of_multiprocessor: int) -> list[Shape]:
    """Shapes of a task of the ordered engine; whether they spill, the compiler tells."""
    fitting = [tile for tile in (128, 64, 32) if task.shared_bytes(tile) <= SHARED_BYTES]
    least = {row_tiles: least_registers(task, row_tiles) for row_tiles in (1, 2, 4)}
    return _shapes(task, least, fitting[:2], shared_of_multiprocessor)


def shapes_f64(task: f64.Task, shared_of_multiprocessor: int) -> list[Shape]:
    """Shapes of a task of the float64 engine."""
    fitting = [tile for tile in (128, 64, 32, 16) if task.shared_bytes(tile) <= f64.SHARED_BYTES]
    least = {row_tiles: least_registers_f64(task, row_tiles) for row_tiles in (1, 2)}
    return _shapes(task, least, fitting[:3], shared_of_multiprocessor)


def _shapes(
    task: Task | f64.Task, least: dict[int, int], tiles: list[int], shared_of_multiprocessor: int
) -> list[Shape]:
    """Shapes of so many row tiles, by the ``least`` registers of a thread, and of ``tiles``."""
    found = []
    for warps, (row_tiles, registers) in itertools.product((4, 8), least.items()):
        if registers > _MOST_REGISTERS:
            continue
        allowed = [blocks for blocks in _BLOCKS[warps] if 32 * warps * blocks * registers <= _REGISTERS]
        for tile, blocks in itertools.product(tiles, allowed[:_TRIED]):
            if _fit(blocks, task.shared_bytes(tile), shared_of_multiprocessor):
                found.append(Shape(warps, row_tiles, tile, blocks))
    return found


def least_registers(task: Task, row_tiles: int) -> int:
    """Fewer registers than a thread of a kernel needs: fragments of queries, exponents and sums, and a few more."""
    queries = task.depth // 4 * (2 if task.products > 1 else 1) + 2
    exponents = 8
    columns = task.depth if task.output == "moments" else task.columns
    sums = 2 * (2 + columns // 2)  # of a tile and of all
    return row_tiles * (queries + exponents + sums) + _REGISTERS_BESIDE


def least_registers_f64(task: f64.Task, row_tiles: int) -> int:
    """The same for the float64 engine, two registers a number."""
    columns = task.depth if task.output == "moments" else task.columns
    queries = task.depth // 2 + 4
    exponents = 4
    sums = 2 + columns // 2
    return row_tiles * 2 * (queries + exponents + sums) + _REGISTERS_BESIDE


def layouts(depth: int, terms: int, columns: int, shared_of_multiprocessor: int) -> list[Layout]:
    """Layouts of the symmetric engine."""
    found = []
    for row_tiles, blocks in itertools.product((1, 2, 3, 4) if columns else (2, 3, 4), (2, 3)):
        for shared, overlap in ((False, False), (True, False), (True, True)):
            of = laid_out(columns, row_tiles=row_tiles, blocks=blocks, phi_is_shared=shared, overlap=overlap)
            dynamic = shared_bytes(depth, terms, columns, of)
            static = 0 if dynamic else passed_sums_bytes(depth, terms, of)
            within = dynamic <= _DYNAMIC_BYTES and static <= SHARED_BYTES
            if within and _fit(blocks, dynamic or static, shared_of_multiprocessor):
                found.append(of)
    return found


def layouts_wide(task: wide.Task, shared_of_multiprocessor: int) -> list[wide.Layout]:
    """Layouts of the engine of many dimensions."""
    found = []
    for choice in itertools.product((1, 2), (32, 64), (2, 3, 4), (1, 2)):
        of = wide.Layout(*choice)
        registers = _EXPONENTS_OF_WIDE * task.terms + _REGISTERS_BESIDE
        if of.blocks * of.shape.threads * registers > _REGISTERS:
            continue
        bytes_of_block = of.shared_bytes(task) + (column_totals_bytes(of) if task.staged else 0)
        if bytes_of_block <= _DYNAMIC_BYTES and _fit(of.blocks, bytes_of_block, shared_of_multiprocessor):
            found.append(of)
    return found


def column_totals_bytes(of: wide.Layout) -> int:
    """Bytes of static shared memory of a kernel with column totals."""
    return 2 * of.warps_down * of.shape.tile * 4


def passed_sums_bytes(depth: int, terms: int, of: Layout) -> int:
    """Bytes of ``Shared`` for moments passed between warps: two tiles, sums, and with exact ones the rows' hi."""
    pitch = 2 * depth + 16
    tiles = 2 * 64 * ((2 if terms == 3 else 1) * pitch + 4)
    passed = 4 * 512 * (depth // 8 + 1)
    return tiles + passed + of.rows * 4 + (of.rows if terms == 3 else 1) * pitch + 16


def _fit(blocks: int, bytes_of_block: int, shared_of_multiprocessor: int) -> bool:
    return blocks * (bytes_of_block + _BYTES_OF_BLOCK) <= shared_of_multiprocessor
