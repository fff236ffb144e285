"""A share of the work of a pass, where several devices take the same pass."""

from __future__ import annotations

from typing import Any, NamedTuple

import cupy as cp
import numpy as np


class Share(NamedTuple):
    """Every ``of``-th piece of work, from piece ``first`` on."""

    first: int
    of: int

    def counter(self) -> Any:
        """The first item, and the step from an item to the next, (2,) uint64, for kernels whose warps take items."""
        return cp.arange(self.first, self.of + 1, self.of - self.first).view(np.uint64)


WHOLE = Share(0, 1)
"""All of the work."""
