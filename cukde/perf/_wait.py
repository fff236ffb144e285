"""Keep the device at work until what follows is launched: the launcher of ``kernels_cu/perf/wait.cu``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile

_KERNEL: tuple[str, str, core_compile.Defines] = ("perf/wait", "wait", ())


def wait(milliseconds: float) -> Any:
    """Keep the current stream waiting; how long it did comes back in nanoseconds, (1,) on the device."""
    waited = cp.empty(1, np.int64)
    core_compile.kernel(*_KERNEL)((1,), (1,), (waited, np.int64(1e6 * milliseconds)))
    return waited


def specialisations() -> Iterator[tuple[str, str, core_compile.Defines]]:
    """Stem, name and macros of every kernel of this module."""
    yield _KERNEL
