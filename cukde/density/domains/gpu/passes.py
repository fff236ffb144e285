"""Sums of the kernel of a domain as a product of columns on the GPU: the launcher of ``domains.cu``."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile, device
from cukde.core.gpu.launch import Specialisation
from cukde.density.domains.columns import Column, columns_of
from cukde.density.domains.domain import Domain
from cukde.density.pairs.gpu import finish, operands
from cukde.density.pairs.gpu.specialisation import OPERATION
from cukde.density.sums import Output, PartialSums

_THREADS = 64
_GROUP = 8  # columns of moments that a thread has

# Blocks of a multiprocessor that the data are split for, 32 warps, and the least rows of a split.
_BLOCKS_PER_MULTIPROCESSOR = 16
_ROWS = 64


def product_sums(
    X: Any,
    Y: Any,
    deviations: np.ndarray,
    domain: Domain,
    output: Output,
    *,
    log_weights: Any = None,
    unlike: float,
) -> PartialSums:
    """Sum a domain's kernel of the data ``X`` (n, d) at the queries ``Y`` (m, d), both float64 from its origin.

    ``deviations`` (d,) are bandwidths, ``output`` any but "values", and ``unlike`` the difference of two exponents
    beyond which the smaller term is left out. Every run gives the same bits; nothing waits for the result.

    Memory beside the result: 8 bytes a wave of a column for each point, and 16 for each query; a column has 11 waves,
    with a period 22, or fewer.
    """
    (n, d), m = X.shape, Y.shape[0]
    k = d if output == "moments" else int(output == "laplace")
    out = finish.empty(m, k)
    if m == 0:
        return out
    columns = columns_of(deviations, domain, unlike)
    of_queries = [column.waves_of_queries(Y[:, i], output, cp) for i, column in enumerate(columns) if column.waves]
    of_data = [column.waves_of_data(X[:, i], cp) for i, column in enumerate(columns) if column.waves]
    waves = sum(len(a) for a in of_data)
    U, G, V = None, None, None
    if waves:
        U, G = (cp.ascontiguousarray(cp.concatenate(parts, axis=1).T) for parts in zip(*of_queries, strict=True))
        V = cp.ascontiguousarray(cp.concatenate(of_data).T)
    blocks = finish.blocks(m, k, _GROUP)
    splits = finish.split_by(n, _rows_of_split(n, math.prod(blocks)), blocks, out)
    numbers = cp.asarray([_numbers(column) for column in columns])
    cells = cp.asarray(np.array([_cells(column) for column in columns], np.int32))
    arrays = X, cp.ascontiguousarray(Y.T), numbers, cells, U, G, V, log_weights, *splits.sums
    _kernel(output).launch(splits.grid, (_THREADS,), *arrays, n, m, d, waves, splits.rows)
    sums = finish.merge(splits, out)
    return sums._replace(reference=sums.reference + sum(column.log_constant for column in columns))


def _rows_of_split(n: int, blocks: int) -> int:
    """Data rows of a split, such that the device is busy."""
    most = -(-n // _ROWS)
    parts = max(1, min(_BLOCKS_PER_MULTIPROCESSOR * device.multiprocessors() // blocks, most))
    return -(-most // parts) * _ROWS


def _numbers(column: Column) -> tuple[float, float, float, float]:
    half = 0.5 / column.h / column.h
    period = column.period if column.periodic else 0.0
    return operands.LOG2_E * half, half, period, column.width if math.isfinite(column.width) else 0.0


def _cells(column: Column) -> tuple[int, int]:
    single = column.cells == (1,)
    return -1 if single else len(column.cells) // 2, column.waves * (1 + column.periodic)


@core_compile.listed
def specialisations() -> Iterator[Specialisation]:
    """Every kernel of this module."""
    outputs: tuple[Output, ...] = ("sum", "moments", "laplace")
    for output in outputs:
        yield _kernel(output)


@functools.cache
def _kernel(output: Output) -> Specialisation:
    name = f"product_{OPERATION[output]}_f64"
    defines = core_compile.macros(KERNEL=name, OUTPUT=output.upper())
    return Specialisation("density/domains", name, defines, "11P 2q 2i q")
