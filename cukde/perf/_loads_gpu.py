"""What the peaks of a GPU are measured by: launcher of ``kernels_cu/peaks*.cu``, a copy, and products by cuBLAS."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.cost.cost import Unit
from cukde.core.cost.peaks import Load
from cukde.core.gpu import compile as core_compile, device, gemm as core_gemm
from cukde.core.gpu.launch import C_TYPE, DOUBLE, FLOAT, Specialisation
from cukde.perf import _published

SAME: dict[Unit, Unit] = {}
"""What else a unit's measurement is of: of a GPU, every unit has its own."""

_THREADS = 256  # of a block
_BLOCKS = 4  # of a multiprocessor: every one since 7.5 holds so many at a time
_STEPS = 16  # of a chain, in a turn of its loop

Chained = Literal["fma", "float64", "exponential", "exponential_f64"]
Product = Literal["f16", "tf32", "f64", "s8", "b1"]


class _Chain(NamedTuple):
    """A kernel of ``peaks.cu``, and how it is launched to take about a millisecond on a large GPU."""

    real: np.dtype
    exponential: bool
    chains: int  # few, of many instructions
    repeats: int
    operations: int  # of a step


_CHAINS: dict[Chained, _Chain] = {
    "fma": _Chain(FLOAT, False, 16, 1024, 2),
    "float64": _Chain(DOUBLE, False, 16, 512, 2),
    "exponential": _Chain(FLOAT, True, 16, 128, 1),
    "exponential_f64": _Chain(DOUBLE, True, 4, 128, 1),
}

# Of one product of a warp, 16 by that by 8. Of each, 16 in a turn of the loop.
_DEPTHS: dict[Product, int] = {"f16": 16, "tf32": 8, "f64": 8, "s8": 32, "b1": 256}
_SUMS: dict[Product, Any] = {"f16": np.float32, "tf32": np.float32, "f64": np.float64, "s8": np.uint32, "b1": np.uint32}
_PRODUCTS, _PRODUCT_REPEATS = 16, 4096

# Of x = a x + b, which stays below 1.
_FACTORS = (-0.9990234375, 1.0)

_COPIED = 2**29  # bytes: far more than any cache
_READ_BY_A_BLOCK = 2**24  # bytes of the cache
_LAUNCHES = 1000

# Rows of square matrices whose product takes milliseconds and fills the GPU.
_ROWS: dict[core_gemm.Format, int] = {"f16": 8192, "f32": 4096, "f64": 4096}
_NUMPY: dict[core_gemm.Format, Any] = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
_TILE = 1024  # of random numbers, of which the matrices are made


def products_of(capability: tuple[int, int]) -> tuple[Product, ...]:
    """Tensor products that a GPU has in hardware, and at more than the rate of its other units."""
    if capability < (8, 0):
        return ()  # m16n8k16 and the others begin there
    found: list[Product] = ["f16", "tf32", "s8"]
    if capability in ((8, 0), (9, 0), (10, 0)):
        found.append("f64")
    if capability < (10, 0):
        found.append("b1")
    return tuple(found)


def chain(unit: Chained, blocks: int, repeats: int, factors: Any) -> Any:
    """Launch a kernel of ``peaks.cu``; the sums of the chains, one a thread."""
    sums = cp.empty(blocks * _THREADS, factors.dtype)
    _chain_kernel(unit).launch((blocks,), (_THREADS,), factors, sums, repeats)
    return sums


def product(kind: Product, blocks: int, repeats: int, operands: Any) -> Any:
    """Launch a kernel of ``peaks_products.cu``; the sums of the accumulators, one a thread."""
    sums = cp.empty(blocks * _THREADS, _SUMS[kind])
    _product_kernel(kind).launch((blocks,), (_THREADS,), operands, sums, repeats)
    return sums


