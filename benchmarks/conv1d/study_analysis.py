"""The source's analysis of its depthwise convolutions, without hardware counters: where does the time of each stage go?

python -m benchmarks.conv1d.study_analysis --record benchmarks/results/NAME.json
python -m benchmarks.conv1d.study_analysis --times benchmarks/results/conv1d_h200.json --peaks H200

For three paths and four stages: time, modelled traffic, effective bandwidth, intensity, what binds by the model, and
each path's share of the three; then how the verdicts move when the model's assumptions do. The first command measures
on the GPU at hand, every call with the next of several buffers; the second takes times from a record of
``bench_conv1d_gpu.py`` and needs no GPU.

Source: CUDA Kernel Optimization and Counter-Free Performance Analysis for Depthwise Convolution (arXiv 2604.25422).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import record
from benchmarks.conv1d import bench_conv1d_gpu, study_cost
from benchmarks.tools import records
from cukde import perf
from cukde.perf import _sensitivity
from cukde.perf._predict import predicted
from tests.conftest import why_no_gpu

SHAPE, TAPS = (64, 256, 2048), (4, 31)
CALLS = 3  # in a row
_TOLERANCE = 2e-6
_ASSUMPTIONS = (_sensitivity.HIT_RATE, _sensitivity.REDUCTION, _sensitivity.THROUGHPUT)


class Stage(NamedTuple):
    """What was timed."""

    path: str
    variant: str
    taps: int


Times = Mapping[Stage, Mapping[str, Any]]  # milliseconds, as cukde.perf.Times.row has them


def analysed(times: Times, shape: Sequence[int], on: perf.Peaks) -> list[dict[str, Any]]:
    """Rows of a record, a stage each: its time, and what the model makes of it."""
    modelled = {stage: _modelled(stage, shape, on) for stage in times}
    rows = []
    for stage, time in times.items():
        prediction, seconds = modelled[stage], 1e-3 * time["median_ms"]
        cost = prediction.cost
        part = cost.parts[0]
        requested = max(part.requested, part.bytes)
        of_all = [other for other in times if (other.variant, other.taps) == (stage.variant, stage.taps)]
        roof = min(on.rate("fma"), cost.textbook_flops / part.bytes * on.rate("memory"))
        rows.append(
            {
                "op": cost.op,
                "backend": "gpu",
                "shape": dict(zip("BCL", shape, strict=True)) | {"K": stage.taps, "variant": stage.variant},
                "dtype": "float32",
                "precision": "float32",
                **time,
                "bound_ms": 1e3 * prediction.bound,
                "bound": prediction.binds,
                "predicted_ms": 1e3 * prediction.seconds,
                "bytes": part.bytes,
                "requested_bytes": requested,
                "bandwidth": part.bytes / seconds,
                "requested_bandwidth": requested / seconds,
                "flops": cost.textbook_flops,
                "intensity": cost.textbook_flops / part.bytes,
                "of_roof": cost.textbook_flops / seconds / roof,
                "share": time["median_ms"] / sum(times[other]["median_ms"] for other in of_all),
                "sensitivity": sensitivity(prediction, on),
            }
        )
    return rows


def sensitivity(prediction: perf.Prediction, on: perf.Peaks) -> list[dict[str, Any]]:
    """What the model says of a stage with one of its assumptions changed."""
    return [
        {"assumption": of.assumption, "value": of.value, "predicted_ms": 1e3 * of.seconds, "bound": of.binds}
        for of in _sensitivity.perturbed(prediction.cost, on, cold=True).rows
        if of.assumption in _ASSUMPTIONS
    ]


def _modelled(stage: Stage, shape: Sequence[int], on: perf.Peaks) -> perf.Prediction:
    batch, channels, length = shape
    sizes = {"variant": stage.variant, "batch": batch, "channels": channels, "length": length, "taps": stage.taps}
    counted = study_cost.FORMULAS[stage.path](on, **sizes)
    return predicted(counted.cost(f"study.conv1d_{stage.path}", sizes), on)


# ------------------------------------------------------------------------------------------------------- times


def measured(shape: tuple[int, int, int], taps: Sequence[int]) -> Times:
    """Check every stage on the GPU at hand, and time it."""
    found = {}
    for many in taps:
        of = bench_conv1d_gpu._data(shape, many, "float32", "BCL")
        for variant in study_cost.VARIANTS:
            for path in study_cost.PATHS:
                call, buffers = bench_conv1d_gpu._of_study(variant, path, of)
                error = bench_conv1d_gpu._error(path, of, bench_conv1d_gpu._first(call, buffers))
                if not error <= _TOLERANCE:
                    raise ArithmeticError(f"{variant} {path} of {many} taps must be right to {_TOLERANCE}; got {error}")
                times = perf.measure(bench_conv1d_gpu._rotating(call, buffers), gpu=True, calls=CALLS)
                found[Stage(path, variant, many)] = {"rel_err_max": error} | times.row()
    return found


def recorded(rows: Sequence[Mapping[str, Any]]) -> tuple[Times, tuple[int, int, int]]:
    """Times of the stages in the rows of ``bench_conv1d_gpu.py``'s record, and their shape."""
    found: dict[Stage, Mapping[str, Any]] = {}
    shapes = set()
    kept = ("median_ms", "q1_ms", "q3_ms", "runs", "rel_err_max")
    for row in rows:
        path = row["op"].removeprefix("study, ")
        if path == row["op"] or path not in study_cost.PATHS:
            continue
        peer, many = row["peer"], row["shape"]["K"]
        shapes.add(tuple(row["shape"][letter] for letter in "BCL"))
        for variant, of in ((row["variant"], row), (peer["name"], peer)):
            if variant in study_cost.VARIANTS:
                found[Stage(path, variant, many)] = {name: of[name] for name in kept if name in of}
    if len(shapes) != 1:
        raise ValueError(
            f"the record must have the study's rows of one shape; got {len(shapes)} shapes: write it by "
            "python -m pytest benchmarks/conv1d/bench_conv1d_gpu.py -m gpu --record FILE"
        )
    order = sorted(found, key=lambda s: (s.taps, study_cost.VARIANTS.index(s.variant), study_cost.PATHS.index(s.path)))
    return {stage: found[stage] for stage in order}, shapes.pop()


