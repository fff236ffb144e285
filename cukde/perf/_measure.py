"""The time of a call, on the CPU or a GPU: median, quartiles and how well the median is known."""

from __future__ import annotations

import collections
import functools
import itertools
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from cukde.core import check as core_check, dispatch
from cukde.perf import _bootstrap, _clocks, _cold

_WARM_UP = 0.2
"""Part of a measurement's seconds: processors slow down when they wait."""

_FEWEST = 3
"""Runs; fewer have no quartiles."""

_BEHIND = 3.0
"""Times of launching that the device is kept busy for: launches take longer now and then."""


@dataclass(frozen=True)
class Times:
    """Milliseconds of a call: see :func:`measure`.

    Attributes
    ----------
    median_ms, q1_ms, q3_ms : float
        Median and quartiles of the runs.
    low_ms, high_ms : float
        Bootstrap confidence interval of the median: how exactly it is known.
    runs : int

    Examples
    --------
    >>> from cukde import perf
    >>> times = perf.Times.of([1.0, 2.0, 3.0, 4.0, 5.0])
    >>> times.q1_ms, times.median_ms, times.q3_ms, times.runs
    (2.0, 3.0, 4.0, 5)
    """

    median_ms: float
    q1_ms: float
    q3_ms: float
    low_ms: float
    high_ms: float
    runs: int

    @classmethod
    def of(cls, milliseconds: Iterable[float], *, confidence: float = 0.95, seed: int = 0) -> Times:
        """Summarise the times of runs that were measured elsewhere.

        Examples
        --------
        >>> from cukde import perf
        >>> perf.Times.of([3.0, 1.0, 2.0]).median_ms
        2.0
        """
        runs = np.array(list(milliseconds), np.float64)
        if runs.size == 0 or not np.isfinite(runs).all():
            raise ValueError(f"milliseconds must be finite numbers, at least one; got {runs.tolist()}")
        _check_confidence(confidence)
        q1, median, q3 = np.percentile(runs, [25, 50, 75])
        low, high = _bootstrap.median_interval(runs, confidence, np.random.default_rng(seed))
        return cls(float(median), float(q1), float(q3), low, high, runs.size)

    def row(self) -> dict[str, Any]:
        """As rows of records have it."""
        return asdict(self)


class Rotating:
    """Calls of a function that take arguments in turns; results live for a round, until their memory left the cache."""

    def __init__(self, fn: Callable[..., Any], turns: Iterable[tuple[Any, ...]]) -> None:
        self._fn = fn
        arguments = list(turns)
        self._turns = itertools.cycle(arguments)
        self._held: collections.deque[Any] = collections.deque(maxlen=len(arguments))

    def __call__(self) -> None:
        """Take the next arguments."""
        self._held.append(self._fn(*next(self._turns)))


