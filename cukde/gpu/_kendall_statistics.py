"""Kendall's tau and p-values from counts on the device: launcher of ``kernels_cu/kendall_statistics.cu``."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import cupy as cp
import numpy as np

from cukde import _compile, _kendall_null
from cukde._kendall_statistics import ALTERNATIVES, VARIANTS, Null
from cukde._pair_counts import PairCounts
from cukde.gpu import _device
from cukde.gpu._operands import or_null

_THREADS = 256


def statistics(counts: PairCounts, variant: str, null: Null | None, complete: int) -> tuple[Any, Any | None]:
    """As :func:`cukde._kendall_statistics.statistics`; nothing waits for the result.

    The fields of ``counts`` that are of pairs are C-contiguous; all ties of a variable have the same strides.
    """
    shape = counts.concordant.shape
    tau = cp.empty(shape)
    p_value = None if null is None else cp.empty(shape)
    if tau.size == 0:
        return tau, p_value
    table = None if null is None else _table(_device.current())
    _compile.kernel(*_KERNEL)(
        (-(-tau.size // _THREADS),),
        (_THREADS,),
        (
            *(counts.samples, counts.concordant, counts.discordant, *counts.x, *counts.y),
            *(or_null(table), tau, or_null(p_value), tau.size, shape[-1] if len(shape) == 2 else 1),
            *_strides(counts.samples, shape),
            *_strides(counts.x.pairs, shape),
            *_strides(counts.y.pairs, shape),
            complete,
            np.int32(0 if table is None else table.size),
            np.int32(VARIANTS.index(variant)),
            np.int32(null is not None and null.method == "auto"),
            np.int32(ALTERNATIVES.index(null.alternative) if null else 0),
        ),
    )
    return tau, p_value


def _strides(field: Any, shape: tuple[int, ...]) -> tuple[int, int]:
    """Entries from one row of the result to the next in a field, and from one column to the next."""
    of_axes = [
        0 if size == 1 else stride // field.itemsize for size, stride in zip(field.shape, field.strides, strict=True)
    ]
    return (of_axes[0], of_axes[1]) if len(shape) == 2 else (of_axes[0], 0)


@functools.cache
def _table(device: int) -> Any:
    return cp.asarray(_kendall_null.table())


_KERNEL: tuple[str, str, _compile.Defines] = (
    "kendall_statistics",
    "kendall_statistics",
    (("LARGEST", str(_kendall_null.LARGEST)), ("LARGEST_FACTORIAL", str(_kendall_null.LARGEST_FACTORIAL))),
)


def specialisations() -> Iterator[tuple[str, str, _compile.Defines]]:
    """Stem, name and macros of every kernel of this module."""
    yield _KERNEL
