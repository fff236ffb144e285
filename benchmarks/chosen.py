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
_LINE = "{n:,} points, {m:,} queries, 1 column"
_MIXTURE = {"d": 16}
_IEEE = "Flash-SD-KDE, fp32_ieee", "in `fp32_ieee`"
_HUGE = _MIXTURE | {"n": 2**20, "m": 2**17}
_RUNTIME, _KERNELS = (f"sources_h200/section-{number}" for number in (1, 8))

GPU = (
    Chosen("`sd_kde`", _RUNTIME, "sd_kde", _HUGE, "float32", _POINTS, in_readme=True, also=_IEEE, backend="gpu"),
    Chosen("`sd_kde`", _RUNTIME, "sd_kde", _HUGE, "tf32", _POINTS, backend="gpu"),
    Chosen(
        "`sd_kde`",
        _RUNTIME,
        "sd_kde",
        _MIXTURE | {"n": 2**15, "m": 2**12},
        "float32",
        _POINTS,
        also=_IEEE,
        backend="gpu",
    ),
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
    Chosen("`sd_kde`", "density_1d_h200", "sd_kde", {"n": 2**20, "d": 1}, "float32", _LINE),
    Chosen("`kde`", _RUNTIME, "kde", _HUGE, "float32", _POINTS, also=_IEEE, backend="gpu"),
    Chosen("`laplace_kde`", _RUNTIME, "laplace_kde", _HUGE, "float32", _POINTS, also=_IEEE, backend="gpu"),
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
        _KERNELS,
        "piecewise",
        {"P": 256, "D": 3, "knots": "uniform", "x": "random"},
        "float32",
        "{n:,} numbers, {P} pieces of degree {D}",
        in_readme=True,
    ),
    Chosen("`functions.gelu`", "piecewise_h200", "gelu", {}, "float32", "{n:,} numbers"),
    Chosen(
        "`depthwise_conv1d`",
        "conv1d_h200",
        "forward",
        {"L": 2048, "K": 4, "layout": "BCL"},
        "float32",
        "{B} x {C} rows of {L:,}, {K} taps",
        in_readme=True,
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
    Chosen(
        "`depthwise_conv1d_input_grad`",
        "conv1d_h200",
        "input_grad",
        {"L": 64, "K": 4},
        "float32",
        "{B} x {C} rows of {L:,}, {K} taps",
        in_readme=True,
    ),
)
CPU = (
    Chosen(
        "`KernelDensity`, fit and `score_samples`",
        "over_n_cpu",
        "KernelDensity",
        {"n": 100_000},
        "float64",
        _POINTS,
        in_readme=True,
    ),
    Chosen("`kde`", "density_cpu", "kde", _MIXTURE | {"n": 8192}, "float32", _POINTS),
    Chosen("`kde`", "density_1d_cpu", "kde", {"n": 10**6, "d": 1}, "float64", _LINE, in_readme=True),
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
    Chosen(
        "`kendall_matrix`",
        "kendall_cpu",
        "matrix",
        {"p": 64},
        "float64",
        "{p} columns of {n:,} samples, no ties",
        in_readme=True,
    ),
    Chosen(
        "`PiecewisePolynomial`",
        "piecewise_cpu",
        "piecewise",
        {"pieces": 256, "knots": "uniform"},
        "float64",
        "{n:,} numbers, {pieces} pieces of degree {degree}",
    ),
    Chosen("`functions.gelu`", "functions_cpu", "gelu", {}, "float64", "{n:,} numbers"),
    Chosen(
        "`depthwise_conv1d`",
        "conv1d_cpu",
        "forward",
        {"length": 2048, "taps": 31, "layout": "BCL", "activation": "none"},
        "float32",
        "{batch} x {channels} rows of {length:,}, {taps} taps",
    ),
    Chosen(
        "`depthwise_conv1d`",
        "conv1d_cpu",
        "forward",
        {"length": 16384, "taps": 4096},
        "float32",
        "{batch} x {channels} rows of {length:,}, {taps:,} taps",
        in_readme=True,
    ),
)
