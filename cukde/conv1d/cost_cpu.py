"""Work of a depthwise convolution on a CPU: sums of products in vector registers, or transforms of long taps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cukde.conv1d import plan
from cukde.conv1d.geometry import Geometry
from cukde.conv1d.plan import Pass
from cukde.core.cost.cost import Part, Unit
from cukde.core.plan import consulted

# For each number: steps one at a time of a copy between layouts, which goes by squares of cache lines; and operations
# in vector registers of a conversion from or to float16, which NumPy has not vectorised.
_MOVED, _CONVERTED = 2.0, 20.0

# Operations of an activation in vector registers beside the exponential. silu: a product, a sum and a division. gelu: a
# polynomial of degree 12 in float32 and 27 in float64, a division, and their operands.
_ACTIVATION = {("silu", 32): 4.0, ("silu", 64): 4.0, ("gelu", 32): 45.0, ("gelu", 64): 90.0}


# Sums reach this part of the rate of matrix products. Every multiply-add takes its own load, which mostly lies across
# two cache lines and takes two cycles; and vectors have 32 bytes where those of BLAS may have 64. Measured on two cores
# of 2.7e11 (float32) and 1.3e11 (float64) operations a second: 0.31 for a convolution, 0.39 and 0.45 for the gradient
# by the taps.
_LOADED = 0.33

# Seconds of Python for each chunk; one thread runs Python at a time. Calls with 4 taps spend a quarter of their time on
# sums; the rest, over their 16 chunks, is 4e-5 to 7e-5 on the same cores.
_CHUNK, _CHUNK_SECONDS = 2**16, 5e-5


def parts(
    direction: Pass, g: Geometry, bits: int, activation: str | None, bias: bool, clock: float
) -> tuple[Part, ...]:
    """Parts of a pass: loops over a chunk that stays in a core's cache; only one of them reads and writes memory."""
    if g.batch == 0 or g.channels == 0:
        return ()
    wide = 64 if bits == 64 else 32
    inputs, outputs = g.batch * g.channels * g.length, g.batch * g.channels * g.outputs
    number: Unit = "float64" if wide == 64 else "fma"
    chunks = math.ceil((inputs + outputs) / 2 / _CHUNK)
    blocks = max(8, chunks)  # shared by threads; a gradient by the taps has no fewer
    stages: list[Part] = []

    def add(name: str, unit: Unit, count: float, launches: int = 0, **more: Any) -> None:
        stages.append(Part(name, work={unit: float(count)}, blocks=blocks, launches=launches, **more))

    moved = (inputs + outputs) * g.channels_last
    if g.stride > 1:  # the phases of a row are copied together
        moved += outputs if direction == "weight_grad" else inputs
    if moved:
        add("layout", "scalar", _MOVED * moved)
    if bits == 16:
        add("conversion", "fma", _CONVERTED * (inputs + outputs))
    least = bits / 8 * (inputs + outputs + g.channels * g.taps)
    if consulted(plan.on_cpu(direction, np.dtype(f"f{bits // 8}"), g)).first(plan.FINITE) != "fft":
        add("sums", number, 2 * outputs * g.taps, 1, bytes=least, efficiency=_LOADED)
    else:
        # As many operations as taps, with their loads, that take as long.
        add("transforms", "float64", _transforms(direction, g), 1, bytes=least, efficiency=_LOADED)
    stages.append(Part("chunks", cycles=chunks * _CHUNK_SECONDS * clock, launches=0))
    if bias and direction == "weight_grad":
        add("bias", "float64", outputs)
    if activation is not None:
        add("exponentials", "exponential_f64" if wide == 64 else "exponential", outputs)
        add("activation", number, _ACTIVATION[activation, wide] * outputs)
    return tuple(stages)


def _transforms(direction: Pass, g: Geometry) -> float:
    """Operations of float64 that take as long as the transforms, by the rule that chooses between them and sums."""
    length = plan.fft_length(plan.adjoint(g) if direction == "input_grad" else g)
    of_row = g.length if direction == "input_grad" else g.outputs
    pieces = math.ceil(of_row / (length - g.reach))
    taps = plan.TAPS_OF_TRANSFORM["float64"]
    there_and_back = 2.0 * taps * length * math.log2(length)
    # x and dy are transformed, and one row of sums back; or x forth and y back, and the taps once for all rows.
    return g.batch * g.channels * pieces * there_and_back + g.channels * there_and_back / 2
