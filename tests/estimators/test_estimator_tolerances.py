"""``rtol`` and ``atol`` of the estimator as scikit-learn defines them, of normalised densities, by float64 oracles."""

from __future__ import annotations

import dataclasses
import functools
import importlib
from typing import Any
from unittest import mock

import numpy as np
import pytest
from sklearn import datasets, model_selection, pipeline, preprocessing

from cukde import KernelDensity
from cukde.core.plan import only
from cukde.density.pairs.cpu.skipping import exponential, passes
from tests import reference
from tests.conftest import Backend
from tests.density.test_kernel_density import blocks_left_out
from tests.tolerances import FAR, KERNEL_DENSITY, KERNEL_DENSITY_OF_SIZE, check, log_error

KERNELS = ("gaussian", "tophat", "epanechnikov", "exponential", "linear", "cosine")
OF_MEDIAN = (0, 1e-3, 1e-1)  # absolute tolerances, of the median density


@dataclasses.dataclass(frozen=True)
class Sample:
    """Clusters with duplicates and an outlier; queries near them, at them, beside the outlier and far from all.

    Of so many rows that pairs are left out. With two columns they have weights.
    """

    X: np.ndarray
    Y: np.ndarray
    w: np.ndarray | None
    h: float = 0.3

    @classmethod
    @functools.cache
    def of(cls, d: int, dtype: str, n: int = 9000, m: int = 500) -> Sample:
        rng = np.random.default_rng([d, n])
        centres = 3 * rng.standard_normal((8, d))
        X = centres[rng.integers(8, size=n)] + 0.4 * rng.standard_normal((n, d))
        X[: n // 10] = X[0]
        X[-1] = 200
        Y = X[rng.integers(n, size=m)] + 0.1 * rng.standard_normal((m, d))
        Y[:9] = X[:9]
        Y[-7:] = X[-1] + 0.05 * np.arange(7)[:, None]
        Y[-4:] += 3.0 ** np.arange(4)[:, None]
        w = rng.uniform(0, 3, n) if d == 2 else None
        return cls(X.astype(dtype), Y.astype(dtype), w)

    @functools.cache  # noqa: B019  # of few samples
    def log_density(self, kernel: str) -> tuple[np.ndarray, np.ndarray]:
        """Logarithms by a float64 oracle, and what rounding may add to them."""
        dtype = self.X.dtype.name
        if kernel == "gaussian":
            near = reference.nearness(self.X, self.Y, self.h, self.w)
            return reference.log_kde(self.X, self.Y, self.h, self.w), log_error("cpu", dtype, near.exponent)
        if kernel == "exponential":
            logs, nearest = reference.log_exponential_density(self.X, self.Y, self.h, self.w)
            return logs, np.maximum(KERNEL_DENSITY[dtype].value, FAR[dtype].value * nearest)
        p, size = reference.kernel_density(self.X, self.Y, self.h, kernel, self.w)
        with np.errstate(divide="ignore", invalid="ignore"):  # no data within a bandwidth
            rounding = KERNEL_DENSITY[dtype].value + KERNEL_DENSITY_OF_SIZE.value * size / p
            return np.log(p), np.where(p > 0, rounding, 0)

    def median(self, kernel: str) -> float:
        return float(np.exp(np.median(self.log_density(kernel)[0])))

    def __hash__(self) -> int:
        return id(self)


def check_promise(s: Sample, kernel: str, rtol: float | None, atol: float, got: np.ndarray) -> None:
    """|p - exact| <= atol + rtol exact, beside rounding: relative to the exact one, which may underflow."""
    want, rounding = s.log_density(kernel)
    default = {"float32": 1e-5, "float64": 1e-13}[s.X.dtype.name]
    some = want > -np.inf
    assert some.sum() > 200
    np.testing.assert_array_equal(got[~some], -np.inf)
    with np.errstate(over="ignore"):  # an absolute tolerance beside a density that underflows
        allowed = (
            np.expm1(rounding[some])
            + (default if rtol is None else rtol)
            + (atol * np.exp(-want[some]) if atol else 0.0)
        )
        check(np.abs(np.expm1(got[some].astype(np.float64) - want[some])), allowed, f"density by {kernel}")


@pytest.mark.parametrize("of_median", OF_MEDIAN)
@pytest.mark.parametrize("rtol", [None, 0, 1e-8, 1e-4, 1e-2])
@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("kernel", KERNELS)
def test_densities_are_within_the_tolerances(kernel: str, d: int, rtol: float | None, of_median: float) -> None:
    for dtype in ("float64", "float32") if rtol in (None, 0, 1e-2) else ("float64",):
        s = Sample.of(d, dtype)
        atol = of_median * s.median(kernel)
        fitted = KernelDensity(bandwidth=s.h, kernel=kernel, rtol=rtol, atol=atol).fit(s.X, sample_weight=s.w)
        check_promise(s, kernel, rtol, atol, fitted.score_samples(s.Y))


def summed(kernel: str, d: int, dtype: str = "float64", **tolerances: float) -> float:
    """Share of the pairs that a pass sums; 1 where it takes all of them."""
    s, shares = Sample.of(d, dtype), []
    module: Any = exponential if kernel == "exponential" else passes

    def seen(prepared: Any) -> Any:
        m = len(prepared.queries)
        shares.append(module.tried(prepared, np.arange(m)).summed / (m * prepared.data.n))
        return run(prepared)

    run = module.run
    with mock.patch.object(module, "run", seen), only("skipping", "radial skipping"):
        KernelDensity(bandwidth=s.h / 4, kernel=kernel, **tolerances).fit(s.X, sample_weight=s.w).score_samples(s.Y)
    return shares[0] if shares else 1.0


@pytest.mark.parametrize(("kernel", "d"), [("gaussian", 3), ("gaussian", 5), ("exponential", 1), ("exponential", 2)])
def test_tolerances_leave_out_pairs(kernel: str, d: int) -> None:
    exact, relative, both = (
        summed(kernel, d, **tolerances) for tolerances in ({}, {"rtol": 1e-2}, {"rtol": 1e-2, "atol": 1e3})
    )
    assert exact > relative > both
    assert summed(kernel, d, atol=1e3) < exact


@pytest.mark.parametrize("method", ["sd", "laplace"])
@pytest.mark.parametrize("of_median", OF_MEDIAN[1:])
def test_absolute_tolerances_of_corrected_densities(method: str, of_median: float) -> None:
    """Beside the same density without a tolerance; terms with signs by the sum of absolute ones."""
    s = Sample.of(5, "float64")
    exact = np.exp(KernelDensity(bandwidth=s.h, method=method).fit(s.X).score_samples(s.Y))
    atol = of_median * float(np.nanmedian(exact))
    got = np.exp(KernelDensity(bandwidth=s.h, method=method, atol=atol).fit(s.X).score_samples(s.Y))
    positive = exact > atol
    assert positive.sum() > 200
    check(np.abs(got - exact)[positive], atol + 1e-11 * exact[positive], "density")


@pytest.mark.parametrize("metric", ["manhattan", "chebyshev"])
@pytest.mark.parametrize("kernel", ["gaussian", "exponential", "linear"])
def test_other_metrics_take_all_pairs(kernel: str, metric: str) -> None:
    s = Sample.of(2, "float64", 300, 40)
    exact, loose = (
        KernelDensity(bandwidth=s.h, kernel=kernel, metric=metric, **tolerances).fit(s.X).score_samples(s.Y)
        for tolerances in ({}, {"rtol": 1e-2, "atol": 1e-2})
    )
    np.testing.assert_array_equal(exact, loose)


@pytest.mark.parametrize("of_median", [0, 1e-6, 1e-1])
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_backend_takes_tolerances(backend: Backend, kernel: str, of_median: float) -> None:
    """Whatever it leaves out."""
    s = Sample.of(2, "float64", 900, 210)
    X, Y, w = map(backend.asarray, (s.X, s.Y, s.w))
    atol = of_median * s.median(kernel)
    fitted = KernelDensity(bandwidth=s.h, kernel=kernel, rtol=1e-3, atol=atol).fit(X, sample_weight=w)
    with blocks_left_out(whatever=True):
        got = backend.asnumpy(fitted.score_samples(Y))
    check_promise(s, kernel, 1e-3, atol, got)


@pytest.mark.parametrize("kernel", KERNELS)
def test_dask_arrays_keep_the_relative_tolerance(kernel: str) -> None:
    da = pytest.importorskip("dask.array", reason="install the dask extra")
    s = Sample.of(2, "float64", 9000, 500)
    fitted = KernelDensity(bandwidth=s.h, kernel=kernel, rtol=1e-4, atol=1.0).fit(
        da.from_array(s.X, chunks=(4500, 2)), sample_weight=da.from_array(s.w, chunks=4500)
    )
    check_promise(s, kernel, 1e-4, 0.0, fitted.score_samples(s.Y))


def test_scikit_learn_keeps_the_same_promise() -> None:
    """The definition is scikit-learn's: of the normalised density, weighted or not."""
    neighbors = importlib.import_module("sklearn.neighbors")
    s = Sample.of(2, "float64", 2000, 200)
    for kernel in ("gaussian", "exponential"):
        for tolerances in ({"rtol": 1e-2}, {"atol": 0.1 * s.median(kernel)}):
            options = {"bandwidth": s.h, "kernel": kernel, **tolerances}
            for estimator in (neighbors.KernelDensity, KernelDensity):
                got = estimator(**options).fit(s.X, sample_weight=s.w).score_samples(s.Y)
                want, _ = s.log_density(kernel)
                near = want > -500  # beyond, scikit-learn's logarithms are not accurate
                allowed = 1e-6 + options.get("rtol", 0) + options.get("atol", 0) * np.exp(-want[near])
                check(np.abs(np.expm1(got - want)[near]), allowed, estimator.__module__)


@pytest.mark.parametrize("scaled", [False, True])
def test_a_search_ranks_bandwidths_by_the_likelihoods_of_the_formula(scaled: bool) -> None:
    """The narrowest leaves rows of the wine data tens of bandwidths from all others."""
    X = datasets.load_wine().data[:, :4]
    grid = [0.1, 0.2, 0.5]
    steps = pipeline.make_pipeline(preprocessing.StandardScaler() if scaled else "passthrough", KernelDensity())
    search = model_selection.GridSearchCV(steps, {"kerneldensity__bandwidth": grid}).fit(X)
    for fold, (train, test) in enumerate(model_selection.KFold(5).split(X)):
        scaler = preprocessing.StandardScaler(with_mean=scaled, with_std=scaled).fit(X[train])
        known, others = scaler.transform(X[train]), scaler.transform(X[test])
        want = [reference.log_kde(known, others, h).sum() for h in grid]
        np.testing.assert_allclose(search.cv_results_[f"split{fold}_test_score"], want, rtol=1e-12)
