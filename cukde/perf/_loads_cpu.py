"""Loads that measure the peaks of a CPU, on all threads: a copy, products by BLAS, and Numba loops in its caches."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from cukde.core.cost.cost import Unit
from cukde.core.cost.peaks import Load
from cukde.core.cpu import processor, threads as core_threads
from cukde.core.cpu.jit import OPTIONS as _JIT, njit
from cukde.density.pairs.cpu import tiles

SAME: dict[Unit, Unit] = {"fma": "gemm_f32", "float64": "gemm_f64"}
"""Units with the rate of another unit: products by BLAS stand for multiply-adds of vectors."""

_COPIED = 2**26, 2**28  # bytes, least and most: twice the cache if that is between
_ROWS, _PRODUCTS = 512, 8  # of square matrices, one product after the other
_NUMBERS, _REPEATS = 4096, 400  # of powers of 2: in the fastest cache
_KEYS, _WALKS = 4096, 400
_LAUNCHES = 50

# A round of xorshift waits for three shifts and three exclusive ors, one cycle each.
_ROUNDS, _CYCLES_OF_ROUND, _TRIALS = 10**6, 6, 5


@njit(fastmath=tiles._FAST, **_JIT)
def powers_of_minus(x: Any, repeats: Any) -> None:
    """Replace x by 2^-x, some times."""
    for _ in range(repeats):
        for i in range(x.size):
            x[i] = tiles._exp2(-x[i])


@njit(**_JIT)
def walk(keys: Any, limits: Any, repeats: Any) -> Any:
    """The ends of four walks through ``keys``; a step goes to the next key or, from a key below a limit, past it.

    A step depends on the key before, so no two steps of a walk run at a time; the four walks are independent. Keys are
    cyclic, and their number is a power of two.
    """
    last, one = np.uint64(keys.size - 1), np.uint64(1)  # unsigned, so that no index counts from the end
    a, b, c, d = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3)
    for _ in range(repeats * keys.size):
        a += one + np.uint64(keys[a & last] < limits[0])
        b += one + np.uint64(keys[b & last] < limits[1])
        c += one + np.uint64(keys[c & last] < limits[2])
        d += one + np.uint64(keys[d & last] < limits[3])
    return a + b + c + d


@njit(**_JIT)
def xorshift(x: Any, rounds: Any) -> Any:
    """The pseudo-random number after some rounds, each of which waits for the last."""
    for _ in range(rounds):
        x ^= x << np.uint64(13)
        x ^= x >> np.uint64(7)
        x ^= x << np.uint64(17)
    return x


def loads() -> Iterator[Load]:
    """Loads to time, unit by unit; the memory of each is free before the next."""
    threads = core_threads.count()
    yield copy(threads)
    units: dict[Unit, type] = {"gemm_f32": np.float32, "gemm_f64": np.float64}
    for unit, real in units.items():
        matrices = list(np.random.default_rng(0).standard_normal((threads, 3, _ROWS, _ROWS)).astype(real))
        # Each thread has its own products, as in the library: threads of one product wait for each other.
        call = on_all_threads(_multiply, matrices, blas=True)
        yield Load(unit, threads * _PRODUCTS * 2 * _ROWS**3, call, on_host=True)
    units = {"exponential": np.float32, "exponential_f64": np.float64}
    for unit, real in units.items():
        yield _exponentials(unit, real, threads)
    keys = [np.random.default_rng(t).integers(1000, size=_KEYS) for t in range(threads)]
    call = on_all_threads(lambda k: walk(k, np.array([300, 400, 600, 700]), _WALKS), keys)
    # A step of a walk counts as one comparison and two additions, without the load and the wrapping around.
    yield Load("scalar", threads * _WALKS * _KEYS * 4 * 3, call, on_host=True)
    yield Load("launch", _LAUNCHES, functools.partial(_launch, threads), on_host=True)


def _exponentials(unit: Unit, real: type, threads: int) -> Load:
    numbers: list[np.ndarray] = [np.linspace(0, 1, _NUMBERS, dtype=real) for _ in range(threads)]
    call = on_all_threads(lambda x: powers_of_minus(x, _REPEATS), numbers)
    return Load(unit, threads * _REPEATS * _NUMBERS, call, on_host=True)


def copy(threads: int) -> Load:
    """Of memory that is in no cache."""
    least, most = _COPIED
    size = min(most, max(least, 2 * processor.cache_bytes()))
    a, b = np.zeros(size, np.uint8), np.zeros(size, np.uint8)
    a[:], b[:] = 1, 1  # memory without a write may not be mapped
    parts = list(zip(np.array_split(b, threads), np.array_split(a, threads), strict=True))
    return Load("memory", 2 * size, on_all_threads(lambda part: np.copyto(*part), parts), on_host=True)


def _multiply(matrices: Any) -> None:
    A, B, C = matrices
    for _ in range(_PRODUCTS):
        np.matmul(A, B, out=C)


def on_all_threads(task: Callable[[Any], Any], arguments: list[Any], *, blas: bool = False) -> Callable[[], Any]:
    """A call that gives each thread a task with one of the arguments."""
    return lambda: core_threads.run(task, arguments, blas=blas)


def _launch(threads: int) -> None:
    """Distribute empty work to all threads, some times."""
    for _ in range(_LAUNCHES):
        core_threads.run(lambda _: None, range(threads))


def clock() -> float:
    """Cycles a second of a core whose shifts and exclusive ors take one cycle each, as on x86.

    It is measured, as virtual machines report a clock that their cores do not have.
    """
    seed = np.uint64(88172645463325252)
    xorshift(seed, 1)
    shortest = math.inf
    for _ in range(_TRIALS):
        begun = time.perf_counter()
        xorshift(seed, _ROUNDS)
        shortest = min(shortest, time.perf_counter() - begun)
    return _CYCLES_OF_ROUND * _ROUNDS / shortest


def name() -> str:
    """The name for the peaks of this processor, which depend on the number of threads."""
    return f"{processor.name()}, {core_threads.count()} threads"


def versions() -> str:
    """Versions of the software that matters."""
    import numba

    return f"NumPy {np.__version__}, Numba {numba.__version__}"


def described(rates: Mapping[Unit, float]) -> dict[str, Any]:
    """What peaks say of the processor beside its rates."""
    sizes = {"multiprocessors": core_threads.count(), "clock": clock(), "cache_bytes": processor.cache_bytes()}
    return {"name": name(), "backend": "cpu", "capability": (0, 0), **sizes}
