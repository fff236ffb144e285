"""The source's factor of depthwise convolution at the sizes of its own model, by the model of ``cukde.perf``."""

from __future__ import annotations

from benchmarks.conv1d import s4convd, study_loads
from benchmarks.conv1d.study_cost import SOURCE_SPEEDUP, VARIANTS
from benchmarks.sources.claim import Claim, digits, ms, record, rows, verdict

S4CONVD, KERNELS = "conv_study_p100_model", "sources_h200/section-8"


def at_its_own_sizes() -> Claim:
    """The factor on an H200, and by the model on both GPUs, with both readings of the naive kernel."""
    modelled = record(S4CONVD)["rows"]
    readings = VARIANTS[:2]

    def factors(gpu: str) -> list[float]:
        return [s4convd.factor(modelled, gpu, naive) for naive in readings]

    def gained(stage: str) -> float:
        """What the H200 makes of the gradient with respect to the weights."""
        first, second = (
            next(
                row["predicted_ms"]
                for row in rows(S4CONVD, "study.conv1d_weight_grad", K=s4convd.TAPS, variant=stage)
                if (row["gpu"], row["assumption"]) == (gpu, s4convd.AS_COUNTED)
            )
            for gpu in (s4convd.P100, s4convd.H200)
        )
        return float(first / second)

    p100, h200 = factors(s4convd.P100), factors(s4convd.H200)
    changed = [
        [s4convd.factor(modelled, s4convd.P100, naive, name) for name in s4convd.ASSUMPTIONS] for naive in readings
    ]
    spans = [f"{digits(min(of))} to {digits(max(of))}" for of in changed]
    longer = [
        study_loads.scattered(on, s4convd.SHAPE[-1]) // study_loads.side_by_side(on) for on in s4convd.processors()
    ]
    by_row, last = gained(readings[1]), gained(VARIANTS[-1])
    size = {"K": s4convd.TAPS, "L": s4convd.SHAPE[-1]}
    measured = [ms(KERNELS, "study, all", naive, **size) / ms(KERNELS, "study, all", **size) for naive in readings]
    return Claim(
        "the same at the sizes of S4ConvD: batch 8,192, 128 channels, 48 steps and taps",
        f"{SOURCE_SPEEDUP}×, Tesla P100; sizes by the published code of the model",
        f"on an H200 {digits(measured[0])}× over the naive kernel by channel and {digits(measured[1])}× over that by "
        f"row; by the model {digits(h200[0])} and {digits(h200[1])}×, and on a P100 {digits(p100[0])} and "
        f"{digits(p100[1])}× (with one assumption changed {spans[0]} and {spans[1]})",
        verdict(
            "not reproducible: no P100 is at hand. Both modelled spans contain the figure, which therefore does not "
            "tell the readings apart. The device explains why an H200 shows more: a warp's load from 32 rows takes "
            f"{longer[0]} times as long as one from a single row on a P100, {longer[1]} times on an H200; and an H200 "
            f"speeds up the naive gradient of the weights by row {digits(by_row)}×, the warp-tiled one {digits(last)}×",
            if_=all(min(of) < SOURCE_SPEEDUP < max(of) for of in changed)
            and min(h200) > 2 * max(p100)
            and min(measured) > 1.5 * max(p100)
            and all(2 / 3 < of / model < 3 / 2 for of, model in zip(measured, h200, strict=True))
            and longer[1] > 4 * longer[0]
            and last > 2 * by_row,
        ),
        (KERNELS, S4CONVD),
    )
