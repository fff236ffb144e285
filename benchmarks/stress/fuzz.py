"""Make malformed calls of every public function: each works, or raises a TypeError, a ValueError or a documented error.

The calls are those of ``tests/core/test_fuzz.py``, which makes some of them in every run of the tests: hypothesis draws
them and reduces what fails to the simplest call that does. Calls with data frames are held against calls with arrays
besides (``tests/framed_calls.py``).

    python -m benchmarks.stress.fuzz --calls 50000
    python -m benchmarks.stress.fuzz --calls 2000 --only KernelDensity --seed 3
"""

from __future__ import annotations

import argparse
import faulthandler
import math
import sys
import time
from collections.abc import Sequence

from hypothesis import HealthCheck, given, seed, settings, strategies as st

from cukde.core.cpu import meanwhile
from tests.framed_calls import FRAMED, framed, silently_wrong
from tests.malformed_calls import broken_promise, calls
from tests.public_calls import CALLS, Call, sandbox

LONGEST = 60.0
"""Seconds that a call may take before it counts as hanging."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stress.fuzz", description=__doc__)
    parser.add_argument("--calls", type=int, default=50_000)
    parser.add_argument("--only", default="", help="part of the names of the functions to call")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    names = [name for name in CALLS if options.only in name]
    if not names:
        parser.error(f"no public function has {options.only} in its name")
    tally, before, failures = Tally(), _resident_mb(), 0
    with sandbox():
        for number, name in enumerate(names):
            share = options.calls * (number + 1) // len(names) - options.calls * number // len(names)
            try:
                tally.fuzz(name, share, options.seed)
                if name in FRAMED:
                    tally.fuzz_frames(name, share, options.seed)
            except AssertionError as error:
                failures += 1
                print("\n".join([str(error), *getattr(error, "__notes__", [])]), flush=True)
    print(
        f"{tally.calls} calls of {len(names)} functions: {failures} functions broke a promise; the slowest call took "
        f"{tally.slowest[0]:.1f} s ({tally.slowest[1]}); most memory {before:.0f} MB before, {_resident_mb():.0f} after"
    )
    return int(failures > 0)


class Tally:
    """Malformed calls that have been made."""

    def __init__(self) -> None:
        self.calls = 0
        self.slowest = 0.0, "none"

    def fuzz(self, name: str, calls_of_it: int, start: int) -> None:
        """Make so many of a function; AssertionError with the simplest that breaks a promise."""

        @seed(start)
        @settings(
            max_examples=max(1, calls_of_it),
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
        )
        @given(calls(name))
        def every_promise_is_kept(call: Call) -> None:
            faulthandler.dump_traceback_later(LONGEST, exit=True, file=sys.__stderr__)
            begun = time.perf_counter()
            broken = broken_promise(name, call)
            self.slowest = max(self.slowest, (time.perf_counter() - begun, name))
            faulthandler.cancel_dump_traceback_later()
            self.calls += 1
            assert broken is None, broken

        every_promise_is_kept()

    def fuzz_frames(self, name: str, calls_of_it: int, start: int) -> None:
        """Make so many with data frames; AssertionError with the simplest that gives other numbers than arrays do."""

        @seed(start)
        @settings(max_examples=max(1, calls_of_it), deadline=None, database=None, report_multiple_bugs=False)
        @given(st.data())
        def numbers_are_those_of_arrays(data: st.DataObject) -> None:
            calls = framed(name, lambda options: data.draw(st.sampled_from(options)), data.draw(st.integers(0, 999)))
            self.calls += 1
            # Both by compiled loops: NumPy, which answers first calls, rounds otherwise.
            with meanwhile.within(meanwhile.WAITING):
                wrong = silently_wrong(calls)
            assert wrong is None, f"{name}: {wrong}"

        numbers_are_those_of_arrays()


def _resident_mb() -> float:
    """Most memory that this process has had, in MB of 2^20 bytes; NaN on Windows, where Python does not tell."""
    try:
        import resource
    except ImportError:
        return math.nan
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / 2**20 if sys.platform == "darwin" else most / 2**10


if __name__ == "__main__":
    sys.exit(main())
