"""Spans of the data in a centred pass, and the merge of their sums: the launcher of ``centred_finish.cu``."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from cukde.core.gpu import compile as core_compile
from cukde.core.gpu.launch import C_TYPE, DOUBLE, FLOAT, Specialisation
from cukde.density.pairs.gpu.operands import scale_of
from cukde.density.sums import Output, PartialSums

_WAVES = 8  # of thread blocks, so that long ones and short ones even out


def blocks_of_span(blocks: int, groups: int, at_a_time: int, least: int) -> int:
    """Blocks of data in each span of ``blocks``, for ``groups`` of queries, of thread blocks that run ``at_a_time``.

    Below ``least`` blocks, the start of a thread block costs more than shorter spans gain.
    """
    return -(-blocks // max(1, min(blocks // least, _WAVES * at_a_time // groups)))


class SpanSums(NamedTuple):
    """Sums over the spans of the data, in the order of the queries."""

    output: Output
    R: Any  # (spans, rows), of `real`
    S: Any
    T: Any | None  # moments: (spans, rows, width)
    real: np.dtype
    spans: int
    rows: int
    width: int
    order: Any
    first: int  # what the order of the queries is added to
    m: int
    d: int
    shift: float
    h: float

    def finish(self, out: PartialSums | None, density: tuple[Any, float, int] | None) -> None:
        """Merge them into ``out``, or into densities."""
        dtype = None if density is None else density[0].dtype
        kernel(self.output, self.real, dtype).launch(
            (-(-self.m // 4),),
            (128,),
            *(self.R, self.S, self.T, self.order),
            *((None, None, None) if out is None else out),
            *(density or ()),
            *(self.m, self.rows, self.first, self.spans, self.width, self.d, self.shift, 1 / scale_of(self.h)),
        )


@core_compile.listed
def specialisations() -> Iterator[Specialisation]:
    """Every kernel of this module."""
    outputs: tuple[Output, ...] = "sum", "moments", "laplace"
    for output, real, dtype in itertools.product(outputs, C_TYPE, (None, FLOAT, DOUBLE)):
        if dtype is None or output != "moments":
            yield kernel(output, real, dtype)


@functools.cache
def kernel(output: Output, real: np.dtype, dtype: np.dtype | None) -> Specialisation:
    """The kernel that merges sums of a type, into densities of a dtype or into sums."""
    macros = {"OUTPUT": output.upper(), "REAL": C_TYPE[real]}
    if dtype is not None:
        macros["DENSITY"] = C_TYPE[dtype]
    types = "7P 3q 3i 2d" if dtype is None else "8P d i 3q 3i 2d"
    return Specialisation("density/centred_finish", "centred_finish", core_compile.macros(**macros), types)
