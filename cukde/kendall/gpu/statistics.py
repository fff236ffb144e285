"""Kendall's tau and p-values from counts on the device: launcher of ``kernels_cu/kendall/statistics.cu``."""

from __future__ import annotations

import functools
import math
from typing import Any

import cupy as cp

from cukde.core.gpu import compile as core_compile, device as core_device
from cukde.core.gpu.launch import Launch, Specialisation
from cukde.kendall import null as kendall_null
from cukde.kendall.counts import PairCounts
from cukde.kendall.statistics import ALTERNATIVES, VARIANTS, Null

_THREADS = 256
_BYTES = 8  # of an entry of any field


def statistics(counts: PairCounts, variant: str, null: Null | None, complete: int) -> tuple[Any, Any | None]:
    """As :func:`cukde.kendall.statistics.statistics`; nothing waits for the result.

    The fields of ``counts`` that are of pairs are C-contiguous; all ties of a variable have the same strides.
    """
    shape = counts.concordant.shape
    tau, p_value, exact = results(shape, null)
    if tau.size == 0:
        return tau, p_value
    fields = counts.samples, counts.x.pairs, counts.y.pairs
    layouts = tuple([(field.shape, field.strides) for field in fields])
    _launch(shape, layouts, complete, variant, null)(
        *(counts.samples, counts.concordant, counts.discordant, *counts.x, *counts.y), exact, tau, p_value
    )
    return tau, p_value


_Layout = tuple[tuple[int, ...], tuple[int, ...]]  # shape and strides


@functools.lru_cache(maxsize=1024)
def _launch(
    shape: tuple[int, ...],
    layouts: tuple[_Layout, ...],
    complete: int,
    variant: str,
    null: Null | None,
) -> Launch:
    """The launch for results of a shape, and the layouts of samples, the ties of x and those of y."""
    entries = math.prod(shape)
    scalars = (
        *(entries, shape[-1] if len(shape) == 2 else 1),
        *(step for layout in layouts for step in _steps(*layout, len(shape))),
        *of_null(complete, variant, null),
    )
    return Launch(_KERNEL, (-(-entries // _THREADS),), (_THREADS,), scalars)


def _steps(shape: tuple[int, ...], strides: tuple[int, ...], dimensions: int) -> tuple[int, int]:
    """Entries from one row of the result to the next in a field, and from one column to the next."""
    of_axes = [0 if size == 1 else stride // _BYTES for size, stride in zip(shape, strides, strict=True)]
    return (of_axes[0], of_axes[1]) if dimensions == 2 else (of_axes[0], 0)


def results(shape: tuple[int, ...], null: Null | None) -> tuple[Any, Any | None, Any | None]:
    """Arrays for tau and, with ``null``, p-values, and the exact distribution of the null hypothesis."""
    return cp.empty(shape), *((None, None) if null is None else (cp.empty(shape), _table(core_device.current())))


def of_null(complete: int, variant: str, null: Null | None) -> tuple[Any, ...]:
    """What a statistic depends on, for a kernel."""
    if null is None:
        return complete, 0, VARIANTS.index(variant), False, 0
    auto, alternative = null.distribution == "auto", ALTERNATIVES.index(null.alternative)
    return complete, kendall_null.table().size, VARIANTS.index(variant), auto, alternative


@functools.cache
def _table(device: int) -> Any:
    return cp.asarray(kendall_null.table())


MACROS = core_compile.macros(LARGEST=kendall_null.LARGEST, LARGEST_FACTORIAL=kendall_null.LARGEST_FACTORIAL)
"""Of ``statistics.cuh``."""

_KERNEL = Specialisation("kendall/statistics", "kendall_statistics", MACROS, "14P 9q 4i")
core_compile.listed(lambda: (_KERNEL,))
