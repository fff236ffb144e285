"""Costs of Kendall's tau: ranks of each variable, then products of signs or sorting of each pair of variables.

On a GPU few samples are compared with each other instead, in one launch.

Instructions of the GPU's kernels are counted in what NVRTC makes of ``kernels_cu/kendall/`` for sm_90. Those that
compare, select or add integers count twice: a multiprocessor has half as many lanes for them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cukde.core.cost import arguments, elementwise, host
from cukde.core.cost.cost import Counted, Part, Unit
from cukde.core.cost.peaks import Peaks
from cukde.core.plan import consulted
from cukde.kendall import cost_sorting, plan, sign_tiles

_SOURCE = (
    "counted from kernels_cu/ and cukde/kendall/; textbook: the report on gpuKendall, sections 1 to 3: all pairs of "
    "samples of all pairs of columns, 10 FLOP-equivalents and 16 bytes a pair"
)
_TEXTBOOK_FLOPS, _TEXTBOOK_BYTES = 10, 16

_THREADS, _PART = 256, 2048  # of the kernels before and after a sort, samples of a block
_SECTOR = 32  # bytes of memory that a single write at random takes

# Instructions for each sample, weighed as above.
_KEYS, _RANKS, _PAIR_KEYS, _PAIR_RUNS, _VALUE_RUNS = 16, 60, 16, 80, 50

# Instructions for each sign off the diagonal, weighed: by bits, in one or both planes, and by bytes.
_SIGNS = {(True, 1): 1.7, (True, 2): 2.8, (False, 1): 5.0}

# Of each two samples that are compared, weighed: five comparisons, four sums, and a load.
# A comparison of 64 bits takes two instructions.
_COMPARED = {4: 19, 8: 27}

_SUMS = 7  # arrays of integers that the counts of ties take, each made of two others

# Comparisons and sums for each sample on the CPU, without loads and addresses: its key; the count of a digit, and its
# place in each pass of a radix sort, which waits for the sample before where both have the same digit; its rank,
# written at random, and ties. Measured on two cores of 8.2e9 a second, 10,000 to 100,000 samples: 16 ns in float32, 20
# ns in float64. A million samples, beyond the second cache, take twice that.
_CPU_KEY, _CPU_DIGIT, _CPU_PASS, _CPU_NUMBER = 4, 3, 4, 22
_CPU_WALK, _CPU_LEVEL = 8, 11  # bits of a sample and its place; each level of the tree of counters
_CPU_TIES = 4  # ties broken by position
_CPU_GROUP = 2**20  # ranks that share a tree
_CPU_STATISTIC = 250  # for each entry of a matrix, by passes of NumPy on one core of half that rate: 60 ns
# For 64 pairs of samples, four words at once by AVX2: xor, population count and sum; with ties as many again.
_CPU_WORD = 3 / 4
_CPU_COLUMN = 16  # pairs of columns that take as long as the bits of one: cukde/kendall/cpu/sign_products.py


def kendalltau(on: Peaks, *, n: int, batch: int = 1, dtype: Any = "float64", ties: bool = False) -> Counted:
    """Count Kendall's tau of ``batch`` pairs of variables of ``n`` samples."""
    size = np.dtype(dtype).itemsize
    if on.backend == "cpu":
        consulted(plan.pairs_on_cpu(batch, n))
        parts: tuple[Part, ...] = (_cpu_ranks(2 * batch, n, size), _cpu_trees(batch, n, ties, batch))
    elif consulted(plan.pairs_on_gpu(batch, n, wide=size == 8)).first() == "comparisons":
        parts = (_by_comparisons(batch, n, size, 2 * batch),)
    else:
        sorting = _pairs_by_sorting(batch, n, 8 * n * batch)
        parts = (*_ranks(2 * batch, n, size), *sorting, _statistics(batch))
    return _counted(parts, batch * n * (n - 1) / 2)


def kendall_matrix(
    on: Peaks, *, n: int, p: int, q: int | None = None, dtype: Any = "float64", ties: bool = False
) -> Counted:
    """Count Kendall's tau of all pairs of ``p`` columns of ``n`` samples with ``q``; by default among the ``p``.

    The textbook's program visits p q pairs of columns, or p^2 among the p columns; ours visits p (p + 1) / 2 of these.
    """
    return _matrix(on, n, p, q, dtype, ties, counted=False)


