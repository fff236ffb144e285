"""Argument checks of the estimator, made before anything is computed."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from types import ModuleType
from typing import Any

import numpy as np

from cukde.bandwidth.factors import FACTORS
from cukde.core import check as core_check, dispatch, words
from cukde.core.warnings import BandwidthRangeWarning, of_user
from cukde.density import check as density_check, kernels, rules_by_name
from cukde.density.domains import check as domains_check
from cukde.density.domains.domain import Domain, domain_of
from cukde.density.estimates import ESTIMATES, NOT_NEGATIVE, with_methods
from cukde.density.metric_density import mass_on_globe
from cukde.density.positive.check import mass as mass
from cukde.estimators import bandwidths

KERNELS = ("gaussian", *kernels.KERNELS)
BACKENDS = ("auto", "cpu", "gpu")
_ALGORITHMS = ("auto", "kd_tree", "ball_tree")
_PLANE = 0.01  # that a mass on the globe may be off


def parameters(values: Mapping[str, Any]) -> Any | None:
    """Check the constructor's arguments; return scikit-learn's distance metric, or None for the euclidean one."""
    core_check.option("algorithm", values["algorithm"], _ALGORITHMS)
    core_check.option("kernel", values["kernel"], KERNELS)
    core_check.option("method", values["method"], tuple(ESTIMATES))
    core_check.option("backend", values["backend"], BACKENDS)
    for name in ("atol", "rtol"):
        value = 0 if name == "rtol" and values[name] is None else values[name]
        if not isinstance(value, Real) or not float(value) >= 0:
            raise ValueError(f"{name} must be a number of at least 0; got {value!r}")
    if not isinstance(values["breadth_first"], bool | np.bool_):
        raise ValueError(f"breadth_first must be True or False; got {values['breadth_first']!r}")
    if not isinstance(values["leaf_size"], Integral) or values["leaf_size"] < 1:
        raise ValueError(f"leaf_size must be an integer of at least 1; got {values['leaf_size']!r}")
    if isinstance(values["bandwidth"], str) and values["bandwidth"] not in bandwidths.names():
        raise ValueError(
            "bandwidth must be a positive number, an array of deviations, a covariance, a function of the data, or one "
            f"of {', '.join(map(repr, bandwidths.names()))}; got {values['bandwidth']!r}"
            f"{words.meant(values['bandwidth'], bandwidths.names())}"
        )
    metric = _metric(values["metric"], values["metric_params"], values["algorithm"])

    rule = bandwidths.rule(values["bandwidth"])
    density_check.precision(values["precision"], np.dtype(np.float64))
    if values["kernel"] != "gaussian" or metric is not None:
        _plain(values, metric, rule)
    _steps(values["steps"], values["own_point"], values["method"], rule or values["bandwidth"])
    return metric


_IMAGES = "other kernels are not summed over images"
_OF_GAUSSIAN = {"bounds": _IMAGES, "periods": _IMAGES, "precision": "give float32 or float64 data instead"}


def _plain(values: Mapping[str, Any], metric: Any | None, rule: str | None) -> None:
    """Raise for what the Gaussian kernel and the euclidean metric alone have."""
    kernel, name, method = values["kernel"], values["metric"], values["method"]
    if method != "kde":
        needed, got = ('kernel="gaussian"', kernel) if kernel != "gaussian" else ('metric="euclidean"', name)
        raise ValueError(f'{method=} needs {needed}; got {got!r}: write method="kde" for it')
    both = f'kernel="gaussian" and metric="euclidean"; got {kernel!r} and {name!r}'
    for option, instead in _OF_GAUSSIAN.items():
        if values[option] is not None:
            raise ValueError(f"{option} must be None but for {both}: {instead}")
    found = type(values["bandwidth"]).__name__ if rules_by_name.is_result(values["bandwidth"]) else None
    if (rule or found) is not None:
        raise ValueError(
            f'bandwidth={rule or found!r} is a rule for {both}: give a number, or "scott" or "silverman" as in '
            "scikit-learn"
        )


def _steps(steps: Any, own_point: Any, method: str, bandwidth: Any) -> None:
    """Check how points are moved."""
    count, own_point = density_check.steps(steps), core_check.flag("own_point", own_point)
    if not ESTIMATES[method].moves and (count > 1 or not own_point):
        those = with_methods(lambda each: each.moves)
        raise ValueError(f"steps and own_point are for {those}; got steps={count}, {own_point=} and {method=}")
    density_check.one_step(bandwidth, count, own_point=own_point, name="bandwidth")


def _metric(metric: Any, options: Any, algorithm: str) -> Any | None:
    from sklearn.metrics import DistanceMetric
    from sklearn.neighbors import BallTree, KDTree

    trees = {"kd_tree": [KDTree], "ball_tree": [BallTree], "auto": [KDTree, BallTree]}[algorithm]
    core_check.option("metric", metric, sorted({*KDTree.valid_metrics, *BallTree.valid_metrics}))
    if not any(metric in tree.valid_metrics for tree in trees):
        raise ValueError(f'invalid metric for algorithm={algorithm!r}: {metric!r}; write algorithm="auto"')
    if options is not None and not isinstance(options, dict):
        raise ValueError(f"metric_params must be a dictionary or None; got {options!r}")
    try:
        distance = DistanceMetric.get_metric(metric, **(options or {}))
    except (TypeError, ValueError) as error:
        raise ValueError(f"metric_params must fit metric={metric!r}; got {options!r}: {error}") from None
    return None if type(distance).__name__.startswith("EuclideanDistance") else distance  # "minkowski" of p = 2, too


def bandwidth(value: Any, n: float, d: int, metric: Any | None) -> Any:
    """Check a bandwidth against data of ``n`` rows; return a float, or an array of deviations or of covariances."""
    if isinstance(value, str):
        if n < 2:
            raise ValueError(f"X must have at least 2 rows for bandwidth={value!r}; got n_samples={n}: give a number")
        return FACTORS[value](n, d)
    h = density_check.bandwidth(dispatch.to_host(value), d, "bandwidth")
    if h.ndim == 2:
        density_check.cholesky(h, "bandwidth")
    if h.ndim and metric is not None:
        raise ValueError(f'bandwidth must be a single number but for metric="euclidean"; got shape {h.shape}')
    return h if h.ndim else float(h)


def fit(values: Mapping[str, Any], metric: Any | None, row: Any, n: float) -> Any:
    """Check the constructor's arguments against ``n`` rows like ``row``, NaN if unknown; return the bandwidth."""
    if metric is not None:
        distance(metric, row, values["metric"])
    if ESTIMATES[values["method"]].moves and n < 2:
        raise ValueError(
            f'X must have at least 2 rows for method="{values["method"]}"; got n_samples={n}: write method="kde"'
        )
    return bandwidth(values["bandwidth"], n, row.shape[1], metric)


