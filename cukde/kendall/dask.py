"""Kendall's tau of Dask arrays: blocks of columns by blocks of columns, each unordered pair once."""

from __future__ import annotations

import math
import operator
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
from cukde.core.dask.arrays import collected, empty_like, stand_in, unknown_rows
from cukde.core.dask.devices import computing
from cukde.core.dask.graph import Blocks
from cukde.core.over_dask import is_dask, meta, plain
from cukde.kendall import check, statistics
from cukde.kendall.counts import SignificanceResult

# Columns of a block times themselves and the rows: two such blocks take 0.1 s to 2 s on two CPU cores, by the model
# 1 ms to 100 ms on an H200, for 1e3 to 1e6 rows.
_WORK, _WORK_OF_GPU = 2**24, 2**30

_MOST_NUMBERS = 2**24  # of a block: 128 MiB in double precision
_MOST_BLOCKS = 64  # of either matrix, beyond which blocks get larger
_ROWS = 2**16  # where they are not known


def kendall_matrix(
    A: Any,
    B: Any = None,
    *,
    variant: Literal["a", "b", "c"] = "b",
    pvalue: bool = False,
    nan_policy: Literal["propagate", "omit", "raise"] = "propagate",
) -> Any:
    """See :func:`cukde.kendall_matrix`.

    Counts are exact, and statistics have the bits of the same call on plain arrays, whatever the blocks. Each unordered
    pair of blocks of columns costs one matrix.

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
    b = None if B is None or B is A else _matrix("B", B)
    if b is not None and is_dask(a) and is_dask(b) and a.name == b.name:
        b = None
    dispatch.backend(meta(a), "A", B=meta(b))
    unknown = unknown_rows(a, b)
    forms = [check.matrix(name, stand_in(of, unknown), host) for name, of in (("A", a), ("B", b)) if of is not None]
    if b is not None:
        check.same_rows(*forms)

    n, p, q = a.shape[0], forms[0].shape[1], forms[-1].shape[1]
    gpu = dispatch.is_gpu_array(meta(a))
    width = columns_of_block(n, p, q, gpu=gpu)
    options = {"gpu": gpu, "refuse_nan": nan_policy == "raise"}
    x, of_a = _columns("A", a, width, **options)
    y, of_b = (x, of_a) if b is None else _columns("B", b, width, **options)
    policy = "propagate" if nan_policy == "raise" else nan_policy  # what is refused is looked for already
    return _crossed(x, y, (of_a, of_b), empty_like(a, 2, np.dtype(np.float64)), variant, pvalue, policy)


def columns_of_block(n: float, p: int, q: int, *, gpu: bool) -> int:
    """Columns of a block of matrices of ``n`` rows, NaN where they are not known, and ``p`` and ``q`` columns."""
    rows = max(1, _ROWS if math.isnan(n) else n)
    columns = max(1, math.isqrt(int((_WORK_OF_GPU if gpu else _WORK) // rows)))
    while math.ceil(max(p, q) / columns) > _MOST_BLOCKS:
        columns *= 2
    return max(1, min(columns, int(_MOST_NUMBERS // rows)))


def _matrix(name: str, a: Any) -> Any:
    """A Dask array of two dimensions, or a checked plain one."""
    if not is_dask(a):
        return check.matrix(name, a, dispatch.backend(a, name))
    a = collected(name, a)
    check.matrix(name, stand_in(a), host)
    dask_check.dimensions(name, a)
    return a


def _columns(name: str, a: Any, width: int, *, gpu: bool, refuse_nan: bool) -> tuple[Blocks, tuple[int, ...]]:
    """Blocks of whole columns, and how many each has. Rows of unknown lengths are brought together in the tasks."""
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
    """Block ``number`` of the columns of a matrix, of which it begins with the column ``first``."""
    backend = dispatch.named("gpu") if gpu else dispatch.backend(parts[0])
    with backend.device_of(parts[0]):
        with dask_check.of_block(name, number):
            checked = [check.matrix(name, part, backend) for part in parts]
        whole = checked[0] if len(checked) == 1 else backend.xp.concatenate(checked)
        if refuse_nan and whole.dtype.kind == "f":
            columns = np.flatnonzero(backend.asnumpy((whole != whole).any(axis=0)))
            if columns.size:
                one = whole[:, columns[0]]
                rows = np.flatnonzero(backend.asnumpy(one != one))
                check.nan_in_columns(name, (first + columns).tolist(), rows.tolist())
        backend.synchronize()
        return whole


def _crossed(
    x: Blocks, y: Blocks, widths: Sequence[tuple[int, ...]], like: Any, variant: str, pvalue: bool, policy: str
) -> Any:
    """All pairs of blocks; where both are of one matrix, those below the diagonal are transposed ones above it."""
    itself = x is y
    call = partial(_pair, variant=variant, pvalue=pvalue, nan_policy=policy)
    pairs = [(i, j) for i, j in product(range(x.count), range(y.count)) if not itself or i <= j]
    tasks = [(call, x.keys[i], *(() if itself and i == j else (y.keys[j],))) for i, j in pairs]
    blocks = Blocks("tau", tasks, list(dict.fromkeys((x, y))), itself, variant, pvalue, policy)
    of_pair = dict(zip(pairs, blocks.keys, strict=True))

    def result(part: int | None) -> da.Array:
        name = f"{blocks.name}-{'array' if part is None else SignificanceResult._fields[part]}"
        layer = {}
        for i, j in product(range(x.count), range(y.count)):
            turned = (i, j) not in of_pair
            key = of_pair[(j, i) if turned else (i, j)]
            layer[(name, i, j)] = (_part, key, part, turned) if turned or part is not None else key
        graph = HighLevelGraph.from_collections(name, layer, [blocks])
        return da.Array(graph, name, tuple(widths), dtype=like.dtype, meta=like)

    return SignificanceResult(result(0), result(1)) if pvalue else result(None)


def _pair(a: Any, b: Any = None, **options: Any) -> Any:
    """What the plain function gives for two blocks, as a plain tuple where it is one."""
    with computing(a):
        out = plain("kendall_matrix")(a, b, **options)
        return tuple(out) if options["pvalue"] else out


def _part(result: Any, part: int | None, turned: bool) -> Any:
    """One of a pair of matrices, transposed where that is asked for."""
    one = result if part is None else operator.getitem(result, part)
    return one.T if turned else one
