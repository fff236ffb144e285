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

_SECONDS = 0.2  # for each unit
_CALLS = 2  # in a row, where the device is timed


def measure_peaks(backend: str | None = None) -> Peaks:
    """Measure the highest rates of a device, and keep them for :func:`cukde.perf.peaks`.

    On a GPU these are

    - a copy (``memory``, bytes read and written), and reads of what fits into the L2 (``cache``);
    - multiply-adds of float32 (``fma``) and float64, and powers of 2, in chains in registers;
    - products of tensor cores by ``mma.sync`` from registers, where the hardware has them;
    - matrix products by cuBLAS on random numbers, in float32 without TF32;
    - launches of an empty kernel, one after the other.

    On the CPU all threads together run

    - a copy, and matrix products by NumPy, one for each thread, which also give the rate of multiply-adds;
    - the library's powers of 2 in float32 and float64;
    - walks through numbers, one at a time (``scalar``: a step counts as one comparison and two additions);
    - the distribution of work to all threads, as a launch.

    Parameters
    ----------
    backend : {"gpu", "cpu"}, optional
        The current GPU, or the processor. Default: the GPU where one works.

    Returns
    -------
    Peaks
        Medians, and in ``quartiles`` the quartiles of repeated runs; ``source`` has the date and the software. The
        clock of a GPU is the clock at which exponentials were measured. From compute capability 10.0, whose
        exponentials in a cycle are not known, it is the highest clock.

    Raises
    ------
    RuntimeError
        For ``backend="gpu"`` where no GPU works.

    Examples
    --------
    >>> from cukde import perf
    >>> p = perf.measure_peaks("cpu")
    >>> low, high = p.quartiles["memory"]
    >>> low <= p.rate("memory") <= high
    True

    Notes
    -----
    Quartiles show how accurate the rates are. It takes about five seconds on a GPU and two on a CPU, and compilation,
    and up to 1.1 GB of memory.

    The result is written to a file under the name of the device: to ``cukde/peaks.json`` in the user's folder of caches
    (``XDG_CACHE_HOME`` or ``~/.cache``, ``LOCALAPPDATA`` on Windows), or to the file that the environment variable
    ``CUKDE_PEAKS`` names. A file that cannot be written is a warning.
    """
    device = loads_of(backend)
    rates: dict[Unit, float] = {}
    quartiles: dict[str, tuple[float, float]] = {}
    launch = 0.0
    for load in device.loads():
        times = timed(load, _SECONDS)
        slow, median, fast = (1e3 * load.amount / ms for ms in (times.q3_ms, times.median_ms, times.q1_ms))
        if load.unit == "launch":
            launch, quartiles["launch"] = 1 / median, (1 / fast, 1 / slow)
        else:
            rates[load.unit], quartiles[load.unit] = median, (slow, fast)
    for unit, other in device.SAME.items():
        rates[unit], quartiles[unit] = rates[other], quartiles[other]
    today = datetime.datetime.now(datetime.UTC).date()
    source = f"measured on {today} by cukde.perf.measure_peaks(); {device.versions()}"
    measured = Peaks(**device.described(rates), rates=rates, launch=launch, source=source, quartiles=quartiles)
    _kept.keep(measured)
    return measured


def loads_of(backend: str | None) -> ModuleType:
    """What the peaks of a backend are measured by."""
    return importlib.import_module(f"cukde.perf._loads_{dispatch.named(backend).name}")


def timed(load: Load, seconds: float) -> Times:
    """Time a load; on a GPU no call waits for its launch."""
    return measure(load.call, gpu=not load.on_host, seconds=seconds, calls=1 if load.on_host else _CALLS)
