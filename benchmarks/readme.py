"""The README's tables of measured times, made of the records in benchmarks/results.

python -m benchmarks.readme
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.record import ON_CPU
from cukde import perf

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
BEGIN = "<!-- table of records: begin (python -m benchmarks.readme) -->"
END = "<!-- table of records: end -->"

_HEADER = (
    "| | size | precision | cukde | error | best rival | its time | its error | times faster | record |\n"
    "|---|---|---|---|---|---|---|---|---|---|"
)


class Chosen(NamedTuple):
    """A row of the README: the rows of a record that have these values, one for each rival."""

    what: str
    file: str
    op: str
    shape: dict[str, Any]  # a part of the row's
    precision: str
    size: str  # filled in by the row's shape
    timing: str | None = None
    apart: tuple[str, ...] = ()  # rivals that the record did not call as their authors do


_POINTS = "{n:,} points, {m:,} queries, {d} columns"
_LINE = "{n:,} points, {m:,} queries, 1 column"
_MIXTURE = {"d": 16}

GPU = (
    Chosen("`sd_kde`", "sd_kde_h200", "sd_kde", _MIXTURE | {"n": 2**20, "m": 2**17}, "float32", _POINTS),
    Chosen("`sd_kde`", "sd_kde_h200", "sd_kde", _MIXTURE | {"n": 2**20, "m": 2**17}, "tf32", _POINTS),
    Chosen("`sd_kde`", "sd_kde_h200", "sd_kde", _MIXTURE | {"n": 2**15, "m": 2**12}, "float32", _POINTS),
    Chosen("`sd_kde`", "engine_h200", "sd_kde", _MIXTURE | {"n": 2**15, "m": 2**12}, "float64", _POINTS),
    Chosen("`sd_kde`", "small_calls_h100", "sd_kde", _MIXTURE | {"n": 2**11}, "float32", _POINTS),
    Chosen(
        "`sd_kde`, replayed from a CUDA graph",
        "sd_kde_h200",
        "sd_kde",
        _MIXTURE | {"n": 2**11, "m": 2**8},
        "float32",
        _POINTS,
        timing="graph",
    ),
    Chosen("`sd_kde`", "dimensions_h200", "sd_kde", {"n": 2**16, "d": 32}, "float32", _POINTS),
    Chosen(
        "`sd_kde`",
        "density_1d_h200",
        "sd_kde",
        {"n": 2**20, "d": 1},
        "float32",
        _LINE,
        apart=("Flash-SD-KDE",),  # with tiles that are not its own
    ),
    Chosen("`kde`", "sd_kde_h200", "kde", _MIXTURE | {"n": 2**20, "m": 2**17}, "float32", _POINTS),
    Chosen("`kde`", "small_calls_h100", "kde", _MIXTURE | {"n": 2**11}, "float32", _POINTS),
    Chosen("`laplace_kde`", "small_calls_h100", "laplace_kde", _MIXTURE | {"n": 2**11}, "float32", _POINTS),
    Chosen(
        "leave-one-out likelihoods of `bandwidth.cross_validate`",
        "cross_validation_h200",
        "LOO kde",
        {"n": 100_000, "bandwidths": 64},
        "float64",
        "{n:,} rows, {d} columns, {bandwidths} bandwidths",
    ),
    Chosen(
        "`kendall_matrix`",
        "kendall_h200",
        "matrix",
        {"p": 1000, "n": 1000},
        "float64",
        "{p:,} columns of {n:,} samples, no ties",
    ),
    Chosen("`kendalltau`", "kendall_h200", "kendalltau", {"n": 10**6}, "float64", "{n:,} samples"),
    Chosen(
        "`PiecewisePolynomial`",
        "piecewise_h200",
        "piecewise",
        {"P": 256, "D": 3, "knots": "uniform", "x": "random"},
        "float32",
        "{n:,} numbers, {P} pieces of degree {D}",
    ),
    Chosen("`functions.gelu`", "piecewise_h200", "gelu", {}, "float32", "{n:,} numbers"),
    Chosen(
        "`depthwise_conv1d`",
        "conv1d_h200",
        "forward",
        {"L": 2048, "K": 4, "layout": "BCL"},
        "float32",
        "{B} x {C} rows of {L:,}, {K} taps",
    ),
    Chosen(
        "`depthwise_conv1d_weight_grad`",
        "conv1d_h200",
        "weight_grad",
        {"L": 2048, "K": 31, "layout": "BCL"},
        "float32",
        "{B} x {C} rows of {L:,}, {K} taps",
    ),
    Chosen(
        "`depthwise_conv1d`",
        "conv1d_h200",
        "forward",
        {"L": 64, "K": 4},
        "float32",
        "{B} x {C} rows of {L:,}, {K} taps",
    ),
)
CPU = (
    Chosen("`kde`", "density_cpu", "kde", _MIXTURE | {"n": 8192}, "float32", _POINTS),
    Chosen("`kde`", "density_1d_cpu", "kde", {"n": 10**6, "d": 1}, "float64", _LINE),
    Chosen(
        "`evaluate_grid`",
        "grid_cpu",
        "evaluate_grid",
        {"m": 2**20, "d": 2},
        "float32",
        "{n:,} points, {m:,} cells, {d} columns",
    ),
    Chosen(
        "`KernelDensity` in `GridSearchCV`",
        "estimator_cpu",
        "GridSearchCV",
        {},
        "float64",
        "{n:,} points, {d} columns, {bandwidths} bandwidths, {folds} folds",
    ),
    Chosen("`kendalltau`", "kendall_cpu", "kendalltau", {"n": 100_000}, "float64", "{n:,} samples"),
    Chosen("`kendall_matrix`", "kendall_cpu", "matrix", {"p": 64}, "float64", "{p} columns of {n:,} samples, no ties"),
    Chosen(
        "`PiecewisePolynomial`",
        "piecewise_cpu",
        "piecewise",
        {"pieces": 256, "knots": "uniform"},
        "float64",
        "{n:,} numbers, {pieces} pieces of degree {degree}",
    ),
    Chosen("`functions.gelu`", "functions_cpu", "gelu", {}, "float64", "{n:,} numbers"),
    Chosen("`functions.exp`", "functions_cpu", "exp", {}, "float64", "{n:,} numbers"),
    Chosen(
        "`depthwise_conv1d`",
        "conv1d_cpu",
        "forward",
        {"length": 2048, "taps": 31, "layout": "BCL", "activation": "none"},
        "float32",
        "{batch} x {channels} rows of {length:,}, {taps} taps",
    ),
)


def tables(results: Path = RESULTS) -> str:
    """What stands between the marks of the README."""
    on_gpu, on_cpu = ([row(chosen, results) for chosen in group] for group in (GPU, CPU))
    return "\n\n".join(
        [
            "On a GPU, arrays already there:",
            "\n".join([_HEADER, *on_gpu]),
            "On a CPU:",
            "\n".join([_HEADER, *on_cpu]),
        ]
    )


def row(chosen: Chosen, results: Path = RESULTS) -> str:
    """A line of a table, with the fastest of the rivals that have the operation's result."""
    file = results / f"{chosen.file}.json"
    run = perf.read_record(file)
    found = [r for r in run["rows"] if _is(r, chosen)]
    if not found:
        wanted = f"{chosen.op} {chosen.precision} {chosen.shape}"
        raise LookupError(f"{file.name} has no row of {wanted}; choose another in benchmarks/readme.py, or record it")
    # Those of another layout of data, such as ties, are rows of their own.
    ours = min(found, key=lambda r: len(r["shape"]))
    rivals = [r["peer"] for r in found if r["shape"] == ours["shape"] and "median_ms" in r.get("peer", {})]
    rivals = [rival for rival in rivals if rival["name"] not in chosen.apart]
    best = min(rivals, key=lambda rival: (not _right(rival), rival["median_ms"]), default=None)
    cells = [chosen.what, chosen.size.format(**ours["shape"]), chosen.precision, *_measured(ours)]
    if best is None:
        cells += [""] * 4
    else:
        cells += [_name(best["name"], ours["backend"]), *_measured(best), _ratio(best["median_ms"] / ours["median_ms"])]
    return f"| {' | '.join([*cells, _source(run, file)])} |"


