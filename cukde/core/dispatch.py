"""Which backend an array belongs to. CuPy is imported only when a caller already holds a GPU array."""

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
    """Whether ``a`` lives in CUDA memory. NumPy arrays and plain Python objects answer without an import."""
    if a is None or isinstance(a, _ON_HOST):
        return False
    kind = type(a)
    if kind.__module__ == "cupy" and kind.__name__ == "ndarray":  # its interface takes a microsecond to make
        return True
    if hasattr(a, "__cuda_array_interface__") or hasattr(a, "to_cupy"):
        return True
    if hasattr(a, "__dlpack_device__"):
        device = int(a.__dlpack_device__()[0])
        if device in _DLPACK_CUDA:
            return True
        if device not in _DLPACK_HOST:
            raise TypeError(f"arrays must live in host memory or on a CUDA device; got DLPack device type {device}")
    return False


def backend(X: Any, /, first: str = "X", **others: Any) -> ModuleType:
    """Return the arrays that ``X``, the argument named ``first``, is one of, of :mod:`cukde.core.gpu` or ``core.cpu``.

    A family has modules of its own for each; ``name`` of what is returned, "cpu" or "gpu", tells which.

    ``others`` are the remaining array arguments by name: beside a GPU ``X`` they are moved there; beside
    a CPU ``X`` a GPU array is an error, since the answer would land on a device nobody asked for.
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
def passes(family: str, backend: ModuleType) -> ModuleType:
    """Return the module ``passes`` of a family, such as "cukde.kendall", for a backend; the first call loads it."""
    return importlib.import_module(f"{family}.{backend.name}.passes")


def named(name: str | None, argument: str = "backend") -> ModuleType:
    """Return the backend "gpu" or "cpu" where no array says which; None is the GPU where one works.

    ``argument`` is what the caller's argument is called.
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
    """The reason why no GPU works here, or None; CuPy may import where none does."""
    try:
        kernel_cache.ensure()
        import cupy

        return None if cupy.cuda.is_available() else "CuPy finds none"
    except Exception as error:  # a missing package, library or driver: whatever it is, it is the reason
        return f"CuPy does not load: {error}"


def to_host(a: Any) -> Any:
    """Copy a GPU array to a NumPy array; return anything else as it is."""
    if not is_gpu_array(a):
        return a
    gpu = _gpu()
    return gpu.asnumpy(gpu.asarray(a))
