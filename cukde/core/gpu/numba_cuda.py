"""Numba CUDA on CuPy's arrays and its current stream. Imported at the first call that needs it: it takes a second."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import cupy as cp
import numba
import numpy as np
from cupy_backends.cuda.api import driver

from cukde.core import extras
from cukde.core.gpu import compile as core_compile

# Numba 0.68.0 asks NumPy for `row_stack`, which 2.5 does not have.
if numba.__version__ == "0.68.0" and np.lib.NumpyVersion(np.__version__) >= "2.5.0":
    raise ImportError(
        f"one dimension on the GPU needs Numba CUDA, and Numba 0.68.0 does not work with NumPy {np.__version__}: "
        "install numba~=0.68.1 or numpy<2.5"
    )
try:
    from numba import cuda as cuda
except Exception as error:  # without a CUDA runtime it is a DynamicLibNotFoundError, which is no ImportError
    raise ImportError(
        f"one dimension on the GPU needs Numba CUDA and its libraries: {extras.install('cuda13')}, or for CUDA 12 "
        f"{extras.install('cuda12')}; importing numba.cuda gave {error!r}"
    ) from error


class Specialisation(NamedTuple):
    """A kernel: what makes it, and of what."""

    make: Callable[..., Any]  # cached
    arguments: tuple[Any, ...]

    @property
    def kernel(self) -> core_compile.Kernel:
        """Its key."""
        names = self.make.__wrapped__.__code__.co_varnames  # type: ignore[attr-defined]
        defines = tuple((name, str(value)) for name, value in zip(names, self.arguments, strict=False))
        return core_compile.Kernel(self.make.__module__.rpartition(".")[2], self.make.__name__, defines)


def launch(chosen: Specialisation, grid: tuple[int, ...], threads: int, *args: Any) -> None:
    """Launch a kernel on CuPy's current device and stream; ``args`` are CuPy arrays, C-contiguous, and scalars.

    In a rehearsal it is compiled and loaded instead.
    """
    if core_compile.is_rehearsal():
        core_compile.note(chosen.kernel)
        _load(chosen, args)
    else:
        _run(chosen, grid, threads, args)


class _Loaded:
    """A kernel on a device for arguments of some types, and memory to hand it their values.

    Numba's own launch takes 5 to 10 us for each argument. Its kernels take numbers of eight bytes or less each, so the
    driver can be given them at once: of a scalar its value, of an array its owners, size, item size, address, shape and
    strides.
    """

    def __init__(self, kernel: Any, types: tuple[Any, ...]) -> None:
        compiled = kernel.compile(tuple(map(_numba_type, types)))
        compiled.bind()
        handle = compiled._codelibrary.get_cufunc().handle
        self.function = int(getattr(handle, "value", handle))  # some versions wrap it for ctypes
        self._kept = compiled
        self._dimensions = [kind[1] if isinstance(kind, tuple) else 0 for kind in types]
        self._items = [np.dtype(kind[0]).itemsize if isinstance(kind, tuple) else 0 for kind in types]
        self._layout = struct.Struct("=" + "".join(map(_format, types)))
        count = self._layout.size // 8
        self._memory = ctypes.create_string_buffer(self._layout.size)
        first = ctypes.addressof(self._memory)
        self._pointers = (ctypes.c_void_p * count)(*(first + 8 * i for i in range(count)))
        self.parameters = ctypes.addressof(self._pointers)

    def write(self, args: tuple[Any, ...]) -> None:
        """Lay out the values of the arguments of the next launch."""
        values: list[Any] = []
        for a, dimensions, item in zip(args, self._dimensions, self._items, strict=True):
            if dimensions == 0:
                values.append(a)
            elif dimensions == 1:  # C-contiguous, as all are
                size = a.size
                values += (0, 0, size, item, a.data.ptr, size, item)
            else:
                values += (0, 0, a.size, item, a.data.ptr, *a.shape, *a.strides)
        self._layout.pack_into(self._memory, 0, *values)


_held: dict[tuple[Specialisation, int], _Loaded] = {}
# One thread loads at a time: of two equal kernels the driver may make one, which Numba would then unload twice.
_loading = threading.Lock()
_launching = threading.Lock()  # the memory of a kernel's parameters is free again when its launch returns


def _run(chosen: Specialisation, grid: tuple[int, ...], threads: int, args: tuple[Any, ...]) -> None:
    device, stream = place()
    loaded = _held.get((chosen, device)) or _load(chosen, args)
    x, y, z = (*grid, 1, 1)[:3]
    with _launching:
        loaded.write(args)
        driver.launchKernel(loaded.function, x, y, z, threads, 1, 1, 0, stream, loaded.parameters, 0)


def _load(chosen: Specialisation, args: tuple[Any, ...]) -> _Loaded:
    """Return a kernel on the current device. A specialisation always has arguments of the same types."""
    key = chosen, place()[0]
    loaded = _held.get(key)
    if loaded is None:
        with _loading:
            loaded = _held.get(key)
            if loaded is None:
                loaded = _held[key] = _Loaded(chosen.make(*chosen.arguments), tuple(map(_type, args)))
    return loaded


def _type(a: Any) -> Any:
    """What a kernel is compiled for: of an array dtype and dimensions, of a scalar its type."""
    if isinstance(a, cp.ndarray):
        return a.dtype.char, a.ndim
    return next(kind for kind in (bool, int, float) if isinstance(a, kind))


def _numba_type(kind: Any) -> Any:
    if isinstance(kind, tuple):
        return numba.types.Array(numba.from_dtype(np.dtype(kind[0])), kind[1], "C")
    return {bool: numba.types.boolean, int: numba.types.int64, float: numba.types.float64}[kind]


def _format(kind: Any) -> str:
    """Layout of a value for ``struct``, in units of eight bytes."""
    if isinstance(kind, tuple):
        return f"{5 + 2 * kind[1]}q"
    return {bool: "q", int: "q", float: "d"}[kind]


def place() -> tuple[int, int]:
    """Device and stream: what was copied to the one, in the order of the other, is there."""
    return cp.cuda.runtime.getDevice(), cp.cuda.get_current_stream().ptr
