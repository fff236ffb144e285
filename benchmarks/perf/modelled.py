"""The model beside the clock: every declared operation and study kernel of a GPU, predicted by both rules and timed.

python -m benchmarks.perf.modelled --record benchmarks/results/NAME.json --figure docs/NAME.png
python -m benchmarks.perf.modelled --backend cpu --record benchmarks/results/NAME.json

On a CPU the public operations are run at the sizes of ``cukde roofline``.

Rates are measured first. The error of a rule is the geometric mean of the larger of predicted / measured and its
inverse, over the rows whose time is above 50 us.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import record
from cukde import perf
from cukde.cli.workloads import WORKLOADS
from cukde.core.cost.registry import called, counted
from cukde.perf._explain import record_row
from cukde.perf._predict import predicted

FEWEST_MS = 0.05


class Workload(NamedTuple):
    """A call of a public operation on the CPU, as a case of ``benchmarks.perf.modelled_cases``."""

    op: str
    make: Callable[[], Callable[[], Any]]
    calls: int = 1
    study: bool = False


def cases(backend: str) -> Iterable[Any]:
    """What is run: on a GPU ``benchmarks.perf.modelled_cases``."""
    if backend == "gpu":
        from benchmarks.perf import modelled_cases  # needs CuPy

        return modelled_cases.cases()
    return [Workload(op, functools.partial(workload.call, "cpu")) for op, workload in WORKLOADS.items()]


def row(case: Any, on: perf.Peaks) -> dict[str, Any]:
    """Time a case, and predict it."""
    call = case.make()
    operation, sizes = called(call, (), {})
    cost = counted(operation, on, sizes)
    assert operation.name == case.op
    times = perf.measure(call, gpu=on.backend == "gpu", seconds=0.4, calls=case.calls)
    return modelled(cost, times, on) | {"study": case.study}


def modelled(cost: perf.Cost, times: perf.Times, on: perf.Peaks) -> dict[str, Any]:
    """A row of the record."""
    found = predicted(cost, on)
    return record_row(found, on, times) | {
        "least_bytes": cost.bytes,
        "requested_bytes": sum(part.asked for part in cost.parts),
        "flops": cost.flops,
        "exponentials": cost.exponentials,
        "parts": {part.name: 1e3 * part.seconds for part in found.parts},
    }


def peaks_row(on: perf.Peaks) -> dict[str, Any]:
    """The rates that the model took, a row of the record."""
    return {"op": "peaks", "backend": on.backend, "shape": {}, "dtype": "", "precision": "", **dataclasses.asdict(on)}


def error(rows: Iterable[dict[str, Any]], key: str = "predicted_ms") -> float:
    """Geometric mean of how many times a prediction is too long or too short."""
    logs = [abs(math.log(r[key] / r["median_ms"])) for r in rows if r["median_ms"] >= FEWEST_MS]
    if not logs:
        raise ValueError(f"no row took {FEWEST_MS} ms")
    return math.exp(sum(logs) / len(logs))


def line(r: dict[str, Any]) -> str:
    """One row for people."""
    shape = " ".join(f"{name}={value}" for name, value in r["shape"].items() if value is not None)
    return (
        f"{r['op']:<27} {r['precision']:<8} {shape[:60]:<60} {r['median_ms']:>9.3f} ms, predicted "
        f"{r['predicted_ms']:>9.3f} ({r['predicted_ms'] / r['median_ms']:>5.2f}), report's rule "
        f"{r['report_ms']:>9.3f} ({r['report_ms'] / r['median_ms']:>6.2f}), {r['bound']} {r['bound_ms']:.3f}"
    )


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """Errors of both rules over all rows, and over the library's and the study's."""
    lines = []
    for title, of in (
        ("all", rows),
        ("library", [r for r in rows if not r["study"]]),
        ("study", [r for r in rows if r["study"]]),
    ):
        long = [r for r in of if r["median_ms"] >= FEWEST_MS]
        if long:
            lines.append(
                f"{title}: {len(long)} rows above {1e3 * FEWEST_MS:.0f} us, geometric-mean error of the better rule "
                f"{error(long):.3f}, of the report's {error(long, 'report_ms'):.3f}"
            )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = record.arguments("perf.modelled", __doc__)
    parser.add_argument("--backend", choices=("gpu", "cpu"), default="gpu")
    parser.add_argument("--figure", type=Path, help="draw the roofline of all rows")
    parser.add_argument("--only", nargs="*", help="operations")
    wanted = parser.parse_args(arguments)
    session = record.Session(wanted.record)
    on = perf.measure_peaks(wanted.backend)
    print(f"{on.name}: {on.source}; " + ", ".join(f"{unit} {rate:.3g}" for unit, rate in on.rates.items()))
    rows: list[dict[str, Any]] = []
    for case in cases(wanted.backend):
        if wanted.only and case.op not in wanted.only:
            continue
        try:
            rows.append(row(case, on))
        except Exception as failed:  # the others are measured all the same
            print(f"{case.op}: {record.reason(failed)}")
            continue
        print(line(rows[-1]), flush=True)
    print(summary(rows))
    session.write([peaks_row(on), *rows])
    if wanted.figure:
        print(perf.roofline(rows, on, wanted.figure))


if __name__ == "__main__":
    main()
