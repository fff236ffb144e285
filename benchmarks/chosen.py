"""The rows of the tables of measured times, and which of them the README has."""

from __future__ import annotations

from typing import Any, NamedTuple


class Chosen(NamedTuple):
    """A row of a table: the rows of a record that have these values, one for each rival."""

    what: str
    file: str
    op: str
    shape: dict[str, Any]  # a part of the row's
    precision: str
    size: str  # filled in by the row's shape
    timing: str | None = None
    apart: tuple[str, ...] = ()  # rivals that the record did not call as their authors do
    also: tuple[str, str] | None = None  # another mode of the best rival: its name in the record, and on the page
    in_readme: bool = False
    backend: str | None = None  # of records with both


_POINTS = "{n:,} points, {m:,} queries, {d} columns"
_NUMBERS = "{n:,} numbers"
_SAID = {
    "LOO kde": (
        "leave-one-out likelihoods of `bandwidth.cross_validate`",
        "{n:,} rows, {d} columns, {bandwidths} bandwidths",
    ),
    "matrix": ("`kendall_matrix`", "{p:,} columns of {n:,} samples, no ties"),
    "kendalltau": ("`kendalltau`", "{n:,} samples"),
    "gelu": ("`functions.gelu`", _NUMBERS),
    "KernelDensity": ("`KernelDensity`, fit and `score_samples`", _POINTS),
    "evaluate_grid": ("`evaluate_grid`", "{n:,} points, {m:,} cells, {d} columns"),
    "GridSearchCV": (
        "`KernelDensity` in `GridSearchCV`",
        "{n:,} points, {d} columns, {bandwidths} bandwidths, {folds} folds",
    ),
    "forward": ("`depthwise_conv1d`", "{B} x {C} rows of {L:,}, {K} taps"),
    "input_grad": ("`depthwise_conv1d_input_grad`", "{B} x {C} rows of {L:,}, {K} taps"),
    "weight_grad": ("`depthwise_conv1d_weight_grad`", "{B} x {C} rows of {L:,}, {K} taps"),
    "piecewise": ("`PiecewisePolynomial`", f"{_NUMBERS}, {{P}} pieces of degree {{D}}"),
}
"""What an operation of records is called on a page, and its size; others are densities by their names."""


def _of(
    file: str, op: str, shape: dict[str, Any], precision: str = "float32", size: str = "", how: str = "", **more: Any
) -> Chosen:
    line = _POINTS.replace("{d} columns", "1 column") if shape.get("d") == 1 else _POINTS
    what, usual = _SAID.get(op, (f"`{op}`", line))
    return Chosen(what + how, file, op, shape, precision, size or usual, **more)


_IEEE: dict[str, Any] = {"also": ("Flash-SD-KDE, fp32_ieee", "in `fp32_ieee`"), "backend": "gpu"}
_SMALL, _MIDDLE, _HUGE = ({"d": 16, "n": n, "m": n // 8} for n in (2**11, 2**15, 2**20))
_RUNTIME, _KERNELS = (f"sources_h200/section-{number}" for number in (1, 8))
_BCL = {"L": 2048, "layout": "BCL"}
_CONVOLVED = "{batch} x {channels} rows of {length:,}, {taps:,} taps"

GPU = (
    _of(_RUNTIME, "sd_kde", _HUGE, in_readme=True, **_IEEE),
    _of(_RUNTIME, "sd_kde", _HUGE, "tf32", backend="gpu"),
    _of(_RUNTIME, "sd_kde", _MIDDLE, **_IEEE),
    _of("engine_h200", "sd_kde", _MIDDLE, "float64"),
    _of("small_calls_h200", "sd_kde", {"d": 16, "n": 2**11}),
    _of("sd_kde_h200", "sd_kde", _SMALL, "float32 graph", how=", replayed from a CUDA graph", timing="graph"),
    _of("dimensions_h200", "sd_kde", {"n": 2**16, "d": 32}),
    _of("density_1d_h200", "sd_kde", {"n": 2**20, "d": 1}),
    _of(_RUNTIME, "kde", _HUGE, **_IEEE),
    _of(_RUNTIME, "laplace_kde", _HUGE, **_IEEE),
    _of("small_calls_h200", "kde", {"d": 16, "n": 2**11}),
    _of("small_calls_h200", "laplace_kde", {"d": 16, "n": 2**11}),
    _of("cross_validation_h200", "LOO kde", {"n": 100_000, "bandwidths": 64}, "float64"),
    _of("kendall_h200", "matrix", {"p": 1000, "n": 1000}, "float64"),
    _of("kendall_h200", "kendalltau", {"n": 10**6}, "float64"),
    _of(_KERNELS, "piecewise", {"P": 256, "D": 3, "knots": "uniform", "x": "random"}, in_readme=True),
    _of("piecewise_h200", "gelu", {}),
    _of("conv1d_h200", "forward", _BCL | {"K": 4}, in_readme=True),
    _of("conv1d_h200", "weight_grad", _BCL | {"K": 31}),
    _of("conv1d_h200", "forward", {"L": 64, "K": 4}),
    _of("conv1d_h200", "input_grad", {"L": 64, "K": 4}, in_readme=True),
)
CPU = (
    _of("over_n_cpu", "KernelDensity", {"n": 100_000}, "float64", in_readme=True),
    _of("density_cpu", "kde", {"d": 16, "n": 8192}),
    _of("density_1d_cpu", "kde", {"n": 10**6, "d": 1}, "float64", in_readme=True),
    _of("grid_cpu", "evaluate_grid", {"m": 2**20, "d": 2}),
    _of("estimator_cpu", "GridSearchCV", {}, "float64"),
    _of("kendall_cpu", "kendalltau", {"n": 100_000}, "float64"),
    _of("kendall_cpu", "matrix", {"p": 64}, "float64", in_readme=True),
    _of(
        *("piecewise_cpu", "piecewise", {"pieces": 256, "degree": 3, "knots": "uniform"}, "float64"),
        f"{_NUMBERS}, {{pieces}} pieces of degree {{degree}}",
    ),
    _of("functions_cpu", "gelu", {}, "float64"),
    _of(
        *("conv1d_cpu", "forward", {"length": 2048, "taps": 31, "layout": "BCL", "activation": "none"}, "float32"),
        _CONVOLVED,
    ),
    _of("conv1d_cpu", "forward", {"length": 16384, "taps": 4096}, size=_CONVOLVED, in_readme=True),
)
