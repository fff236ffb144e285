"""Times of the ways of a depthwise convolution, which the rule of cukde.conv1d.plan cites.

python -m benchmarks.conv1d.crossover

For each pass and dtype a table of taps: by sums of products, on the tensor cores, and by Fourier transforms; the way
that the rule takes has a star. Sums that would take more than 2^41 multiply-adds are left out.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

import cupy as cp
import numpy as np

from benchmarks.tools import records
from cukde.conv1d import plan as conv1d_plan
from cukde.conv1d.geometry import Geometry
from cukde.conv1d.gpu import passes as conv1d_passes
from cukde.core.gpu import device
from cukde.perf import measure

SIZES = ((512, 256, 64), (64, 256, 2048), (16, 128, 4096), (2, 64, 65536))  # batch, channels, length
TAPS = (4, 8, 16, 31, 48, 64, 96, 128, 256, 512, 1024, 2048, 4096, 16384, 65536)
PASSES: tuple[conv1d_plan.Pass, ...] = ("forward", "input_grad", "weight_grad")
ENGINES: tuple[conv1d_plan.Engine, ...] = ("direct", "toeplitz", "fft")
_MOST_PRODUCTS = 2**41


def _microseconds(of: conv1d_plan.Pass, x: Any, w: Any, g: Geometry, engine: conv1d_plan.Engine) -> float:
    served = of != "weight_grad" and conv1d_plan.tensor_cores_serve(x.dtype, g, device.capability())
    if (engine == "toeplitz" and not served) or (engine != "fft" and x.size * g.taps > _MOST_PRODUCTS):
        return float("nan")
    calls = {
        "forward": lambda: conv1d_passes.forward(x, w, None, g, None),
        "input_grad": lambda: conv1d_passes.input_grad(x, w, g),
        "weight_grad": lambda: conv1d_passes.weight_grad(x, x, g, False),
    }
    with mock.patch.object(conv1d_plan, "engine", return_value=engine):
        return 1e3 * measure(calls[of], gpu=True, seconds=0.05, calls=5).median_ms


def _cells(of: conv1d_plan.Pass, dtype: str, size: tuple[int, int, int], taps: int) -> str:
    batch, channels, length = size
    g = Geometry(batch, channels, length, taps, 1, 1, taps - 1, 0, False, False)
    rng = np.random.default_rng([taps, length])
    x = cp.asarray(rng.standard_normal(g.shape(length), dtype="f4").astype(dtype))
    w = cp.asarray(rng.standard_normal((channels, taps)).astype(dtype))
    chosen = conv1d_plan.engine(of, dtype, g, device.capability())
    times = ((engine, _microseconds(of, x, w, g, engine)) for engine in ENGINES)
    return "".join(f"{f'{time:.4g}' + ('*' if engine == chosen else ' '):>12}" for engine, time in times)


def main() -> None:
    print(records.machine().get("gpu"))
    for of in PASSES:
        for dtype in ("float16", "float32", "float64"):
            for size in SIZES:
                print(f"\n{of}, {dtype}, batch, channels, length {size}: us, direct / Toeplitz / Fourier")
                for taps in TAPS:
                    if taps <= size[2]:
                        print(f"{taps:>8}{_cells(of, dtype, size, taps)}", flush=True)


if __name__ == "__main__":
    main()
