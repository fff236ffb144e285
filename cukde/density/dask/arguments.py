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
from cukde.core.dask.arrays import rows, same, stand_in, unknown_rows, whole_rows
from cukde.core.dask.graph import Blocks, each, gathered
from cukde.core.over_dask import is_dask, meta
from cukde.density import check as density_check, keywords
from cukde.density.arguments import Checked, checked
from cukde.density.dask import blocks, certificate, declared as dask_declared, stream
from cukde.density.dask.blocks import Layout, Place
from cukde.density.dask.certificate import Needed
from cukde.density.dask.declared import Declared, Given, Shared
from cukde.density.domains import check as domains_check
from cukde.density.domains.domain import Domain
from cukde.density.options import Options
from cukde.density.plan import shape as plan_shape
from cukde.density.sums import Output
from cukde.density.whitening import Whitening

# Of what may be left out, the part of blocks that are left out as a whole. What they add falls with the square of the
# distance: a small part costs little, and passes keep nearly all.
_PART_OF_BLOCKS = 1 / 64


class Boxes(NamedTuple):
    """Boxes of the blocks of a call; those of Dask arrays are checked by its tasks."""

    data: Shared
    queries: Shared  # which may be the same
    declared: dict[str, list[Declared]]  # by the name of a Dask array


class Arguments(NamedTuple):
    """Checked arguments: arrays of one block of columns, those beside ``X`` in the blocks of its rows."""

    X: da.Array
    Y: da.Array | None  # None: the data themselves
    weights: da.Array | None
    V: da.Array | None
    local_factors: da.Array | None
    forms: Checked  # of stand-ins
    check_finite: bool
    passed: dict[str, Any]  # keywords of passes
    boxes: Boxes | None = None  # None: all pairs of blocks are taken
    leave_one_out: bool = False

    @property
    def domain(self) -> Domain | None:
        """Of the data and the queries."""
        return self.forms.domain

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
        double = self.forms.precision == "float64" or self.domain is not None
        storage = np.dtype(np.float64) if double else self.forms.dtype
        return Layout(whitening, storage, self.gpu, self.check_finite, self.domain)

    def data_blocks(self, layout: Layout) -> Blocks:
        """Blocks of the data with what belongs to their rows."""
        others = self.weights, self.V, self.local_factors
        return _prepared("X", self.X, others, layout, self.tasks.prepare, self._declared("X"))

    def query_blocks(self, layout: Layout) -> Blocks:
        """Blocks of queries that are not the data."""
        return _prepared("Y", self.queries, (), layout, blocks.prepare, self._declared("Y"))

    def _declared(self, name: str) -> list[Declared] | None:
        return None if self.boxes is None else self.boxes.declared.get(name)

    @property
    def tolerance(self) -> float:
        """What may be left out of a query's sum, relative to what is kept; 0: nothing."""
        precision = self.forms.precision
        single = precision == "tf32" and not self.gpu  # which the CPU does not have
        return plan_shape.tolerance("float32" if single else precision, self.passed.get("rtol"))

    @property
    def options(self) -> Options:
        """Options of a pass over a pair of blocks, whose ``rtol`` is what is left of it where blocks may be left out.

        The transform of one dimension leaves nothing out, and asks for no less than its own accuracy.
        """
        whole = self.boxes is None or self.forms.x.shape[1] == 1
        rest = {} if whole else {"rtol": (1 - _PART_OF_BLOCKS) * self.tolerance}
        return Options(self.forms.precision, **self.passed | rest)

    def needed(
        self,
        whitening: Whitening,
        output: Output,
        *,
        queries_are_data: bool = False,
        moved: np.ndarray | None = None,
    ) -> Needed | None:
        """Which pairs of blocks can matter; None where all are taken.

        ``moved`` says how far the data lie from their boxes, see :func:`cukde.density.dask.certificate.needed`. Bounds
        of sums are of those with own terms.
        """
        if self.boxes is None or not self.tolerance or self.local_factors is not None:
            return None
        data = self.boxes.data
        queries = data if queries_are_data else self.boxes.queries
        found = certificate.needed(
            queries.boxes,
            data.boxes,
            whitening.bandwidth,
            output,
            _PART_OF_BLOCKS * self.tolerance,
            itself=queries is data and moved is None and self.weights is None,
            moved=moved,
        )
        return found._replace(pairs=queries.overlaps @ found.pairs @ data.overlaps.T)

    def shifts(self, needed: Needed | None, of_score: Whitening) -> np.ndarray | None:
        """How far debiasing may move the data, of the pass that ``needed`` is of; None where it is None."""
        if needed is None or self.boxes is None:
            return None
        args = self.boxes.data.boxes, needed.log_least, self.forms.whitening.bandwidth, of_score.bandwidth
        return certificate.shifts(*args, single=self.forms.precision != "float64")

    def log_total(self, data: Blocks) -> float | Blocks:
        """Logarithm of the sum of the weights, or of the number of rows: of a task where it is not known here."""
        n = self.X.shape[0]
        weighted = self.weights is not None
        if self.boxes is not None:  # blocks that cannot matter are not read
            total = self.boxes.data.boxes.log_total
            return blocks.log_total([total], weighted=weighted)
        if not weighted and not math.isnan(n):
            return math.log(n)
        masses = each("mass", blocks.mass, data)
        return gathered("mass", blocks.log_total, masses, weighted=weighted)


