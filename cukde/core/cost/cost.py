"""What an operation costs: the work that it asks of each unit of a processor, stage by stage."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

Unit = Literal[
    "memory",
    "cache",
    "shared",
    "fma",
    "instruction",
    "scalar",
    "exponential",
    "exponential_f64",
    "float64",
    "tensor_f16",
    "tensor_tf32",
    "tensor_f64",
    "tensor_s8",
    "tensor_b1",
    "gemm_f16",
    "gemm_f32",
    "gemm_f64",
]
"""What work is counted in.

``memory``, ``cache``: bytes of device memory and of the last cache before it, read and written. ``shared``: bytes of a
GPU's shared memory and first cache, with what waits for a bank counted as moved. ``fma``: float32 operations, two a
multiply-add. ``instruction``: instructions of single threads, of every kind, multiply-adds too. ``scalar``: operations
of a CPU on one number at a time. ``exponential``: of float32, in hardware on a GPU; ``exponential_f64``: of float64.
``float64``: float64 operations outside tensor cores. ``tensor_*``: operations, two a multiply-add, of a warp's own
products on tensor cores, by operands; ``gemm_*``: those of a library's matrix products.
"""

UNITS: tuple[Unit, ...] = get_args(Unit)

# Whose operations are floating-point ones, of one number each: what an intensity counts.
_FLOATING = ("fma", "float64", *(unit for unit in UNITS if unit.startswith(("tensor_f", "tensor_tf", "gemm_"))))


@dataclass(frozen=True)
class Part:
    """One stage of an operation: a kernel, or several whose work is alike.

    ``bytes`` is the least that device memory must move: every input read once, every output written once, what one
    stage leaves for the next included. ``work`` is the operations of each unit but memory. ``requested`` is the bytes
    that all blocks together ask of the cache, ``bytes`` or more; what is asked for again is found there as far as what
    is touched in between, ``footprint`` bytes, fits. Where none is given it is found if all of ``bytes`` fit.
    ``blocks`` share the work evenly; ``cycles`` is how long the longest chain of dependent steps takes a block of those
    that a multiprocessor runs ``resident`` at a time. ``reduction`` says how many of the work's instructions only bring
    partial sums together. ``efficiency`` is the part of all rates but those of memory and cache that the program
    reaches at most, for what no count shows, such as steps that wait for each other: measured, and 1 unless its formula
    says why.

    Counts are as exact as their formula; how far times made of them are off is in ``docs/performance.md``.

    Examples
    --------
    >>> from cukde import perf
    >>> perf.Part("all", bytes=16.0, work={"fma": 2.0, "exponential": 1.0}).flops
    2.0
    """

    name: str
    bytes: float = 0.0
    work: Mapping[Unit, float] = field(default_factory=dict)
    requested: float = 0.0
    blocks: float = math.inf
    resident: int = 1
    cycles: float = 0.0
    reduction: float = 0.0
    footprint: float | None = None
    launches: int = 1
    efficiency: float = 1.0

    @property
    def flops(self) -> float:
        """Floating-point operations, exponentials apart: multiply and add are two."""
        return sum(count for unit, count in self.work.items() if unit in _FLOATING)

    @property
    def asked(self) -> float:
        """Bytes that are asked of the cache: those that ``work`` names, or else ``requested``, no fewer than moved."""
        return self.work.get("cache", max(self.requested, self.bytes))

    def times(self, runs: float) -> Part:
        """So many runs of the stage, one after the other; a mean number of runs need not be whole."""
        return replace(
            self,
            bytes=self.bytes * runs,
            work={unit: count * runs for unit, count in self.work.items()},
            requested=self.requested * runs,
            cycles=self.cycles * runs,
            reduction=self.reduction * runs,
            launches=round(self.launches * runs),
        )


@dataclass(frozen=True)
class Cost:
    """What an operation costs: see :func:`cukde.perf.cost`.

    Attributes
    ----------
    op : str
    shapes : dict
        What the formula was given.
    parts : tuple of Part
        Stages, one after the other.
    source : str
        Where the formula comes from.
    pairs : float
        Pairs that a textbook's program visits; 0 where it visits none.
    textbook_flops, textbook_bytes : float
        Operations and bytes as the source counts them: what the report's rule takes.

    Notes
    -----
    How exactly work is counted is said at :func:`cukde.perf.cost`.

    Examples
    --------
    >>> from cukde import perf
    >>> found = perf.cost("kde", n=1024, m=128, d=16)
    >>> found.pairs, found.exponentials, [part.name for part in found.parts]
    (131072.0, 131072.0, ['survey', 'prepare', 'pass', 'finish'])
    """

    op: str
    shapes: dict[str, Any]
    parts: tuple[Part, ...]
    source: str
    pairs: float
    textbook_flops: float
    textbook_bytes: float

    @property
    def bytes(self) -> float:
        """Least bytes of device memory, all parts together."""
        return sum(part.bytes for part in self.parts)

    @property
    def flops(self) -> float:
        """Floating-point operations, exponentials apart."""
        return sum(part.flops for part in self.parts)

    @property
    def exponentials(self) -> float:
        """Exponentials of any precision."""
        return self.work("exponential") + self.work("exponential_f64")

    @property
    def tensor_flops(self) -> float:
        """Operations on tensor cores, by kernels of our own and by a library's products."""
        return sum(self.work(unit) for unit in UNITS if unit.startswith(("tensor_", "gemm_")))

    @property
    def scalar_flops(self) -> float:
        """Floating-point operations outside tensor cores and libraries, exponentials apart."""
        return self.work("fma") + self.work("float64")

    @property
    def launches(self) -> int:
        """Kernels that are launched."""
        return sum(part.launches for part in self.parts)

    @property
    def intensity(self) -> float:
        """Floating-point operations a byte of least traffic."""
        return self.flops / self.bytes if self.bytes else math.inf

    def work(self, unit: Unit) -> float:
        """Operations of a unit, all parts together."""
        return sum(part.work.get(unit, 0.0) for part in self.parts)


@dataclass(frozen=True)
class Counted:
    """What a formula returns: the fields of :class:`Cost` but for the name and the shapes.

    A source that counts nothing of its own leaves ``textbook_flops`` and ``textbook_bytes`` out: then the parts' count.
    Sums over parts are exact; the parts are what their formula counts.

    Examples
    --------
    >>> from cukde import perf
    >>> perf.Counted((perf.Part("all", bytes=16.0),), "by hand").cost("double", {"n": 1}).bytes
    16.0
    """

    parts: tuple[Part, ...]
    source: str
    pairs: float = 0.0
    textbook_flops: float | None = None
    textbook_bytes: float | None = None

    def cost(self, op: str, shapes: dict[str, Any]) -> Cost:
        """Complete the cost."""
        flops, traffic = self.textbook_flops, self.textbook_bytes
        return Cost(
            op,
            shapes,
            self.parts,
            self.source,
            self.pairs,
            sum(part.flops for part in self.parts) if flops is None else flops,
            sum(part.bytes for part in self.parts) if traffic is None else traffic,
        )
