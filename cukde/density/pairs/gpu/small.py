"""Small problems in one launch, from the arguments of a call to its result: the launcher of ``small.cu``.

Sums are of differences, accurate wherever the data lie. What a look at the data would say comes back with the result: a
word in the host's memory that the kernel sets where it finds NaN, infinity, points too far apart, or weights that are
negative, all zero or of an extreme scale. The caller then starts anew with the checks that name what is wrong.
"""

from __future__ import annotations

import functools
import itertools
import math
import threading
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile, device as core_device, scratch, transfers
from cukde.core.gpu.launch import C_TYPE, DOUBLE, FLOAT, Specialisation, at_least
from cukde.core.plan import note
from cukde.density.pairs.gpu.finish import Density, DensityForm
from cukde.density.pairs.gpu.operands import LOG2_E
from cukde.density.plan import gpu as plan_gpu
from cukde.density.sums import Output

_THREADS = 256
_MOST_SPLITS, _ROWS_OF_SPLIT, _FEW_GROUPS = 64, 512, 4
# Of more than 32 columns, whose rows take longer: sums of splits are few but for moments.
_MOST_SPLITS_OF_SUMS, _ROWS_OF_WIDE_SPLIT, _BLOCKS = 256, 128, 2

_TYPES = "10P 3q 7i 2{real} 3d"
_DIMENSIONS = 4, 8, 16, 32  # of points that threads hold; 0 stands for more

_Output = Literal["SUM", "MOMENTS", "LAPLACE"]
_OUTPUTS: tuple[_Output, ...] = ("SUM", "MOMENTS", "LAPLACE")


class Arithmetic(NamedTuple):
    """What points are stored in, and what pairs are summed in."""

    storage: np.dtype
    real: np.dtype


def _arithmetic(d: int, precision: str) -> np.dtype:
    """What pairs are summed in."""
    return DOUBLE if plan_gpu.sums_in_double(d, precision) else FLOAT


class Points(NamedTuple):
    """Points as an output: ``keep`` times the query, and ``step`` times its mean shift."""

    out: Any  # (m, d) float32 or float64
    keep: float
    step: float


def _output(density: Density | None, points: Points | None) -> _Output:
    """What the kernel sums for its outputs."""
    if points is not None:
        return "MOMENTS"
    return "SUM" if density is None or density.form == "kde" else "LAPLACE"


def _limit(h: float, real: np.dtype) -> float:
    """Largest squared distance of a pair for which no point is farther from the centre than the checks allow.

    A point lies at most two such distances from the mean of the data.
    """
    most = (1e36 if real == FLOAT else 1e300) * h * h / 4
    return min(most, float(np.finfo(real).max) / 4)


class _Plan(NamedTuple):
    """A launch, but for the arrays and the bandwidth."""

    kernel: Specialisation
    grid: tuple[int, int]
    rows: int  # of a split
    by_vectors: bool  # whether rows of the data are whole vectors of 16 bytes
    memory: scratch.Layout | None  # of the splits, if there are several


