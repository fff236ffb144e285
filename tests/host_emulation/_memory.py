"""Memory with pages around it that fault at the first touch."""

from __future__ import annotations

import ctypes
import functools
import mmap
import weakref

PAGE = mmap.PAGESIZE

_NO_ACCESS = 0
_FAILED = ctypes.c_void_p(-1).value


@functools.cache  # when it is wanted: this module loads on Windows, too
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long)
    libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return libc


class GuardedPages:
    """Address space that faults except where it is opened; given back with this object."""

    def __init__(self, size: int) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self.address: int = _libc().mmap(None, size, _NO_ACCESS, flags, -1, 0)
        if self.address == _FAILED:
            raise MemoryError(f"{size} bytes of address space could not be had (errno {ctypes.get_errno()})")
        weakref.finalize(self, _libc().munmap, self.address, size)

    def open(self, offset: int, size: int) -> int:
        """Make whole pages readable and writable, all zero; return their address."""
        if _libc().mprotect(self.address + offset, size, mmap.PROT_READ | mmap.PROT_WRITE):
            raise MemoryError(f"{size} bytes could not be made accessible (errno {ctypes.get_errno()})")
        return self.address + offset
