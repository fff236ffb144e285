"""Kernels with the types of their parameters, and their launches: parameters are packed at once into one buffer.

CuPy makes an object of every argument of a kernel and asks it for its address; of small data that takes longer than the
kernels work. Here the types of a kernel's parameters are written down once, beside its name, and one call of ``struct``
packs a launch.
"""

from __future__ import annotations

import ctypes
import functools
import re
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile, device as core_device
from cukde.core.gpu.scratch import Piece

# What says to cuLaunchKernel where the parameters are (its argument `extra`): CU_LAUNCH_PARAM_BUFFER_POINTER and the
# address, CU_LAUNCH_PARAM_BUFFER_SIZE and where the size stands, CU_LAUNCH_PARAM_END; then the size. Parameters follow.
_BUFFER_POINTER, _BUFFER_SIZE, _END = 1, 2, 0
_HEAD = "6P"
_SIZE_AT = struct.calcsize("5P")
_PARAMETERS_AT = struct.calcsize(_HEAD)

_SCALARS: dict[str, type] = {
    **{"i": np.int32, "I": np.uint32, "q": np.int64, "Q": np.uint64},
    **{"f": np.float32, "d": np.float64},
}


class _Thread(threading.local):
    """What a thread has done."""

    def __init__(self) -> None:
        self.devices: set[int | None] = set()  # that it has launched on by CuPy, which makes their contexts current


_thread = _Thread()