@functools.lru_cache(maxsize=1024)
def _plan(n: int, m: int, d: int, arithmetic: Arithmetic, output: _Output, multiprocessors: int) -> _Plan:
    kernel = _kernel(output, arithmetic, at_least(d, _DIMENSIONS) if d <= _DIMENSIONS[-1] else 0)
    queries, others = _of_block(d, arithmetic, output)
    groups = -(-m // queries)
    if d > _DIMENSIONS[-1]:
        most = _MOST_SPLITS if output == "MOMENTS" else _MOST_SPLITS_OF_SUMS
        splits = max(1, min(most, _BLOCKS * multiprocessors // groups, n // _ROWS_OF_WIDE_SPLIT))
    elif groups * _FEW_GROUPS <= multiprocessors:  # to merge takes as long as to sum a few hundred rows
        splits = max(1, min(_MOST_SPLITS, multiprocessors // groups, n // _ROWS_OF_SPLIT))
    else:
        splits = 1
    rows = -(-n // splits)
    splits = -(-n // rows)
    memory = None
    if splits > 1:
        parts = splits * groups
        shapes = (parts * queries * (1 + others),), (parts * queries,), (parts,)
        memory = scratch.Layout([[(shape, DOUBLE) for shape in shapes]], [((groups,), np.dtype(np.uint32))])
    return _Plan(kernel, (groups, splits), rows, d * arithmetic.storage.itemsize % 16 == 0, memory)


def _of_block(d: int, arithmetic: Arithmetic, output: _Output) -> tuple[int, int]:
    """Queries of a block, and their sums beside the total, as in the kernel."""
    moments = output == "MOMENTS"
    if d > _DIMENSIONS[-1]:
        return (2, d) if moments else (4, int(output == "LAPLACE"))
    dimensions = at_least(d, _DIMENSIONS)
    size, split = dimensions * arithmetic.real.itemsize, arithmetic.storage.itemsize > arithmetic.real.itemsize
    queries = 4 if size <= 64 else 2 if size <= (96 if moments or split else 128) else 1
    return queries, dimensions if moments else int(output == "LAPLACE")


def _shared_bytes(arithmetic: Arithmetic, output: _Output) -> int:
    """Dynamic shared memory of a block of ``small_columns.cuh``, for as many columns as there may be."""
    d = plan_gpu.SMALL_COLUMNS
    queries, others = _of_block(d, arithmetic, output)
    moments = arithmetic.real.itemsize * d if output == "MOMENTS" else 0
    return queries * (8 * (1 + others) + arithmetic.storage.itemsize * d + moments)


def _cases() -> Iterator[tuple[_Output, Arithmetic, int]]:
    for output, dimensions in itertools.product(_OUTPUTS, (*_DIMENSIONS, 0)):
        yield from ((output, Arithmetic(real, real), dimensions) for real in C_TYPE)
        if output != "MOMENTS":
            yield output, Arithmetic(DOUBLE, FLOAT), dimensions
    yield from ((output, Arithmetic(FLOAT, DOUBLE), _DIMENSIONS[0]) for output in _OUTPUTS)  # on a line


@core_compile.specialised(cases=_cases)
def _kernel(output: _Output, arithmetic: Arithmetic, dimensions: int) -> Specialisation:
    storage, real = arithmetic
    name = f"small_{output.lower()}_{'f64' if real == DOUBLE else 'f32'}"
    defines = core_compile.macros(
        KERNEL=name, OUTPUT=output, STORAGE=C_TYPE[storage], REAL=C_TYPE[real], DIMENSIONS=dimensions
    )
    shared = 0 if dimensions else _shared_bytes(arithmetic, output)
    return Specialisation("density/small", name, defines, _TYPES.format(real=real.char), shared)


# What arrays of a dtype are computed in.
PRECISIONS = {FLOAT: "float32", DOUBLE: "float64"}

# What data and queries are stored in, by precision. Sums of double data in single precision are of densities alone.
_SINGLE = (FLOAT, FLOAT), (DOUBLE, FLOAT), (DOUBLE, DOUBLE)
_STORED = {"float32": _SINGLE, "tf32": _SINGLE, "ieee": _SINGLE, "float64": ((DOUBLE, DOUBLE),)}


def in_order(*arrays: Any) -> bool:
    """Whether arrays are CuPy's own, of a dtype the kernels read, C-contiguous and on the current device."""
    device = core_device.current()
    return all(
        type(a) is cp.ndarray
        and a.ndim in (1, 2)
        and a.dtype in PRECISIONS
        and a.flags.c_contiguous
        and core_device.holder(a) == device
        for a in arrays
    )


class _Thread(threading.local):
    """A word of the host's memory that kernels can write to: one for each thread, which waits for its kernels."""

    def __init__(self) -> None:
        self.word = transfers.pinned((1,), np.dtype(np.int32))
        self.argument = transfers.as_argument(self.word)


@functools.cache
def _thread() -> _Thread:
    return _Thread()


class Report:
    """Whether the kernels of a call found anything odd, which the host is told once they have ended."""

    def __init__(self) -> None:
        thread = _thread()
        self._word, self.argument = thread.word, thread.argument
        self._word[0] = 0

    def odd(self) -> bool:
        """Wait for the kernels, and say."""
        transfers.current().synchronize()
        return bool(self._word[0])


class Call(NamedTuple):
    """Data and queries whose values are unchecked, for results by few launches.

    Each method returns None where the values have to be looked at: the problem is too large, or the report says so.
    """

    X: Any  # (n, d), or (n,) on a line, float32 or float64, C-contiguous
    Y: Any  # (m, d) or (m,) likewise, or the data themselves
    n: int
    m: int
    d: int
    precision: str
    weights: Any  # (n,) float32 or float64, C-contiguous; None: all are 1
    check: bool  # whether to wait for a report

    @classmethod
    def of(cls, X: Any, Y: Any | None, precision: str | None, weights: Any, check: bool) -> Call | None:
        """Return the call of arrays that are :func:`in_order`; None of those that are too large for one launch."""
        n, d = X.shape if X.ndim == 2 else (len(X), 1)
        m, columns = (n, d) if Y is None else Y.shape if Y.ndim == 2 else (len(Y), 1)
        chosen = PRECISIONS[X.dtype] if precision is None else precision
        storages = X.dtype, X.dtype if Y is None else Y.dtype
        if (
            columns != d
            or storages not in _STORED.get(chosen, ())
            or not plan_gpu.small_serves(n, m, d, chosen, itemsize=X.itemsize)
        ):
            return None
        if weights is not None and not (check and in_order(weights) and weights.shape == (n,)):
            return None
        return cls(X, X if Y is None else Y, n, m, d, chosen, weights, check)

    def density(
        self, h: float, log_norm: float, dtype: np.dtype, *, log: bool, form: DensityForm = "kde"
    ) -> Any | None:
        """Densities, (m,), or their logarithms; ``log_norm`` is the logarithm of the kernel's constant."""
        if form != "kde" and not self._served(self.m, "laplace"):
            return None
        density = Density(cp.empty(self.m, dtype), self._log_constant(log_norm), log, form)
        return self._ran(density.out, lambda report: self._launch(self.X, self.Y, h, report, density))

    def score(self, h: float, dtype: np.dtype) -> Any | None:
        """Gradients of the log density, (m, d)."""
        if not self._served(self.m, "moments"):
            return None
        points = Points(cp.empty(self.Y.shape, dtype), 0.0, 1 / (h * h))
        return self._ran(points.out, lambda report: self._launch(self.X, self.Y, h, report, points=points))

    def density_and_score(self, h: float, log_norm: float, dtype: np.dtype) -> tuple[Any, Any] | None:
        """Log densities, (m,), and their gradients, (m, d)."""
        if not self._served(self.m, "moments"):
            return None
        density = Density(cp.empty(self.m, dtype), self._log_constant(log_norm), True)
        points = Points(cp.empty(self.Y.shape, dtype), 0.0, 1 / (h * h))
        both = density.out, points.out
        return self._ran(both, lambda report: self._launch(self.X, self.Y, h, report, density, points))

    def moved(self, h: float, score_h: float, dtype: np.dtype) -> Any | None:
        """Data moved by half of h^2 along their score, (n, d)."""
        if not self._served(self.n, "moments"):
            return None
        out = cp.empty(self.X.shape, dtype)
        return self._ran(out, lambda report: self._move(h, score_h, out, report))

    def density_of_moved(self, h: float, score_h: float, log_norm: float, dtype: np.dtype, *, log: bool) -> Any | None:
        """Densities of the moved data at the queries, (m,), or their logarithms."""
        if not (self._served(self.n, "moments") and self._served(self.m, "sum", DOUBLE.itemsize)):
            return None
        moved = cp.empty(self.X.shape)
        density = Density(cp.empty(self.m, dtype), self._log_constant(log_norm), log)

        def run(report: Report | None) -> None:
            self._move(h, score_h, moved, report)
            self._launch(moved, self.Y, h, report, density)

        return self._ran(density.out, run)

    def _served(self, m: int, output: Output, itemsize: int | None = None) -> bool:
        """Whether sums of the data at so many points are made here, or of others whose numbers have so many bytes."""
        size = self.X.itemsize if itemsize is None else itemsize
        return plan_gpu.small_serves(self.n, m, self.d, self.precision, output, itemsize=size)

    def _log_constant(self, log_norm: float) -> float:
        return log_norm if self.weights is not None else log_norm - math.log(self.n)

    def _move(self, h: float, score_h: float, out: Any, report: Report | None) -> None:
        points = Points(out, 1.0, 0.5 * (h / score_h) ** 2)
        self._launch(self.X, self.X, score_h, report, points=points)

    def _ran(self, out: Any, run: Callable[[Report | None], None]) -> Any | None:
        report = Report() if self.check else None
        run(report)
        return None if report is not None and report.odd() else out

    def _launch(
        self,
        X: Any,
        Y: Any,
        h: float,
        report: Report | None,
        density: Density | None = None,
        points: Points | None = None,
    ) -> None:
        """Launch on the current device and stream, for outputs of one dtype; the data may have been moved."""
        output, weights, n, m, d = _output(density, points), self.weights, len(X), len(Y), self.d
        real = _arithmetic(d, self.precision)
        plan = _plan(n, m, d, Arithmetic(X.dtype, real), output, core_device.multiprocessors())
        by_vectors = plan.by_vectors and core_device.address(X) % 16 == 0
        parts = (None,) * 4 if plan.memory is None else (*(memory := plan.memory.allocate())[0], memory[1][0])
        densities, log_constant, wanted = (None, 0.0, 0) if density is None else density.arguments
        of_points, keep, step = (None, 0.0, 0.0) if points is None else points
        out: Any = of_points if densities is None else densities
        note("small", output=output.lower())
        plan.kernel.launch(
            plan.grid,
            (_THREADS,),
            *(X, Y, weights, densities, of_points, *parts, None if report is None else report.argument),
            *(n, m, plan.rows, d, plan.grid[1], by_vectors, Y.dtype == FLOAT),
            *(0 if weights is None else weights.dtype.itemsize, out.dtype.itemsize, wanted),
            *(LOG2_E / (2 * h * h), _limit(h, real), log_constant, keep, step),
        )