def renewed(page: str, results: Path = RESULTS) -> str:
    """Return the README with the tables of the records."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"README.md has no tables to be renewed: it wants the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{tables(results)}\n\n{END}{after}"


def main(readme: Path = ROOT / "README.md") -> None:
    """Write the tables into the README."""
    readme.write_text(renewed(readme.read_text(encoding="utf-8")), encoding="utf-8")


def _is(r: dict[str, Any], chosen: Chosen) -> bool:
    """Whether a row is measured, with its error, and has the values asked for."""
    return (
        "median_ms" in r
        and r.get("timing") == chosen.timing
        and (r["op"], r["precision"]) == (chosen.op, chosen.precision)
        and r.get("rel_err_max") is not None
        and chosen.shape.items() <= r["shape"].items()
    )


def _right(rival: dict[str, Any]) -> bool:
    """Whether a rival's numbers are numbers: some overflow."""
    error = rival.get("rel_err_max")
    return error is None or math.isfinite(error)


def _measured(times: dict[str, Any]) -> Sequence[str]:
    """Time and error."""
    ms, error = times["median_ms"], times.get("rel_err_max")
    taken = f"{_digits(ms / 1e3)} s" if ms >= 1e3 else f"{_digits(ms)} ms"
    return taken, "not recorded" if error is None else _power(error)


def _digits(number: float) -> str:
    """Three digits of a number, and all before the point."""
    return f"{number:,.{max(0, 2 - math.floor(math.log10(number)))}f}"


def _power(error: float) -> str:
    """One digit: 4e-5."""
    digit, exponent = f"{error:.0e}".split("e")
    return "0" if error == 0 else f"{digit}e{int(exponent)}"


def _ratio(of: float) -> str:
    """Two digits, and all before the point."""
    return f"{of:,.{max(0, 1 - math.floor(math.log10(of)))}f}"


def _name(rival: str, backend: str) -> str:
    if rival == "Flash-SD-KDE":
        return "Flash-SD-KDE, default mode (TF32)"
    if rival == "source kernel":
        return "gpuKendall's kernel"
    if rival.endswith(("AoS", "SoA")):
        return f"torchPACE's kernel, {rival}"
    return f"{rival}, on the CPU" if backend == "gpu" and rival.startswith(ON_CPU) else rival


def _source(run: dict[str, Any], file: Path) -> str:
    """Machine and date, with the file."""
    machine = run["machine"]
    name = machine.get("gpu") or f"{machine['cpu'].split('(')[0].split()[0]}, {machine['cores']} cores"
    return f"[{name}, {run['date'][:10]}](benchmarks/results/{file.name})"


if __name__ == "__main__":
    main()