def domain(values: Mapping[str, Any], h: Any, d: int) -> Domain | None:
    """Check the bounds and periods of ``d`` columns beside a bandwidth; None where no column has any."""
    out = domain_of(values["bounds"], values["periods"], d)
    beside_domain(h, out)
    return out


def beside_domain(h: Any, domain: Domain | None) -> None:
    """Raise for a bandwidth that correlates a bounded column with another."""
    if domain is not None:
        domains_check.bandwidth(np.asarray(h), domain.bounded, "bandwidth")


def ends(values: Any, h: Any, d: int) -> None:
    """Raise unless an array, such as one that was read from a file, is that of a domain."""
    if not isinstance(values, np.ndarray) or values.shape != (3, d) or values.dtype != np.float64:
        raise ValueError(f"bounds and periods do not fit points of {d} columns")
    domain(Domain(*values).arguments, h, d)


def distance(metric: Any, X: np.ndarray, name: str) -> None:
    """Raise if a metric does not accept points of this dimension."""
    try:
        metric.pairwise(X[:1].astype(np.float64))
    except ValueError as error:
        raise ValueError(f"X must suit metric={name!r}; got {X.shape[1]} columns: {error}") from None


def warn_of_globe(metric: str, kernel: str, h: Any) -> None:
    """Warn where the constant of the plane is wrong by more than 1% on the globe."""
    if metric == "haversine" and abs((mass := mass_on_globe(kernel, float(h))) - 1) > _PLANE:
        of_user(
            f'metric="haversine" has the constant of a plane: with a bandwidth of {float(h):.4g} radians densities '
            f"integrate to {mass:.3g} over the globe; cukde.sphere.kde(cukde.sphere.from_degrees(lon, lat), Y, h) "
            "integrates to 1",
            BandwidthRangeWarning,
        )


