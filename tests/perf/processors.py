"""Processors whose rates the tests of cost formulas take."""

from __future__ import annotations

from cukde import perf

# An H200 under load: rates as DESIGN.md has them, float64 as published, reads of the L2 as the tables of the launchers
# were calibrated with.
H200 = perf.Peaks(
    "an H200",
    "gpu",
    {
        "memory": 4.2e12,
        "cache": 5.5e12,
        "fma": 6.2e13,
        "float64": 3.35e13,
        "exponential": 4.13e12,
        "tensor_f16": 6.38e14,
        "tensor_tf32": 3.2e14,
        "tensor_f64": 6.69e13,
        "tensor_s8": 1.27e15,
        "tensor_b1": 1.02e16,
    },
    launch=5e-6,
    multiprocessors=132,
    clock=1.755e9,
    cache_bytes=50 * 2**20,
    capability=(9, 0),
    source="DESIGN.md",
)
