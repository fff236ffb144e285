"""What tells the compilations of ``kernels_cu/density.cu`` apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cukde import _compile
from cukde._partial import Output

FLOAT, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
C_TYPE = {FLOAT: "float", DOUBLE: "double"}

OPERATION: dict[Output, str] = {
    "sum": "kde",
    "moments": "score",
    "laplace": "laplace",
    "values": "kernel_sum",
}


@dataclass(frozen=True)
class Specialisation:
    """One compilation: its kernel and the tiles that the kernel works in."""

    engine: Literal["difference", "tf32", "f16", "f64"]
    name: str
    defines: _compile.Defines
    threads: int  # of a block
    columns: int  # of the moments, a block; 0 where there are none
    real: np.dtype = FLOAT  # of the arithmetic
    storage: np.dtype = FLOAT  # of points
    stem: str = "density"


def at_least(size: int, choices: Sequence[int]) -> int:
    """The smallest choice that holds ``size``, or the largest choice where none does."""
    return next((choice for choice in choices if size <= choice), choices[-1])
