"""Passes of which several devices take shares, those of the data at themselves that take each pair once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import cupy as cp

from cukde.core.gpu import arrays, device
from cukde.density.options import Options
from cukde.density.pairs.gpu import f16, f16_symmetric, operands as pairs_operands, passes as pairs_passes
from cukde.density.pairs.gpu.share import Share
from cukde.density.pairs.gpu.skipping import (
    bounds as skipping_bounds,
    frame as skipping_frame,
    passes as skipping_passes,
    plan as skipping_plan,
    points as skipping_points,
)
from cukde.density.sums import PartialSums

Spread = Callable[[Sequence[Callable[[], Any]]], list[Any]]
"""Calls each task on one of the devices, see :func:`cukde.core.gpu.devices.spread`."""


def order(X: Any, Y: Any) -> Any | None:
    """Rows of queries in an order that puts near ones together; None in more dimensions than one is good for."""
    if X.shape[1] > skipping_points.MOST_DIMENSIONS:
        return None
    return skipping_points.order_of(Y, skipping_frame.frame(skipping_frame.sample(X)))


def sums_once(X: Any, h: float, options: Options, spread: Spread, shares: int, *, ratio: bool) -> PartialSums | None:
    """Output "moments" of the data at themselves, each pair taken once by one of so many shares.

    None where the pass would not take each pair once. Waits for the device. Other arguments, and the result, are those
    of :func:`cukde.density.pairs.gpu.passes.partial_sums`; it is on the current device.

    Every device has the data, and sums of its share at all points; the current one adds them up. Memory beside the
    operands of a pass: on each device 4 (d + 1) bytes a point, and on the current one as much again.
    """
    once = pairs_passes.once(X, h, options, ratio=ratio)
    if once is None:
        return None
    if once.posed is not None:
        return _near_pairs(once.posed, spread, shares)
    assert once.form is not None
    return _all_pairs(X, h, options, once.form, spread, shares, exact_sums=not ratio)


def _all_pairs(
    X: Any, h: float, options: Options, form: f16.Form, spread: Spread, shares: int, *, exact_sums: bool
) -> PartialSums:
    def operand_here() -> pairs_operands.Operand:
        points, centre = arrays.asarray(X), arrays.asarray(options.centre)
        operand, _ = pairs_operands.prepare(points, None, centre, h, split=form.split, symmetric=True)
        return operand

    def task(share: Share) -> tuple[Any, Any]:
        return f16_symmetric.launch(operand_here(), exact_sums=exact_sums, limit=form.length_limit, share=share)

    S, T = _added(spread([functools.partial(task, Share(i, shares)) for i in range(shares)]))
    n, d = X.shape
    return f16_symmetric.finish(operand_here(), S, T, n, d, h, limit=form.length_limit)


def _near_pairs(posed: skipping_plan.Posed, spread: Spread, shares: int) -> PartialSums:
    home = device.current()

    def task(share: Share) -> tuple[Any, Any, Any]:
        here = posed if device.current() == home else _posed_here(posed)
        _, S, T, taken = skipping_passes.summed(here, skipping_bounds.bounds_of(here), share)
        return S, T, taken.counts

    S, T, counts = _added(spread([functools.partial(task, Share(i, shares)) for i in range(shares)]))
    taken = skipping_passes.Taken(counts, skipping_passes.units(posed.queries.blocks, posed.data.blocks))
    return skipping_passes.completed(posed, cp.zeros(len(S), S.dtype), S, T, taken)


def _posed_here(posed: skipping_plan.Posed) -> skipping_plan.Posed:
    """The same pass on the current device, its points in the same order."""
    data, frame = posed.data, skipping_frame.here(posed.frame)
    rows = skipping_points.Rows(arrays.asarray(data.order), arrays.asarray(data.codes))
    X, options = arrays.asarray(data.given), posed.options._replace(centre=None, kept=None)
    arguments = X, None, posed.h, posed.output, options, frame, posed.tolerance
    return skipping_plan.pose(*arguments, rows=rows, ratio=True)


def _added(parts: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Sums of arrays that lie on several devices, on the current one."""
    totals = [arrays.asarray(a) for a in parts[0]]
    for part in parts[1:]:
        for total, a in zip(totals, part, strict=True):
            total += arrays.asarray(a)
    return totals