class Signature:
    """Types of a kernel's parameters, in the letters of :mod:`struct` and with its alignment, which is C's.

    ``P`` is a pointer, ``i`` an int, ``q`` a long long, ``I`` and ``Q`` the same without a sign, ``f`` a float and
    ``d`` a double; ``"3P 2q f"`` are six parameters.
    """

    def __init__(self, types: str) -> None:
        expanded = re.sub(r"(\d+)(\w)", lambda match: int(match[1]) * match[2], types).replace(" ", "")
        self.types = expanded
        self._leading = len(expanded) - len(expanded.lstrip("P"))  # pointers that come first
        self._others = tuple(i for i, letter in enumerate(expanded) if letter == "P" and i >= self._leading)
        layout = struct.Struct(_HEAD + expanded)
        self._pack = layout.pack_into
        self.size = layout.size - _PARAMETERS_AT
        self._buffer = ctypes.c_char * layout.size

    def launch(self, kernel: Any, grid: tuple[int, ...], block: tuple[int, ...], args: Sequence[Any]) -> None:
        """Launch what ``core_compile.kernel`` returned on the current device and stream.

        A pointer is given as an array, a piece of scratch memory, or None, which is a null pointer. Any number will do
        as a scalar; a float that is beyond float32 is infinite there.
        """
        handle, shared_bytes, device = _function(kernel)
        if device not in _thread.devices:
            kernel(grid, block, self._typed(args))
            if device is not None:
                _thread.devices.add(device)
            return
        values = [0 if a is None else a.data.ptr for a in args[: self._leading]]
        values += args[self._leading :]
        for i in self._others:
            values[i] = 0 if args[i] is None else args[i].data.ptr
        # A buffer of its own for every launch, as other threads may launch the same kernel; the driver copies it.
        _buffer, start = self._filled(values)
        x, y, z = (*grid, 1, 1)[:3]
        i, j, k = (*block, 1, 1)[:3]
        cuda = cp.cuda
        stream = cuda.get_current_stream().ptr
        cuda.driver.launchKernel(handle, x, y, z, i, j, k, shared_bytes, stream, 0, start)

    def _filled(self, values: Sequence[Any]) -> tuple[Any, int]:
        """Return a buffer with what the driver is given, and its address."""
        buffer = self._buffer()
        start = ctypes.addressof(buffer)
        parameters, size = start + _PARAMETERS_AT, start + _SIZE_AT
        try:
            self._pack(buffer, 0, _BUFFER_POINTER, parameters, _BUFFER_SIZE, size, _END, self.size, *values)
        except OverflowError:  # struct refuses floats that float32 does not hold
            values = [_single(a) if letter == "f" else a for letter, a in zip(self.types, values, strict=True)]
            self._pack(buffer, 0, _BUFFER_POINTER, parameters, _BUFFER_SIZE, size, _END, self.size, *values)
        return buffer, start

    def ready(
        self, kernel: Any, grid: tuple[int, ...], block: tuple[int, ...], scalars: Sequence[Any]
    ) -> Callable[[Sequence[Any]], None] | None:
        """Return a launch by this thread that takes the arrays alone; None where it does not go to the driver yet."""
        handle, shared_bytes, device = _function(kernel)
        if device is None or device not in _thread.devices or self._others:
            return None
        buffer, start = self._filled([*self._leading * (0,), *scalars])
        sizes = *(*grid, 1, 1)[:3], *(*block, 1, 1)[:3], shared_bytes
        pack, launch = struct.Struct(f"{self._leading}P").pack_into, cp.cuda.driver.launchKernel

        def launched(arrays: Sequence[Any]) -> None:
            pack(buffer, _PARAMETERS_AT, *[0 if a is None else a.data.ptr for a in arrays])
            launch(handle, *sizes, cp.cuda.get_current_stream().ptr, 0, start)

        return launched

    def _typed(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """Arguments for a kernel that is called."""
        return tuple(_argument(letter, a) for letter, a in zip(self.types, args, strict=True))


def _argument(letter: str, a: Any) -> Any:
    """One argument for a kernel that is called: an array, an address, or a scalar of the parameter's type."""
    if letter == "f":
        return _single(a)
    if letter != "P":
        return _SCALARS[letter](a)
    if isinstance(a, Piece):
        return np.uint64(a.data.ptr)
    return np.uint64(0) if a is None else a


def _single(a: Any) -> np.float32:
    with np.errstate(over="ignore"):
        return np.float32(a)


@functools.lru_cache(maxsize=4096)
def _function(kernel: Any) -> tuple[int, int, int | None]:
    """Handle of a kernel of CuPy's, bytes of dynamic shared memory of its blocks, and the current device, its own.

    What stands in for a kernel, in a rehearsal or on the host, has no device and is called like any function.
    """
    shared_bytes = 0
    if isinstance(kernel, functools.partial):
        shared_bytes = kernel.keywords["shared_mem"]
        kernel = kernel.func
    function = getattr(kernel, "kernel", None)
    return (0, 0, None) if function is None else (int(function.ptr), shared_bytes, core_device.current())


_signature = functools.cache(Signature)


class Specialisation(NamedTuple):
    """A kernel of a CUDA source as it is compiled, and the types of its parameters."""

    stem: str  # of its source
    name: str
    defines: core_compile.Defines
    types: str  # see Signature
    shared_bytes: int = 0  # of dynamic shared memory, a block

    def launch(self, grid: tuple[int, ...], block: tuple[int, ...], *args: Any) -> None:
        """Launch it on the current device and stream; for ``args`` see :meth:`Signature.launch`."""
        if core_compile.is_rehearsal():
            _signature(self.types).launch(self._kernel(), grid, block, args)
            return
        key = id(self), core_device.current()
        loaded = _loaded.get(key)
        if loaded is None:
            loaded = _Loaded(self, self._kernel(), _signature(self.types))
            _keep(key, loaded)
        loaded.signature.launch(loaded.kernel, grid, block, args)

    def _kernel(self) -> Any:
        return core_compile.kernel(self.stem, self.name, self.defines, self.shared_bytes)


def begin(*kernels: Specialisation, likely: bool = False) -> None:
    """Begin to compile those that the current device has not launched: what a pass is about to launch.

    ``likely``: perhaps it does not launch them. While a stream is captured, no thread beside may load any.
    """
    device = core_device.current()
    rehearsed = core_compile.is_rehearsal()
    missing = [kernel for kernel in kernels if rehearsed or (id(kernel), device) not in _loaded]
    if missing and not core_device.capturing():
        of_source = (core_compile.Kernel(*kernel[:3], kernel.shared_bytes) for kernel in missing)
        core_compile.begin(of_source, likely=likely)


class _Loaded(NamedTuple):
    """A kernel on a device."""

    specialisation: Specialisation  # which is kept, so that no other gets its identity
    kernel: Any
    signature: Signature


# By the identity of a specialisation and the device: to hash its macros takes as long as to launch it. By that of a
# Launch, the device and the thread, what is ready of it.
_loaded: dict[tuple[int, ...], Any] = {}
_MOST_LOADED = 4096


def _keep(key: tuple[int, ...], value: Any) -> None:
    if len(_loaded) >= _MOST_LOADED:
        _loaded.clear()
    _loaded[key] = value


class Launch(NamedTuple):
    """A launch that is worked out once for a size; its kernel takes the arrays first."""

    kernel: Specialisation
    grid: tuple[int, ...]
    block: tuple[int, ...]
    scalars: tuple[Any, ...]

    def __call__(self, *arrays: Any) -> None:
        """Launch on the current device and stream."""
        device = core_device.current()
        key = id(self), device, threading.get_ident()
        ready = _loaded.get(key)
        # A thread may have the number of one that has ended, but not what that has done.
        if ready is not None and ready.devices is _thread.devices and not core_compile.is_rehearsal():
            ready.launch(arrays)
            return
        self.kernel.launch(self.grid, self.block, *arrays, *self.scalars)
        loaded = _loaded.get((id(self.kernel), device))
        if loaded is not None:
            launch = loaded.signature.ready(loaded.kernel, self.grid, self.block, self.scalars)
            if launch is not None:
                _keep(key, _Ready(self, launch, _thread.devices))


class _Ready(NamedTuple):
    """A launch on a device by a thread that lacks the arrays alone."""

    of: Launch  # which is kept, so that no other gets its identity
    launch: Callable[[Sequence[Any]], None]
    devices: set[int | None]  # of the thread


FLOAT, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)

C_TYPE: dict[np.dtype, str] = {FLOAT: "float", DOUBLE: "double"}


def at_least(size: int, choices: Sequence[int]) -> int:
    """The smallest choice that holds ``size``, or the largest choice where none does."""
    return next((choice for choice in choices if size <= choice), choices[-1])


BITS: dict[np.dtype, int] = {np.dtype(np.float16): 16, np.dtype(np.float32): 32, np.dtype(np.float64): 64}
"""Of a number in memory: ``STORAGE`` of ``storage.cuh``."""


ACTIVATIONS = {None: 0, "silu": 1, "gelu": 2}
"""Numbers that kernels know them by."""
