"""Launch an emulated kernel on NumPy arrays, after checking its arguments."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.host_emulation._arrays import GuardedArrays, LaunchError
from tests.host_emulation._stacks import MOST_THREADS, thread_stacks

_MOST_BLOCKS = (2**31 - 1, 65535, 65535)
_MOST_THREADS_A_SIDE = (1024, 1024, 64)
_MOST_SHARED_BYTES = 227 * 1024  # of a block of sm_90


class EmulatedKernel:
    """A kernel of one compiled library, called as ``kernel(grid, block, args, shared_mem=bytes)``."""

    def __init__(self, library: ctypes.PyDLL, name: str) -> None:
        self.name = name
        self.parameters: list[str] = library.emulated_parameters().decode().split()
        self._launch = library.emulated_launch

    def __call__(self, grid: Sequence[int], block: Sequence[int], args: Sequence[Any], *, shared_mem: int = 0) -> None:
        """Run every block of the grid, one after another, and write the arrays back."""
        grid_size, block_size = _size("grid", grid, _MOST_BLOCKS), _size("block", block, _MOST_THREADS_A_SIDE)
        if math.prod(block_size) > MOST_THREADS:
            raise LaunchError(f"{self.name}: a block has at most {MOST_THREADS} threads; got {tuple(block)}")
        if not 0 <= shared_mem <= _MOST_SHARED_BYTES:
            raise LaunchError(
                f"{self.name}: a block has at most {_MOST_SHARED_BYTES} bytes of shared memory; got {shared_mem}"
            )
        if len(args) != len(self.parameters):
            raise LaunchError(f"{self.name} takes {len(self.parameters)} arguments; got {len(args)}")
        for position, (parameter, value) in enumerate(zip(self.parameters, args, strict=True)):
            complaint = _complaint(parameter, value)
            if complaint:
                raise LaunchError(f"{self.name}: argument {position} {complaint}")

        shared = np.zeros(shared_mem, np.uint8)
        memory = GuardedArrays([*(a for a in args if isinstance(a, np.ndarray)), shared])
        names = [f"argument {i}" for i, a in enumerate(args) if isinstance(a, np.ndarray)] + ["dynamic shared memory"]
        held = [np.array(memory.address(a), np.uintp) if isinstance(a, np.ndarray) else _scalar(a) for a in args]
        pointers = (ctypes.c_void_p * len(held))(*(a.ctypes.data for a in held))
        reason = self._launch(
            (ctypes.c_uint * 3)(*grid_size),
            (ctypes.c_uint * 3)(*block_size),
            pointers,
            ctypes.c_void_p(memory.address(shared)),
            ctypes.c_size_t(shared_mem),
            ctypes.byref(thread_stacks()),
        )
        if reason is not None:
            found = memory.near(reason.decode())
            place = f": {found[1]} of {names[found[0]]}" if found else ""
            raise LaunchError(f"{self.name}: {reason.decode()}{place}")
        trespass = memory.trespass()
        if trespass:
            raise LaunchError(f"{self.name} wrote {trespass[1]} of {names[trespass[0]]}")
        memory.write_back()


def _size(name: str, size: Sequence[int], most: tuple[int, int, int]) -> list[int]:
    full = [int(n) for n in size] + [1] * (3 - len(size))
    if not size or len(full) > 3 or any(not 1 <= n <= limit for n, limit in zip(full, most, strict=True)):
        raise LaunchError(f"{name} must be one to three sizes, positive and at most {most}; got {tuple(size)}")
    return full


def _scalar(value: Any) -> np.ndarray:
    """Store a scalar as CuPy passes it: Python's int and float are 64 bits wide."""
    return np.asarray(value)


def _complaint(parameter: str, value: Any) -> str | None:
    """What is wrong with an argument for a parameter, in the notation of launch.hpp; None where it fits."""
    if parameter.startswith("*"):
        pointee = parameter.lstrip("*k")
        if not isinstance(value, np.ndarray):
            is_null = isinstance(value, int | np.integer) and value == 0 and np.asarray(value).itemsize == 8
            return None if is_null else f"must be an array (the kernel takes a pointer); got {value!r}"
        kind, size = pointee[0], int(pointee[1:])
        if kind == "v" or size == 1:  # structs, void and bytes may view any array
            return None
        if (value.dtype.kind == "f") != (kind == "f") or value.dtype.itemsize != size:
            return f"must be an array of {_type_name(pointee)}; got dtype {value.dtype}"
        return None
    if isinstance(value, np.ndarray):
        return f"must be a scalar of {_type_name(parameter)}; got an array of shape {value.shape}"
    dtype = _scalar(value).dtype
    if dtype.itemsize != int(parameter[1:]) or (parameter[0] != "v" and (dtype.kind == "f") != (parameter[0] == "f")):
        return f"must be a scalar of {_type_name(parameter)}; got {value!r} of dtype {dtype}"
    return None


def _type_name(parameter: str) -> str:
    kinds = {"f": "float", "i": "int", "u": "uint", "v": "struct of bits "}
    return f"{kinds[parameter[0]]}{8 * int(parameter[1:])}"
