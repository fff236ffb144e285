"""The cost of an operation: the work that it asks of each unit of a processor, stage by stage."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from cukde.core.public import public_in

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
"""Units that work is counted in.

``memory``, ``cache``: bytes of device memory and of the last cache before it, read and written. ``shared``: bytes of a
GPU's shared memory and first cache; a wait for a bank counts as bytes.

``fma``: float32 operations, two for each multiply-add. ``instruction``: instructions of single threads, of every kind,
multiply-adds too. ``scalar``: operations of a CPU on one number at a time. ``exponential``: of float32, in hardware on
a GPU; ``exponential_f64``: of float64. ``float64``: float64 operations outside tensor cores.

``tensor_*``: operations, two for each multiply-add, of a warp's own products on tensor cores, by operands; ``gemm_*``:
those of a library's matrix products.
"""

UNITS: tuple[Unit, ...] = get_args(Unit)

# Units whose operations are floating-point operations on one number each: an intensity counts these.
_FLOATING = ("fma", "float64", *(unit for unit in UNITS if unit.startswith(("tensor_f", "tensor_tf", "gemm_"))))


@public_in("cukde.perf")
@dataclass(frozen=True)
class Part:
    """One stage of an operation, its ``name``: a kernel, or several kernels with similar work in ``launches``.

    ``bytes`` is the least traffic of device memory: every input read once and every output written once, including
    intermediate results between stages. ``work`` has the operations of each unit except memory.

    ``requested`` is the number of bytes that all blocks together request from the cache, at least ``bytes``.
    ``footprint`` is the number of bytes that are touched before the same byte is requested again: the cache serves
    repeated requests as far as these fit. Without a footprint the cache serves them if all of ``bytes`` fit.

    ``blocks`` share the work evenly, and a multiprocessor runs ``resident`` of them at a time. ``cycles`` is the time
    of the longest chain of dependent steps of a block. ``reduction`` is the number of instructions that only combine
    partial sums.

    ``efficiency`` is the largest fraction of the rates, except those of memory and cache, that the program reaches. It
    accounts for effects that no count shows, such as steps that wait for each other. It is measured; where it is not 1,
    the formula says why.

    Counts are as accurate as their formula; ``docs/performance.md`` has the errors of times that follow from them.

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
        """Floating-point operations without exponentials; a multiply-add counts as two."""
        return sum(count for unit, count in self.work.items() if unit in _FLOATING)

    @property
    def asked(self) -> float:
        """Bytes requested from the cache: those of ``work``, or else ``requested``, but at least ``bytes``."""
        return self.work.get("cache", max(self.requested, self.bytes))

    def times(self, runs: float) -> Part:
        """Return the stage repeated ``runs`` times, one run after the other; the number may be a mean."""
        return replace(
            self,
            bytes=self.bytes * runs,
            work={unit: count * runs for unit, count in self.work.items()},
            requested=self.requested * runs,
            cycles=self.cycles * runs,
            reduction=self.reduction * runs,
            launches=round(self.launches * runs),
        )


@public_in("cukde.perf")
@dataclass(frozen=True)
class Cost:
    """The work of an operation: see :func:`cukde.perf.cost`.

    Attributes
    ----------
    op : str
    shapes : dict
        Arguments of the formula.
    parts : tuple of Part
        Stages, one after the other.
    source : str
        Where the formula comes from.
    pairs : float
        Pairs that a textbook program visits; 0 if it visits none.
    textbook_flops, textbook_bytes : float
        Operations and bytes as the source counts them, which the report's rule uses.

    Examples
    --------
    >>> from cukde import perf
    >>> cost = perf.cost("kde", n=1024, m=128, d=16)
    >>> cost.pairs, cost.exponentials, [part.name for part in cost.parts]
    (131072.0, 131072.0, ['survey', 'prepare', 'pass', 'finish'])

    Notes
    -----
    :func:`cukde.perf.cost` says how accurate the counts are.
    """

    op: str
    shapes: dict[str, Any]
    parts: tuple[Part, ...] = field(repr=False)
    source: str = field(repr=False)
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
        """Operations on tensor cores, by the library's own kernels and by products of other libraries."""
        return sum(self.work(unit) for unit in UNITS if unit.startswith(("tensor_", "gemm_")))

    @property
    def scalar_flops(self) -> float:
        """Floating-point operations outside tensor cores and libraries, exponentials apart."""
        return self.work("fma") + self.work("float64")

    @property
    def launches(self) -> int:
        """Number of kernel launches."""
        return sum(part.launches for part in self.parts)

    @property
    def intensity(self) -> float:
        """Floating-point operations for each byte of the least traffic."""
        return self.flops / self.bytes if self.bytes else math.inf

    def work(self, unit: Unit) -> float:
        """Operations of a ``unit``, all parts together."""
        return sum(part.work.get(unit, 0.0) for part in self.parts)


@public_in("cukde.perf")
@dataclass(frozen=True)
class Counted:
    """The result of a cost formula: the fields of :class:`Cost`, without the name and the shapes.

    ``parts`` are its stages, ``source`` says where the counts come from, and ``pairs`` is the number of pairs.
    ``textbook_flops`` and ``textbook_bytes`` are sums over the parts by default. Sums over parts are exact; the parts
    are as accurate as their formula.

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
        """Return the :class:`Cost` of an operation, ``op``, with the sizes ``shapes``."""
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
