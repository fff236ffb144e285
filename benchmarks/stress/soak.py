"""Call every public function for a set time from many threads, and watch failures, memory and drift.

Each call is one of ``tests/public_calls.py``, by a seed of few, or a malformed one of ``tests/malformed_calls.py``, by
the same seeds. The first answer to a call is kept, and every later one must have the same bits
(``deterministic=True``). A first part of the time, in which each call is made once, fills the caches that stay; memory
of the device is to come back to what it was then, with no call under way.

    python -m benchmarks.stress.soak --minutes 5
    python -m benchmarks.stress.soak --minutes 8 --gpu --record benchmarks/results/soak_h200.json
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import ctypes
import faulthandler
import functools
import gc
import hashlib
import itertools
import random
import statistics
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.record import target
from benchmarks.tools import records
from cukde import functions, kendalltau
from tests.malformed_calls import DOCUMENTED, malformed
from tests.public_calls import CALLS, ON_DEVICE, Call, Draw, only_documented_warnings, sandbox

THREADS, STREAMS = 8, 4
SEEDS = 12
"""Good calls of each function, and as many malformed ones: few, so that each is made many times."""

SETTLING = 0.2
"""Part of the time, or what one call of each takes, after which memory counts: it compiles, and fills caches."""

_LATEST = 0.45  # part of the time at which it must have settled: memory of the first half is measured after it

LISTED = 12
"""Largest arrays that are named where memory stays in use."""

MOST_GROWTH_MB = 16.0
LONGEST = 120.0
"""Seconds without any call that end before the soak counts as hanging."""

_FILES = frozenset(name for name in CALLS if name.startswith(("perf.", "KernelDensity.save", "KernelDensity.load")))
"""What writes files of few names, or measures times: threads take turns, and answers differ."""

_RANDOM = frozenset({"warmup"})
"""Whose answer grows with what is compiled."""


class _Drawn(NamedTuple):
    """Which call is made."""

    name: str
    seed: int
    malformed: bool

    def call(self) -> Call:
        if self.malformed:
            return malformed(self.name, random.Random(f"{self.name} {self.seed}").choice, self.seed)
        return CALLS[self.name](Draw(self.seed))


class Sample(NamedTuple):
    """Memory at a time."""

    seconds: float
    resident_mb: float
    device_mb: float


class Soak:
    """Threads that make calls until the time is over."""

    def __init__(self, seconds: float, *, gpu: bool, seed: int = 0, names: Sequence[str] = tuple(CALLS)) -> None:
        self.seconds, self.gpu, self.names = seconds, gpu, tuple(names)
        self.calls = self.errors = self.drifted = 0
        self.failures: collections.Counter[str] = collections.Counter()
        self.samples: list[Sample] = []
        self._seed = seed
        self.device_growth_mb = 0.0
        self.held: list[str] = []
        self._answers: dict[tuple[str, int], str] = {}
        self._lock, self._turns = threading.Lock(), threading.Lock()
        self._all = [_Drawn(*of) for of in itertools.product(self.names, range(SEEDS), (False, True))]
        self._first = random.Random(seed).sample(self._all, len(self._all))  # not made yet
        self._begun, self._resting = 0.0, 0
        self._settled, self._settled_after = threading.Event(), 0.0

    def run(self) -> None:
        """Make the calls; returns when all threads are done."""
        _fill_caches(self.gpu)
        streams = _streams() if self.gpu else [None]
        self._begun = time.perf_counter()
        threads = [
            threading.Thread(target=self._work, args=(number, streams[number % len(streams)]), daemon=True)
            for number in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        made, baseline = -1, 0.0
        while any(thread.is_alive() for thread in threads):
            if made != self.calls:
                faulthandler.dump_traceback_later(LONGEST, exit=True, file=sys.__stderr__)
                made = self.calls
            if self._resting == THREADS and not self._settled.is_set():
                baseline, self._settled_after = _settled_mb(self.gpu), self._elapsed()
                self._settled.set()
            if self._elapsed() < self.seconds:
                _give_back(self.gpu)
                self.samples.append(Sample(self._elapsed(), _resident_mb(), _device_mb(self.gpu)))
            time.sleep(min(1.0, self.seconds / 50))
        faulthandler.cancel_dump_traceback_later()
        self.device_growth_mb = _settled_mb(self.gpu) - baseline
        if self.device_growth_mb > 0:
            self.held = largest_arrays(self.gpu)

    def _elapsed(self) -> float:
        return time.perf_counter() - self._begun

    def _work(self, number: int, stream: Any) -> None:
        choose = random.Random(f"{self._seed} {number}")
        if self.gpu:
            _keep_few_plans()
        with stream if stream is not None else contextlib.nullcontext():
            while self._elapsed() < SETTLING * self.seconds or self._first:
                self._call(self._next(choose))
            with self._lock:
                self._resting += 1
            self._settled.wait()
            while self._elapsed() < self.seconds:
                self._call(choose.choice(self._all))

    def _next(self, choose: random.Random) -> _Drawn:
        """What has not been called, while there is any."""
        with self._lock:
            return self._first.pop() if self._first else choose.choice(self._all)

    def _call(self, drawn: _Drawn) -> None:
        name, seed, bad = drawn
        turns = self._turns if name in _FILES else contextlib.nullcontext()
        outcome: Any = None
        with turns:
            try:
                call = drawn.call()
                if self.gpu and name in ON_DEVICE:
                    call = _on_device(call)
                outcome = call()
                if self.gpu and not bad:
                    outcome = _on_host(outcome)
            except (TypeError, ValueError, *DOCUMENTED.get(name, ())) as error:
                outcome = error
                with self._lock:
                    self.errors += 1
            except BaseException as error:
                with self._lock:
                    self.calls += 1
                    self.failures[f"{name}: {type(error).__name__}: {error}"[:200]] += 1
                return
        answer = None if bad or name in _FILES | _RANDOM else digest(outcome)
        with self._lock:
            self.calls += 1
            if answer is not None and answer != self._answers.setdefault((name, seed), answer):
                self.drifted += 1
                self.failures[f"{name}({seed}): other bits than the first answer"] += 1

    def halves(self) -> tuple[float, float]:
        """Median resident memory of the first half, once settled, and of the second, MB; 0 where none was taken."""
        begin = max(SETTLING * self.seconds, self._settled_after)
        first = [s.resident_mb for s in self.samples if begin <= s.seconds < self.seconds / 2]
        second = [s.resident_mb for s in self.samples if s.seconds >= self.seconds / 2]
        return statistics.median(first or [0.0]), statistics.median(second or [0.0])

    def row(self) -> dict[str, Any]:
        """As records have it."""
        first, second = self.halves()
        return {
            "op": "soak",
            "backend": "gpu" if self.gpu else "cpu",
            "shape": {"threads": THREADS, "streams": STREAMS if self.gpu else 0, "seconds": self.seconds},
            "dtype": "float32 and float64",
            "precision": "all",
            "calls": self.calls,
            "errors": self.errors,
            "failures": dict(self.failures),
            "answers": len(self._answers),
            "drifted": self.drifted,
            "settled_after_s": round(self._settled_after, 1),
            "resident_first_half_mb": round(first, 1),
            "resident_second_half_mb": round(second, 1),
            "device_growth_mb": round(self.device_growth_mb, 3),
            "held": self.held,
            "samples": [[round(number, 1) for number in s] for s in self.samples[:: max(1, len(self.samples) // 60)]],
        }

    def verdicts(self) -> list[str]:
        """What is not as it should be."""
        first, second = self.halves()
        found = [f"{count} times {what}" for what, count in self.failures.most_common()]
        if self._settled_after > _LATEST * self.seconds:
            found.append(f"one call of each took {self._settled_after:.0f} s: take longer than twice that")
        if first > 0 and second - first > MOST_GROWTH_MB:
            found.append(f"resident memory grew from {first:.1f} to {second:.1f} MB; the largest arrays of the host:")
            found += largest_arrays(gpu=False)
        if self.device_growth_mb > 0:
            found.append(f"{self.device_growth_mb:.3f} MB of the device are still in use")
            found += self.held
        return found


def digest(answer: Any) -> str:
    """A hash of the bits of an answer: arrays, tuples of them, numbers; of other objects what they hold."""
    made = hashlib.blake2b(digest_size=16)
    for part in _parts(answer):
        made.update(part)
    return made.hexdigest()


def _parts(answer: Any) -> Iterator[bytes]:
    if isinstance(answer, np.ndarray):
        yield f"{answer.dtype} {answer.shape} ".encode() + np.ascontiguousarray(answer).tobytes()
    elif isinstance(answer, tuple | list):
        yield f"{len(answer)} ".encode()
        for each in answer:
            yield from _parts(each)
    elif isinstance(answer, dict):
        yield from _parts(list(answer.items()))
    elif isinstance(answer, str | int | float | bool | np.generic | BaseException | type(None)):
        yield repr(answer).encode()
    else:
        public = {
            k: v for k, v in sorted(vars(answer).items()) if k in ("c", "x", "points_", "bandwidth_", "max_error")
        }
        yield type(answer).__name__.encode()
        yield from _parts(public)


def _give_back(gpu: bool) -> None:
    """Give back what nobody holds, which is no leak: cycles, and what libraries keep of the host's freed memory."""
    gc.collect()
    if gpu:
        import cupy

        cupy.get_default_pinned_memory_pool().free_all_blocks()
    with contextlib.suppress(OSError, AttributeError):  # of another C library
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def _resident_mb() -> float:
    """Resident memory of this process now, MB of 2^20 bytes; 0 where the system does not tell, as on macOS."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * 4096 / 2**20
    except FileNotFoundError:
        return 0.0


def _device_mb(gpu: bool) -> float:
    """Memory of the device that arrays hold, MB of 2^20 bytes."""
    if not gpu:
        return 0.0
    import cupy

    cupy.cuda.Device().synchronize()
    return float(cupy.get_default_memory_pool().used_bytes()) / 2**20


def _settled_mb(gpu: bool) -> float:
    """Memory of the device that arrays hold when no call is under way, and caches of limited size are empty."""
    for _ in range(2):  # what a cache held may hold others in cycles
        for cached in gc.get_objects():
            own = type(cached) is functools._lru_cache_wrapper and str(cached.__module__).startswith("cukde")
            if own and cached.cache_parameters()["maxsize"] is not None:
                cached.cache_clear()
        gc.collect()
    if gpu:
        import cupy

        cupy.cuda.Device().synchronize()
        cupy.get_default_memory_pool().free_all_blocks()
        cupy.get_default_pinned_memory_pool().free_all_blocks()
    return _device_mb(gpu)


def _fill_caches(gpu: bool) -> None:
    """Evaluate the functions that keep tables for each dtype, of which a malformed call may be the first."""
    xp: Any = np
    if gpu:
        import cupy as xp
    for name in CALLS:
        if name.startswith("functions.") and name != "functions.polynomial":
            for dtype in ("float16", "float32", "float64"):
                getattr(functions, name.removeprefix("functions."))(xp.ones(3, dtype))
    kendalltau(xp.arange(4.0), xp.arange(4.0))  # an exact p-value


def largest_arrays(gpu: bool, most: int = LISTED) -> list[str]:
    """A line for each of the largest arrays that are alive, on the device or the host, with what holds it."""
    kind: Any = np.ndarray
    if gpu:
        import cupy

        kind = cupy.ndarray
    gc.collect()
    found: dict[int, tuple[Any, set[str]]] = {}
    for holder in gc.get_objects():
        for held in (holder, *gc.get_referents(holder)):
            if type(held) is kind:
                holders = found.setdefault(id(held), (held, set()))[1]
                if held is not holder and holder is not found:
                    module = getattr(holder, "__module__", None) or type(holder).__module__
                    holders.add(f"{type(holder).__name__} {module}.{getattr(holder, '__qualname__', '')}".rstrip("."))
    largest = sorted(found.values(), key=lambda of: -of[0].nbytes)[:most]
    return [f"  {a.nbytes / 2**20:.3f} MB: {a.shape} {a.dtype}, held by {sorted(by) or 'frames'}" for a, by in largest]


def _streams() -> list[Any]:
    import cupy

    return [cupy.cuda.Stream(non_blocking=True) for _ in range(STREAMS)]


def _keep_few_plans() -> None:
    """CuPy keeps 16 plans of FFTs for each thread, which come together slowly: with one the number is soon the same."""
    import cupy

    cupy.fft.config.get_plan_cache().set_size(1)


def _on_device(call: Call) -> Call:
    import cupy

    def asarray(a: np.ndarray) -> Any:
        return cupy.asarray(a) if a.dtype.kind in "fiub" and a.dtype.itemsize <= 8 and a.dtype.isnative else a

    return call.moved(asarray)


def _on_host(answer: Any) -> Any:
    import cupy

    if isinstance(answer, cupy.ndarray):
        return cupy.asnumpy(answer)
    if isinstance(answer, tuple | list):
        return tuple(map(_on_host, answer))
    for name in ("c", "x", "points_"):
        if isinstance(getattr(answer, name, None), cupy.ndarray):
            setattr(answer, name, cupy.asnumpy(getattr(answer, name)))
    return answer


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stress.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--gpu", action="store_true", help="arrays on the GPU, threads on 4 streams")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", type=target, help="the file to write a record to")
    options = parser.parse_args(arguments)
    soak = Soak(60 * options.minutes, gpu=options.gpu, seed=options.seed)
    with sandbox(), warnings.catch_warnings():
        only_documented_warnings()
        soak.run()
    first, second = soak.halves()
    print(
        f"{soak.calls} calls, {soak.errors} of them errors as they should be, {len(soak._answers)} answers compared, "
        f"{soak.drifted} drifted; resident memory {first:.1f} MB in the first half, {second:.1f} in the second; "
        f"{soak.device_growth_mb:.3f} MB of the device more in use"
    )
    if options.record:
        records.write(options.record, [soak.row()])
    found = soak.verdicts()
    print("\n".join(found) or "nothing failed")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
