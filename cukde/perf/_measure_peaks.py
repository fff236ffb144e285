"""Peaks of the device at hand, measured."""

from __future__ import annotations

import datetime
import importlib
from types import ModuleType

from cukde.core import dispatch
from cukde.core.cost.cost import Unit
from cukde.core.cost.peaks import Load, Peaks
from cukde.perf import _kept
from cukde.perf._measure import Times, measure

_SECONDS = 0.2  # of a unit
_CALLS = 2  # in a row, of what is timed by the device


def measure_peaks(backend: str | None = None) -> Peaks:
    """Measure what a device can do at most, and keep it for :func:`cukde.perf.peaks`.

    On a GPU: a copy (``memory``, bytes read and written); reads of what fits into the L2 (``cache``); multiply-adds of
    float32 (``fma``) and float64, and powers of 2, in chains in registers; products of tensor cores by ``mma.sync``
    from registers, where there is the hardware for them; matrix products by cuBLAS on random numbers, those of float32
    without TF32; and launches of an empty kernel, one after the other. On the CPU, by all threads: a copy; matrix
    products by NumPy, one of each thread, which stand for multiply-adds, too; the library's powers of 2, of float32 and
    float64; walks through numbers, one at a time (``scalar``: of a step one comparison and two additions are counted);
    and what it takes to hand work to all threads, as a launch.

    Parameters
    ----------
    backend : {"gpu", "cpu"}, optional
        The current GPU, or the processor. Default the GPU where one works.

    Returns
    -------
    Peaks
        Medians, and in ``quartiles`` the quartiles of repeated runs; ``source`` says when and by what. The clock of a
        GPU is the one that exponentials were measured at; from 10.0 on, where it is not known how many a multiprocessor
        makes a cycle, the highest one.

    Raises
    ------
    RuntimeError
        For ``backend="gpu"`` where no GPU works.

    Notes
    -----
    Quartiles say how exactly rates are known. It costs about five seconds on a GPU and two on a CPU, compilation apart,
    and up to 1.1 GB of memory. What comes out is written to ``peaks.json`` in the folder ``cukde`` of the user's folder
    of caches (``XDG_CACHE_HOME`` or ``~/.cache``, ``LOCALAPPDATA`` on Windows), or the file that the environment
    variable ``CUKDE_PEAKS`` names, by the device's name. A file that cannot be written is a warning.

    Examples
    --------
    >>> from cukde import perf
    >>> p = perf.measure_peaks("cpu")
    >>> low, high = p.quartiles["memory"]
    >>> low <= p.rate("memory") <= high
    True
    """
    device = loads_of(backend)
    rates: dict[Unit, float] = {}
    quartiles: dict[str, tuple[float, float]] = {}
    launch = 0.0
    for load in device.loads():
        fast, median, slow = _seconds(load)
        if load.unit == "launch":
            launch = median / load.amount
            quartiles["launch"] = fast / load.amount, slow / load.amount
        else:
            rates[load.unit] = load.amount / median
            quartiles[load.unit] = load.amount / slow, load.amount / fast
    for unit, other in device.SAME.items():
        rates[unit], quartiles[unit] = rates[other], quartiles[other]
    today = datetime.datetime.now(datetime.UTC).date()
    source = f"measured on {today} by cukde.perf.measure_peaks(); {device.versions()}"
    measured: Peaks = device.described(rates, launch, source, quartiles)
    _kept.keep(measured)
    return measured


def loads_of(backend: str | None) -> ModuleType:
    """What the peaks of a backend are measured by."""
    return importlib.import_module(f"cukde.perf._loads_{dispatch.named(backend).name}")


def timed(load: Load, seconds: float) -> Times:
    """Time a load; on a GPU no call waits for its launch."""
    return measure(load.call, gpu=not load.on_host, seconds=seconds, calls=1 if load.on_host else _CALLS)


def _seconds(load: Load) -> tuple[float, float, float]:
    """Lower quartile, median and upper quartile of the time of a call."""
    times = timed(load, _SECONDS)
    return 1e-3 * times.q1_ms, 1e-3 * times.median_ms, 1e-3 * times.q3_ms
