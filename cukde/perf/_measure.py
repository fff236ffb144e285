"""The time of a call on the CPU or a GPU: median, quartiles and a confidence interval of the median."""

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
from cukde.core.cpu import meanwhile
from cukde.core.public import public_in
from cukde.core.random_state import DEFAULT, RandomState, integer
from cukde.perf import _clocks

_WARM_UP = 0.2
"""Part of the seconds of a measurement: processors slow down when they wait."""

_FEWEST = 3
"""Fewest runs that have quartiles."""

_BEHIND = 3.0
"""How long the device is kept busy, in times of launching: launches take longer now and then."""

_RESAMPLES, _FEWEST_RESAMPLES = 9999, 499
_DRAWS = 5_000_000
"""Of the bootstrap: large samples, whose interval is narrow, have fewer resamples, and so many numbers in memory."""


@public_in("cukde.perf")
@dataclass(frozen=True)
class Times:
    """Milliseconds of a call: see :func:`measure`.

    Attributes
    ----------
    median_ms, q1_ms, q3_ms : float
        Median and quartiles of the runs.
    low_ms, high_ms : float
        Bootstrap confidence interval by the percentile method: how exactly the median is known.
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
    def of(
        cls,
        milliseconds: Iterable[float],
        *,
        confidence: float = 0.95,
        random_state: RandomState = DEFAULT,
        seed: RandomState = None,
    ) -> Times:
        """Summarise times of runs, ``milliseconds``, that were measured elsewhere.

        ``confidence``, ``random_state`` and ``seed`` are those of :func:`measure`.

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
        rng = np.random.default_rng(integer(random_state, seed))
        q1, median, q3 = np.percentile(runs, [25, 50, 75])
        low, high = median_interval(runs, confidence, rng)
        return cls(float(median), float(q1), float(q3), low, high, runs.size)

    def row(self) -> dict[str, Any]:
        """The times by name, for a row of a record."""
        return asdict(self)


class Rotating:
    """Calls of a function with arguments in turns; results live for a round, until their memory has left the cache."""

    def __init__(self, fn: Callable[..., Any], turns: Iterable[tuple[Any, ...]]) -> None:
        self._fn = fn
        arguments = list(turns)
        self._turns = itertools.cycle(arguments)
        self._held: collections.deque[Any] = collections.deque(maxlen=len(arguments))

    def __call__(self) -> None:
        """Take the next arguments."""
        self._held.append(self._fn(*next(self._turns)))


