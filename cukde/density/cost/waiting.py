"""What calls of passes take of Python where a GPU waits for it."""

from __future__ import annotations

from cukde.core.cost import host
from cukde.core.cost.cost import Part
from cukde.core.cost.peaks import Peaks
from cukde.density.plan import gpu as plan_gpu


def calls(name: str, on: Peaks, count: float = 1, copies: float = 0, operations: float = 0) -> list[Part]:
    """Python's work of ``count`` calls, each with so many copies to the host, and array operations.

    There is none for a CPU, whose passes have it.
    """
    if on.backend == "cpu":
        return []
    return [host.waits(name, on, copies, operations, 1e-3 * plan_gpu.call_ms("others")).times(count)]
