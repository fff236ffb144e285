"""Kendall's tau of Dask arrays: pairs of blocks of columns, each unordered pair once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any, Literal

import dask.array as da
import numpy as np
from dask.highlevelgraph import HighLevelGraph

from cukde.core import check as core_check, dispatch
from cukde.core.cpu import arrays as host
from cukde.core.dask import check as dask_check, chunks as dask_chunks
from cukde.core.dask.arrays import collected, empty_like, same, stand_in, unknown_rows
from cukde.core.dask.devices import computing
from cukde.core.dask.graph import Blocks
from cukde.core.over_dask import is_dask, meta, plain
from cukde.core.quiet import quiet
from cukde.core.types import Array, ArrayLike
from cukde.kendall import check, statistics
from cukde.kendall.counts import SignificanceResult

# Rows times columns squared of a block. For 1e3 to 1e6 rows a pair of such blocks takes 0.1 s to 2 s on two CPU cores,
# and by the model 1 ms to 100 ms on an H200.
_WORK, _WORK_OF_GPU = 2**24, 2**30

_MOST_NUMBERS = 2**24  # in a block: 128 MiB in double precision
_MOST_BLOCKS = 64  # of either matrix; of more columns blocks are larger
_ROWS = 2**16  # assumed where the number is unknown


@quiet
def kendall_matrix(
    A: ArrayLike,
    B: ArrayLike | None = None,
    *,
    variant: Literal["a", "b", "c"] = "b",
    pvalue: bool = False,
    nan_policy: Literal["propagate", "omit", "raise"] = "propagate",
) -> Array | Any:
    """Compute :func:`cukde.kendall_matrix` of Dask arrays, lazily.

    Counts are exact, and statistics have the same bits as those of plain arrays, whatever the blocks. Each unordered
    pair of blocks of columns costs one call on plain arrays.

    Parameters
    ----------
    A, B, variant, pvalue, nan_policy
        As in :func:`cukde.kendall_matrix`.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import cukde.dask
    >>> A = da.from_array(np.array([[1.0, 2.0], [2.0, 1.0], [3.0, 3.0]]), chunks=(2, 1))
    >>> cukde.dask.kendall_matrix(A).compute().round(4)
    array([[1.    , 0.3333],
           [0.3333, 1.    ]])
    """
    core_check.option("variant", variant, statistics.VARIANTS)
    core_check.option("nan_policy", nan_policy, check.NAN_POLICIES)
    pvalue = core_check.flag("pvalue", pvalue)
    a = _matrix("A", A)
    b = None if B is None or B is A or same(A, B) else _matrix("B", B, A)
    dispatch.backend(meta(a), "A", B=meta(b))
    unknown = unknown_rows(a, b)
    matrices = {"A": a} if b is None else {"A": a, "B": b}
    stand_ins = [check.matrix(name, stand_in(matrix, unknown), host) for name, matrix in matrices.items()]
    if b is not None:
        check.same_rows(*stand_ins)

    n, p, q = a.shape[0], stand_ins[0].shape[1], stand_ins[-1].shape[1]
    gpu = dispatch.is_gpu_array(meta(a))
    width = columns_of_block(n, p, q, gpu=gpu)
    options = {"gpu": gpu, "refuse_nan": nan_policy == "raise"}
    x, widths = _columns("A", a, width, **options)
    y, widths_y = (x, widths) if b is None else _columns("B", b, width, **options)
    policy = "propagate" if nan_policy == "raise" else nan_policy  # the tasks of columns look for NaN
    return _crossed(x, y, (widths, widths_y), empty_like(a, 2, np.dtype(np.float64)), variant, pvalue, policy)


def columns_of_block(n: float, p: int, q: int, *, gpu: bool) -> int:
    """Columns of a block, for matrices of ``n`` rows, NaN where unknown, and of ``p`` and ``q`` columns."""
    rows = max(1, _ROWS if math.isnan(n) else n)
    columns = max(1, math.isqrt(int((_WORK_OF_GPU if gpu else _WORK) // rows)))
    while math.ceil(max(p, q) / columns) > _MOST_BLOCKS:
        columns *= 2
    return max(1, min(columns, int(_MOST_NUMBERS // rows)))


def _matrix(name: str, a: Any, rows_of: Any = None) -> Any:
    """Return a two-dimensional Dask array, or a checked plain array."""
    if not is_dask(a):
        return check.matrix(name, a, dispatch.backend(a, name))
    a = collected(name, a, rows_of)
    check.matrix(name, stand_in(a), host)
    dask_check.dimensions(name, a)
    return a


def _columns(name: str, a: Any, width: int, *, gpu: bool, refuse_nan: bool) -> tuple[Blocks, tuple[int, ...]]:
    """Return blocks of whole columns, and the number of columns of each. Tasks concatenate the row blocks."""
    if not is_dask(a):
        a = da.from_array(a, chunks=(max(1, a.shape[0]), width))
    widths = dask_chunks.regular(a.chunks[1], width)
    if widths != a.chunks[1]:
        a = a.rechunk({1: widths})
    starts = np.cumsum([0, *widths]).tolist()
    tasks = [
        (
            partial(_gathered, name=name, number=j, first=starts[j], gpu=gpu, refuse_nan=refuse_nan),
            [(a.name, i, j) for i in range(a.numblocks[0])],
        )
        for j in range(len(widths))
    ]
    return Blocks("columns", tasks, [a], name, gpu, refuse_nan), widths


def _gathered(parts: list[Any], *, name: str, number: int, first: int, gpu: bool, refuse_nan: bool) -> Any:
    """Concatenate and check the row blocks of block ``number`` of columns, which begins with column ``first``."""
    backend = dispatch.named("gpu") if gpu else dispatch.backend(parts[0])
    with backend.device_of(parts[0]):
        with dask_check.of_block(name, number):
            checked = [check.matrix(name, part, backend) for part in parts]
        whole = checked[0] if len(checked) == 1 else backend.xp.concatenate(checked)
        if refuse_nan and whole.dtype.kind == "f":
            columns = np.flatnonzero(backend.asnumpy((whole != whole).any(axis=0)))
            if columns.size:
                column = whole[:, columns[0]]
                rows = np.flatnonzero(backend.asnumpy(column != column))
                check.nan_in_columns(name, (first + columns).tolist(), rows.tolist())
        backend.synchronize()
        return whole


def _crossed(
    x: Blocks, y: Blocks, widths: Sequence[tuple[int, ...]], like: Any, variant: str, pvalue: bool, policy: str
) -> Any:
    """Compute all pairs of blocks; where x is y, transpose those above the diagonal for those below it."""
    symmetric = x is y
    call = partial(_pair, variant=variant, pvalue=pvalue, nan_policy=policy)
    pairs = [(i, j) for i, j in product(range(x.count), range(y.count)) if not symmetric or i <= j]
    tasks = [(call, x.keys[i], *(() if symmetric and i == j else (y.keys[j],))) for i, j in pairs]
    blocks = Blocks("tau", tasks, list(dict.fromkeys((x, y))), symmetric, variant, pvalue, policy)
    keys = dict(zip(pairs, blocks.keys, strict=True))

    def result(part: int | None) -> da.Array:
        name = f"{blocks.name}-{'array' if part is None else SignificanceResult._fields[part]}"
        layer = {}
        for i, j in product(range(x.count), range(y.count)):
            transposed = (i, j) not in keys
            key = keys[(j, i) if transposed else (i, j)]
            layer[(name, i, j)] = (_part, key, part, transposed) if transposed or part is not None else key
        graph = HighLevelGraph.from_collections(name, layer, [blocks])
        return da.Array(graph, name, tuple(widths), dtype=like.dtype, meta=like)

    return SignificanceResult(result(0), result(1)) if pvalue else result(None)


def _pair(a: Any, b: Any = None, **options: Any) -> Any:
    """Call the plain function on two blocks; its pair of results becomes a plain tuple."""
    with computing(a):
        out = plain("kendall_matrix")(a, b, **options)
        return tuple(out) if options["pvalue"] else out


def _part(result: Any, part: int | None, transposed: bool) -> Any:
    """Return a result, or one of its two matrices, perhaps transposed."""
    matrix = result if part is None else result[part]
    return matrix.T if transposed else matrix
