"""Make the GPU backend run on NumPy arrays: its launchers and kernels as they are, the device emulated."""

from __future__ import annotations

import functools
import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy import special

import cukde
from tests.host_emulation import _simulator, _streams
from tests.host_emulation._arrays import address_in_allocation
from tests.host_emulation._kernel import kernel

# Of the emulated device: the features of sm_90, and few multiprocessors, so that small data are split.
_NUMBER = -1  # no device has it: what is kept for one is not mistaken for the other's
_CAPABILITY = (9, 0)
_MULTIPROCESSORS = 6
_SHARED_BYTES = 227 * 1024
_MEMORY_BYTES = 80 * 2**30

_ARRAY_FUNCTIONS = ("asarray", "asnumpy", "device_of", "erfcx", "release_memory", "special", "synchronize")


class NumpyAsCupy(ModuleType):
    """NumPy under CuPy's name: only what both have, and fresh memory holds NaN, as a device's may."""

    def __init__(self, cupy: ModuleType | None) -> None:
        super().__init__("cupy")
        self._cupy = cupy

    def __getattr__(self, name: str) -> Any:
        if self._cupy is not None and not hasattr(self._cupy, name):
            raise AttributeError(f"CuPy has no {name!r}")
        return getattr(np, name)

    @staticmethod
    def asnumpy(a: np.ndarray) -> np.ndarray:
        """Return the array itself."""
        return a

    @staticmethod
    def empty(*args: Any, **options: Any) -> np.ndarray:
        """Return memory of all ones, which is NaN in floating types."""
        out = np.empty(*args, **options)
        out[...] = np.frombuffer(b"\xff" * out.itemsize, out.dtype)[0]
        return out

    def empty_like(self, prototype: Any, **options: Any) -> np.ndarray:
        """Return memory as :meth:`empty` does."""
        out = np.empty_like(prototype, **options)
        out[...] = self.empty((), out.dtype)
        return out


def _add_product(products: Any, P: Any, of: Any, factors: Any, numbers: str, *, transposed: bool = False) -> None:
    """``cukde.core.gpu.gemm.add_product``, 16-bit numbers in float64."""

    def as_numbers(bits: np.ndarray) -> np.ndarray:
        if numbers in ("f32", "f64"):
            return bits
        if numbers == "f16":
            return bits.view(np.float16).astype(np.float64)
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)

    block = as_numbers(P[: of.height, : of.width])
    rows, columns = slice(of.top, of.top + of.height), slice(of.left, of.left + of.width)
    if transposed:
        block, rows, columns = block.T, columns, rows
    products[rows] += block @ as_numbers(factors[columns])


def _gram(out: Any, A: Any, B: Any, of: Any, dimensions: slice, *, adds: bool = False) -> None:
    """``cukde.core.gpu.gemm.gram``."""
    block = out[: of.height, : of.width]
    product = A[of.top : of.top + of.height, dimensions] @ B[of.left : of.left + of.width, dimensions].T
    block[...] = block + product if adds else product


def _packed(signature: Any, args: tuple[Any, ...]) -> None:
    """Pack the arguments of a launch, which the driver gets in a buffer: it takes no types but those declared."""
    launch = importlib.import_module("cukde.core.gpu.launch")
    numbers = []
    for letter, a in zip(signature.types, args, strict=True):
        if letter == "P":
            assert a is None or isinstance(a, np.ndarray | launch.Piece), f"a pointer from a {type(a).__name__}"
        numbers.append(0 if letter == "P" else launch._single(a) if letter == "f" else a)
    signature._pack(signature._buffer(), 0, *6 * (0,), *numbers)


class _Forgetful(dict[Any, Any]):
    """Keeps nothing: a test may put another kernel in the place of one that was launched before."""

    def __setitem__(self, key: Any, value: Any) -> None:
        pass


@functools.cache
def _on_cupy() -> tuple[str, ...]:
    """Names of all modules that import CuPy as ``cp``, when they are imported themselves: each family has some."""
    root = Path(cukde.__file__).parent
    files = (file for file in root.rglob("*.py") if "\nimport cupy as cp\n" in file.read_text(encoding="utf-8"))
    return tuple(".".join(file.relative_to(root.parent).with_suffix("").parts) for file in files)


def use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send every call on NumPy arrays through the GPU backend, with emulated kernels, for one test."""
    try:
        cupy = importlib.import_module("cupy")
    except ImportError:
        cupy = None
        monkeypatch.setitem(sys.modules, "cupy", NumpyAsCupy(None))
    gpu = importlib.import_module("cukde.core.gpu.arrays")
    cpu = importlib.import_module("cukde.core.cpu.arrays")
    device = importlib.import_module("cukde.core.gpu.device")
    numba_cuda = importlib.import_module("cukde.core.gpu.numba_cuda")
    conv1d_fft = importlib.import_module("cukde.conv1d.gpu.fft")
    launch = importlib.import_module("cukde.core.gpu.launch")
    numpy_as_cupy = NumpyAsCupy(cupy)

    for name in _on_cupy():
        monkeypatch.setattr(importlib.import_module(name), "cp", numpy_as_cupy)
    monkeypatch.setattr(gpu, "xp", numpy_as_cupy)
    for name in _ARRAY_FUNCTIONS:
        monkeypatch.setattr(gpu, name, getattr(cpu, name))
    monkeypatch.setattr(device, "current", lambda: _NUMBER)
    monkeypatch.setattr(device, "stream", lambda: 0)
    monkeypatch.setattr(device, "capability", lambda: _CAPABILITY)
    monkeypatch.setattr(device, "multiprocessors", lambda: _MULTIPROCESSORS)
    monkeypatch.setattr(device, "shared_bytes_of_block", lambda: _SHARED_BYTES)
    monkeypatch.setattr(device, "memory_bytes", lambda: _MEMORY_BYTES)
    monkeypatch.setattr(device, "capturing", lambda: False)
    monkeypatch.setattr(device, "address", address_in_allocation)
    monkeypatch.setattr(device, "holder", lambda _: _NUMBER)
    monkeypatch.setattr(
        "cukde.core.gpu.compile.load",
        lambda wanted: kernel(wanted.stem, wanted.name, wanted.defines, wanted.shared_bytes),
    )
    monkeypatch.setattr("cukde.core.gpu.compile.begin", lambda kernels, **likely: None)
    monkeypatch.setattr(launch, "_loaded", _Forgetful())
    typed = launch.Signature._typed
    monkeypatch.setattr(launch.Signature, "_typed", lambda self, args: _packed(self, args) or typed(self, args))
    _simulator.use(monkeypatch, numba_cuda)
    _streams.use(monkeypatch, importlib.import_module("cukde.core.gpu.transfers"))
    monkeypatch.setattr("cukde.core.gpu.gemm.add_product", _add_product)
    monkeypatch.setattr("cukde.core.gpu.gemm.gram", _gram)
    monkeypatch.setattr(conv1d_fft, "_erfc", special.erfc)
    monkeypatch.setattr("cukde.core.dispatch.backend", lambda *arrays, **others: gpu)
