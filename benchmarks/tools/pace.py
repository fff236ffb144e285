"""The pace of a machine: the time for the same work in one run over that in another, by the calibrations of both."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

Calibration = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""By backend and kernel: see :func:`benchmarks.tools.calibration.calibrate`."""

QUIET = 1.1
"""Largest ratio of calibrations within a run on a machine without other work."""

_MEMORY = {"memory", "a copy"}
"""Bounds of rows that the copy stands for. Exponentials, which follow the clock, stand for all others."""


class Pace(NamedTuple):
    """A ratio of times, and the interval in which it lies."""

    ratio: float
    low: float
    high: float


SAME = Pace(1.0, 1.0, 1.0)


def pace(old: Mapping[str, Mapping[str, Any]], new: Mapping[str, Mapping[str, Any]], bound: str) -> Pace | None:
    """New time over old of what bounds a row: of the copy, of exponentials, or of both where no bound is known.

    For several kernels it is the geometric mean, and the interval reaches from the least to the most of them: any of
    them may bind. None where the calibrations have nothing in common.
    """
    both = [name for name in new if name in old]
    fit = [name for name in both if not bound or (name == "copy") == (bound in _MEMORY)] or both
    if not fit:
        return None
    paces = [_of_kernel(old[name], new[name]) for name in fit]
    mean = math.exp(math.fsum(math.log(each.ratio) for each in paces) / len(paces))
    return Pace(mean, min(each.low for each in paces), max(each.high for each in paces))


def _of_kernel(old: Mapping[str, Any], new: Mapping[str, Any]) -> Pace:
    before, after = old["median_ms"], new["median_ms"]
    low = new.get("low_ms", after) / old.get("high_ms", before)
    high = new.get("high_ms", after) / old.get("low_ms", before)
    return Pace(after / before, min(low, after / before), max(high, after / before))


def unquiet(calibration: Calibration) -> list[str]:
    """Kernels that took much longer at one time of the run than at another."""
    return [
        f"the {name} kernel of the {backend} took {times['drift']:.2f} times as long once"
        for backend, kernels in calibration.items()
        for name, times in kernels.items()
        if times.get("drift", 1.0) > QUIET
    ]


def checked(calibration: Any, name: str) -> dict[str, Any]:
    """Return a calibration as it is, or raise where it is invalid."""
    for kernels in _values(calibration, name):
        for times in _values(kernels, name):
            _values(times, name)
            for key, other in (("median_ms", None), ("low_ms", 1.0), ("high_ms", 1.0), ("drift", 1.0)):
                value = times.get(key, other)
                if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                    raise ValueError(f"{name} must be what calibrate returned; it has {key} {value!r}")
    valid: dict[str, Any] = calibration
    return valid


def _values(entry: Any, name: str) -> list[Any]:
    if not isinstance(entry, Mapping):
        raise ValueError(f"{name} must be what calibrate returned; got a {type(entry).__name__} in its place")
    return list(entry.values())