def _matrix(on: Peaks, n: int, p: int, q: int | None, dtype: Any, ties: bool, counted: bool) -> Counted:
    """The same, or with ``counted`` the counts alone."""
    size, symmetric = np.dtype(dtype).itemsize, q is None
    across = p if q is None else q
    columns = p + (0 if symmetric else across)
    pairs = p * (p + 1) // 2 if symmetric else p * across
    if on.backend == "cpu":
        chosen = consulted(plan.matrix_on_cpu(p, across, n, symmetric=symmetric)).first()
        statistics = Part("statistics", 24 * p * across, {"scalar": _CPU_STATISTIC * p * across}, blocks=1)
        counts = _cpu_trees(pairs, n, ties, max(1, p)) if chosen == "trees" else _cpu_bits(n, columns, pairs, ties)
        return _counted((_cpu_ranks(columns, n, size), counts, statistics), p * across * n * (n - 1) / 2)
    of_call = plan.matrix_on_gpu(
        p, across, n, symmetric=symmetric, wide=size == 8, capability=on.capability, counted=counted
    )
    chosen = consulted(of_call).first(*(() if ties else (plan.NO_TIES,)))
    if chosen == "comparisons":
        parts: tuple[Part, ...] = (_by_comparisons(pairs, n, size, columns),)
    else:
        transposed = elementwise.passes(
            "columns as rows", on, columns * n, 2 * columns * n * size, launches=1 if symmetric else 2
        )
        pairwise = (
            _pairs_by_sorting(pairs, n, 4 * n * columns)
            if chosen == "sorting"
            else _by_products(on, n, p, across, symmetric, ties)
        )
        wait = Part("wait for the ranks", cycles=host.TIES * on.clock, launches=1)
        parts = (transposed, *_ranks(columns, n, size), wait, *pairwise, _statistics(p * across))
    return _counted(parts, p * across * n * (n - 1) / 2)


def concordance(
    on: Peaks, *, n: int, p: int, q: int | None = None, dtype: Any = "float64", ties: bool = False
) -> Counted:
    """Count the counts of all pairs of columns: a look for NaN, and integer sums in place of the statistic."""
    of_matrix = _matrix(on, n, p, q, dtype, ties, counted=True)
    across = p if q is None else q
    samples = n * (p + (0 if q is None else q))
    scalar: dict[Unit, float] = {"scalar": samples + _SUMS * p * across} if on.backend == "cpu" else {}
    look = Part("look for NaN", bytes=samples * np.dtype(dtype).itemsize, launches=2)
    sums = elementwise.passes("sums", on, _SUMS * p * across, _SUMS * 24 * p * across, work=scalar, launches=_SUMS)
    parts = tuple(part for part in of_matrix.parts if part.name != "statistics")
    return _counted((look, *parts, sums), of_matrix.pairs)


