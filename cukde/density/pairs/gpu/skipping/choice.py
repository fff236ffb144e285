"""Whether a pass leaves out pairs: by what a few queries would take, beside what all pairs take."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.gpu.launch import DOUBLE, Specialisation, begin
from cukde.density.kept import kept
from cukde.density.options import Options
from cukde.density.pairs import counting
from cukde.density.pairs.gpu import centred, difference
from cukde.density.pairs.gpu.apart import Apart, beyond
from cukde.density.pairs.gpu.arguments import Arguments
from cukde.density.pairs.gpu.skipping import (
    frame as skipping_frame,
    passes,
    plan as skipping_plan,
    points as skipping_points,
    values as skipping_values,
)
from cukde.density.plan import gpu as plan_gpu
from cukde.density.plan.shape import Shape
from cukde.density.sums import Output

_PROBES = 4  # items of queries


class Look(NamedTuple):
    """What a look at a pass has found. A pass over points near these data can start from it, and waits for nothing."""

    data: np.ndarray  # a sample, on the host
    queries: np.ndarray  # likewise: of the pass, or where it takes the data themselves, of the pass to come
    h: float
    frame: skipping_frame.Frame | None = None  # None until a pass needs it
    share: float | None = None  # of units that the pass takes, by a probe
    tight: float = 0.0  # share of blocks that products are good for, likewise

    def shares(self, h: float, least: float) -> tuple[float, float]:
        """About the least and the largest share that a pass at ``queries`` takes: at ``least`` a pair still counts.

        Of pairs it takes the share of the data's pass, times how many more or fewer the queries see than the data do.
        Units hold many pairs, so that their share changes less.
        """
        if self.share is None:
            return 0.0, 1.0
        data, others = self.data[::2], self.data[1::2]
        few = 1 / (counting.QUERIES * counting.DATA)
        seen = max(few, counting.share(data, self.queries, h, least))
        more = seen / max(few, counting.share(data, others, self.h, least))
        return self.share * min(1.0, more), min(1.0, self.share * max(1.0, more))


class Chosen(NamedTuple):
    """The prepared pass that leaves out pairs, or None: all pairs are faster; and what was found on the way."""

    prepared: skipping_plan.Prepared | skipping_values.Prepared | None = None
    look: Look | None = None
    apart: Apart | None = None  # rows that a pass over all pairs takes apart

    @property
    def takes_all(self) -> bool:
        """Whether one pass takes all pairs."""
        return self.prepared is None and self.apart is None


ALL_PAIRS = Chosen()


def may_leave_out(of: Arguments, output: Output, *, ratio: bool) -> bool:
    """Whether samples are worth their time that may choose to leave out pairs."""
    shape, squared_radius = of.shape(output, ratio=ratio), of.options.squared_radius
    if plan_gpu.takes_all(shape, squared_radius):
        return False
    return plan_gpu.may_leave_out(shape, of.engine(output, ratio=ratio).name, squared_radius)


def near(
    of: Arguments,
    output: Output,
    *,
    ratio: bool = False,
    following: Any | None = None,
    look: Look | None = None,
    rows: skipping_points.Rows | None = None,
) -> Chosen:
    """Prepare the pass that leaves out pairs where it is faster than all pairs, or than products of nearly all rows.

    Waits for the device where samples are worth their time; with ``look``, only where that does not decide. ``look`` is
    of a pass over data near these, with ``following`` near its queries: those of a pass to come. ``rows`` are those of
    the data in order, where they are known.
    """
    X, Y, h, options, _ = of
    shape = of.shape(output, ratio=ratio)
    if plan_gpu.takes_all(shape, options.squared_radius):
        return ALL_PAIRS
    of_all = of.engine(output, ratio=ratio).name
    fast = of_all != "difference"
    apart = plan_gpu.apart_serves(shape, options.squared_radius, of_all)

    def far_rows() -> Apart | None:
        return None if apart is None else Apart.of(X, Y, h, options, apart.limit)

    if not plan_gpu.may_leave_out(shape, of_all, options.squared_radius):
        return Chosen(apart=far_rows())
    if of_all == "centred":
        centred.begin_kernels(of, output, ratio=ratio)
    n, m, d, tolerance = shape.n, shape.m, shape.d, shape.tolerance
    plan = skipping_plan.Plan.of(d, output, options, itself=Y is None, ratio=ratio)
    times = plan_gpu.Skipping(shape, of_all, plan.chunks or plan.products, plan.once, apart)

    least, most = (0.0, 1.0) if look is None else look.shares(h, tolerance / n)
    if not times.pays(least, 1.0):
        return Chosen(None, look, far_rows())
    if look is None:
        look = looked(X, following if Y is None else Y, h)
    if apart is not None and not plan_gpu.apart_is_likely(beyond(look.data, apart.limit * h * h)):
        apart, times = None, times._replace(apart=None)
    queries = look.data if Y is None else look.queries
    if times.rather_apart(least, 1.0) or (
        (fast or times.rather_apart(1.0, 1.0))
        and times.decided(counting.share(look.data, queries, h, tolerance / n, itself=Y is None))
    ):
        found = far_rows()
        if fast or found is not None:
            return Chosen(None, look, found)
        apart, times = None, times._replace(apart=None)
    frame = look.frame
    if frame is None:
        frame = kept(options.kept, "frame", X, None, functools.partial(skipping_frame.frame, look.data))
    look = look._replace(frame=frame)
    is_sure = times.pays(most, look.tight) and not times.rather_apart(most, look.tight)

    def begin_kernels(*, left: bool) -> None:
        if not is_sure:
            begin(*_kernels_of_probe(output, options, X.dtype, d, left=left))
        begin(*passes.kernels(plan, output, X.dtype, d, itself=Y is None, left=left), likely=not is_sure)

    storage = DOUBLE if plan.real == DOUBLE else X.dtype
    begin(*skipping_points.kernels(storage, d, n if Y is None else max(n, m)))
    begin_kernels(left=False)
    whole = skipping_plan.prepare(X, Y, h, output, options, frame, tolerance, rows=rows, ratio=ratio)
    begin_kernels(left=bool(whole.left))
    if is_sure:
        return Chosen(whole, look)
    share, tight = _share(whole, frame)
    look = look._replace(share=share, tight=tight)
    found = far_rows() if times.rather_apart(share, tight) else None
    return Chosen(whole, look) if found is None and times.pays(share, tight) else Chosen(None, look, found)


def near_values(of: Arguments, values: Any) -> Chosen:
    """Prepare the pass over values that leaves out pairs where it is faster than all pairs.

    Waits for the device where the time of all pairs makes samples worth their time.
    """
    X, Y, h, options, _ = of
    k = values.shape[1]
    shape = of.shape("values", k=k)
    if plan_gpu.takes_all(shape, options.squared_radius):
        return ALL_PAIRS
    of_all = of.engine("values", k=k).name
    if not plan_gpu.may_leave_out(shape, of_all, options.squared_radius):
        return ALL_PAIRS
    plan = skipping_plan.Plan.of(shape.d, "sum", options, itself=False, ratio=False)

    def pays(columns: Sequence[tuple[int, int]], share: float, tight: float) -> bool:
        products = plan.chunks or plan.products
        return plan_gpu.skipping_values_pay(shape, of_all, columns, share, tight, products=products)

    if not pays([(1, 1)], 0.0, 1.0):  # the least that there is
        return ALL_PAIRS
    columns = skipping_values.columns_of(values)
    counts = [(c.positive + c.negative, c.signs) for c in columns]
    if not columns or not pays(counts, 0.0, 1.0):
        return ALL_PAIRS
    look = looked(X, Y, h)
    shared = counting.share(look.data, look.queries, h, shape.tolerance / shape.n, itself=Y is None)
    counted = shared * sum(count for count, _ in counts) / (shape.n * len(columns))  # of the pairs with all data
    if plan_gpu.values_take_all(of_all, shared) or not pays(counts, counted, 1.0):
        return ALL_PAIRS
    frame = skipping_frame.frame(look.data)
    whole = skipping_values.prepare(X, Y, values, h, options, frame, shape.tolerance, columns)
    return Chosen(whole) if pays(counts, *_share_of_values(whole)) else ALL_PAIRS


def looked(X: Any, queries: Any | None, h: float) -> Look:
    """Take samples, on the host; waits for the device."""
    if queries is None:
        data = skipping_frame.sample(X)
        return Look(data, data, h)
    return Look(*skipping_frame.samples(X, queries), h)


def kernels(shape: Shape, options: Options, storage: np.dtype) -> Iterator[Specialisation]:
    """What a pass that leaves out pairs launches, from its samples on."""
    d, values = shape.d, shape.output == "values"
    output: Output = "sum" if values else shape.output  # a column of values is as weights
    itself = shape.itself and not values
    plan = skipping_plan.Plan.of(d, output, options, itself=itself, ratio=shape.ratio)
    yield from skipping_points.kernels(DOUBLE if plan.real == DOUBLE else storage, d, max(shape.n, shape.m))
    for left in (False, True):
        yield from _kernels_of_probe(output, options, storage, d, left=left)
        yield from passes.kernels(plan, output, storage, d, itself=itself, left=left)
    if values:
        precision = "float64" if plan.real == DOUBLE else "float32"
        yield difference.specialise("values", precision, storage, d, shape.k).kernel


def _output_of_probe(output: Output) -> Output:
    return "laplace" if output == "laplace" else "sum"


def _kernels_of_probe(
    output: Output, options: Options, storage: np.dtype, d: int, *, left: bool
) -> Iterator[Specialisation]:
    """What :func:`_share` launches for a pass."""
    output = _output_of_probe(output)
    plan = skipping_plan.Plan.of(d, output, options, itself=False, ratio=False)
    return passes.kernels(plan, output, storage, d, itself=False, left=left)


def _share(whole: skipping_plan.Prepared, frame: skipping_frame.Frame) -> tuple[float, float]:
    """Share of units that a few items of queries take, and of blocks that products are good for."""
    few = whole.queries.given[_few_of(whole.queries.order)]
    options = whole.options
    output = _output_of_probe(whole.output)
    probe = skipping_plan.prepare(
        whole.data.given, few, whole.h, output, options, frame, whole.tolerance, data=whole.data
    )
    return passes.share(probe), float((cp.asnumpy(whole.data.kinds) > 0).mean())


def _share_of_values(whole: skipping_values.Prepared) -> tuple[float, float]:
    """The same of a pass over values, by the column that has most of them: a column takes a pass of its own."""
    few = whole.Y[_few_of(skipping_points.order_of(whole.Y, whole.frame))]
    fullest = max(whole.columns, key=lambda column: column.positive + column.negative)
    return skipping_values.share(whole._replace(Y=few, columns=(fullest,)))


def _few_of(order: Any) -> Any:
    """A few items of queries from those in order: neighbours, as in most passes, so that their boxes are small."""
    size = 2 * skipping_points.BLOCK
    items = len(order) // size
    if items <= _PROBES:
        return order
    step = items // _PROBES
    return order[: items * size].reshape(items, size)[step // 2 :: step][:_PROBES].ravel()
