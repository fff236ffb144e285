"""Stacks for the emulated threads of a block: one piece of memory for all kernels, made once."""

from __future__ import annotations

import ctypes
import functools

from tests.host_emulation._memory import PAGE, GuardedPages

MOST_THREADS = 1024  # of a block
_STACK_BYTES = 128 * 1024


class Stacks(ctypes.Structure):
    """`emulation::Stacks` of launch.hpp."""

    _fields_ = (("first", ctypes.c_void_p), ("spacing", ctypes.c_size_t), ("size", ctypes.c_size_t))


@functools.cache
def thread_stacks() -> Stacks:
    """Return the stacks, each above a page that faults, so that an overflow cannot reach its neighbour."""
    pages = _pages()
    spacing = PAGE + _STACK_BYTES
    for i in range(MOST_THREADS):
        pages.open(i * spacing + PAGE, _STACK_BYTES)
    return Stacks(pages.address + PAGE, spacing, _STACK_BYTES)


@functools.cache
def _pages() -> GuardedPages:
    return GuardedPages(MOST_THREADS * (PAGE + _STACK_BYTES))