# ------------------------------------------------------------------------------------------------------- table


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """For people: a line a stage, then what it says of the paths and of its assumptions."""
    lines = [
        f"{'path':<12}{'stage':<11}{'K':>4}{'ms':>9} {'[q1, q3]':<19}{'least':>7}{'asked':>8}{'GB/s':>6}{'asked':>6}"
        f"{'flop/B':>7}{'roof':>5} {'binds':<12}{'of bound':>8}{'model':>8}{'share':>6}"
    ]
    for row in rows:
        shape, ms = row["shape"], row["median_ms"]
        spread = f"[{row['q1_ms']:.3f}, {row['q3_ms']:.3f}]" if "q1_ms" in row else ""
        lines.append(
            f"{_path(row):<12}{shape['variant']:<11}{shape['K']:>4}{ms:>9.3f} {spread:<19}"
            f"{row['bytes'] / 1e6:>7.0f}{row['requested_bytes'] / 1e6:>8.0f}{row['bandwidth'] / 1e9:>6.0f}"
            f"{row['requested_bandwidth'] / 1e9:>6.0f}{row['intensity']:>7.2f}{row['of_roof']:>5.0%} "
            f"{row['bound']:<12}{row['bound_ms'] / ms:>8.0%}{row['predicted_ms'] / ms:>8.2f}{row['share']:>6.0%}"
        )
    lines += ["", "least, asked: modelled MB that memory must move, and that are asked of the second cache"]
    lines += ["model: modelled over measured time", "", *_bottlenecks(rows), "", *_moved(rows)]
    return "\n".join(lines)


def _path(row: Mapping[str, Any]) -> str:
    return str(row["op"].removeprefix("study.conv1d_"))


def _bottlenecks(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Of each stage the path that takes most of the three; by the model too, whatever is perturbed."""
    lines = []
    for variant, taps in dict.fromkeys((row["shape"]["variant"], row["shape"]["K"]) for row in rows):
        those = [row for row in rows if (row["shape"]["variant"], row["shape"]["K"]) == (variant, taps)]
        longest = max(those, key=lambda row: row["median_ms"])
        changed = zip(*(row["sensitivity"] for row in those), strict=True)
        slowest = [max(zip(case, those, strict=True), key=lambda p: p[0]["predicted_ms"])[1] for case in changed]
        agreeing = sum(row is longest for row in slowest)
        lines.append(
            f"{variant}, {taps} taps: {_path(longest)} takes the most, {longest['share']:.0%}; "
            f"modelled so in {agreeing} of {len(slowest)} perturbed cases"
        )
    return lines


def _moved(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Which verdicts change with which assumption, and by how much the modelled time does."""
    lines = ["what binds when an assumption is changed (modelled ms):"]
    for row in rows:
        name = f"{_path(row)} {row['shape']['variant']} {row['shape']['K']}"
        for assumption in _ASSUMPTIONS:
            cases = [case for case in row["sensitivity"] if case["assumption"] == assumption]
            first, last = cases[0]["value"], cases[-1]["value"]
            low, high = (pick(case["predicted_ms"] for case in cases) for pick in (min, max))
            others = {case["bound"]: case["value"] for case in reversed(cases) if case["bound"] != row["bound"]}
            verdict = ", ".join(f"{bound} at {value:g}" for bound, value in others.items())
            if verdict or high > 1.1 * low:
                lines.append(
                    f"  {name:<28}{assumption:<23}{first:g} to {last:<5g}{low:>9.3f} to {high:<9.3f}"
                    f"{row['bound']}{'; ' + verdict if verdict else ' throughout'}"
                )
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = record.arguments("conv1d.study_analysis", __doc__)
    parser.add_argument("--times", type=Path, help="take times from this record of bench_conv1d_gpu.py")
    parser.add_argument("--peaks", help="name of the GPU whose peaks the model takes; default: the one at hand")
    for name, size in zip(("batch", "channels", "length"), SHAPE, strict=True):
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument("--taps", type=int, nargs="+", default=TAPS)
    given = parser.parse_args(arguments)
    if given.times:
        times, shape = recorded(records.read(given.times)["rows"])
    elif why_no_gpu() is None:
        shape = (given.batch, given.channels, given.length)
        times = measured(shape, given.taps)
    else:
        parser.error(f"{why_no_gpu()}: without a GPU, give the times of one by --times RECORD --peaks NAME")
    rows = analysed(times, shape, perf.peaks(given.peaks))
    print(table(rows))
    if given.record:
        records.write(given.record, rows)


if __name__ == "__main__":
    main()