def metric_device(metric: Any | None, name: str, backend: ModuleType) -> None:
    """Raise on the GPU for a metric that only the CPU has."""
    if metric is not None and backend.name == "gpu":
        raise ValueError(
            f'metric must be "euclidean" on the GPU; got {name!r}: write backend="cpu", which copies data to the host'
        )


def weights(w: Any, n: int, backend: ModuleType) -> Any:
    """Return weights of rows as float64."""
    name = "sample_weight"
    out = density_check.weights(w, n, backend, name).astype(np.float64)
    core_check.finite({name: bool(backend.xp.isfinite(out).all())})
    density_check.weight_range(float(out.min()), float(out.max()), name)
    return out


def points(X: Any, backend: ModuleType) -> Any:
    """Return points as an array of the GPU, whose values scikit-learn does not check."""
    out = rows_and_columns(X, backend)
    core_check.finite({"X": bool(backend.xp.isfinite(out).all())})
    return out


def rows_and_columns(X: Any, backend: ModuleType) -> Any:
    """Return points as an array of shape (rows, columns)."""
    out = core_check.array("X", X, backend)
    if out.ndim != 2:
        raise ValueError(
            f"X must have shape (rows, columns); got {out.shape}: write X.reshape(-1, 1) for one column, "
            "X.reshape(1, -1) for one row"
        )
    if 0 in out.shape:
        raise ValueError(f"X must have at least one row and one column; got shape {out.shape}")
    return out


def order_of_columns(labels: Any, reference: Any) -> ValueError:
    """Return the error for queries whose columns are in another order than those of the data."""
    order = list(reference)
    return ValueError(f"X must have its columns in the order of fit, {order}; got {list(labels)}: write X[{order}]")


def fitted_side(X: Any) -> None:
    """Raise for queries on the GPU if the estimator is on the CPU."""
    if dispatch.is_gpu_array(X):
        raise TypeError(
            "X is on the GPU but the estimator was fitted on the CPU; fit it on GPU arrays or with "
            'backend="gpu", or write cupy.asnumpy(X)'
        )


def data_in_memory(*, lazy: bool) -> None:
    """Raise for lazy arrays where each row leaves out its own kernel."""
    if lazy:
        raise ValueError("leave_one_out=True takes arrays in memory, fitted and asked for; got a Dask collection")


def are_data(*, same: bool) -> None:
    """Raise for queries that are not the data, where each leaves out its own datum."""
    if not same:
        raise ValueError("leave_one_out=True needs the data of fit as X, in their order; got other rows")


def contamination(value: Any, auto: float) -> float:
    """Check the share of outliers; "auto" is one that is given."""
    if isinstance(value, str) and value == "auto":
        return auto
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 < float(value) <= 0.5:
        raise ValueError(f'contamination must be "auto" or a number in (0, 0.5]; got {value!r}')
    return float(value)


def method_of_level(method: Any) -> None:
    """Raise for an estimate that has no logarithm everywhere, and so no order of rows."""
    core_check.option("method", method, NOT_NEGATIVE)


