"""Peaks of a processor: the highest rates of its units, as published or as measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from cukde.core.cost.cost import Unit
from cukde.core.public import public_in


@public_in("cukde.perf")
@dataclass(frozen=True)
class Peaks:
    """The highest rates of a processor, published or measured.

    Attributes
    ----------
    name : str
    backend : {"gpu", "cpu"}
    rates : dict
        Operations or bytes a second by :data:`~cukde.perf.Unit`. ``memory`` counts bytes read and bytes written.
    launch : float
        Seconds between launches of kernels from Python, many in a row.
    multiprocessors : int
        Number of multiprocessors of a GPU, or of cores of a CPU.
    clock : float
        Cycles a second.
    cache_bytes : float
        Size of the last cache before memory.
    capability : tuple of int
        Compute capability; (0, 0) for a CPU.
    source : str
        Address of the published figures, or date and software of the measurement.
    quartiles : dict
        Lower and upper quartile of measured rates; "launch" in seconds.

    Examples
    --------
    >>> from cukde import perf
    >>> perf.peaks("H200").multiprocessors, perf.peaks("H200").backend
    (132, 'gpu')

    Notes
    -----
    Published rates are exact as published; the quartiles of measured rates show their accuracy.
    """

    name: str
    backend: Literal["gpu", "cpu"]
    rates: Mapping[Unit, float]
    launch: float
    multiprocessors: int
    clock: float
    cache_bytes: float
    capability: tuple[int, int]
    source: str
    quartiles: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def rate(self, unit: Unit) -> float:
        """Operations or bytes a second of a ``unit``.

        A unit without a rate of its own has the rate of a substitute. An instruction counts as a multiply-add. On a
        GPU, which has no unit for it, a float64 exponential counts as 12 multiply-adds. Products of a library run on
        tensor cores; eight products of bits count as one of bytes. Shared memory delivers a word from each bank in a
        cycle. A cache that was not measured counts as infinitely fast.
        """
        if unit in self.rates:
            return self.rates[unit]
        if unit == "instruction":
            return self.rate("fma") / 2
        if unit == "cache":
            return math.inf
        if unit == "exponential_f64" and self.backend == "gpu":
            return self.rate("float64") / _FLOPS_OF_EXPONENTIAL_F64
        if unit == "shared" and self.backend == "gpu":
            return _SHARED_BYTES * self.multiprocessors * self.clock
        if unit == "tensor_b1" and "tensor_s8" in self.rates:
            return _BITS_OF_BYTE * self.rate("tensor_s8")
        if unit in _IN_PLACE:
            return self.rate(_IN_PLACE[unit])
        raise ValueError(
            f"the peaks of {self.name} have no rate for {unit}, only for {', '.join(sorted(self.rates))}: "
            "measure them on the device by cukde.perf.measure_peaks()"
        )


# 12 instructions of the float64 pipe, each in the place of a multiply-add: kernels_cu/core/exp2_f64.cuh.
_FLOPS_OF_EXPONENTIAL_F64 = 24
# Bytes in a cycle on a multiprocessor: 32 banks of 4 bytes (CUDA C++ Programming Guide, "Shared Memory").
_SHARED_BYTES = 128

# Bits that are multiplied in the time of a byte: as published for an A100, as measured on an H200 (1.02e16 / 1.27e15).
_BITS_OF_BYTE = 8

_IN_PLACE: dict[Unit, Unit] = {
    "gemm_f16": "tensor_f16",
    "gemm_f32": "fma",
    "gemm_f64": "tensor_f64",
    "tensor_f64": "float64",
}


class Load(NamedTuple):
    """A call that keeps one unit busy and does nothing else; it measures a peak."""

    unit: Unit | Literal["launch"]
    amount: float  # operations, bytes or launches of a call
    call: Callable[[], Any]
    on_host: bool = False  # the call returns when it is done, and the host's clock times it
