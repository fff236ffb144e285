"""Operands of the float16 engine: launcher of ``kernels_cu/density/operands.cu``."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile, scratch
from cukde.core.gpu.launch import C_TYPE, FLOAT, Specialisation
from cukde.core.gpu.scratch import Layout, Spec
from cukde.density.plan.gpu import MOST_COLUMNS

LOG2_E = math.log2(math.e)

# Rows of operands come in whole blocks of the kernel that prepares them; tiles of the engine divide it.
BLOCK_ROWS = 128

_BITS = np.dtype(np.uint16)


class Operand(NamedTuple):
    """Points z = (point - centre) sqrt(log2 e) / h in float16 terms, rows and columns padded with zeros."""

    hi: Any  # (padded rows, depth) uint16, the bits of float16; the order of columns is that of column_order.cuh
    lo: Any | None  # likewise, where two terms are kept
    norms: Any | None  # (padded rows,) float32: -|z|^2/2 of the rounded points, + log2 w; for the symmetric pass
    norm_terms: Any | None  # (padded rows, 8) uint16: the same in the terms of norms_f16.cuh; for the ordered pass
    weights: Any | None = None  # (padded rows,) float32: log2 w, where they are kept apart

    @property
    def terms(self) -> tuple[Any, Any | None, Any | None]:
        """What the ordered pass reads of queries."""
        return self.hi, self.lo, self.norm_terms

    def rows(self, part: slice) -> Operand:
        """Some of its rows, in whole blocks of ``BLOCK_ROWS``, where it is made of arrays."""
        return Operand(*(None if a is None else a[part] for a in self))


def padded(rows: int) -> int:
    """Rows of the operands of so many."""
    return -(-rows // BLOCK_ROWS) * BLOCK_ROWS


def depth_of(d: int) -> int:
    """Columns of the operands of points of ``d`` dimensions."""
    return -(-d // 16) * 16


def scale_of(h: float) -> float:
    """What centred points are multiplied by, so that half a squared distance is an exponent in bits."""
    return math.sqrt(LOG2_E) / h


def specs(points: int, d: int, *, split: bool, symmetric: bool = False, weights: bool = False) -> list[Spec | None]:
    """What an operand of so many points is made of, in its order."""
    rows = padded(points)
    terms = (rows, depth_of(d)), _BITS
    return [
        terms,
        terms if split else None,
        ((rows,), FLOAT) if symmetric else None,
        None if symmetric else ((rows, 8), _BITS),
        ((rows,), FLOAT) if weights else None,
    ]


def specs_of_both(
    n: int,
    m: int | None,
    d: int,
    *,
    split: bool,
    symmetric: bool = False,
    weighted: bool = False,
    weights_apart: bool = False,
) -> list[Spec | None]:
    """What the operands of the data and of the queries are made of; ``m`` None are the data themselves."""
    data = specs(n, d, split=split, symmetric=symmetric, weights=weighted and weights_apart)
    if m is None and (not weighted or weights_apart):
        return [*data, *_NOTHING]
    # The norms of queries have no weights in them.
    return [*data, *specs(n if m is None else m, d, split=split)]


_NOTHING = (None,) * len(Operand._fields)


@functools.lru_cache(maxsize=1024)
def _layout(n: int, m: int | None, d: int, split: bool, symmetric: bool, weighted: bool, weights_apart: bool) -> Layout:
    return Layout(
        [specs_of_both(n, m, d, split=split, symmetric=symmetric, weighted=weighted, weights_apart=weights_apart)]
    )


def prepare(
    X: Any,
    Y: Any | None,
    centre: Any,
    h: float,
    *,
    split: bool,
    exact_hi: bool = False,
    log_weights: Any | None = None,
    weights_apart: bool = False,
    squared_radius: Any | None = None,
    symmetric: bool = False,
    sums: Any | None = None,
    memory: Sequence[Any] | None = None,
) -> tuple[Operand, Operand]:
    """Operands of the data and of the queries, by one launch.

    Parameters
    ----------
    X, Y : array, shape (n, d) and (m, d)
        Both float32 or both float64, C-contiguous; ``Y`` None are the data themselves.
    centre : array, shape (d,)
        Float64.
    split : bool
        Keep two float16 terms, not one.
    exact_hi : bool
        Higher terms whose products add up exactly; the lower ones are larger for it.
    log_weights : array, shape (n,), optional
        Float64, natural logarithms.
    weights_apart : bool
        Leave the weights out of the data's norms.
    squared_radius : array, shape (1,), optional
        Float32; raised to the largest |z|^2, so it is zero before.
    symmetric : bool
        For the symmetric pass over the data.
    sums : array, shape (padded rows * (depth + 1),), optional
        Float32, set to zero: where a symmetric pass over the data is going to add.
    memory : sequence, optional
        Pieces for the operands, by :func:`specs_of_both`; default a chunk of their own.
    """
    if memory is None:
        m = None if Y is None else Y.shape[0]
        memory, _ = _layout(
            X.shape[0], m, X.shape[1], split, symmetric, log_weights is not None, weights_apart
        ).allocate()
    data, of_queries, queries = Operand(*memory[: len(_NOTHING)]), Operand(*memory[len(_NOTHING) :]), Y
    if of_queries.hi is None:
        of_queries = data
    elif Y is None:
        queries = X
    _launch(X, queries, centre, h, data, of_queries, exact_hi, log_weights, squared_radius, sums)
    return data, of_queries


def prepare_one(
    A: Any,
    centre: Any,
    h: float,
    *,
    split: bool,
    exact_hi: bool = False,
    log_weights: Any | None = None,
    weights_apart: bool = False,
    squared_radius: Any | None = None,
    memory: Sequence[Any] | None = None,
) -> Operand:
    """The operand of the data alone, or without weights of the queries: the same as of both by :func:`prepare`.

    ``memory`` are pieces by :func:`specs`; default a chunk of their own.
    """
    if memory is None:
        weights = log_weights is not None and weights_apart
        memory, _ = Layout([specs(*A.shape, split=split, weights=weights)]).allocate()
    out = Operand(*memory)
    _launch(A, None, centre, h, out, out, exact_hi, log_weights, squared_radius)
    return out


def prepare_two(A: Any, B: Any, centre: Any, h: float, *, split: bool) -> Operand:
    """One operand of two blocks of data, for the symmetric pass over pairs of a row of each; by two launches.

    Those of ``B`` begin at row ``padded(len(A))``. All else is as for :func:`prepare`, symmetric.
    """
    own_rows = padded(A.shape[0])
    all_specs = specs(own_rows + B.shape[0], A.shape[1], split=split, symmetric=True)
    both = Operand(*scratch.arrays(all_specs))
    for points, part in ((A, slice(own_rows)), (B, slice(own_rows, None))):
        data = both.rows(part)
        _launch(points, None, centre, h, data, data)
    return both


def _launch(
    X: Any,
    queries: Any | None,
    centre: Any,
    h: float,
    data: Operand,
    of_queries: Operand,
    exact_hi: bool = False,
    log_weights: Any | None = None,
    squared_radius: Any | None = None,
    sums: Any | None = None,
) -> None:
    """Fill operands; where there are no queries, ``of_queries`` are the data's."""
    blocks = max(data.hi.shape[0], of_queries.hi.shape[0]) // BLOCK_ROWS
    (n, d), m = X.shape, 0 if queries is None else queries.shape[0]
    kernel(X.dtype, data.hi.shape[1]).launch(
        (blocks, 1 if queries is None else 2),
        (BLOCK_ROWS,),
        *(X, queries, centre, log_weights, *data),
        *((None, None, None) if queries is None else of_queries.terms),
        *(squared_radius, sums, n, m, d, exact_hi, scale_of(h)),
    )


