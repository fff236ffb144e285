"""Costs of piecewise polynomials: for each point a read and a write, the search for its piece, and Horner's rule.

Instructions are counted in what NVRTC makes of ``kernels_cu/piecewise/piecewise.cu`` for sm_90.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cukde.core.cost import arguments, elementwise, host
from cukde.core.cost.cost import Counted, Part, Unit
from cukde.core.cost.peaks import Peaks
from cukde.core.cost.sizes import takes
from cukde.core.plan import Candidate, Plan, consulted
from cukde.piecewise import plan

_SOURCE = (
    "counted from piecewise.cu, columns.cu and lookup_f16.cu in kernels_cu/piecewise/, and "
    "cukde/piecewise/cpu/passes.py"
)

BLOCKS = 2  # on a multiprocessor, as in cukde/piecewise/gpu/passes.py

# Instructions: for 16 bytes of points their addresses, moves and branches; for a point, by the kind of search, all but
# Horner's rule; for a level of the tree; for the conversions of a float16 number; for a reduction and for a clamp.
_VECTOR = 62
_POINT = {"uniform": 13.5, "guide": 22.0, "tree": 8.0}
_POINT_F64 = 12.0  # more in float64: limits by compare and select, two words for each number
_LEVEL, _CONVERSIONS, _REDUCTION, _CLAMP = 8.0, 1.5, 14.0, 4.0
_LOOKUP, _LOOKUP_VECTOR = 2.5, 30
_FMA_OF_SEARCH = 4  # float32 operations of the search, multiplied and added: the cell, its knot and the difference
# float64 operations of a point without Horner's rule: the cell, its knot, the difference. A level of the tree is one.
_OPERATIONS_F64 = 10

# Comparisons, sums and products on the CPU, without loads: for a point, which is copied or clamped, located, reduced by
# its knot, and looked at for NaN; for a guide, with one more comparison; for a coefficient; for conversions of float16;
# and for an elementary function of NumPy, by the bytes of a number.
_CPU_POINT, _CPU_GUIDE, _CPU_COEFFICIENT, _CPU_CONVERSION = 11, 6, 1, 8
_CPU_OF_NUMPY = {2: 1.5, 4: 1.8, 8: 11}


@dataclass(frozen=True)
class Sizes:
    """``n`` points and ``pieces`` polynomials of a ``degree``, ``columns`` values a point.

    ``knots`` are "uniform" or "random". ``reduction`` is that of a function that brings all points into its pieces;
    ``of_numpy`` says that on the CPU NumPy has it.
    """

    n: int
    pieces: int
    degree: int
    dtype: Any = "float32"
    knots: str = "uniform"
    extrapolate: Any = True
    columns: int = 1
    reduction: str | None = None
    of_numpy: bool = False


@takes(Sizes, "n pieces degree dtype knots extrapolate columns")
def polynomial(on: Peaks, sizes: Sizes) -> Counted:
    """Count the values of polynomials."""
    return _counted(*_all_passes(on, sizes))


@takes(Sizes, "n pieces degree dtype knots extrapolate", extrapolate="clamp")
def pwpa(on: Peaks, sizes: Sizes) -> Counted:
    """Count the values of polynomials whose coefficients lie in memory, which the host looks at first."""
    parts = _all_passes(on, sizes)
    if on.backend == "cpu":
        return _counted(*parts)
    table = (sizes.pieces * (sizes.degree + 2) + 1) * np.dtype(sizes.dtype).itemsize
    return _counted(Part("tables to the host", bytes=table, cycles=2 * host.COPY * on.clock, launches=2), *parts)


def turned(on: Peaks, *, pieces: int, degree: int, dtype: Any = "float32") -> Counted:
    """Count the transposition of coefficients from one layout to the other.

    Neighbouring threads of CuPy's copy are neighbours in one of the two arrays alone. In the other each sector of 32
    bytes is asked for once for each coefficient that it holds.
    """
    size = np.dtype(dtype).itemsize
    table = pieces * (degree + 1) * size
    work: dict[Unit, float] = {"scalar": 3 * pieces * (degree + 1)} if on.backend == "cpu" else {}
    again = 1 if on.backend == "cpu" else min(degree + 1, 32 // size)
    blocks = 1.0 if on.backend == "cpu" else math.inf  # NumPy's copy runs on one core
    return _counted(Part("copy", bytes=2 * table, work=work, requested=table * (1 + again), blocks=blocks))


def function(
    pieces: int, degree: int, reduction: str | None, extrapolate: Any, *, of_numpy: bool
) -> Callable[..., Counted]:
    """Make the formula of a function of :mod:`cukde.functions`, by pieces of equal width."""

    @takes(
        Sizes,
        "n dtype",
        pieces=pieces,
        degree=degree,
        reduction=reduction,
        extrapolate=extrapolate,
        of_numpy=of_numpy,
    )
    def count(on: Peaks, sizes: Sizes) -> Counted:
        return _counted(_evaluation(on, sizes))

    return count


def of_points(x: Any) -> dict[str, Any]:
    """Sizes of a call of a function."""
    return {"n": math.prod(arguments.shape(x)), "dtype": arguments.floating(x)}


def of_polynomial(p: Any, x: Any, nu: int = 0, extrapolate: Any = None) -> dict[str, Any]:
    """Sizes of a call of a :class:`cukde.PiecewisePolynomial`."""
    k, pieces = p._c.shape[:2]
    return {
        **of_points(x),
        "pieces": pieces,
        "degree": max(k - 1 - nu, 0),
        "knots": _spacing(p._x),
        "extrapolate": p.extrapolate if extrapolate is None else extrapolate,
        "columns": math.prod(p._c.shape[2:]),
    }


def of_raw(
    x: Any, coefficients: Any, knots: Any, *, layout: str = "aos", extrapolate: Any = "clamp", **options: Any
) -> dict[str, Any]:
    """Sizes of a call of :func:`cukde.pwpa`; knots on a GPU are taken to be uniform, as nothing is copied here."""
    shape = arguments.shape(coefficients)
    pieces, k = shape if layout == "aos" else shape[::-1]
    on_host = isinstance(knots, np.ndarray | list | tuple)
    return {
        **of_points(x),
        "pieces": pieces,
        "degree": k - 1,
        "knots": _spacing(np.asarray(knots, np.float64)) if on_host else "uniform",
        "extrapolate": extrapolate,
    }


def of_rows(coefficients: Any) -> dict[str, Any]:
    """Sizes of coefficients with a row for each piece."""
    pieces, k = arguments.shape(coefficients)
    return {"pieces": pieces, "degree": k - 1, "dtype": arguments.dtype(coefficients).name}


def of_columns(coefficients: Any) -> dict[str, Any]:
    """Sizes of coefficients with a column for each piece."""
    k, pieces = arguments.shape(coefficients)
    return {"pieces": pieces, "degree": k - 1, "dtype": arguments.dtype(coefficients).name}


def _spacing(knots: np.ndarray) -> str:
    """Whether knots are uniform, up to the rounding of float32."""
    even = np.linspace(knots[0], knots[-1], len(knots))
    near = 1e-6 * max(abs(knots[0]), abs(knots[-1]))
    return "uniform" if bool((abs(knots - even) <= near).all()) else "random"


def _counted(*parts: Part) -> Counted:
    return Counted(parts, _SOURCE)


def _all_passes(on: Peaks, sizes: Sizes) -> tuple[Part, ...]:
    """The evaluation, and with "raise" a look at the values, for which the host waits."""
    if sizes.extrapolate != "raise":
        return (_evaluation(on, sizes),)
    numbers = sizes.n * sizes.columns
    looked = elementwise.passes("looked for NaN", on, numbers, float(numbers * np.dtype(sizes.dtype).itemsize))
    if on.backend == "cpu":
        looked = replace(looked, blocks=1.0)  # NumPy's pass runs on one core
    else:
        looked = replace(looked, cycles=looked.cycles + host.COPY * on.clock)
    return _evaluation(on, replace(sizes, extrapolate=False)), looked


def _evaluation(on: Peaks, sizes: Sizes) -> Part:
    n, pieces, degree, knots, reduction = sizes.n, sizes.pieces, sizes.degree, sizes.knots, sizes.reduction
    given, extrapolate = np.dtype(sizes.dtype), sizes.extrapolate
    if knots not in ("uniform", "random"):
        raise ValueError(f'knots must be "uniform" or "random"; got {knots!r}')
    k = degree + 1
    if on.backend == "cpu":
        if sizes.of_numpy:
            consulted(Plan(f"{n:,} points {given.name}", (Candidate("NumPy"),)))
            work: dict[Unit, float] = {"scalar": n * _CPU_OF_NUMPY[given.itemsize]}
            return Part("values", bytes=2.0 * n * given.itemsize, work=work, blocks=-(-n // 2**18))
        consulted(plan.on_cpu(n, pieces, k, given, columns=sizes.columns))
        return _on_cpu(sizes, given)
    if extrapolate == "periodic":
        given = np.dtype(np.float64)
    options: dict[str, Any] = {"capability": on.capability, "shared_bytes": _shared_bytes_of_block(on)}
    options |= {"columns": sizes.columns, "periodic": extrapolate == "periodic", "reduction": reduction}
    of_knots = (plan.UNIFORM,) if knots == "uniform" else (plan.OTHERS, plan.GUIDED)
    search: Any = consulted(plan.on_gpu(n, pieces, k, given, **options)).first(*of_knots)
    if search.startswith("columns"):
        return _columns(sizes, given)
    if search == "lookup_f16":
        return _lookups(on, n)
    height = plan.height(search, pieces, given)
    level = plan.copies(search, pieces, k, given, height, on.capability)
    copies, table = 0 if level is None else 1 << level, plan.row_bytes(pieces, k, given) + 16 * height
    size, wide = given.itemsize, given == np.float64
    instructions = (
        _VECTOR * size / 16
        + _POINT[search]
        + _LEVEL * plan.levels(pieces) * (search == "tree")
        + degree
        + _POINT_F64 * wide
        + _CONVERSIONS * (given == np.float16)
        + _REDUCTION * (reduction is not None)
        + _CLAMP * (extrapolate != True and reduction is None)  # noqa: E712, it may be a string
    )
    work = {
        "instruction": n * instructions,
        "shared": n * _shared(pieces, k, wide, search, copies),
    }
    if wide:
        work["float64"] = n * (2 * (_OPERATIONS_F64 + degree) + plan.levels(pieces) * (search == "tree"))
    else:
        work["fma"] = n * 2.0 * (degree + _FMA_OF_SEARCH)
    return Part("values", bytes=2 * n * size + table, work=work, resident=BLOCKS)


def _shared(pieces: int, k: int, wide: bool, search: str, copies: int) -> float:
    """Bytes of shared memory for a random point: rows of coefficients and of the guide, and levels of the tree."""
    rows = -(-k // (2 if wide else 4)) + (search == "guide")
    if copies == 0:  # each thread reads a row through the first cache
        return 16.0 * rows
    width = 8 if wide else 4
    levels = sum(_bytes_of_level(2**level, width) for level in range(plan.levels(pieces) if search == "tree" else 0))
    return 16 * rows * _wait_for_copy(copies) + levels


def _wait_for_copy(copies: int) -> float:
    """Cycles of eight threads that read 16 bytes each at random, over the cycles where none waits.

    8 / copies threads share a copy, which has as many places in the banks: they wait like balls in bins.
    """
    sharing = plan.MOST_COPIES // copies
    return {1: 1.0, 2: 1.94, 4: 2.6, 8: 2.9}[sharing]


def _bytes_of_level(nodes: int, width: int) -> float:
    """Bytes for each of 32 threads that read a node at random: one cycle where all nodes are in 128 bytes.

    With more nodes, groups of 16 threads (8 bytes a node) or 32 threads (4 bytes) wait for the fullest bank. They wait
    for as many nodes as it has, but no more than 3.1 or 3.5, the mean of the fullest of as many bins as threads.
    """
    if nodes * width <= 128:
        return 128 / 32
    return width * min(nodes * width / 128, 3.1 if width == 8 else 3.5)


def _shared_bytes_of_block(on: Peaks) -> int:
    """Limit for a block by compute capability (CUDA C++ Programming Guide, "Technical Specifications")."""
    if on.capability in ((8, 6), (8, 9)) or on.capability >= (12, 0):
        return 99 * 1024
    if on.capability >= (9, 0):
        return 227 * 1024
    return 163 * 1024 if on.capability >= (8, 0) else 64 * 1024


def _lookups(on: Peaks, n: int) -> Part:
    """Look float16 numbers up in a table that each block reads; of 32 random ones 3.5 meet in a bank."""
    return Part(
        "lookups",
        bytes=4 * n + plan.TABLE_BYTES,
        work={"instruction": n * (_LOOKUP + _LOOKUP_VECTOR / 8), "shared": n * 3.5 * 128 / 32},
        requested=4 * n + plan.TABLE_BYTES * on.multiprocessors,
    )


def _columns(sizes: Sizes, dtype: np.dtype) -> Part:
    """Several values for each point: one piece, then a row of coefficients from the cache for each value."""
    n, pieces, degree = sizes.n, sizes.pieces, sizes.degree
    size, wide = dtype.itemsize, dtype == np.float64
    rows = -(-(degree + 1) // (2 if wide else 4))
    located = _POINT["uniform"] if sizes.knots == "uniform" else _POINT["tree"] + _LEVEL * plan.levels(pieces)
    values = n * sizes.columns
    work: dict[Unit, float] = {
        "instruction": n * (located + 20) + values * (20 + 4 * rows + degree),
        ("float64" if wide else "fma"): values * 2.0 * degree,
    }
    bytes_ = n * size * (1 + sizes.columns) + 16 * rows * pieces * sizes.columns
    return Part("values", bytes=bytes_, work=work, requested=bytes_ + 16.0 * rows * values, resident=2)


def _on_cpu(sizes: Sizes, dtype: np.dtype) -> Part:
    operations = (
        _CPU_POINT
        + _CPU_GUIDE * (sizes.knots == "random")
        + _CPU_CONVERSION * (dtype == np.float16)
        + sizes.columns * _CPU_COEFFICIENT * sizes.degree
    )
    bytes_ = sizes.n * dtype.itemsize * (1 + sizes.columns) + sizes.pieces * (sizes.degree + 2) * max(dtype.itemsize, 4)
    blocks = -(-sizes.n // 2**16)  # each of them a thread's
    return Part("values", bytes=bytes_, work={"scalar": sizes.n * operations}, blocks=blocks)
