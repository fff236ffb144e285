"""``KernelDensity`` on Dask arrays and data frames against the same estimator on plain arrays."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import cukde
from cukde import KernelDensity
from cukde.density.kernel_density import kernel_density
from cukde.density.kernels import KERNELS
from tests.conftest import Backend

N, M, D = 60, 11, 3
RNG = np.random.default_rng(3)
X, Y = RNG.standard_normal((N, D)), 0.5 * RNG.standard_normal((M, D))
W = np.where(np.arange(N) % 7 == 0, 0.0, RNG.uniform(0.5, 2, N))

OPTIONS: dict[str, dict[str, Any]] = {
    "kde": {},
    "sd": {"method": "sd"},
    "laplace": {"method": "laplace", "bandwidth": 2.0},
    "covariance": {"bandwidth": np.array([[0.9, 0.2, 0.0], [0.2, 0.7, 0.1], [0.0, 0.1, 0.8]])},
    "deviations of sd": {"bandwidth": [0.9, 1.0, 0.8], "method": "sd"},
    "scott": {"bandwidth": "scott"},
    "silverman": {"bandwidth": "silverman", "method": "sd"},
    **{kernel: {"kernel": kernel} for kernel in ("tophat", "epanechnikov", "exponential", "linear", "cosine")},
    "deviations of cosine": {"bandwidth": [2.9, 2.0, 2.8], "kernel": "cosine"},
    "manhattan": {"metric": "manhattan"},
    "seuclidean": {"metric": "seuclidean", "metric_params": {"V": [1.0, 2.0, 3.0]}, "kernel": "linear"},
}


def estimator(name: str = "kde", **options: Any) -> KernelDensity:
    return KernelDensity(**({"bandwidth": 1.3} | OPTIONS[name] | options))


def blocks(a: np.ndarray, rows: Any = (25, 0, 35)) -> da.Array:
    """Columns are in blocks too."""
    return da.from_array(a, chunks=(rows, *((1, size - 1) for size in a.shape[1:])))


def explodes(block: np.ndarray) -> np.ndarray:
    raise AssertionError("computed")


def never(rows: int = N) -> da.Array:
    """Points that must not be computed."""
    return da.from_array(X[:rows], chunks=(20, D)).map_blocks(explodes, meta=np.empty((0, 0)))


def computed(a: Any) -> np.ndarray:
    assert type(a) is da.Array
    out = a.compute(scheduler="synchronous")
    assert (out.dtype, out.shape, type(out)) == (a.dtype, a.shape, type(a._meta))
    return out


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((name, "float64") for name in OPTIONS), *((name, "float32") for name in ("kde", "sd", "cosine"))],
)
def test_equals_plain_arrays(name: str, dtype: str, weighted: bool) -> None:
    """Data, queries and weights in blocks, or some of them."""
    x, y, w = X.astype(dtype), Y.astype(dtype), W if weighted else None
    plain = estimator(name).fit(x, sample_weight=w)
    want = plain.score_samples(y)
    close: dict[str, Any] = {"rtol": 0, "atol": 3e-12 if dtype == "float64" else 1e-4}
    lazy = estimator(name).fit(blocks(x), sample_weight=da.from_array(W, chunks=17) if weighted else None)
    assert isinstance(lazy.points_, da.Array)
    assert np.array_equal(lazy.bandwidth_, plain.bandwidth_)
    got = [
        computed(lazy.score_samples(blocks(y, (4, 7)))),
        lazy.score_samples(y),
        estimator(name).fit(blocks(x), sample_weight=w).score_samples(y.tolist() if dtype == "float64" else y),
        computed(plain.score_samples(blocks(y, (4, 7)))),
    ]
    if weighted:
        got.append(estimator(name).fit(x, sample_weight=da.from_array(W, chunks=17)).score_samples(y))
    for one in got:
        assert type(one) is np.ndarray
        assert one.dtype == want.dtype
        np.testing.assert_allclose(one, want, **close)
    total = lazy.score(blocks(y, (4, 7)))
    assert type(total) is float
    np.testing.assert_allclose([total, plain.score(blocks(y, 5))], plain.score(y), rtol=0, atol=M * close["atol"])


@pytest.mark.parametrize("dtypes", [("float16", "float32"), ("int8", "float32"), ("float32", "float64")], ids=str)
def test_dtypes(dtypes: tuple[str, str]) -> None:
    x, y = (3 * X).astype(dtypes[0]), Y.astype(dtypes[1])
    for name in ("kde", "sd", "linear", "manhattan"):
        plain, lazy = (estimator(name).fit(a) for a in (x, blocks(x)))
        assert lazy.points_.dtype == plain.points_.dtype
        want, got = plain.score_samples(y), computed(lazy.score_samples(blocks(y, 5)))
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-4)


@pytest.mark.parametrize("h", [0.9, [0.9, 1.2, 0.7]], ids=["scalar", "deviations"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_other_kernels_as_densities(kernel: Any, h: Any) -> None:
    """Zero, and not NaN, where no block has anything near."""
    y = np.concatenate([Y, [[50.0, 0.0, 0.0]]])
    want = kernel_density(X, y, h, kernel=kernel, weights=W)
    got = computed(kernel_density(blocks(X), blocks(y, 5), h, kernel=kernel, weights=W))
    np.testing.assert_allclose(got, want, rtol=1e-11, atol=0)
    assert (got[-1] == 0) == (kernel != "exponential")


@pytest.mark.parametrize("method", ["kde", "sd"])
def test_gradients(method: str) -> None:
    plain, lazy = (estimator(method).fit(x, sample_weight=W) for x in (X, blocks(X)))
    want = plain.grad_log_density(Y)
    for got in (
        computed(lazy.grad_log_density(blocks(Y, 5))),
        lazy.grad_log_density(Y),
        computed(plain.grad_log_density(blocks(Y, 5))),
    ):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-11)


@pytest.mark.parametrize("weighted", [None, "plain", "dask"])
@pytest.mark.parametrize("options", [{}, {"kernel": "tophat"}, {"method": "sd"}], ids=str)
def test_samples_are_those_of_plain_arrays(options: dict[str, Any], weighted: str | None) -> None:
    w = {None: None, "plain": W, "dask": da.from_array(W, chunks=13)}[weighted]
    want = estimator(**options).fit(X, sample_weight=None if w is None else W).sample(200, random_state=7)
    # A 49th times 49 is rounded below 1.
    got = estimator(**options).fit(blocks(X, (49, 0, 10, 1)), sample_weight=w).sample(200, random_state=7)
    assert type(got) is np.ndarray
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-12)


def test_samples_look_only_at_blocks_that_are_hit() -> None:
    x = da.concatenate([da.from_array(X[:20], chunks=20), never(20)])
    w = da.from_array(np.repeat([1.0, 0.0], 20), chunks=20)
    assert KernelDensity().fit(x, sample_weight=w).sample(50, random_state=0).shape == (50, D)
    with pytest.raises(AssertionError, match="computed"):
        KernelDensity().fit(x).sample(50, random_state=0)


def test_arrays_of_a_backend(backend: Backend) -> None:
    x, y, w = (backend.asarray(a) for a in (X, Y, W))
    for name in ("kde", "sd", "laplace", "cosine"):
        plain = estimator(name).fit(x, sample_weight=w)
        lazy = estimator(name).fit(blocks(x), sample_weight=da.from_array(w, chunks=20))
        want = backend.asnumpy(plain.score_samples(y))
        got = [lazy.score_samples(blocks(y, 5)).compute(), lazy.score_samples(Y)]
        got.append(plain.score_samples(blocks(Y, 5)).compute())
        for one in got:
            np.testing.assert_allclose(backend.asnumpy(one), want, rtol=0, atol=1e-10)
        assert lazy.score(blocks(y, 5)) == pytest.approx(want.sum(), abs=1e-9)
    sample = estimator("sd").fit(blocks(x), sample_weight=da.from_array(w, chunks=20)).sample(20, random_state=0)
    want = backend.asnumpy(estimator("sd").fit(x, sample_weight=w).sample(20, random_state=0))
    np.testing.assert_allclose(backend.asnumpy(sample), want, rtol=0, atol=1e-10)


@pytest.mark.gpu
def test_blocks_are_brought_to_the_device_that_is_asked_for() -> None:
    import cupy

    on_gpu = blocks(X).map_blocks(cupy.asarray)
    fitted = KernelDensity(backend="gpu").fit(blocks(X))
    assert isinstance(fitted.points_._meta, cupy.ndarray)
    want = KernelDensity().fit(X).score_samples(Y)
    got = [fitted.score_samples(blocks(Y, 5)), KernelDensity(backend="cpu").fit(on_gpu).score_samples(blocks(Y, 5))]
    for one in got:
        np.testing.assert_allclose(computed(one), want, rtol=0, atol=1e-12)
    assert isinstance(fitted.score_samples(Y), np.ndarray)
    assert isinstance(fitted.score_samples(blocks(Y, 5).map_blocks(cupy.asarray)).compute(), cupy.ndarray)
    assert isinstance(KernelDensity().fit(on_gpu).score_samples(blocks(Y, 5)).compute(), cupy.ndarray)
    with pytest.raises(TypeError, match="fitted on the CPU"):
        KernelDensity().fit(blocks(X)).score_samples(on_gpu)
    kept = pickle.loads(pickle.dumps(fitted))
    assert isinstance(kept.points_, da.Array)
    np.testing.assert_allclose(kept.score_samples(Y), want, rtol=0, atol=1e-12)


class TestDataFrames:
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(w=W)

    def lazy(self) -> Any:
        return dd.from_pandas(self.frame, npartitions=4)

    @pytest.mark.parametrize("name", ["kde", "sd", "scott", "silverman", "linear", "manhattan"])
    def test_of_unknown_lengths(self, name: str) -> None:
        of = ["a", "b", "c"]
        plain = estimator(name).fit(self.frame[of], sample_weight=self.frame["w"])
        lazy = estimator(name).fit(self.lazy()[of], sample_weight=self.lazy()["w"])
        assert lazy.bandwidth_ == plain.bandwidth_
        assert lazy.feature_names_in_.tolist() == of
        assert lazy.n_features_in_ == 3
        queries = dd.from_pandas(self.frame[of][:9], npartitions=2)
        want = plain.score_samples(self.frame[of][:9])
        got = lazy.score_samples(queries)
        assert np.isnan(got.shape[0])
        np.testing.assert_allclose(got.compute(), want, rtol=0, atol=1e-12)
        assert lazy.score(queries) == pytest.approx(want.sum(), abs=1e-11)
        np.testing.assert_allclose(lazy.score_samples(self.frame[of][:9]), want, rtol=0, atol=1e-12)
        np.testing.assert_allclose(plain.score_samples(queries).compute(), want, rtol=0, atol=1e-12)

    def test_samples(self) -> None:
        of = ["a", "b", "c"]
        for w in (None, "w"):
            plain = KernelDensity().fit(self.frame[of], sample_weight=None if w is None else self.frame[w])
            lazy = KernelDensity().fit(self.lazy()[of], sample_weight=None if w is None else self.lazy()[w])
            got, want = (e.sample(30, random_state=1) for e in (lazy, plain))
            np.testing.assert_allclose(got, want, rtol=0, atol=1e-12)

    def test_names_must_agree(self) -> None:
        fitted = KernelDensity().fit(self.lazy()[["a", "b", "c"]])
        with pytest.raises(ValueError, match="feature names"):
            fitted.score_samples(self.lazy()[["c", "b", "a"]])

    def test_plain_weights_beside_unknown_lengths_are_refused(self) -> None:
        with pytest.raises(ValueError, match=r"sample_weight must have the 4 blocks of X .*compute_chunk_sizes"):
            KernelDensity().fit(self.lazy()[["a", "b", "c"]], sample_weight=W)


class TestLazy:
    @pytest.mark.parametrize("name", OPTIONS)
    def test_nothing_is_computed_before_it_is_asked_for(self, name: str) -> None:
        fitted = estimator(name).fit(never(), sample_weight=never()[:, 0])
        lazy = [fitted.score_samples(never())]
        if estimator(name).kernel == "gaussian" and name not in ("laplace", "manhattan"):
            lazy.append(fitted.grad_log_density(never()))
        for one in lazy:
            with pytest.raises(AssertionError, match="computed"):
                one.compute()

    def test_a_rule_counts_rows_that_are_not_known(self) -> None:
        x = blocks(X)
        kept = x[x[:, 0] > 0]
        count = int((X[:, 0] > 0).sum())
        assert KernelDensity(bandwidth="scott").fit(kept).bandwidth_ == pytest.approx(count ** (-1 / 7))

    def test_equal_fits_have_equal_keys(self) -> None:
        def names(**options: Any) -> list[str]:
            fitted = estimator(**options).fit(blocks(X), sample_weight=blocks(W))
            return [fitted.score_samples(blocks(Y, 5)).name, fitted.score_samples(blocks(Y, 6)).name]

        options: list[dict[str, Any]] = [{}, {"method": "sd"}, {"bandwidth": 2.0}, {"kernel": "linear"}]
        options += [{"kernel": "cosine"}, {"metric": "l1"}, {"metric": "l1", "kernel": "linear"}]
        options += [{"metric": "minkowski", "metric_params": {"p": p}} for p in (3, 4)]
        found = [names(**o) for o in options]
        assert found == [names(**o) for o in options]
        assert len({name for some in found for name in some}) == 2 * len(options)

    def test_what_is_debiased_may_be_kept(self) -> None:
        fitted = estimator("sd").fit(blocks(X))
        want = estimator("sd").fit(X)
        np.testing.assert_allclose(computed(fitted.points_), want.points_, rtol=0, atol=1e-12)
        fitted.points_ = fitted.points_.persist()
        np.testing.assert_allclose(fitted.score_samples(Y), want.score_samples(Y), rtol=0, atol=1e-12)

    def test_debiased_data_keep_an_offset(self) -> None:
        x, y = ((np.round(a * 256) / 256 + 1e4).astype(np.float32) for a in (X, Y))
        got = estimator("sd").fit(blocks(x)).score_samples(y)
        np.testing.assert_allclose(got, estimator("sd").fit(x).score_samples(y), rtol=0, atol=4e-6)


class TestKept:
    def test_save_says_what_to_do_first(self, tmp_path: Path) -> None:
        path = tmp_path / "kept"
        e = estimator("sd").fit(blocks(X), sample_weight=blocks(W))
        want = e.score_samples(Y)
        with pytest.raises(TypeError, match=r"write e\.points_, e\.sample_weight_ = dask\.compute"):
            e.save(path)
        assert not path.exists()
        e.points_, e.sample_weight_ = dask.compute(e.points_, e.sample_weight_)
        e.save(path)
        np.testing.assert_allclose(KernelDensity.load(path).score_samples(Y), want, rtol=0, atol=1e-12)


class TestErrors:
    @pytest.mark.parametrize(
        ("error", "message", "call"),
        [
            (ValueError, r"X must have shape \(rows, columns\)", lambda x: KernelDensity().fit(x[:, 0])),
            (ValueError, r"X must have shape \(rows, columns\)", lambda x: KernelDensity().fit(x[None])),
            (ValueError, "X must have at least one row", lambda x: KernelDensity().fit(x[:0])),
            (TypeError, r"^X\b", lambda x: KernelDensity().fit(x.astype(complex))),
            (TypeError, r"^X\b", lambda x: KernelDensity().fit(dask.delayed(X))),
            (ValueError, r"write X\.compute_chunk_sizes", lambda x: KernelDensity().fit(x[:, x[0] > 0])),
            (ValueError, r"^sample_weight\b", lambda x: KernelDensity().fit(x, None, x)),
            (ValueError, r"^sample_weight\b", lambda x: KernelDensity().fit(x, None, W[1:])),
            (ValueError, r"^sample_weight\b", lambda x: KernelDensity().fit(x, None, -W)),
            (ValueError, r"^kernel\b", lambda x: KernelDensity(kernel="box").fit(x)),
            (ValueError, r"^bandwidth\b", lambda x: KernelDensity(bandwidth=-1).fit(x)),
            (TypeError, r"write bandwidth\.compute\(\)", lambda x: KernelDensity(bandwidth=x[0]).fit(x)),
            (ValueError, "got 'isj': rules take data in memory", lambda x: KernelDensity(bandwidth="isj").fit(x)),
            (ValueError, "rules take data in memory", lambda x: KernelDensity(bandwidth=cukde.bandwidth.sd).fit(x)),
            (ValueError, "at least 2 rows", lambda x: KernelDensity(method="sd").fit(x[:1])),
            (ValueError, "X must suit metric='haversine'", lambda x: KernelDensity(metric="haversine").fit(x)),
            (ValueError, "X has 2 features, but", lambda x: KernelDensity().fit(x).score_samples(x[:, :2])),
            (ValueError, "X has 2 features, but", lambda x: KernelDensity().fit(X).score_samples(x[:, :2])),
            (NotImplementedError, "needs method", lambda x: estimator("laplace").fit(x).grad_log_density(x)),
            (NotImplementedError, "sample needs", lambda x: estimator("laplace").fit(x).sample()),
        ],
    )
    def test_forms_are_checked_at_once(self, error: type[Exception], message: str, call: Callable[..., Any]) -> None:
        with pytest.raises(error, match=message):
            call(never())

    @pytest.mark.parametrize("name", ["kde", "sd", "linear", "manhattan"])
    def test_values_are_checked_when_they_are_computed(self, name: str) -> None:
        x = X.copy()
        x[30, 1] = np.nan
        lazy = estimator(name).fit(blocks(x)).score_samples(blocks(Y, 5))
        with pytest.raises(ValueError, match=r"^X\b.*2.*1.*5"):
            lazy.compute()
        lazy = estimator(name).fit(blocks(X), sample_weight=blocks(-W)).score_samples(blocks(Y, 5))
        with pytest.raises(ValueError, match="weights must not be negative"):
            lazy.compute()

    def test_laplace_score_of_negative_densities_is_minus_infinity(self) -> None:
        y = Y.copy()
        y[:4] += 6
        fitted = KernelDensity(bandwidth=0.9, method="laplace").fit(blocks(X))
        for queries in (blocks(y, 5), y):
            with pytest.warns(cukde.NegativeDensityWarning):
                assert fitted.score(queries) == -np.inf


def test_by_a_distributed_scheduler() -> None:
    from distributed import Client, LocalCluster

    with (
        dask.config.set({"distributed.worker.profile.enabled": False}),
        LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=True),
        dask.config.set(scheduler=None),
    ):
        for name in ("sd", "cosine", "manhattan"):
            fitted = estimator(name).fit(blocks(X), sample_weight=blocks(W))
            want = estimator(name).fit(X, sample_weight=W)
            np.testing.assert_allclose(fitted.score_samples(Y), want.score_samples(Y), rtol=0, atol=1e-12)
            assert fitted.score(blocks(Y, 5)) == pytest.approx(want.score(Y), abs=1e-11)
        assert cukde.KernelDensity().fit(blocks(X)).sample(4).shape == (4, D)
