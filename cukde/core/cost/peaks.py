"""What a processor can do at most: rates of its units, as published or as measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from cukde.core.cost.cost import Unit


@dataclass(frozen=True)
class Peaks:
    """Most that a processor does in a second.

    Attributes
    ----------
    name : str
    backend : {"gpu", "cpu"}
    rates : dict
        Operations or bytes a second by :data:`~cukde.perf.Unit`. ``memory`` counts bytes read and bytes written.
    launch : float
        Seconds from one launch of a kernel to the next, of many in a row, from Python.
    multiprocessors : int
        Of a CPU its cores.
    clock : float
        Cycles a second.
    cache_bytes : float
        Size of the last cache before memory.
    capability : tuple of int
        Compute capability; (0, 0) of a CPU.
    source : str
        Address of the published figures, or when and by what they were measured.
    quartiles : dict
        Lower and upper quartile of the rates that were measured; "launch" in seconds.

    Notes
    -----
    Published rates are exact as published; of measured ones the quartiles say how exactly they are known.

    Examples
    --------
    >>> from cukde import perf
    >>> perf.peaks("H200").multiprocessors, perf.peaks("H200").backend
    (132, 'gpu')
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
        """Operations or bytes a second of a unit; one that is not there has the rate of what stands in for it.

        A thread's instruction takes the place of a multiply-add; an exponential of float64 that of 12 on a GPU, which
        has no unit for it; a library's product is one of tensor cores; a cache that was not measured is left out of
        account, as if it were endless; shared memory gives a word of each of its banks a cycle; of bits eight are
        multiplied for a byte.
        """
        found = self.rates.get(unit)
        if found is not None:
            return found
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


# 12 instructions of the float64 pipe, each in a multiply-add's place: kernels_cu/core/exp2_f64.cuh.
_FLOPS_OF_EXPONENTIAL_F64 = 24
# A cycle and multiprocessor: 32 banks of 4 bytes (CUDA C++ Programming Guide, "Shared Memory").
_SHARED_BYTES = 128

# Single bits that are multiplied while one byte is: of an A100 as published, of an H200 as measured, 1.02e16 / 1.27e15.
_BITS_OF_BYTE = 8

_IN_PLACE: dict[Unit, Unit] = {
    "gemm_f16": "tensor_f16",
    "gemm_f32": "fma",
    "gemm_f64": "tensor_f64",
    "tensor_f64": "float64",
}


class Load(NamedTuple):
    """A call that keeps one unit busy and does nothing else: what a peak is measured by."""

    unit: Unit | Literal["launch"]
    amount: float  # operations or bytes, or launches, of a call
    call: Callable[[], Any]
    on_host: bool = False  # it waits until it is done, and is timed by the host's clock