def arguments(
    X: Any,
    Y: Any,
    h: Any,
    *,
    weights: Any = None,
    precision: Any = None,
    check_finite: bool = True,
    V: Any = None,
    local_factors: Any = None,
    debiases: bool = False,
    boxes: Any = None,
    bounds: Any = None,
    periods: Any = None,
    leave_one_out: Any = False,
    **of_passes: Any,
) -> Arguments:
    """Check all that can be told without computing anything, and bring blocks of rows side by side.

    With ``debiases`` the data are going to be queries too. With ``boxes`` those of plain arrays are computed.
    """
    dask_check.plain("h", is_dask(h))
    density_check.no_rule("h", h)
    check_finite = core_check.flag("check_finite", check_finite)
    passed = keywords.of_passes(of_passes)
    x = rows("X", X)
    y = None if Y is X or Y is None or same(X, Y) else rows("Y", Y)
    w, v, factors = (
        None if a is None else rows(name, a, X)
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
        bounds=bounds,
        periods=periods,
    )
    if forms.domain is not None:
        domains_check.no_boxes(boxes)

    if core_check.flag("leave_one_out", leave_one_out):
        density_check.queries_are_data(itself=y is None)
        if w is None and not unknown:
            density_check.rows_to_leave_out(x.shape[0])

    n, m = x.shape[0], (x if y is None else y).shape[0]
    numbers = forms.x.shape[1] if forms.v is None else max(forms.x.shape[1], math.prod(forms.v.shape[1:]))
    streamed = _streamed(x, y)
    most = dask_chunks.rows_of_block(n, m, numbers, gpu=streamed or dispatch.is_gpu_array(meta(x)))
    given = None if boxes is None else dask_declared.given(boxes, X, Y, itself=y is None)
    sources = {"X": x, "Y": y, "weights": w}
    x = _in_blocks(x, most, dask_chunks.rows_of_stream(numbers, queries=debiases) if streamed else most)
    y = None if y is None else _in_blocks(y, most, most)
    w, v, factors = (beside(name, a, x) for name, a in (("weights", w), ("V", v), ("local_factors", factors)))
    found = None if given is None else _boxes(given, sources, x, y, weighted=w is not None, check_finite=check_finite)
    return Arguments(x, y, w, v, factors, forms, check_finite, passed, found, bool(leave_one_out))


def _boxes(
    given: Given, sources: dict[str, Any], x: da.Array, y: da.Array | None, *, weighted: bool, check_finite: bool
) -> Boxes:
    """Bring boxes together with the blocks of a call; ``sources`` are its arrays as they came."""
    weights = sources["weights"]
    if weighted and is_dask(weights) and given.data is None:
        raise ValueError(
            "weights must be a plain array beside a plain X where boxes are given; write weights.compute()"
        )
    if given.data is None and weights is not None and check_finite:  # of blocks that are left out, too
        density_check.weight_range(float(weights.min(initial=0)), math.inf)
    found, declared = {}, {}
    for name, of, a in (("X", given.data, x), ("Y", given.queries, y)):
        if a is not None and of is None:
            found[name] = dask_declared.plain(a, sources[name], weights if name == "X" else None)
        elif a is not None and of is not None:
            fitting = dask_declared.fitting(name, of, a, weighted=weighted and name == "X")
            found[name] = dask_declared.shared(fitting, a)
            declared[name] = found[name].declared()
    if y is None and declared:
        declared["Y"] = [one._replace(log_mass=None) for one in declared["X"]]  # queries have no weights
    return Boxes(found["X"], found.get("Y", found["X"]), declared)


def _streamed(x: Any, y: Any) -> bool:
    return dispatch.is_gpu_array(meta(y)) and not dispatch.is_gpu_array(meta(x))


def _in_blocks(a: Any, rows: int, most: int) -> da.Array:
    """Blocks by the rule, of ``most`` rows where they are cut; where their sizes are not known they stay."""
    if not isinstance(a, da.Array):
        return da.from_array(a, chunks=(most, *a.shape[1:]))
    if unknown_rows(a):
        return whole_rows(a)
    return _rechunked(a, dask_chunks.regular(a.chunks[0], rows, most))


def columns(x: Any) -> int:
    """Columns of data, a Dask array or a plain one, whose shape is checked."""
    return int(density_check.data(stand_in(x, unknown_rows(x)), core_arrays)[0].shape[1])


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
        return whole_rows(a)
    return _rechunked(a, x.chunks[0])


def _rechunked(a: da.Array, rows: tuple[int, ...]) -> da.Array:
    chunks = (rows, *((size,) for size in a.shape[1:]))
    return a if a.chunks == chunks else a.rechunk(chunks)


def _prepared(
    name: str,
    a: da.Array,
    beside: tuple[da.Array | None, ...],
    layout: Layout,
    prepare: Callable[..., Any],
    declared: list[Declared] | None,
) -> Blocks:
    starts = [None if np.isnan(start) else int(start) for start in np.cumsum([0, *a.chunks[0]])[:-1]]
    boxes = [{}] * len(starts) if declared is None else [{"declared": one} for one in declared]
    arrays = a, *beside
    tasks = [
        (
            partial(prepare, place=Place(name, i, start), layout=layout, **box),
            *(None if array is None else _key(array, i) for array in arrays),
        )
        for i, (start, box) in enumerate(zip(starts, boxes, strict=True))
    ]
    dependencies = {array.name: array for array in arrays if array is not None}
    names = [None if array is None else array.name for array in arrays]
    stage = "data" if name == "X" else "queries"
    return Blocks(stage, tasks, list(dependencies.values()), name, names, layout, prepare, declared)


def _key(a: da.Array, i: int) -> tuple[Any, ...]:
    return (a.name, i, *[0] * (a.ndim - 1))
