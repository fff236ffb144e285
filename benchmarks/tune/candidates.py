"""Tiles worth measuring: what may fit the registers and the shared memory of a multiprocessor."""

from __future__ import annotations

import itertools

from cukde.gpu._f16 import SHARED_BYTES, Task
from cukde.gpu._f16_symmetric import Layout, laid_out, shared_bytes
from cukde.gpu._grid import Shape

# Of a multiprocessor, and the most that a thread can have.
_REGISTERS, _MOST_REGISTERS = 65536, 255

# Blocks of a multiprocessor, by warps of a block; of those that registers may allow, the largest few are tried.
_BLOCKS = {4: (8, 6, 5, 4, 3, 2), 8: (4, 3, 2, 1)}
_TRIED = 5

# Of a thread, beside the fragments that it keeps: addresses, counters, operands on their way. Kernels need more.
_REGISTERS_BESIDE = 24

_DYNAMIC_BYTES = 99 * 1024  # of a block, on every device since sm_80
_BYTES_OF_BLOCK = 1024  # that the system keeps of shared memory for each block


def shapes(task: Task, shared_of_multiprocessor: int) -> list[Shape]:
    """Shapes of a task of the ordered engine; whether they spill, the compiler tells."""
    found = []
    for warps, row_tiles in itertools.product((4, 8), (1, 2, 4)):
        least = least_registers(task, row_tiles)
        if least > _MOST_REGISTERS:
            continue
        allowed = [blocks for blocks in _BLOCKS[warps] if 32 * warps * blocks * least <= _REGISTERS]
        fitting = [tile for tile in (128, 64, 32) if task.shared_bytes(tile) <= SHARED_BYTES]
        for tile, blocks in itertools.product(fitting[:2], allowed[:_TRIED]):
            shape = Shape(warps, row_tiles, tile, blocks)
            if _fit(blocks, task.shared_bytes(tile), shared_of_multiprocessor):
                found.append(shape)
    return found


def least_registers(task: Task, row_tiles: int) -> int:
    """Fewer registers than a thread of a kernel needs: fragments of queries, exponents and sums, and a few more."""
    queries = task.depth // 4 * (2 if task.products > 1 else 1) + 2
    exponents = 8
    columns = task.depth if task.output == "moments" else task.columns
    sums = 2 * (2 + columns // 2)  # of a tile and of all
    return row_tiles * (queries + exponents + sums) + _REGISTERS_BESIDE


def layouts(depth: int, terms: int, columns: int, shared_of_multiprocessor: int) -> list[Layout]:
    """Layouts of the symmetric engine."""
    found = []
    for row_tiles, blocks in itertools.product((1, 2, 3, 4) if columns else (2, 3, 4), (2, 3)):
        for shared, overlap in ((False, False), (True, False), (True, True)):
            of = laid_out(columns, row_tiles=row_tiles, blocks=blocks, phi_is_shared=shared, overlap=overlap)
            dynamic = shared_bytes(depth, terms, columns, of)
            static = 0 if dynamic else handed_on_bytes(depth, terms, of)
            within = dynamic <= _DYNAMIC_BYTES and static <= SHARED_BYTES
            if within and _fit(blocks, dynamic or static, shared_of_multiprocessor):
                found.append(of)
    return found


def handed_on_bytes(depth: int, terms: int, of: Layout) -> int:
    """Bytes of ``Shared`` for moments that are handed on: two tiles, sums, and with exact ones the rows' hi."""
    pitch = 2 * depth + 16
    tiles = 2 * 64 * ((2 if terms == 3 else 1) * pitch + 4)
    handed = 4 * 512 * (depth // 8 + 1)
    return tiles + handed + of.rows * 4 + (of.rows if terms == 3 else 1) * pitch + 16


def _fit(blocks: int, bytes_of_block: int, shared_of_multiprocessor: int) -> bool:
    return blocks * (bytes_of_block + _BYTES_OF_BLOCK) <= shared_of_multiprocessor
