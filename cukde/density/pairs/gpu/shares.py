"""Passes of which several devices take shares: queries, or pairs of the data with themselves that are taken once."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import cupy as cp

from cukde.core.gpu import arrays, device as core_device
from cukde.core.plan import note
from cukde.density.options import Options
from cukde.density.pairs.gpu import f16_symmetric, passes as pairs_passes
from cukde.density.pairs.gpu.arguments import Arguments
from cukde.density.pairs.gpu.passes import Choose
from cukde.density.pairs.gpu.share import Share
from cukde.density.pairs.gpu.skipping import (
    bounds as skipping_bounds,
    choice as skipping_choice,
    frame as skipping_frame,
    passes as skipping_passes,
    plan as skipping_plan,
    points as skipping_points,
)
from cukde.density.pairs.gpu.skipping.choice import Chosen, Look
from cukde.density.pairs.gpu.skipping.frame import Frame
from cukde.density.pairs.gpu.skipping.points import Rows
from cukde.density.sums import Output, PartialSums

T = TypeVar("T")

Spread = Callable[[Sequence[Callable[[], Any]]], list[Any]]
"""Calls each task on one of the devices, see :func:`cukde.core.gpu.devices.spread`."""


def order(X: Any, Y: Any, look: Look | None) -> Any | None:
    """Rows of queries in an order that puts near ones together; None in more dimensions than one is good for.

    ``look`` is what is known of the data.
    """
    if X.shape[1] > skipping_points.MOST_DIMENSIONS:
        return None
    frame = None if look is None else look.frame
    return skipping_points.order_of(Y, skipping_frame.frame(skipping_frame.sample(X)) if frame is None else frame)


class Lead:
    """What the first share finds out for all: the frame of the data, their order, and whether pairs are left out.

    The others make operands of their points in this order while the first share looks whether that is worth it.
    ``look`` is what a pass over data near these has found, and ``following`` are queries of a pass to come, which can
    start from this look.
    """

    def __init__(self, look: Look | None = None, following: Any | None = None) -> None:
        self.look, self._following = look, following
        self._order: Future[tuple[Frame, Rows] | None] = Future()
        self._kind: Future[Literal["near", "apart", "all"]] = Future()

    @property
    def failed(self) -> bool:
        """Whether the first share did not get so far, once all shares are done: each has chosen for itself then."""
        return self._kind.exception() is not None

    def run(self, share: int, compute: Callable[[Choose], T]) -> T:
        """Compute a share of a pass, which is told how to choose; one device has to begin with share 0."""
        if share or self._order.done():
            return compute(self._other)
        try:
            return compute(self._first)
        finally:
            for future in (self._order, self._kind):
                if not future.done():
                    future.set_exception(RuntimeError("the first share failed, or chose nothing"))

    def _first(self, arguments: Arguments, output: Output, *, ratio: bool = False) -> Chosen:
        X, Y, h, options, _ = arguments
        look, rows, order = self.look, None, None
        if skipping_choice.may_leave_out(arguments, output, ratio=ratio):
            if look is None:
                look = skipping_choice.looked(X, self._following if Y is None else Y, h)
            frame = skipping_frame.frame(look.data) if look.frame is None else look.frame
            look = look._replace(frame=frame)
            rows = skipping_plan.in_order(X, h, output, options, frame, itself=Y is None, ratio=ratio)
            order = frame, rows
            arrays.synchronize()  # other devices are going to read them
        self._order.set_result(order)
        chosen = skipping_choice.near(arguments, output, ratio=ratio, look=look, following=self._following, rows=rows)
        self.look = look if chosen.look is None else chosen.look
        self._kind.set_result("near" if chosen.prepared is not None else "apart" if chosen.apart is not None else "all")
        return chosen

    def _other(self, arguments: Arguments, output: Output, *, ratio: bool = False) -> Chosen:
        prepared = None
        try:
            order = self._order.result()
            if order is not None:
                prepared = _pass_in_order(arguments, output, *order, ratio=ratio)
            kind = self._kind.result()
        except RuntimeError:  # of the first share, which another device takes then
            kind = "apart"
        if kind == "apart":
            return skipping_choice.near(arguments, output, ratio=ratio)
        return Chosen(prepared if kind == "near" else None)


def _pass_in_order(
    arguments: Arguments, output: Output, frame: Frame, rows: Rows, *, ratio: bool
) -> skipping_plan.Prepared:
    """Prepare the pass that leaves out pairs, on the current device, with the data in a known order."""
    X, Y, h, options, _ = arguments
    frame, rows = skipping_frame.here(frame), Rows(*map(arrays.asarray, rows))
    return skipping_plan.prepare(X, Y, h, output, options, frame, options.tolerance, rows=rows, ratio=ratio)


class _Sums(NamedTuple):
    """Sums of a share of the pairs, and which points they are of."""

    prepared: skipping_plan.Prepared | None  # None: of all pairs
    S: Any
    T: Any
    counts: Any | None = None
    kinds: bytes = b""  # of blocks of points


class Slice(NamedTuple, Generic[T]):
    """What was made of the whole sums at some rows of the data, on the device that made it."""

    rows: Any | None  # (r,) int64; None: all, as they are
    made: T


def sums_once(
    X: Any,
    h: float,
    options: Options,
    lead: Lead,
    here: Callable[[Options], Options],
    spread: Spread,
    shares: int,
    make: Callable[[Any, PartialSums], T],
    *,
    ratio: bool,
) -> list[Slice[T]] | None:
    """Make something of output "moments" of the data at themselves, each pair taken once by one of so many shares.

    None where the pass would not take each pair once. Waits for the device. ``here`` brings options to the current
    device. ``make`` is given rows of the data and their sums. Other arguments are those of
    :func:`cukde.density.pairs.gpu.passes.partial_sums`.

    Every device has the data, and sums of its share at all points. Where pairs are left out, a device then adds up and
    finishes a slice of the sums, which it copies from the others; else the current one does all. Memory beside the
    operands of a pass: 4 (d + 1) bytes a point on each device, and twice as much of a slice.
    """
    whole = pairs_passes.prepare(X, None, h, options)
    options = whole.options
    by_products = whole.engine("moments", ratio=ratio).name == "f16_symmetric"
    plan = skipping_plan.Plan.of(X.shape[1], "moments", options, itself=True, ratio=ratio)
    if not (by_products or (plan.once and skipping_choice.may_leave_out(whole, "moments", ratio=ratio))):
        return None

    def summed(share: Share, choose: Choose) -> _Sums | None:
        arguments = pairs_passes.prepare(arrays.asarray(X), None, h, here(options))
        chosen = choose(arguments, "moments", ratio=ratio)
        prepared = chosen.prepared
        if isinstance(prepared, skipping_plan.Prepared) and prepared.plan.once:
            _, S, T, taken = skipping_passes.summed(prepared, skipping_bounds.bounds_of(prepared), share)
            return _Sums(prepared, S, T, taken.counts, arrays.asnumpy(prepared.data.kinds).tobytes())
        if prepared is not None or chosen.apart is not None or not by_products:
            return None
        return _Sums(
            None, *f16_symmetric.launch(f16_symmetric.operand_of(arguments), exact_sums=not ratio, share=share)
        )

    def task(i: int) -> _Sums | None:
        return lead.run(i, functools.partial(summed, Share(i, shares)))

    found: list[_Sums | None] = spread([functools.partial(task, i) for i in range(shares)])
    parts = [part for part in found if part is not None]
    prepared = [part.prepared for part in parts if part.prepared is not None]
    if len(parts) < shares or 0 < len(prepared) < shares:
        return None
    if not prepared:
        S, T = (_added([getattr(part, name) for part in parts]) for name in ("S", "T"))
        n, d = X.shape
        return [Slice(None, make(X, f16_symmetric.finish(f16_symmetric.operand_of(whole), S, T, n, d, h)))]
    if lead.failed or len({part.kinds for part in parts}) > 1:  # devices of two models might round differently
        return None
    ends = [len(X) * i // shares for i in range(shares + 1)]
    slices = spread([functools.partial(_slice, prepared, parts, *of, make) for of in itertools.pairwise(ends)])
    blocks = prepared[0].data.blocks
    taken = skipping_passes.Taken(_added([part.counts for part in parts]), skipping_passes.units(blocks, blocks))
    note("skipping", output="moments", share=taken.share)
    return slices


def _slice(
    prepared: Sequence[skipping_plan.Prepared],
    parts: Sequence[_Sums],
    begin: int,
    end: int,
    make: Callable[[Any, PartialSums], T],
) -> Slice[T]:
    """Some rows, in the order of the sums, on the current device."""
    number = core_device.current()
    own = prepared[next((i for i, part in enumerate(parts) if core_device.holder(part.S) == number), 0)]
    own = own._replace(data=own.data._replace(given=arrays.asarray(own.data.given)))
    rows = arrays.asarray(own.data.order[begin:end])
    S, T = (_added_rows([getattr(part, name) for part in parts], begin, end) for name in ("S", "T"))
    return Slice(rows, make(*skipping_passes.completed_rows(own, rows, S, T)))


def _added_rows(parts: Sequence[Any], begin: int, end: int) -> Any:
    """Sum of some rows of arrays in one order, by rows or by columns; what is copied from a device is contiguous."""
    if parts[0].flags.c_contiguous:
        return _added([part[begin:end] for part in parts])
    columns = range(parts[0].shape[1])
    return cp.stack([_added([part.T[k, begin:end] for part in parts]) for k in columns]).T


def _added(parts: Sequence[Any]) -> Any:
    """Sum of arrays that lie on several devices, on the current one; they stay as they are."""
    total = arrays.asarray(parts[0])
    for part in parts[1:]:
        total = total + arrays.asarray(part)
    return total
