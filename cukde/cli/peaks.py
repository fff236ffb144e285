"""``cukde info --peaks``: peaks of this machine's devices, measured and kept."""

from __future__ import annotations

from collections.abc import Iterator

from cukde.core import dispatch
from cukde.perf import Peaks, _kept, _published, measure_peaks

_BYTES = ("memory", "cache")


def report() -> Iterator[str]:
    """Measure the current GPU, where one works, and the CPU; yield lines of text."""
    for backend in ("gpu", "cpu"):
        if backend == "gpu" and dispatch.why_no_gpu() is not None:
            continue
        measured = measure_peaks(backend)
        yield from _lines(measured)
        if measured.name in _kept.load():
            yield f"  kept in {_kept.path()}"


def _lines(measured: Peaks) -> Iterator[str]:
    published = _published.find(measured.name) if measured.backend == "gpu" else None
    yield measured.name
    what = "multiprocessors" if measured.backend == "gpu" else "threads"
    yield (
        f"  {measured.multiprocessors} {what} at {1e-9 * measured.clock:.2f} GHz, "
        f"{measured.cache_bytes / 2**20:.0f} MiB of cache; {measured.source}"
    )
    for unit, rate in measured.rates.items():
        low, high = measured.quartiles[unit]
        line = f"  {unit:<16} {rate:>10.3g} {'B/s' if unit in _BYTES else 'op/s'}  [{low:.3g}, {high:.3g}]"
        most = published.rates.get(unit) if published is not None else None
        yield line if most is None else f"{line}  {100 * rate / most:.0f}% of {most:.3g}"
    low, high = (1e6 * seconds for seconds in measured.quartiles["launch"])
    yield f"  {'launch':<16} {1e6 * measured.launch:>10.3g} us    [{low:.3g}, {high:.3g}]"
