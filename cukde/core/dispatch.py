"""The backend of an array. CuPy is imported only when a caller already holds a GPU array or names the GPU."""

from __future__ import annotations

import functools
import importlib
from types import ModuleType
from typing import Any

import numpy as np

from cukde.core.cpu import arrays as cpu
from cukde.core.gpu import kernel_cache

# DLPack's device codes (dlpack.h): ordinary and pinned host memory, and CUDA device and managed memory.
_DLPACK_HOST = (1, 3)
_DLPACK_CUDA = (2, 13)

_ON_HOST = (np.ndarray, np.generic, list, tuple, int, float, str)


def is_gpu_array(a: Any) -> bool:
    """Whether ``a`` is in CUDA memory. Nothing is imported to tell."""
    if a is None or isinstance(a, _ON_HOST):
        return False
    kind = type(a)
    if kind.__module__ == "cupy" and kind.__name__ == "ndarray":  # its interface takes a microsecond to make
        return True
    if hasattr(a, "__cuda_array_interface__") or hasattr(a, "to_cupy"):
        return True
    if hasattr(a, "__dlpack_device__"):
        try:
            device = int(a.__dlpack_device__()[0])
        except (ValueError, RuntimeError, BufferError) as error:  # a device that has no memory, such as PyTorch's meta
            raise TypeError(
                f"arrays must live in host memory or on a CUDA device; got {kind.__name__}: {error}"
            ) from None
        if device in _DLPACK_CUDA:
            return True
        if device not in _DLPACK_HOST:
            raise TypeError(f"arrays must live in host memory or on a CUDA device; got DLPack device type {device}")
    return False


def backend(X: Any, /, first: str = "X", **others: Any) -> ModuleType:
    """Return the backend of ``X``, the argument named ``first``: the module ``arrays`` of ``core.gpu`` or ``core.cpu``.

    Its attribute ``name`` is "gpu" or "cpu". ``others`` are the remaining array arguments by name. A GPU backend moves
    them to the GPU. Beside an ``X`` on the CPU a GPU array is an error, since the result would be on another device.
    """
    if is_gpu_array(X):
        return _gpu()
    for name, other in others.items():
        if is_gpu_array(other):
            raise TypeError(
                f"{name} is on the GPU but {first} is not; write cupy.asarray({first}) to compute on the GPU, "
                f"or cupy.asnumpy({name}) to compute on the CPU"
            )
    return cpu


@functools.cache
def passes(family: str, backend: ModuleType, module: str = "passes") -> ModuleType:
    """Return a module of a family, such as "cukde.kendall", for a backend; the first call loads it."""
    return importlib.import_module(f"{family}.{backend.name}.{module}")


def named(name: str | None, argument: str = "backend") -> ModuleType:
    """Return the backend "gpu" or "cpu" by its name; None is the GPU if one works, else the CPU.

    ``argument`` is the name of the caller's argument.
    """
    if name is not None and (not isinstance(name, str) or name not in ("gpu", "cpu")):
        raise ValueError(f'{argument} must be "gpu", "cpu" or None; got {name!r}')
    reason = None if name == "cpu" else why_no_gpu()
    if name == "gpu" and reason is not None:
        raise RuntimeError(
            f'{argument}="gpu" needs a working CUDA GPU: {reason}; see `cukde info`, or write {argument}="cpu"'
        )
    return cpu if name == "cpu" or reason is not None else _gpu()


def _gpu() -> ModuleType:
    kernel_cache.ensure()
    from cukde.core.gpu import arrays

    return arrays


def why_no_gpu() -> str | None:
    """Return why no GPU works here, or None if one does."""
    try:
        kernel_cache.ensure()
        import cupy

        return None if cupy.cuda.is_available() else "CuPy finds none"
    except Exception as error:  # a missing package, library or driver
        return f"CuPy does not load: {error}"


def to_host(a: Any) -> Any:
    """Copy a GPU array to a NumPy array; return anything else unchanged."""
    if not is_gpu_array(a):
        return a
    gpu = _gpu()
    return gpu.asnumpy(gpu.asarray(a))
