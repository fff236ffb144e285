"""The source's variants of piecewise polynomials: launcher of ``kernels_cu/study/piecewise_variants.cu``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.piecewise import study_cost
from benchmarks.piecewise.study_cost import power_of_two
from cukde.core.gpu import compile as core_compile
from cukde.perf import declare

if TYPE_CHECKING:
    from cukde.core.gpu.launch import Specialisation

STEM, NAME = "study/piecewise_variants", "piecewise_variant"
_THREADS = 256
_MOST_SHARED_BYTES = 48 * 1024
_LAYOUTS = {"aos": "AoS", "soa": "SoA"}


class Variant(NamedTuple):
    """One kernel of the source, or of its open items."""

    kind: str = "BASE"  # VARIANT of the CUDA source
    layout: str = "aos"
    arithmetic: str = ""  # FLOAT, HALF or PACKED; "" is the source's: that of the data
    elements: int = 1  # points of a thread

    @property
    def name(self) -> str:
        """As records and the figure have it."""
        return f"{self.kind.lower().replace('_', '-')} {_LAYOUTS[self.layout]}"


SOURCE = tuple(
    Variant(kind, layout)
    for kind in ("BASE", "UNROLLED", "BRANCH_FREE", "REGISTERS", "SHARED")
    for layout in (("soa",) if kind == "SHARED" else ("aos", "soa"))
)
"""The variants of the source's figure."""


def kernel(variant: Variant, dtype: Any, pieces: int, degree: int) -> Specialisation:
    """A variant; as in the source, more pieces unroll more knots, more coefficients make longer chunks."""
    half, chunk = np.dtype(dtype) == np.float16, power_of_two(degree + 1, 16)
    defines = core_compile.macros(
        VARIANT=variant.kind,
        SOA=variant.layout == "soa",
        ARITHMETIC=variant.arithmetic or ("HALF" if half else "FLOAT"),
        F16=half,
        ELEMENTS=variant.elements,
        UNROLL=power_of_two(pieces, 16 // variant.elements),
        CHUNK=chunk,
    )
    from cukde.core.gpu.launch import Specialisation  # with CuPy, which the names of the variants do not need

    shared = chunk * pieces * np.dtype(dtype).itemsize if variant.kind == "SHARED" else 0
    return Specialisation(STEM, NAME, defines, "4P q 2i", shared)


@declare(study_cost.cost, study_cost.sizes, name="study.piecewise")
def evaluate(variant: Variant, x: Any, coefficients: Any, knots: Any, out: Any) -> Any:
    """``out`` (n,) of the polynomials in powers of x itself, all arrays of one dtype, float16 or float32, contiguous.

    ``coefficients`` are (P, D + 1) or (D + 1, P), as the variant's layout is, the leading one first.
    """
    shape = coefficients.shape if variant.layout == "aos" else coefficients.shape[::-1]
    pieces, degree = shape[0], shape[1] - 1
    chosen = kernel(variant, x.dtype, pieces, degree)
    if chosen.shared_bytes > _MOST_SHARED_BYTES:
        raise ValueError(f"{pieces} pieces take {chosen.shared_bytes} bytes of shared memory")
    if x.size:
        arrays = (a.view(np.uint16) if a.dtype == np.float16 else a for a in (x, coefficients, knots, out))
        blocks = -(-x.size // (_THREADS * variant.elements))
        chosen.launch((blocks,), (_THREADS,), *arrays, x.size, pieces, degree)
    return out


def coefficients_of(local: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """(D + 1, P) in powers of x, of (D + 1, P) in powers of x - knots[i], float64."""
    shifted = np.array(local, np.float64)
    for end in range(len(shifted), 1, -1):  # Horner's rule once for each coefficient, from the last
        for j in range(1, end):
            shifted[j] -= knots[:-1] * shifted[j - 1]
    return shifted
