"""What a plan is made from: sizes and options of one pass over the data, without arrays."""

from __future__ import annotations

from typing import NamedTuple

from cukde.density.sums import Output

TOLERANCE = {"float32": 1e-5, "tf32": 1e-3, "float64": 1e-13}
"""What may be left out of a query's sum by default, relative to what is kept, by precision."""

# Shared memory that a thread block may have, by compute capability, from the newest on (CUDA C++ Programming Guide,
# table of technical specifications).
_SHARED_KILOBYTES = {(12, 0): 99, (9, 0): 227, (8, 9): 99, (8, 7): 163, (8, 6): 99, (8, 0): 163, (7, 5): 64, (7, 0): 96}


class Device(NamedTuple):
    """What a plan asks of a GPU."""

    capability: tuple[int, int]
    shared_bytes: int  # that a thread block may have

    @classmethod
    def of(cls, capability: tuple[int, int]) -> Device:
        """A GPU of a compute capability, for plans of one that is not here."""
        known = next((k for at_least, k in _SHARED_KILOBYTES.items() if capability >= at_least), 48)
        return cls(capability, 1024 * known)


class Shape(NamedTuple):
    """One pass: ``n`` data at ``m`` queries of ``d`` columns."""

    output: Output
    n: int
    m: int
    d: int
    precision: str = "float32"
    k: int = 0  # columns of values
    itemsize: int = 4  # bytes of a coordinate as it is stored
    kernel: str = "gaussian"
    itself: bool = False  # the queries are the data
    weighted: bool = False
    local: bool = False  # each point has its own factor of the bandwidth
    own_out: bool = False  # queries leave out rows of the data
    deterministic: bool = False
    ratio: bool = False  # only moments / total is wanted
    rtol: float | None = None
    atol: float = 0.0
    captured: bool = False  # a stream is captured: nothing may wait for the device
    device: Device | None = None  # None: the CPU

    @property
    def pairs(self) -> int:
        """Pairs of a data row and a query."""
        return self.n * self.m

    @property
    def tolerance(self) -> float:
        """What may be left out of a query's sum, relative to what is kept; 0: nothing."""
        return tolerance(self.precision, self.rtol)

    @property
    def once(self) -> bool:
        """Whether a pair gives the term of its reverse, and sums may be added up in any order."""
        return self.itself and not (self.weighted or self.deterministic or self.own_out)

    def __str__(self) -> str:
        what = {"sum": "sums", "values": f"sums of values, {_counted(self.k, 'column')},"}.get(self.output, self.output)
        at = "at themselves" if self.itself else f"at {_counted(self.m, 'query', 'queries')}"
        options = ("weighted", "local", "own_out", "deterministic", "captured")
        said = {"own_out": "leave-one-out", "local": "local factors"}
        extra = [said.get(name, name) for name in options if getattr(self, name)]
        kernel = "" if self.kernel == "gaussian" else f", {self.kernel} kernel"
        tolerance = "" if self.rtol is None else f", rtol {self.rtol:g}"
        where = "CPU" if self.device is None else "GPU of compute capability {}.{}".format(*self.device.capability)
        more = "".join(f", {one}" for one in extra)
        size = f"{self.n:,} data {at}, {_counted(self.d, 'column')}, {self.precision}"
        return f"{what} of {size}{kernel}{more}{tolerance}; {where}"


def _counted(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def tolerance(precision: str, rtol: float | None) -> float:
    """What may be left out of a query's sum, relative to what is kept; 0: nothing."""
    return TOLERANCE.get(precision, 0.0) if rtol is None else rtol
