"""What tasks do where the data stay on the host: they go through the GPU of the queries piece by piece.

The functions have the names and arguments of those of :mod:`cukde.density.dask.blocks` whose place they take.
"""

from __future__ import annotations

import contextlib
import math
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from cukde.core import dispatch
from cukde.density import check as density_check
from cukde.density.dask import blocks as dask_blocks
from cukde.density.dask.blocks import Block, HostBlock, Layout, Place
from cukde.density.dask.declared import Declared
from cukde.density.sums import Output, PartialSums
from cukde.density.whitening import Whitening


def prepare(*arrays: Any, place: Place, layout: Layout, declared: Declared | None = None) -> HostBlock:
    """Check the forms of a block of data, and its weights, whose sum is wanted before the passes."""
    x, others = dask_blocks.formed(*arrays, place=place, backend=dispatch.named("cpu"))
    log_mass, w = dask_blocks.log_rows(len(x)), others.get("weights")
    if w is not None and len(x):
        if layout.check_finite:
            if not np.isfinite(w).all():
                place.refuse(w, "weights")
            with place.errors():
                density_check.weight_range(float(w.min()), math.inf)
        with np.errstate(divide="ignore", invalid="ignore"):  # of unchecked weights
            log_mass = dask_blocks.log_weight(w)
    if declared is not None:
        dask_blocks.as_declared(declared, place, x, log_mass, check=layout.check_finite)
    return HostBlock(place, x, others, log_mass, layout)


def pairs(y: Block | HostBlock, data: list[HostBlock], *, output: Output, itself: bool, **options: Any) -> PartialSums:
    """Sums over some blocks of data, or none, at one block of queries, on the device of the queries.

    Sums at queries that are blocks of data themselves (``itself``) are computed on the current device, to which such a
    block goes as a whole, and come back to the host.
    """
    gpu = dispatch.named("gpu")
    with gpu.device_of(y.points), gpu.upload.turn() as copying:
        if not isinstance(y, HostBlock):
            return dask_blocks.whole(_sums(y, data, gpu, copying, output=output, **options))
        sums = _sums(_on_device(y, gpu), data, gpu, copying, output=output, **options)
        return PartialSums(*(None if a is None else gpu.asnumpy(a) for a in sums))


def _sums(
    y: Block, data: list[HostBlock], gpu: ModuleType, copying: Any, *, output: Output, **options: Any
) -> PartialSums:
    """Stream the data past queries on the current device."""
    blocks = [x for x in data if len(x.points) and x.log_mass > -math.inf]
    if not len(y.points) or not blocks:
        values = data[0].others.get("V") if data else None
        return dask_blocks.nothing(len(y.points), y.points.shape[1], values, output, gpu.xp)
    smaller = dask_blocks.within_memory(gpu)
    widths, dtypes = [a.shape[1:] for a in blocks[0].arrays], blocks[0].dtypes
    rows = min(gpu.upload.rows_of_piece(widths, dtypes), max(len(x.points) for x in blocks))
    compute = partial(dask_blocks.pair, output=output, itself=False, **options)
    sums: PartialSums | None = None
    slots = smaller.fewer(lambda rows: gpu.upload.Slots(rows, widths, dtypes), rows)
    pieces = gpu.upload.pieces(
        [x.arrays for x in blocks], slots, copying, lambda i, *arrays: _piece(blocks[i], *arrays)
    )
    with contextlib.closing(pieces):  # after an error too, which would keep its frames
        for x in pieces:
            over_piece = smaller(compute, y, x)
            sums = over_piece if sums is None else dask_blocks.merged([sums, over_piece])
    assert sums is not None  # blocks have rows
    smaller.report(y.number)
    return sums


def _piece(x: HostBlock, rows: slice, arrays: list[Any]) -> Block:
    """Rows of a block that have come to the device, checked there."""
    points, *others = arrays
    named = dict(zip(x.others, others, strict=True))
    return dask_blocks.laid_out(points, named, x.layout, x.place, x)


def _on_device(x: HostBlock, gpu: ModuleType) -> Block:
    """A block of data as queries."""
    points = gpu.xp.asarray(np.ascontiguousarray(x.points, dtype=x.layout.storage))
    return dask_blocks.laid_out(points, {}, x.layout, x.place, x)


def debiased(block: HostBlock, sums: PartialSums, *, layout: Layout, by: Whitening | None = None) -> HostBlock:
    """The block with its points debiased, float64, ready to be data of the layout's bandwidth; ``by`` is the step's."""
    domain = block.layout.domain
    with np.errstate(all="ignore"):  # of unchecked points
        anchored = block.points if domain is None else domain.anchored(block.points, np)
    here = Block(block.number, anchored, block.whitening, None, 0.0, block.log_mass, domain=domain)
    points = dask_blocks.shift(here, sums, whitening=layout.whitening if by is None else by)
    points = points if domain is None else domain.restored(points, np)
    return block._replace(points=points, layout=layout._replace(storage=np.dtype(np.float64)))