def measure(
    fn: Callable[..., Any],
    *args: Any,
    gpu: bool | None = None,
    seconds: float = 1.5,
    most: int = 50,
    calls: int = 1,
    cold: bool = False,
    rotate: Sequence[tuple[Any, ...]] | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> Times:
    """Measure how long ``fn(*args)`` takes.

    After a warm-up the call is repeated for about ``seconds``, at least three times. On a GPU a time is that between
    two CUDA events on CuPy's current stream, on the CPU that of the processor's clock.

    Parameters
    ----------
    fn : callable
        Keyword arguments go in by :func:`functools.partial`.
    *args
        Its arguments.
    gpu : bool, optional
        Whether the device is timed; default: whether an argument is a GPU array, those of a partial and of ``rotate``
        included. A closure that works on a GPU needs ``gpu=True``: the processor's clock sees the launch alone.
    seconds : float
        How long to repeat, the emptying of caches included; a fifth of it warms up before.
    most : int
        Runs at most, at least 3.
    calls : int
        A time is that of so many calls in a row, a call's part of it. On a GPU several begin together: it is kept busy
        until they are all launched, so that none waits for its launch, whatever that takes from Python. The time of one
        has its launch in it.
    cold : bool
        Before each run the last cache before memory is emptied by writing more than it holds, four times the L2 of a
        GPU, 1.5 times the last cache of a CPU; that is not in the time. ``calls`` must be 1.
    rotate : sequence of tuples, optional
        Arguments that calls take in turns, after ``args``. Results live for a round. With more bytes than the cache
        has, no call finds its own there: what ``cold`` is for, with many calls in a row.
    confidence : float
        Of the interval of the median.
    seed : int
        Of the bootstrap.

    Returns
    -------
    Times
        Their confidence interval says how exactly the median is known, of runs that nothing else disturbs.

    Raises
    ------
    TypeError, ValueError
        For arguments that make no sense, before anything is run.
    RuntimeError
        For a GPU where none works.

    Notes
    -----
    Events are the way of the CUDA C++ Best Practices Guide ("Using CUDA GPU Timers"); the interval is that of Efron's
    bootstrap by the percentile method (Annals of Statistics 7(1), 1979). Quartiles and interval are of the runs of this
    measurement: clocks and neighbours make others differ by more.

    Examples
    --------
    >>> import numpy as np
    >>> from cukde import perf
    >>> times = perf.measure(np.sort, np.arange(1000.0)[::-1], seconds=0.01)
    >>> times.q1_ms <= times.median_ms <= times.q3_ms and times.runs >= 3
    True
    """
    turns = _check(fn, gpu, seconds, most, calls, cold, rotate, confidence)
    np.random.default_rng(seed)  # raises for what is no seed
    on_gpu = _on_gpu(fn, args, turns) if gpu is None else gpu
    if on_gpu:
        _clocks.require_gpu()
    call = functools.partial(fn, *args)
    one = call if turns is None else Rotating(call, turns)

    def some() -> None:
        for _ in range(calls):
            one()

    clock = _clocks.events if on_gpu else _clocks.wall
    clock(some)  # what comes first may compile
    ahead = _ahead(some, on_gpu, calls, cold)
    begun = last = time.perf_counter()
    taken = 0.0
    while last - begun < _WARM_UP * seconds:
        clock(some, ahead)
        last, before = time.perf_counter(), last
        taken = last - before
    runs = min(max(int(seconds / max(taken, 1e-6)), _FEWEST), most)
    return Times.of([clock(some, ahead) / calls for _ in range(runs)], confidence=confidence, seed=seed)


def _ahead(some: Callable[[], None], gpu: bool, calls: int, cold: bool) -> Callable[[], Any] | None:
    """What comes before each run and is not in its time."""
    if cold:
        return _cold.emptier(gpu=gpu)
    if gpu and calls > 1:
        from cukde.perf import _wait_gpu

        return functools.partial(_wait_gpu.wait, _BEHIND * _clocks.launching(some))
    return None


def _on_gpu(fn: Any, args: tuple[Any, ...], turns: list[tuple[Any, ...]] | None) -> bool:
    if isinstance(fn, functools.partial):
        return _on_gpu(fn.func, (*fn.args, *fn.keywords.values(), *args), turns)
    return any(map(dispatch.is_gpu_array, itertools.chain(args, *(turns or []))))


def _check(
    fn: Any, gpu: Any, seconds: Any, most: Any, calls: Any, cold: Any, rotate: Any, confidence: Any
) -> list[tuple[Any, ...]] | None:
    """Raise for what makes no sense; return the turns."""
    if not callable(fn):
        raise TypeError(f"fn must be a function that is called with args; got {fn!r}: write measure(fn, *args)")
    for name, value in (("gpu", gpu), ("cold", cold)):
        if not isinstance(value, bool) and not (name == "gpu" and value is None):
            raise TypeError(f"{name} must be True or False{' or None' if name == 'gpu' else ''}; got {value!r}")
    if not (isinstance(seconds, int | float) and 0 <= seconds < math.inf):
        raise ValueError(f"seconds must be a finite number that is not negative; got {seconds!r}")
    if core_check.count("most", most) < _FEWEST:
        raise ValueError(f"most must be at least {_FEWEST}, or there are no quartiles; got {most}")
    if core_check.count("calls", calls) > 1 and cold:
        raise ValueError(
            f"cold empties the cache before each single call, so calls must be 1; got {calls}: "
            "rotate arguments past the cache instead"
        )
    _check_confidence(confidence)
    if rotate is None:
        return None
    turns = list(rotate)
    if not turns or not all(isinstance(turn, tuple) for turn in turns):
        kinds = ", ".join(sorted({type(turn).__name__ for turn in turns})) or "nothing"
        raise ValueError(
            f"rotate must be a sequence of tuples of arguments, at least one; got {kinds}: write [(x,), ...]"
        )
    return turns


def _check_confidence(confidence: Any) -> None:
    if not (isinstance(confidence, int | float) and 0 < confidence < 1):
        raise ValueError(f"confidence must be a number between 0 and 1, such as 0.95; got {confidence!r}")