def specs_of_moved(n: int, m: int, d: int, *, split: bool) -> list[Spec | None]:
    """What :func:`prepare_moved` needs: terms of the norms of the moved data, and the operand of the queries."""
    return [specs(n, d, split=split)[3], *specs(m, d, split=split)]


def prepare_moved(
    operand: Operand,
    X: Any,
    Y: Any,
    centre: Any,
    h: float,
    shift: tuple[Any, Any, float],
    *,
    memory: Sequence[Any],
    exact_hi: bool = False,
    wide: Sequence[Any] | None = None,
) -> tuple[Any, Any, Operand, Operand]:
    """Move the data by half of (h / score_h)^2 of their mean shift, and prepare them and the queries, by one launch.

    Parameters
    ----------
    operand : Operand
        Of the data as they were, for ``score_h``, symmetric; that of the moved data takes its memory.
    X, Y, centre, h, exact_hi
        As for :func:`prepare`; the data as they were.
    shift : tuple of two arrays and a float
        Sums of the symmetric pass, and its bandwidth ``score_h``.
    memory : sequence
        Pieces by :func:`specs_of_moved`.
    wide : sequence, optional
        Pieces for the moved data and the queries; default new arrays.

    Returns
    -------
    moved, queries : array, shape (n, d) and (m, d)
        Float64.
    data, of_queries : Operand
    """
    (n, d), m, depth = X.shape, Y.shape[0], operand.hi.shape[1]
    S, T, score_h = shift
    moved_operand, of_queries = Operand(operand.hi, operand.lo, None, memory[0]), Operand(*memory[1:])
    moved, queries = (cp.empty((n, d)), cp.empty((m, d))) if wide is None else wide
    kernel(X.dtype, depth, moved=True).launch(
        (max(operand.hi.shape[0], of_queries.hi.shape[0]) // BLOCK_ROWS, 2),
        (BLOCK_ROWS,),
        *(X, Y, centre, None, *moved_operand, *of_queries.terms, None, S, T, moved, queries),
        *(1 / scale_of(score_h), 0.5 * (h / score_h) ** 2, n, m, d, exact_hi, scale_of(h)),
    )
    return moved, queries, moved_operand, of_queries


@core_compile.specialised(C_TYPE, range(16, MOST_COLUMNS + 1, 16), (False, True))
def kernel(dtype: np.dtype, depth: int, moved: bool = False) -> Specialisation:
    """The kernel that prepares points of a dtype, or data to be ``moved``."""
    defines = core_compile.macros(STORAGE=C_TYPE[dtype], DEPTH=depth, MOVED=moved)
    types = "17P 2d 2q 2i d" if moved else "14P 2q 2i d"
    return Specialisation("density/operands", "prepare_f16", defines, types)


def of_one_dtype(X: Any, Y: Any | None) -> tuple[Any, Any | None]:
    """Data and queries in the wider of their types."""
    if Y is None or X.dtype == Y.dtype:
        return X, Y
    storage = np.promote_types(X.dtype, Y.dtype)
    return X.astype(storage, copy=False), Y.astype(storage, copy=False)
