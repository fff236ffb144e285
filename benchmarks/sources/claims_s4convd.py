"""The source's factor of depthwise convolution at the sizes of its own model, by the model of ``cukde.perf``."""

from __future__ import annotations

from benchmarks.conv1d import s4convd
from benchmarks.conv1d.study_cost import SOURCE_SPEEDUP, VARIANTS
from benchmarks.sources.claim import Claim, digits, finding, ms, record

S4CONVD, KERNELS = "conv_study_p100_model", "sources_h200/section-8"


def at_its_own_sizes() -> Claim:
    """The factor on an H200, and by the model on both GPUs, with both readings of the naive kernel."""
    modelled = record(S4CONVD)["rows"]
    readings = VARIANTS[:2]

    def factors(gpu: str) -> list[float]:
        return [s4convd.factor(modelled, gpu, naive) for naive in readings]

    p100, h200 = factors(s4convd.P100), factors(s4convd.H200)
    changed = [
        [s4convd.factor(modelled, s4convd.P100, naive, name) for name in s4convd.ASSUMPTIONS] for naive in readings
    ]
    spans = [f"{digits(min(of))} to {digits(max(of))}" for of in changed]
    size = {"K": s4convd.TAPS, "L": s4convd.SHAPE[-1]}
    measured = [ms(KERNELS, "study, all", naive, **size) / ms(KERNELS, "study, all", **size) for naive in readings]
    return Claim(
        f"the same {SOURCE_SPEEDUP}× at the sizes of S4ConvD: batch 8,192, 128 channels, 48 steps and taps",
        finding(
            "open: no P100. The model of one allows it with either reading of the naive kernel",
            if_=all(min(of) < SOURCE_SPEEDUP < max(of) for of in changed)
            and min(h200) > 2 * max(p100)
            and min(measured) > 1.5 * max(p100)
            and all(2 / 3 < of / model < 3 / 2 for of, model in zip(measured, h200, strict=True)),
        ),
        f"by the model {digits(p100[0])}× by channel and {digits(p100[1])}× by row (with one assumption changed "
        f"{spans[0]} and {spans[1]}); on an H200 {digits(h200[0])} and {digits(h200[1])}×, measured "
        f"{digits(measured[0])} and {digits(measured[1])}×",
        (KERNELS, S4CONVD),
    )
