"""From arguments of which some are Dask collections to checked Dask arrays whose blocks of rows lie side by side."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import dask.array as da
import numpy as np

from cukde.core import check as core_check, dispatch
from cukde.core.cpu import arrays as core_arrays
from cukde.core.dask import check as dask_check, chunks as dask_chunks
from cukde.core.dask.arrays import collected, stand_in, unknown_rows
from cukde.core.dask.graph import Blocks, each, gathered
from cukde.core.over_dask import is_dask, meta
from cukde.density import check as density_check
from cukde.density.arguments import Checked, checked
from cukde.density.dask import blocks, stream
from cukde.density.dask.blocks import Layout
from cukde.density.whitening import Whitening


class Arguments(NamedTuple):
    """Checked arguments: arrays of one block of columns, those beside ``X`` in the blocks of its rows."""

    X: da.Array
    Y: da.Array | None  # None: the data themselves
    weights: da.Array | None
    V: da.Array | None
    local_factors: da.Array | None
    forms: Checked  # of stand-ins
    check_finite: bool
    deterministic: bool
    rtol: float | None

    @property
    def gpu(self) -> bool:
        """Whether the data are on the GPU, where all else is brought then, or the queries are."""
        return dispatch.is_gpu_array(self.X._meta) or self.streamed

    @property
    def streamed(self) -> bool:
        """Whether the data are on the host and go through the GPU of the queries in pieces."""
        return _streamed(self.X, self.Y)

    @property
    def tasks(self) -> ModuleType:
        """What is done with the data, by functions of the same names."""
        return stream if self.streamed else blocks

    @property
    def queries(self) -> da.Array:
        """Queries, which may be the data."""
        return self.X if self.Y is None else self.Y

    def layout(self, whitening: Whitening) -> Layout:
        """How blocks are laid out for passes of a bandwidth."""
        storage = np.dtype(np.float64) if self.forms.precision == "float64" else self.forms.dtype
        return Layout(whitening, storage, self.gpu, self.check_finite)

    def data_blocks(self, layout: Layout) -> Blocks:
        """Blocks of the data with what belongs to their rows."""
        return _prepared("X", self.X, (self.weights, self.V, self.local_factors), layout, self.tasks.prepare)

    def query_blocks(self, layout: Layout) -> Blocks:
        """Blocks of queries that are not the data."""
        return _prepared("Y", self.queries, (), layout, blocks.prepare)

    def log_total(self, data: Blocks) -> float | Blocks:
        """Logarithm of the sum of the weights, or of the number of rows: of a task where it is not known here."""
        n = self.X.shape[0]
        if self.weights is None and not math.isnan(n):
            return math.log(n)
        weighted = self.weights is not None
        masses = each("mass", blocks.mass, data)
        return gathered("mass", blocks.log_total, masses, weighted=weighted)


def arguments(
    X: Any,
    Y: Any,
    h: Any,
    weights: Any = None,
    precision: Any = None,
    deterministic: bool = False,
    check_finite: bool = True,
    *,
    V: Any = None,
    local_factors: Any = None,
    rtol: Any = None,
    debiases: bool = False,
) -> Arguments:
    """Check all that can be told without computing anything, and bring blocks of rows side by side.

    With ``debiases`` the data are going to be queries too.
    """
    dask_check.plain("h", is_dask(h))
    check_finite = core_check.flag("check_finite", check_finite)
    deterministic = core_check.flag("deterministic", deterministic)
    rtol = density_check.tolerance(rtol)
    x = _collected("X", X)
    y = None if Y is X or Y is None else _collected("Y", Y)
    if isinstance(x, da.Array) and isinstance(y, da.Array) and x.name == y.name:
        y = None
    w, v, factors = (
        None if a is None else _collected(name, a)
        for name, a in (("weights", weights), ("V", V), ("local_factors", local_factors))
    )
    dispatch.backend(meta(x), weights=meta(w), V=meta(v), local_factors=meta(factors))
    unknown = unknown_rows(x, w, v, factors)
    forms = checked(
        core_arrays,
        stand_in(x, unknown),
        stand_in(y, unknown_rows(y)),
        h,
        stand_in(w, unknown),
        stand_in(v, unknown),
        stand_in(factors, unknown),
        precision,
    )

    n, m = x.shape[0], (x if y is None else y).shape[0]
    numbers = forms.x.shape[1] if forms.v is None else max(forms.x.shape[1], math.prod(forms.v.shape[1:]))
    streamed = _streamed(x, y)
    rows = dask_chunks.rows_of_block(n, m, numbers, gpu=streamed or dispatch.is_gpu_array(meta(x)))
    x = _in_blocks(x, rows, dask_chunks.rows_of_stream(numbers, queries=debiases) if streamed else rows)
    y = None if y is None else _in_blocks(y, rows, rows)
    w, v, factors = (beside(name, a, x) for name, a in (("weights", w), ("V", v), ("local_factors", factors)))
    return Arguments(x, y, w, v, factors, forms, check_finite, deterministic, rtol)


def _collected(name: str, a: Any) -> Any:
    """A Dask array of rows, or a plain array."""
    a = collected(name, a)
    if is_dask(a):
        dask_check.dimensions(name, a)
    return a


def _streamed(x: Any, y: Any) -> bool:
    return dispatch.is_gpu_array(meta(y)) and not dispatch.is_gpu_array(meta(x))


def _in_blocks(a: Any, rows: int, most: int) -> da.Array:
    """Blocks by the rule, of ``most`` rows where they are cut; where their sizes are not known they stay."""
    if not isinstance(a, da.Array):
        return da.from_array(a, chunks=(most, *a.shape[1:]))
    if unknown_rows(a):
        return a.rechunk({1: -1}) if a.ndim == 2 and a.numblocks[1] > 1 else a
    return _rechunked(a, dask_chunks.regular(a.chunks[0], rows, most))


def beside(name: str, a: Any, x: da.Array, *, of: str = "X") -> da.Array | None:
    """Blocks of the rows of ``x``, which a message calls ``of``."""
    if a is None:
        return None
    lies = isinstance(a, da.Array)
    known = not unknown_rows(x, a)
    dask_check.alignable(name, known, a.numblocks[0] if lies else None, x.numblocks[0], of=of)
    if not lies:
        return da.from_array(a, chunks=(x.chunks[0], *a.shape[1:]))
    if not known:
        return a.rechunk({1: -1}) if a.ndim == 2 and a.numblocks[1] > 1 else a
    return _rechunked(a, x.chunks[0])


def _rechunked(a: da.Array, rows: tuple[int, ...]) -> da.Array:
    chunks = (rows, *((size,) for size in a.shape[1:]))
    return a if a.chunks == chunks else a.rechunk(chunks)


def _prepared(
    name: str, a: da.Array, beside: tuple[da.Array | None, ...], layout: Layout, prepare: Callable[..., Any]
) -> Blocks:
    starts = np.cumsum([0, *a.chunks[0]])[:-1]
    tasks = [
        (
            partial(
                prepare,
                name=name,
                number=i,
                start=None if np.isnan(starts[i]) else int(starts[i]),
                layout=layout,
            ),
            *(None if array is None else _key(array, i) for array in (a, *beside)),
        )
        for i in range(a.numblocks[0])
    ]
    dependencies = {array.name: array for array in (a, *beside) if array is not None}
    names = [None if array is None else array.name for array in (a, *beside)]
    return Blocks(
        "data" if name == "X" else "queries", tasks, list(dependencies.values()), name, names, layout, prepare
    )


def _key(a: da.Array, i: int) -> tuple[Any, ...]:
    return (a.name, i, *[0] * (a.ndim - 1))
