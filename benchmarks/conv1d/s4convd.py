"""The sizes of the model that the source trains, S4ConvD, and the study's factor there by the model of ``cukde.perf``.

python -m benchmarks.conv1d.s4convd --record benchmarks/results/conv_study_p100_model.json

Nothing is measured: the record has modelled times of every stage and path on the source's GPU, a Tesla P100 by its
published rates, and on an H200 by its measured ones, there also at the sizes of ``bench_conv1d_gpu.py``. On the P100
they are repeated with one assumption changed at a time.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import record
from benchmarks.conv1d import study_cost, study_loads
from benchmarks.conv1d.study_cost import PATHS, VARIANTS
from benchmarks.tools import records
from cukde import perf
from cukde.core.cost.cost import Unit
from cukde.perf._predict import predicted

Shape = tuple[int, int, int]  # B, C, L

SHAPE: Shape = (8192, 128, 48)
TAPS = 48
"""Batch, channels, steps of a sequence, as many taps: the training script of the model's authors has these
(``PyCuda_blocktiling`` of https://github.com/MilanShao/S4ConvD)."""

OTHER, OTHER_TAPS = (64, 256, 2048), 31
"""Of the study's other rows."""

P100, H200 = "P100 PCIe", "NVIDIA H200"
_RATES_OF_H200 = Path(__file__).parents[1] / "results" / "perf_h200.json"

# Bytes a second, measured: Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking (arXiv 1804.06826).
_CACHE_OF_P100, _MEMORY_OF_P100 = 1.624e12, 5.1e11


class Assumption(NamedTuple):
    """What is changed: the processor, a path's part, the rates."""

    on: Callable[[perf.Peaks], perf.Peaks] = lambda on: on
    part: Callable[[perf.Part, str, str], perf.Part] = lambda part, path, variant: part
    throughput: Mapping[Unit, float] = {}


def _with_rate(unit: Unit, rate: float) -> Callable[[perf.Peaks], perf.Peaks]:
    return lambda on: dataclasses.replace(on, rates={**on.rates, unit: rate})


def _nothing_kept(part: perf.Part, path: str, variant: str) -> perf.Part:
    """Every load of the convolution by channel goes to the second cache, a sector of 32 bytes each.

    Eight blocks of a multiprocessor have 3 KB each in use at a time, as many as the 24 KB of a P100's first cache. The
    one block of the gradient of the weights has 3 KB.
    """
    if variant != VARIANTS[0] or path == "weight_grad":
        return part
    outputs = SHAPE[0] * SHAPE[1] * SHAPE[2]
    sectors = outputs * (study_loads.taps_met(SHAPE[2], TAPS, 1) + TAPS + 1)
    return dataclasses.replace(part, requested=32.0 * sectors)


def _half_the_wait(part: perf.Part, path: str, variant: str) -> perf.Part:
    return dataclasses.replace(part, cycles=part.cycles / 2)


AS_COUNTED = "as counted"
LATER_CACHE = "first cache as from Volta on"
NOTHING_KEPT = "first cache keeps nothing"
ASSUMPTIONS = {
    AS_COUNTED: Assumption(),
    LATER_CACHE: Assumption(on=lambda on: dataclasses.replace(on, capability=(7, 0))),
    NOTHING_KEPT: Assumption(part=_nothing_kept),
    "half the instructions a second": Assumption(throughput={"instruction": 0.5}),
    "half the latency": Assumption(part=_half_the_wait),
    "memory as fast as measured": Assumption(on=_with_rate("memory", _MEMORY_OF_P100)),
}
"""Of the P100. A wider integer product takes it three instructions, where the counts are of builds for sm_90."""


def processors() -> tuple[perf.Peaks, perf.Peaks]:
    """The P100 as published, but the rate of its second cache, which is not; the H200 as measured."""
    rates = records.read(_RATES_OF_H200)["rows"][0]
    fields = {name: rates[name] for name in perf.Peaks.__dataclass_fields__}
    measured = perf.Peaks(**fields | {"capability": tuple(rates["capability"])})
    return _with_rate("cache", _CACHE_OF_P100)(perf.peaks(P100)), measured


def modelled() -> Iterator[dict[str, Any]]:
    """Rows of the record."""
    p100, h200 = processors()
    for on in (p100, h200):
        yield {"op": "peaks", "backend": "gpu", "shape": {}, "dtype": "", "precision": "", **dataclasses.asdict(on)}
    for name, assumption in ASSUMPTIONS.items():
        yield from _stages(p100, SHAPE, TAPS, name, assumption)
    for on, shape, taps in ((p100, OTHER, OTHER_TAPS), (h200, SHAPE, TAPS), (h200, OTHER, OTHER_TAPS)):
        yield from _stages(on, shape, taps, AS_COUNTED, ASSUMPTIONS[AS_COUNTED])


def _stages(on: perf.Peaks, shape: Shape, taps: int, name: str, assumption: Assumption) -> Iterator[dict[str, Any]]:
    changed = assumption.on(on)
    for variant, path in itertools.product(VARIANTS, PATHS):
        sizes = dict(zip(("batch", "channels", "length"), shape, strict=True)) | {"taps": taps}
        counted = study_cost.FORMULAS[path](changed, variant=variant, **sizes)
        (part,) = counted.parts
        counted = dataclasses.replace(counted, parts=(assumption.part(part, path, variant),))
        found = predicted(counted.cost(f"study.conv1d_{path}", sizes), changed, throughput=assumption.throughput)
        (time,) = found.parts
        yield {
            "op": found.cost.op,
            "backend": "gpu",
            "shape": dict(zip("BCL", shape, strict=True)) | {"K": taps, "variant": variant},
            "dtype": "float32",
            "precision": "float32",
            "modelled": True,
            "gpu": on.name,
            "assumption": name,
            "predicted_ms": 1e3 * found.seconds,
            "bound": found.binds,
            "units_ms": {unit: 1e3 * seconds for unit, seconds in time.units.items()},
            "bytes": part.bytes,
            "requested_bytes": found.cost.parts[0].asked,
        }


def milliseconds(
    rows: Sequence[Mapping[str, Any]], gpu: str, variant: str, assumption: str = AS_COUNTED, taps: int = TAPS
) -> float:
    """Modelled time of a stage, the three paths together."""
    found = [
        row["predicted_ms"]
        for row in rows
        if (row.get("gpu"), row.get("assumption")) == (gpu, assumption)
        and (row["shape"]["variant"], row["shape"]["K"]) == (variant, taps)
    ]
    if len(found) != len(PATHS):
        raise LookupError(f"expected {len(PATHS)} paths of {variant} on {gpu}, {assumption}; got {len(found)}")
    return float(sum(found))


def factor(
    rows: Sequence[Mapping[str, Any]], gpu: str, naive: str, assumption: str = AS_COUNTED, taps: int = TAPS
) -> float:
    """How many times as fast the last stage is as a naive one, by the model."""
    last = milliseconds(rows, gpu, VARIANTS[-1], assumption, taps)
    return milliseconds(rows, gpu, naive, assumption, taps) / last


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """For people: what a stage takes, and the two factors."""
    lines = ["modelled, not measured: milliseconds of the three paths", ""]
    cases = dict.fromkeys((row["gpu"], row["assumption"], row["shape"]["K"]) for row in rows if "gpu" in row)
    for gpu, assumption, taps in cases:
        times = [f"{name} {milliseconds(rows, gpu, name, assumption, taps):.2f}" for name in VARIANTS]
        factors = " and ".join(f"{factor(rows, gpu, naive, assumption, taps):.2f}" for naive in VARIANTS[:2])
        lines.append(f"{gpu}, {taps} taps, {assumption}: {', '.join(times)}; {VARIANTS[-1]} {factors} times as fast")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    given = record.arguments("conv1d.s4convd", __doc__).parse_args(arguments)
    rows = list(modelled())
    print(table(rows))
    if given.record:
        records.write(given.record, rows)


if __name__ == "__main__":
    main()
