"""Kendall's tau of few samples in one launch: launcher of ``kernels_cu/kendall/comparisons.cu``."""

from __future__ import annotations

import functools
from typing import Any, Literal, NamedTuple

import numpy as np

from cukde.core.gpu import compile as core_compile, device as core_device
from cukde.core.gpu.launch import Launch, Specialisation
from cukde.core.gpu.scratch import Layout
from cukde.kendall.gpu.ranks import KINDS
from cukde.kendall.gpu.statistics import MACROS, of_null, results
from cukde.kendall.statistics import Null

Pairing = Literal["all", "upper", "alike"]
"""Each variable of x with each of y, the pairs of one matrix once, or variables of x and y in turn."""

_PAIRINGS: tuple[Pairing, ...] = ("all", "upper", "alike")
_THREADS, _LANES = 256, 32
_WORDS = 9  # of a pair, see comparisons.cu

# A pair has one block up to so many samples; further blocks take a clearing of memory, and atomic sums.
_SAMPLES_OF_BLOCK = 256
_BLOCKS_OF_MULTIPROCESSOR = 8


class Variables(NamedTuple):
    """Samples of variables: an array, and the axis of its samples."""

    values: Any  # of two dimensions
    axis: int

    @property
    def layout(self) -> _Layout:
        """What a launch depends on."""
        a, axis = self
        size, shape, strides = a.dtype.itemsize, a.shape, a.strides
        return size, KINDS[a.dtype.kind], shape[axis], shape[1 - axis], strides[axis] // size, strides[1 - axis] // size


_Layout = tuple[
    int, int, int, int, int, int
]  # bytes and kind of a value, samples, variables, steps to the next of each


def statistics(
    x: Variables, y: Variables, pairing: Pairing, variant: str, null: Null | None, complete: int
) -> tuple[Any, Any | None]:
    """Compute tau and, with ``null``, p-values; NaN for pairs with fewer than ``complete`` samples without NaN.

    Parameters
    ----------
    x, y : Variables
        Of the same number of samples, any real dtypes of up to 8 bytes. With ``pairing="upper"`` they are the same.

    Returns
    -------
    tau, p_value : array, shape (p, q), or (p,) for pairing "alike"

    Notes
    -----
    Waits for nothing, and takes n^2 comparisons for each pair.
    """
    shape: tuple[int, ...] = (x.values.shape[1 - x.axis],)
    if pairing != "alike":
        shape += (y.values.shape[1 - y.axis],)
    tau, p_value, exact = results(shape, null)
    launch, scratch = _launch(x.layout, y.layout, pairing, variant, null, complete)
    sums = None if scratch is None else scratch.allocate()[-1][0]
    launch(x.values, y.values, exact, sums, tau, p_value)
    return tau, p_value


@functools.lru_cache(maxsize=1024)
def _launch(
    of_x: _Layout, of_y: _Layout, pairing: Pairing, variant: str, null: Null | None, complete: int
) -> tuple[Launch, Layout | None]:
    """The launch, and the sums of pairs that several blocks share."""
    (size_x, kind_x, n, p, *steps_x), (size_y, kind_y, _, q, *steps_y) = of_x, of_y
    if pairing == "alike":
        q = 1
    pairs, groups = p * q, max(1, -(-n // _LANES))
    parts = 1
    if n > _SAMPLES_OF_BLOCK:
        parts = min(groups, -(-_BLOCKS_OF_MULTIPROCESSOR * core_device.multiprocessors() // pairs))
    sizes = size_x, kind_x, size_y, kind_y, n, p, q, _PAIRINGS.index(pairing), parts
    scalars = *steps_x, *steps_y, *sizes, *of_null(complete, variant, null)
    launch = Launch(_kernel(max(size_x, size_y) == 8), (pairs * parts,), (_THREADS,), scalars)
    return launch, None if parts == 1 else Layout([], [((pairs, _WORDS), np.dtype(np.uint64))])


@core_compile.specialised((False, True))
def _kernel(wide: bool) -> Specialisation:
    defines = core_compile.macros(KEY="unsigned long long" if wide else "unsigned int") + MACROS
    return Specialisation("kendall/comparisons", "kendall_comparisons", defines, "6P 4q 14i")
