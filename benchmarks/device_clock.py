"""A clock of the device, for pytest-benchmark: the difference of two readings is the time between two CUDA events.

A reading keeps CuPy's current stream busy for a while if it is told to, so that calls in a row begin together; the time
of that is in no difference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Reading:
    """A place on the stream: before and after what kept it busy."""

    before: Any
    after: Any

    def __sub__(self, start: Reading) -> float:
        """Seconds of the device from another reading to this one, when the device is done."""
        import cupy as cp

        self.before.synchronize()
        return 1e-3 * float(cp.cuda.get_elapsed_time(start.after, self.before))


def clock(busy_ms: float = 0.0) -> Callable[[], Reading]:
    """A function that reads the clock, and then keeps the stream busy for so long."""
    import cupy as cp

    def now() -> Reading:
        before = cp.cuda.Event()
        before.record()
        if not busy_ms:
            return Reading(before, before)
        from cukde.perf import _wait_gpu

        _wait_gpu.wait(busy_ms)
        after = cp.cuda.Event()
        after.record()
        return Reading(before, after)

    return now