def level(offset: float, share: float) -> float:
    """Raise where more rows than the share of outliers have no others within reach; return the level."""
    if offset == -np.inf:
        raise ValueError(
            f"bandwidth must reach another row from all but {share:g} of the rows, the share of outliers: more than "
            "these are out of reach of all others, where the density is 0, and cannot be told apart; take a wider one, "
            'a larger contamination, or kernel="gaussian"'
        )
    return offset


def others(n: int) -> None:
    """Raise for a single row, which no other row can judge."""
    if n < 2:
        raise ValueError(f"X must have at least 2 rows, which judge each other; got n_samples={n}")


def rows_in_memory(*, lazy: bool) -> None:
    """Raise for lazy arrays where rows are told from others."""
    if lazy:
        raise TypeError(
            "OutlierDetector takes arrays in memory; got a Dask collection: fit a sample of the rows, and write "
            "X.map_blocks(detector.decision_function, dtype=float, drop_axis=1) for the others"
        )


def no_rule(value: Any) -> None:
    """Raise for a bandwidth that takes data in memory."""
    if callable(value) or bandwidths.rule(value) is not None:
        raise ValueError(
            f'bandwidth must be a number, an array, "scott" or "silverman" beside Dask collections; got {value!r}: '
            "rules take data in memory, such as a sample of the rows, bandwidth=cukde.bandwidth.silverman(sample)"
        )


def in_memory(lazy: bool) -> None:
    """Raise when a fit on Dask collections is saved to a file."""
    if lazy:
        raise TypeError(
            "save needs a fit on plain arrays; this one is on Dask collections: write "
            "e.points_, e.sample_weight_ = dask.compute(e.points_, e.sample_weight_) with the estimator e first"
        )


def same_centres(of_fit: Mapping[str, Any], estimator: Any) -> None:
    """Raise if parameters that the centres of the fit depend on were changed after it."""
    for name, fitted in of_fit.items():
        if (now := getattr(estimator, name)) != fitted:
            raise ValueError(f"{name} was {fitted!r} in fit and is {now!r} now: fit again")


def kernel_of_factors(kernel: str, metric: str) -> None:
    """Raise if the kernel was changed after a fit with local factors, which Gaussians alone have."""
    if kernel != "gaussian" or metric not in ("euclidean", "l2", "minkowski"):
        raise ValueError(
            f'kernel and metric must be "gaussian" and "euclidean" with the local factors of this fit; got {kernel!r} '
            f"and {metric!r}: fit again with a number for bandwidth"
        )


def gradient(kernel: str, metric: Any | None, name: str, method: str, *, in_domain: bool) -> None:
    """Raise if the log density has no gradient here."""
    estimate = ESTIMATES[method]
    if estimate.score is None:
        those = with_methods(lambda each: each.score)
        raise NotImplementedError(f'grad_log_density needs {those}; got "{method}", whose density may be negative')
    if in_domain and not estimate.score_in_domain:
        those = with_methods(lambda each: each.score and each.score_in_domain)
        raise NotImplementedError(
            f'grad_log_density of method="{method}" needs bounds and periods to be None; write {those}'
        )
    if kernel != "gaussian" or metric is not None:
        raise NotImplementedError(
            f'grad_log_density needs kernel="gaussian" and metric="euclidean"; got {kernel!r} and {name!r}'
        )


def without_categories(*, mixed: bool) -> None:
    """Raise for levels, which a file of arrays does not have."""
    if mixed:
        raise TypeError("save takes fits of columns of numbers; some of this fit have categories: pickle the estimator")


def numbers_alone(*, mixed: bool) -> None:
    """Raise for a gradient by columns of which some have categories."""
    if mixed:
        raise NotImplementedError("grad_log_density needs columns of numbers alone; some of this fit have categories")


def sampled(kernel: str, method: str) -> None:
    """Raise if no samples can be drawn."""
    core_check.option("kernel", kernel, KERNELS)
    if ESTIMATES[method].negative:
        those = with_methods(lambda each: not each.negative)
        raise NotImplementedError(
            f'sample needs {those}; got "{method}", whose density may be negative and so has no samples'
        )
