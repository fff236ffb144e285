"""Section 8: Kendall's tau, piecewise polynomials and depthwise convolution beside the kernels of their sources."""

from __future__ import annotations

import importlib

from benchmarks.sources.section import Outcome, Section, Setting

_PARTS = ("operations_kendall", "operations_piecewise", "operations_conv1d")


def run(setting: Setting) -> Outcome:
    """Measure the three families."""
    return Outcome.joined(importlib.import_module(f"benchmarks.sources.{name}").measured(setting) for name in _PARTS)


SECTION = Section(
    8,
    "Kendall's tau, piecewise polynomials, depthwise convolution",
    "the gpuKendall report's table of section 5; the speedup figure of torchPACE's slides; figures 8 to 10 of the "
    "depthwise convolution paper (arXiv 2604.25422)",
    run,
)