def of_samples(x: Any, y: Any, *, axis: Any = None, **options: Any) -> dict[str, Any]:
    """Sizes of a call of :func:`cukde.kendalltau`; integers are taken to have ties."""
    dtype = arguments.dtype(x)
    shape = np.broadcast_shapes(arguments.shape(x), arguments.shape(y)) if axis is not None else arguments.shape(x)
    axes = range(len(shape)) if axis is None else np.atleast_1d(axis).tolist()
    n = math.prod(shape[i] for i in axes)
    return {"n": n, "batch": math.prod(shape) // n if n else 0, **_of_values(dtype)}


def of_columns(A: Any, B: Any = None, **options: Any) -> dict[str, Any]:
    """Sizes of a call of :func:`cukde.kendall_matrix` or :func:`cukde.concordance`."""
    n, p = arguments.shape(A)
    q = None if B is None or B is A else arguments.shape(B)[1]
    return {"n": n, "p": p, "q": q, **_of_values(arguments.dtype(A))}


def _of_values(dtype: np.dtype) -> dict[str, Any]:
    """What the dtype says: integers are taken to have ties, other numbers to have none."""
    return {"dtype": dtype.name if dtype.itemsize <= 8 else "float64", "ties": dtype.kind in "iub"}


def _counted(parts: tuple[Part, ...], pairs: float) -> Counted:
    return Counted(parts, _SOURCE, pairs, _TEXTBOOK_FLOPS * pairs, _TEXTBOOK_BYTES * pairs)


# ------------------------------------------------------------------------------------------------------ on a GPU


def _by_comparisons(pairs: int, n: int, size: int, columns: int) -> Part:
    """Compare the samples of pairs of variables with each other, and end in the statistic."""
    compared = pairs * n * n * _COMPARED[8 if size == 8 else 4]
    return Part("comparisons", bytes=columns * n * size + 16 * pairs, work={"instruction": compared}, launches=1)


def _part(name: str, samples: float, instructions: float, bytes_: float, **more: Any) -> Part:
    """A kernel before or after a sort."""
    return Part(name, bytes=bytes_, work={"instruction": samples * instructions}, **more)


def _ranks(rows: int, n: int, size: int) -> tuple[Part, ...]:
    """Ranks of the samples of rows, and their ties."""
    samples, order, blocks = rows * n, size == 8, rows * -(-n // _PART)
    read = samples * (8 + 4 * order)
    written = {"requested": read + _SECTOR * samples, "blocks": blocks, "launches": 3}
    return (
        _part("keys", samples, _KEYS, samples * (size + 8), blocks=blocks),
        *cost_sorting.sort("sort of keys", rows, n, 8, order=order),
        _part("ranks", samples, _RANKS, read + 4 * samples, **written),
    )


def _pairs_by_sorting(pairs: int, n: int, ranks: float) -> tuple[Part, ...]:
    """Sort the pairs of ranks of ``pairs`` pairs of variables, count inversions, and add up ties.

    ``ranks`` is the bytes of all ranks: pairs of the same variables find them in the cache, where it holds them.
    """
    samples, blocks = pairs * n, pairs * -(-n // _PART)
    return (
        _part("pairs of ranks", samples, _PAIR_KEYS, ranks + 8 * samples, requested=16 * samples, blocks=blocks),
        *cost_sorting.sort("sort of pairs", pairs, n, 8),
        _part("runs of pairs", samples, _PAIR_RUNS, 12 * samples, blocks=blocks),
        *cost_sorting.sort("inversions", pairs, n, 4),
        _part("runs of values", samples, _VALUE_RUNS, 4 * samples, blocks=blocks, launches=2),
    )


def _by_products(on: Peaks, n: int, p: int, q: int, symmetric: bool, tied: bool) -> tuple[Part, ...]:
    """Compute the signs of all pairs of samples, and multiply the signs of all pairs of variables."""
    bits = sign_tiles.in_bits(on.capability)
    edge = sign_tiles.edge(p, q, symmetric=symmetric)
    rows, entries = sign_tiles.padded(p, q, symmetric=symmetric)
    tiles = sign_tiles.tile_count(p, q, edge, symmetric=symmetric)
    cut = sign_tiles.shape(bits, tied, edge)
    chunks = list(sign_tiles.chunks(n, rows, bits))
    pairs = sum(count for _, count in chunks) * sign_tiles.ITEM**2  # of samples, including those that pad items
    of_sign = 1 / 8 if bits else 1.0  # bytes
    signs = rows * pairs * of_sign * cut.planes
    if signs / len(chunks) <= on.cache_bytes:  # the products find them there, and the next chunk overwrites them
        signs = 0.0
    products = (3 if bits else 2) if tied else 1
    unit: Unit = "tensor_b1" if bits else "tensor_s8"

    # A tile asks for its rows and its columns, which are the same on the diagonal. Blocks read the same signs at the
    # same time, so the cache serves what they ask for again, however large all signs are.
    diagonal = -(-p // edge) if symmetric else 0
    asked = pairs * (2 * tiles - diagonal) * edge * of_sign * cut.planes
    blocks = cut.blocks * on.multiprocessors
    added = 2 * 8 * (2 if tied else 1) * edge**2 * len(chunks) * (tiles + blocks)
    # For each entry and pair of samples: fragments that a warp reads, and rows that a block writes before.
    fragments = (cut.warp_rows + cut.warp_columns) / (cut.warp_rows * cut.warp_columns)
    shared = entries * pairs * of_sign * cut.planes * (fragments + 2 / edge)

    codes = 2 * rows * n
    return (
        Part("codes", bytes=4 * (p + (0 if symmetric else q)) * n + codes),
        Part(
            "signs",
            bytes=signs + codes,
            work={
                "instruction": rows * pairs * _SIGNS[bits, cut.planes if bits else 1],
                "cache": rows * pairs * of_sign,
            },
            launches=len(chunks),
        ),
        Part(
            "products",
            bytes=signs,
            work={unit: 2.0 * products * entries * pairs, "cache": asked + added, "shared": shared},
            resident=cut.blocks,
            launches=len(chunks),
        ),
        Part("counts", bytes=(8 * (2 if tied else 1) + 16) * p * q, launches=1),
    )


def _statistics(entries: int) -> Part:
    """Compute the statistic from the counts."""
    return Part("statistics", bytes=24 * entries)


# ----------------------------------------------------------------------------------------------------- on a CPU


def _cpu_ranks(rows: int, n: int, size: int) -> Part:
    """Rank rows by a radix sort, with a pass for each byte of the values; a thread takes a block of rows."""
    samples, operations = rows * n, _CPU_KEY + 8 * _CPU_DIGIT + size * _CPU_PASS + _CPU_NUMBER
    moved = samples * (size + 24 * size + 12)  # a pass moves keys of 8 bytes and positions of 4
    return Part(
        "ranks", bytes=samples * (size + 8), work={"scalar": samples * operations}, requested=moved, blocks=rows
    )


def _cpu_trees(pairs: int, n: int, ties: bool, tasks: int) -> Part:
    """Count inversions of pairs of variables, each in the tree of counters of one thread."""
    levels = max(0, math.ceil(math.log(max(min(n, _CPU_GROUP), 1) / 64, 4)))
    parts = max(0, math.ceil(math.log2(max(n, 1) / _CPU_GROUP)))  # passes by the bits above those of a tree
    operations = _CPU_WALK + levels * _CPU_LEVEL + parts * _CPU_PASS + ties * _CPU_TIES
    samples = pairs * n
    return Part("inversions", bytes=16 * samples, work={"scalar": samples * operations}, blocks=tasks, launches=1)


def _cpu_bits(n: int, columns: int, pairs: int, ties: bool) -> Part:
    """Multiply the bits of pairs of columns."""
    words = n * n / 128 * (2 if ties else 1)
    operations = (pairs + _CPU_COLUMN * columns) * words * _CPU_WORD
    return Part("bits", bytes=columns * words * 8, work={"scalar": operations})
