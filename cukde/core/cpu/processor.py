"""Name, cores and caches of the processor, from the operating system."""

from __future__ import annotations

import os
import platform
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")

_UNKNOWN_CACHE = 2**26  # bytes: more than most processors have
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


def name() -> str:
    """Return the name of the processor, or its architecture if the system does not tell the name."""
    try:
        lines = _CPUINFO.read_text().splitlines()
    except OSError:
        lines = []
    named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()


def cores() -> int:
    """Return the number of cores on which this process may run."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def cache_bytes() -> int:
    """Return the size of the largest cache of a core, shared or not; a default if the system does not tell."""
    try:
        sizes = [path.read_text().strip() for path in _CACHES.glob("index*/size")]
        return max(int(size.rstrip("KMG")) * _UNITS.get(size[-1], 1) for size in sizes)
    except (OSError, ValueError, IndexError):
        return _UNKNOWN_CACHE
