"""Keep the device at work until what follows is launched: the launcher of ``kernels_cu/perf/wait.cu``."""

from __future__ import annotations

from typing import Any

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile
from cukde.core.gpu.launch import Specialisation

_KERNEL = Specialisation("perf/wait", "wait", (), "P q")
core_compile.listed(lambda: (_KERNEL,))


def wait(milliseconds: float) -> Any:
    """Keep the current stream waiting; how long it did comes back in nanoseconds, (1,) on the device."""
    waited = cp.empty(1, np.int64)
    _KERNEL.launch((1,), (1,), waited, int(1e6 * milliseconds))
    return waited