@meanwhile.within(meanwhile.WAITING)
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
    random_state: RandomState = DEFAULT,
    seed: RandomState = None,
) -> Times:
    """Measure how long ``fn(*args)`` takes.

    After a warm-up the call is repeated for about ``seconds``, at least three times. On a GPU two CUDA events on CuPy's
    current stream measure a time; on the CPU the processor's clock does.

    Parameters
    ----------
    fn : callable
        The function; :func:`functools.partial` adds keyword arguments.
    *args
        Its arguments.
    gpu : bool, optional
        Whether the device is timed. Default: whether an argument is a GPU array, also in a partial or in ``rotate``. A
        closure that works on a GPU needs ``gpu=True``, because the processor's clock sees only the launch.
    seconds : float
        Time for repeating the call, including the emptying of caches. A warm-up of a fifth of it comes first.
    most : int
        Largest number of runs, 3 or more.
    calls : int
        A time is that of so many calls in a row, divided by their number. On a GPU several calls begin together: the
        device is kept busy until all are launched, so none waits for its launch from Python. The time of a single call
        includes its launch.
    cold : bool
        Empty the last cache before memory before each run, by writing more than it holds: four times the L2 of a GPU,
        or 1.5 times the last cache of a CPU. The time does not include that. ``calls`` must be 1.
    rotate : sequence of tuples, optional
        Arguments that calls take in turns, after ``args``. Results are kept for a round. If they have more bytes than
        the cache, no call finds its own arguments there, so many calls in a row can be cold.
    confidence : float
        Confidence of the interval of the median.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Of the bootstrap: None draws from NumPy's global state.
    seed
        Another name of ``random_state``.

    Returns
    -------
    Times
        The confidence interval shows how accurate the median is if nothing else disturbs the runs.

    Raises
    ------
    TypeError, ValueError
        For invalid arguments, before anything runs.
    RuntimeError
        If the device is to be timed and no GPU works.

    Examples
    --------
    >>> import numpy as np
    >>> from cukde import perf
    >>> times = perf.measure(np.sort, np.arange(1000.0)[::-1], seconds=0.01)
    >>> times.q1_ms <= times.median_ms <= times.q3_ms and times.runs >= 3
    True

    Notes
    -----
    The CUDA C++ Best Practices Guide ("Using CUDA GPU Timers") recommends events. The interval is that of
    :func:`scipy.stats.bootstrap` by the percentile method, of 9,999 resamples, fewer of more than 500 runs. Quartiles
    and interval are of the runs of this measurement: other measurements differ by more, by their clocks and neighbours.
    """
    turns = _check(fn, gpu, seconds, most, calls, cold, rotate, confidence)
    entropy = integer(random_state, seed)
    on_gpu = _on_gpu(fn, args, turns) if gpu is None else gpu
    if on_gpu:
        _clocks.require_gpu()
    call = functools.partial(fn, *args)
    one = call if turns is None else Rotating(call, turns)

    def some() -> None:
        for _ in range(calls):
            one()

    clock = _clocks.events if on_gpu else _clocks.wall
    clock(some)  # the first call may compile
    ahead = _ahead(some, on_gpu, calls, cold)
    begun = last = time.perf_counter()
    taken = 0.0
    while last - begun < _WARM_UP * seconds:
        clock(some, ahead)
        last, before = time.perf_counter(), last
        taken = last - before
    runs = min(max(int(seconds / max(taken, 1e-6)), _FEWEST), most)
    return Times.of([clock(some, ahead) / calls for _ in range(runs)], confidence=confidence, random_state=entropy)


def _ahead(some: Callable[[], None], gpu: bool, calls: int, cold: bool) -> Callable[[], Any] | None:
    """What runs before each run, outside its time."""
    if cold:
        return _clocks.emptier(gpu=gpu)
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
    """Raise for invalid arguments; return the turns."""
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
    turns = core_check.sequence("rotate", rotate, "tuples of arguments")
    if not turns or not all(isinstance(turn, tuple) for turn in turns):
        kinds = ", ".join(sorted({type(turn).__name__ for turn in turns})) or "nothing"
        raise ValueError(
            f"rotate must be a sequence of tuples of arguments, at least one; got {kinds}: write [(x,), ...]"
        )
    return turns


def median_interval(sample: np.ndarray, confidence: float, rng: np.random.Generator) -> tuple[float, float]:
    """Confidence interval of the median of a sample by the bootstrap's percentile method, as SciPy has it.

    Not by its method BCa: where all times are equal, that divides by zero. A sample of one has only itself.
    """
    n = len(sample)
    if n == 1:
        return float(sample[0]), float(sample[0])
    from scipy import stats  # takes half a second, which no call waits for that measures nothing

    found = stats.bootstrap(
        (sample,),
        np.median,
        confidence_level=confidence,
        method="percentile",
        n_resamples=max(min(_RESAMPLES, _DRAWS // n), _FEWEST_RESAMPLES),
        batch=max(_DRAWS // n, 1),
        vectorized=True,
        random_state=rng,  # named rng from SciPy 1.15 on, which takes both names
    ).confidence_interval
    return float(found.low), float(found.high)


def _check_confidence(confidence: Any) -> None:
    if not (isinstance(confidence, int | float) and 0 < confidence < 1):
        raise ValueError(f"confidence must be a number between 0 and 1, such as 0.95; got {confidence!r}")
