"""What tells the compilations of ``kernels_cu/density/pairs.cu`` apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from cukde.core.gpu import compile as core_compile
from cukde.core.gpu.launch import FLOAT
from cukde.density.sums import Output

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
    defines: core_compile.Defines
    threads: int  # of a block
    columns: int  # of the moments, a block; 0 where there are none
    real: np.dtype = FLOAT  # of the arithmetic
    storage: np.dtype = FLOAT  # of points
    stem: str = "density/pairs"