def read(data: Any, blocks: int, repeats: int) -> Any:
    """Launch ``peaks_cache.cu``; the sums of what was read, one a thread.

    ``data`` are words of 4 bytes, a power of two from 2^13.
    """
    sums = cp.empty(blocks * _THREADS, np.uint32)
    _CACHE_KERNEL.launch((blocks,), (_THREADS,), data, sums, data.size // 4, repeats)
    return sums


def loads() -> Iterator[Load]:
    """What to time on the current device, unit by unit; the memory of one is free before the next."""
    blocks = _BLOCKS * device.multiprocessors()
    yield _copy()
    yield _cache(blocks)
    for unit, of in _CHAINS.items():
        factors = cp.asarray(np.array(_FACTORS, of.real))
        steps = blocks * _THREADS * of.chains * _STEPS * of.repeats
        yield Load(unit, of.operations * steps, partial(chain, unit, blocks, of.repeats, factors))
    operands = cp.asarray(np.random.default_rng(0).integers(2**32, size=6, dtype=np.uint32))
    for kind in products_of(device.capability()):
        multiplied = 2 * 16 * 8 * _DEPTHS[kind]
        products = blocks * _THREADS // 32 * _PRODUCTS * _PRODUCT_REPEATS
        tensor: Unit = f"tensor_{kind}"  # type: ignore[assignment]
        yield Load(tensor, products * multiplied, partial(product, kind, blocks, _PRODUCT_REPEATS, operands))
    for numbers in _ROWS:
        yield _matrix_product(numbers)
    yield _launches()


def _copy() -> Load:
    free, _ = cp.cuda.runtime.memGetInfo()
    size = min(_COPIED, free // 4)
    a, b = cp.zeros(size, np.uint8), cp.zeros(size, np.uint8)
    return Load("memory", 2 * size, partial(cp.copyto, b, a))


def _cache(blocks: int) -> Load:
    size = 2 ** max(15, (device.cache_bytes() // 4).bit_length() - 1)
    data = cp.asarray(np.resize(np.arange(2**13, dtype=np.uint32), size // 4))
    repeats = max(1, _READ_BY_A_BLOCK // size)
    return Load("cache", blocks * repeats * size, partial(read, data, blocks, repeats))


def _matrix_product(numbers: core_gemm.Format) -> Load:
    rows = _ROWS[numbers]
    random = np.random.default_rng(0).standard_normal((_TILE, _TILE)).astype(_NUMPY[numbers])
    # Of float16 numbers the product takes the bits.
    A = cp.tile(cp.asarray(random.view(np.uint16) if numbers == "f16" else random), (rows // _TILE,) * 2)
    C = cp.zeros((rows, rows), np.float64 if numbers == "f64" else np.float32)
    gemm: Unit = f"gemm_{numbers}"  # type: ignore[assignment]
    call = partial(core_gemm.add_product, C, A, core_gemm.Block(0, 0, rows, rows), A, numbers)
    return Load(gemm, 2 * rows**3, call)


def _launches() -> Load:
    factors = cp.asarray(np.array(_FACTORS, np.float32))
    sums = cp.empty(_THREADS, np.float32)

    def launch() -> None:
        for _ in range(_LAUNCHES):
            _chain_kernel("fma").launch((1,), (_THREADS,), factors, sums, 0)
        cp.cuda.get_current_stream().synchronize()

    return Load("launch", _LAUNCHES, launch, on_host=True)


@core_compile.specialised(_CHAINS)
def _chain_kernel(unit: Chained) -> Specialisation:
    of, name = _CHAINS[unit], f"peaks_{unit}"
    defines = core_compile.macros(KERNEL=name, REAL=C_TYPE[of.real], EXPONENTIAL=of.exponential, CHAINS=of.chains)
    return Specialisation("perf/peaks", name, defines, "2P i")


@core_compile.specialised(_DEPTHS)
def _product_kernel(kind: Product) -> Specialisation:
    name = f"peaks_{kind}_products"
    return Specialisation("perf/peaks_products", name, core_compile.macros(KERNEL=name, PRODUCT=kind), "2P i")


_CACHE_KERNEL = Specialisation("perf/peaks_cache", "peaks_cache", (), "2P 2i")
core_compile.listed(lambda: (_CACHE_KERNEL,))


def versions() -> str:
    """The software that counts."""
    driver, runtime = (
        f"{number // 1000}.{number % 1000 // 10}"
        for number in (cp.cuda.runtime.driverGetVersion(), cp.cuda.runtime.runtimeGetVersion())
    )
    return f"driver for CUDA {driver}, CUDA {runtime}, CuPy {cp.__version__}"


def described(rates: Mapping[Unit, float]) -> dict[str, Any]:
    """What peaks say of the device beside its rates."""
    multiprocessors, capability = device.multiprocessors(), device.capability()
    lanes = _published.LANES.get(capability)
    # Exponentials keep their unit busy in every cycle: they tell the clock under load.
    clock = device.rated_clock() if lanes is None else rates["exponential"] / (multiprocessors * lanes.exponential)
    sizes = {"multiprocessors": multiprocessors, "clock": clock, "cache_bytes": device.cache_bytes()}
    return {"name": device.name(), "backend": "gpu", "capability": capability, **sizes}
