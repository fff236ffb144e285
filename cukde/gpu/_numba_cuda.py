"""Numba CUDA on CuPy's arrays and its current stream. Imported at the first call that needs it: it takes a second."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import cupy as cp
import numba
import numpy as np

from cukde import _compile

# Numba 0.68.0 asks NumPy for `row_stack`, which 2.5 does not have.
if numba.__version__ == "0.68.0" and np.lib.NumpyVersion(np.__version__) >= "2.5.0":
    raise ImportError(
        f"one dimension on the GPU needs Numba CUDA, and Numba 0.68.0 does not work with NumPy {np.__version__}: "
        "install numba>=0.68.1 or numpy<2.5"
    )
try:
    from numba import cuda
except Exception as error:  # without a CUDA runtime it is a DynamicLibNotFoundError, which is no ImportError
    raise ImportError(
        "one dimension on the GPU needs Numba CUDA and its libraries: install cukde[cuda13] or cukde[cuda12], "
        f"which bring numba-cuda[cu13] or numba-cuda[cu12]; importing numba.cuda gave {error!r}"
    ) from error

_LEGACY_DEFAULT = 1  # CUDA's handle of the stream that CuPy calls 0 and for which Numba may take another


class Specialisation(NamedTuple):
    """A kernel: what makes it, and of what."""

    make: Callable[..., Any]  # cached
    arguments: tuple[Any, ...]

    @property
    def kernel(self) -> _compile.Kernel:
        """What tells it from all others."""
        names = self.make.__wrapped__.__code__.co_varnames  # type: ignore[attr-defined]
        defines = tuple((name, str(value)) for name, value in zip(names, self.arguments, strict=False))
        return _compile.Kernel(self.make.__module__.rpartition(".")[2], self.make.__name__, defines)


def array(a: Any) -> Any:
    """Numba's view of a CuPy array, made without a copy and without waiting; worth keeping for several launches."""
    return cuda.as_cuda_array(a, sync=False)


def launch(chosen: Specialisation, grid: tuple[int, ...], threads: int, *args: Any) -> None:
    """Launch a kernel on CuPy's current device and stream; ``args`` are scalars and what :func:`array` made.

    In a rehearsal it is compiled and loaded instead.
    """
    kernel = chosen.make(*chosen.arguments)
    if _compile.noted(chosen.kernel):
        _load(kernel, args)
    else:
        _run(kernel, grid, threads, args)


def _run(kernel: Any, grid: tuple[int, ...], threads: int, args: tuple[Any, ...]) -> None:
    _configured(kernel, grid, threads, cp.cuda.get_current_stream().ptr or _LEGACY_DEFAULT)(*args)


def _load(kernel: Any, args: tuple[Any, ...]) -> None:
    kernel.compile(tuple(kernel.typeof_pyval(a) for a in args)).bind()


@functools.lru_cache(1024)
def _configured(kernel: Any, grid: tuple[int, ...], threads: int, stream: int) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Grid size .* under-utilization")  # small data are no news
        return kernel[grid, threads, cuda.external_stream(stream)]


def place() -> tuple[int, int]:
    """Device and stream: what was copied to the one, in the order of the other, is there."""
    return cp.cuda.runtime.getDevice(), cp.cuda.get_current_stream().ptr
