"""Frames, series and arrays of other libraries: by names in, as they came out, whichever way values are missing."""

from __future__ import annotations

import importlib.util
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cukde
from cukde.core.frames import libraries
from tests.array_api import Tensor
from tests.conftest import Backend

RNG = np.random.default_rng(11)
X, Y, W = RNG.normal(size=(30, 2)), RNG.normal(size=(4, 2)), RNG.uniform(0.5, 2, 30)
FRAME = pd.DataFrame(X, columns=["a", "b"])
QUERIES = pd.DataFrame(Y, columns=["a", "b"], index=["p", "q", "r", "s"])[["b", "a"]]


def _polars(frame: pd.DataFrame) -> Any:
    polars = pytest.importorskip("polars", reason="install the test extra")
    return polars.DataFrame({name: frame[name].to_numpy() for name in frame.columns})


LIBRARIES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "polars": _polars,
    "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
}


def as_pandas(result: Any) -> Any:
    return result if isinstance(result, pd.Series | pd.DataFrame) else pd.DataFrame(result.to_pandas())


class TestNames:
    def test_columns_are_put_in_order(self, backend: Backend) -> None:
        want = backend.asnumpy(cukde.kde(backend.asarray(X), backend.asarray(Y), [0.5, 1.0]))
        for h in ([0.5, 1.0], {"b": 1.0, "a": 0.5}, pd.Series({"b": 1.0, "a": 0.5})):
            got = cukde.kde(FRAME, QUERIES, h)
            np.testing.assert_allclose(got, want, rtol=1e-12)
        assert got.index.tolist() == ["p", "q", "r", "s"]
        assert got.name == "density"

    @pytest.mark.parametrize("library", LIBRARIES)
    def test_a_row_a_query_has_the_names_of_the_data(self, library: str) -> None:
        make = LIBRARIES[library]
        log_density, gradient = cukde.density_and_score(make(FRAME), make(QUERIES), 0.5)
        want = cukde.density_and_score(X, Y, 0.5)
        assert libraries.library_of(gradient) is libraries.library_of(make(FRAME))
        np.testing.assert_array_equal(as_pandas(log_density).to_numpy().ravel(), want[0])
        assert as_pandas(gradient).columns.tolist() == ["a", "b"]
        np.testing.assert_array_equal(as_pandas(gradient), want[1])

    @pytest.mark.parametrize(
        ("queries", "message"),
        [
            (QUERIES[["b"]], r"Y must have the columns of X, in any order; 'a' missing: "),
            (QUERIES.assign(c=1.0), r"^Y\b.*'c'"),
            (QUERIES.rename(columns={"a": "A"}), r"^Y\b.*'a'.*'A'"),
            (QUERIES.set_axis(["b", "b"], axis=1), r"Y has several columns called 'b': rename them"),
        ],
    )
    def test_other_names_are_errors(self, queries: pd.DataFrame, message: str) -> None:
        for data in (FRAME, dd.from_pandas(FRAME, npartitions=2)):
            with pytest.raises(ValueError, match=message):
                cukde.kde(data, queries, 0.5)

    def test_positions_where_there_are_no_names(self) -> None:
        want = cukde.kde(X, Y, 0.5)
        for data, queries in ((FRAME, Y), (FRAME, pd.DataFrame(Y)), (X, QUERIES[["a", "b"]]), (pd.DataFrame(X), Y)):
            np.testing.assert_array_equal(cukde.kde(data, queries, 0.5), want)
        numbered = pd.DataFrame(X, columns=[5, 7])  # names all the same
        with pytest.raises(ValueError, match=r"^Y\b.*5.*9"):
            cukde.kde(numbered, pd.DataFrame(Y, columns=[7, 9]), 0.5)
        np.testing.assert_array_equal(cukde.kde(pd.DataFrame(X), pd.DataFrame(Y)[[1, 0]], 0.5), want)

    def test_a_covariance_by_names(self) -> None:
        H = np.array([[0.5, 0.1], [0.1, 0.8]])
        by_name = pd.DataFrame(H, index=["a", "b"], columns=["a", "b"])
        want = cukde.kde(X, Y, H)
        for moved in (by_name, by_name[["b", "a"]], by_name.loc[["b", "a"]], by_name.loc[["b", "a"], ["b", "a"]]):
            np.testing.assert_array_equal(cukde.kde(FRAME, QUERIES, moved), want)

    def test_domains_and_axes_by_names(self) -> None:
        want = cukde.kde(X, Y, 0.5, bounds=[None, (-9, None)], periods=[7.0, None])
        got = cukde.kde(FRAME, QUERIES, 0.5, bounds={"b": (-9, None)}, periods={"a": 7.0})
        np.testing.assert_array_equal(got, want)
        axes = [np.linspace(-1, 1, 3), np.linspace(0, 1, 3)]
        for given in ({"b": axes[1], "a": axes[0]}, pd.DataFrame({"b": axes[1], "a": axes[0]})):
            np.testing.assert_array_equal(cukde.evaluate_grid(FRAME, given, 0.5), cukde.evaluate_grid(X, axes, 0.5))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"h": {"a": 1.0}}, r"h must have a value for each column of X by its name, .* got none for 'b'"),
            ({"h": {"a": 1.0, "b": 1.0, "c": 1.0}}, r"^h\b"),
            ({"h": pd.Series({"a": 1.0, "c": 2.0})}, r"^h\b.*'b'.*'c'"),
            ({"h": 1.0, "bounds": {"c": (0, 1)}}, r"^bounds\b.*'c'"),
        ],
    )
    def test_mappings_that_do_not_fit(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            cukde.kde(FRAME, QUERIES, **options)

    def test_rows_that_go_together_have_the_same_labels(self) -> None:
        labelled = FRAME.set_axis([f"row {k}" for k in range(30)])
        want = cukde.kde(X, Y, 0.5, weights=W)
        for data in (FRAME, labelled):
            weights = pd.Series(W, index=data.index)
            np.testing.assert_array_equal(cukde.kde(data, QUERIES, 0.5, weights=weights), want)
            with pytest.raises(ValueError, match=r"^weights\b"):
                cukde.kde(data, QUERIES, 0.5, weights=weights.sort_values())
        np.testing.assert_array_equal(cukde.kde(labelled, QUERIES, 0.5, weights=pd.Series(W)), want)

    def test_frames_of_dask(self) -> None:
        want = cukde.kde(X, Y, 0.5)
        for kind in (FRAME, FRAME.convert_dtypes(), FRAME.convert_dtypes(dtype_backend="pyarrow")):
            lazy = dd.from_pandas(kind, npartitions=2)
            for queries in (QUERIES, dd.from_pandas(QUERIES, npartitions=1), Y):
                np.testing.assert_allclose(np.asarray(cukde.kde(lazy, queries, {"b": 0.5, "a": 0.5})), want)
        with pytest.raises(ValueError, match='nan_policy must be "raise" beside Dask collections'):
            cukde.kde(lazy, QUERIES, 0.5, nan_policy="omit")
        with pytest.raises(TypeError, match=r"^X\b.*'t'"):
            cukde.kde(dd.from_pandas(FRAME.assign(t="x"), npartitions=2), QUERIES.assign(t=1.0), 0.5)


MIXED = pd.DataFrame({"yes": X[:, 0] > 0, "count": np.arange(30) % 7, "x": X[:, 1]})
KINDS: dict[str, Callable[[], Any]] = {
    "mixed": lambda: MIXED,
    "nullable": MIXED.convert_dtypes,
    "arrow": lambda: MIXED.convert_dtypes(dtype_backend="pyarrow"),
    "sparse": lambda: MIXED.astype({"x": pd.SparseDtype(float)}),
    "polars": lambda: _polars(MIXED),
    "table": lambda: pa.Table.from_pandas(MIXED),
}


class TestDtypes:
    @pytest.mark.parametrize("kind", KINDS)
    def test_columns_of_numbers(self, backend: Backend, kind: str) -> None:
        a = backend.asarray(MIXED.to_numpy(dtype=float))
        frame = KINDS[kind]()
        got = np.asarray(cukde.kde(frame, frame, 0.7))
        np.testing.assert_allclose(got, backend.asnumpy(cukde.kde(a, a, 0.7)), rtol=1e-12)
        np.testing.assert_allclose(
            as_pandas(cukde.kendall_matrix(frame)), backend.asnumpy(cukde.kendall_matrix(a)), rtol=1e-12
        )
        fitted = cukde.KernelDensity(bandwidth=0.7).fit(frame)
        np.testing.assert_allclose(np.asarray(fitted.score_samples(frame)), np.log(got), rtol=1e-9)

    def test_single_precision_stays(self) -> None:
        for dtype in ("float32", "Float32", pd.ArrowDtype(pa.float32())):
            assert cukde.kde(FRAME.astype(dtype), FRAME.astype(dtype), 0.5).dtype == np.float32

    @pytest.mark.parametrize("values", [["x", "y"], pd.to_datetime(["2020", "2021"]), pd.Categorical([1, 2]), [1, "2"]])
    def test_other_columns_are_refused_by_name(self, values: Any) -> None:
        frame = pd.DataFrame({"a": [1.0, 2.0], "b": values})
        functions = [cukde.bandwidth.scott, cukde.kendall_matrix, cukde.modes]
        if not isinstance(values, pd.Categorical) and list(values) != ["x", "y"]:  # which are categories
            functions += [cukde.KernelDensity().fit, cukde.bandwidth.cross_validate]
        for function in functions:
            with pytest.raises(TypeError, match=r"must hold real numbers .* its column 'b' has dtype"):
                function(frame, 0.5) if function is cukde.modes else function(frame)
        with pytest.raises(TypeError, match=r"^X\b"):
            cukde.score(frame["b"], [1.0], 0.5)

    def test_samples_that_numpy_compares(self) -> None:
        text = pd.Series(["a", "c", "b", "d"])
        assert cukde.kendalltau(text, pd.array([1, 3, 2, 4], "Int64")).statistic == 1.0
        nullable = pd.Series([2, None, 1, 4], dtype="Int64")
        assert np.isnan(cukde.kendalltau(text, nullable).statistic)
        assert cukde.kendalltau(text, nullable, nan_policy="omit").statistic == pytest.approx(1 / 3)

    def test_frames_of_samples_are_paired_by_their_names(self) -> None:
        assert cukde.kendalltau(FRAME, FRAME[["b", "a"]], axis=0).statistic.tolist() == [1.0, 1.0]
        other = FRAME.set_axis(["c", "d"], axis=1)  # other variables, in their order
        assert cukde.kendalltau(FRAME, other, axis=0).statistic.tolist() == [1.0, 1.0]
        with pytest.raises(ValueError, match=r"^y\b.*'b'.*'d'"):
            cukde.kendalltau(FRAME, FRAME.set_axis(["a", "d"], axis=1), axis=0)


class TestMissingValues:
    @pytest.mark.parametrize("kind", ["float64", "Float64", "double[pyarrow]", "polars"])
    def test_the_error_names_column_and_row(self, kind: str) -> None:
        frame = FRAME.set_axis([f"row {k}" for k in range(30)])
        frame.loc["row 7":"row 9", "b"] = np.nan
        label = r" \(label 'row 7'\)"
        if kind == "polars":
            polars, label = pytest.importorskip("polars", reason="install the test extra"), ""
            frame = polars.DataFrame({"a": X[:, 0], "b": [None if b != b else b for b in frame["b"]]})
        else:
            frame = frame.astype(kind)
        message = rf"X must not have missing values; its column 'b' has 3, the first in row 7{label}: drop or fill"
        for call in (
            lambda: cukde.kde(frame, Y, 0.5),
            lambda: cukde.bandwidth.scott(frame),
            lambda: cukde.KernelDensity().fit(frame),
        ):
            with pytest.raises(ValueError, match=message):
                call()

    def test_rows_are_left_out_with_all_that_goes_with_them(self, backend: Backend) -> None:
        x, y, w, factors = X.copy(), Y.copy(), W.copy(), np.linspace(0.5, 2, 30)
        x[3, 1] = w[5] = factors[7] = y[2, 0] = np.nan
        kept = [k for k in range(30) if k not in (3, 5, 7)]
        want = cukde.kde(X[kept], Y, 0.5, weights=W[kept], local_factors=factors[kept])
        arrays = (backend.asarray(a) for a in (x, y, w, factors))
        a, b, c, f = arrays
        got = backend.asnumpy(cukde.kde(a, b, 0.5, weights=c, local_factors=f, nan_policy="omit"))
        assert np.isnan(got[2])
        np.testing.assert_allclose(np.delete(got, 2), np.delete(want, 2), rtol=1e-12)
        frame = pd.DataFrame(x, columns=["a", "b"]).convert_dtypes()
        options = {"weights": pd.Series(w), "local_factors": factors, "nan_policy": "omit"}
        series = cukde.kde(frame, pd.DataFrame(y, columns=["a", "b"], index=QUERIES.index), 0.5, **options)
        np.testing.assert_allclose(series, got, rtol=1e-12)
        assert series.index[series.isna()].tolist() == ["r"]

    def test_data_stay_their_own_queries(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen = []
        problem_of = sys.modules["cukde.density.api"].problem_of
        monkeypatch.setattr(
            "cukde.density.api.problem_of", lambda X, Y, *a, **k: seen.append(Y is X) or problem_of(X, Y, *a, **k)
        )
        spoilt = FRAME.mask(FRAME["b"] > 1.5)
        cukde.kde(FRAME, FRAME, 0.5)
        cukde.score(Tensor(X), Tensor(X), 0.5)
        same = Tensor(X)
        cukde.score(same, same, 0.5)
        got = cukde.kde(spoilt, spoilt, 0.5, nan_policy="omit")
        assert seen == [True, False, True, True]
        kept = spoilt.dropna()
        np.testing.assert_array_equal(got.dropna(), cukde.kde(kept, kept, 0.5))
        assert got.index.equals(FRAME.index)

    def test_results_of_the_data_have_all_of_their_rows(self) -> None:
        frame = FRAME.copy()
        frame.loc[4, "a"] = np.nan
        kept = X[[k for k in range(30) if k != 4]]
        moved = cukde.debias(frame, 0.5, nan_policy="omit")
        assert moved.isna().all(axis=1).to_numpy().nonzero()[0].tolist() == [4]
        np.testing.assert_array_equal(moved.dropna(), cukde.debias(kept, 0.5))
        found = cukde.modes(frame, 0.5, nan_policy="omit")
        assert found.labels[4] == -1
        assert found.points.columns.tolist() == ["a", "b"]
        np.testing.assert_array_equal(found.labels.drop(4), cukde.modes(kept, 0.5).labels)
        sums = cukde.kernel_sum(
            FRAME, pd.DataFrame({"u": W, "v": np.where(W > 1, W, np.nan)}), Y, 0.5, nan_policy="omit"
        )
        np.testing.assert_allclose(sums[:, 0], cukde.kernel_sum(X[W > 1], W[W > 1], Y, 0.5), rtol=1e-12)

    def test_samples_have_a_policy_of_their_own(self) -> None:
        frame = FRAME.convert_dtypes()
        frame.loc[4, "a"] = pd.NA
        assert cukde.kendall_matrix(frame).isna().sum().sum() == 3
        assert (
            cukde.kendall_matrix(frame, nan_policy="omit").loc["a", "b"]
            == cukde.kendalltau(*np.delete(X, 4, axis=0).T).statistic
        )

    def test_what_is_refused(self) -> None:
        with pytest.raises(ValueError, match="nan_policy must be one of 'raise', 'omit'; got 'propagate'"):
            cukde.kde(X, Y, 0.5, nan_policy="propagate")
        with pytest.raises(ValueError, match='nan_policy must be "raise" for stacks'):
            cukde.kde(X[None], Y, 0.5, nan_policy="omit")
        with pytest.raises(ValueError, match=r"^X\b"):
            cukde.kde(X * np.nan, Y, 0.5, nan_policy="omit")
        with pytest.raises(ValueError, match=r"^X\b"):
            cukde.kde(np.where(X > 0, X, np.inf), Y, 0.5, nan_policy="raise")


class TestOutputs:
    def test_matrices_have_labels_both_ways(self) -> None:
        other = pd.DataFrame(X**2, columns=["u", "v"])
        tau = cukde.kendall_matrix(FRAME, other, pvalue=True).statistic
        assert (tau.index.tolist(), tau.columns.tolist()) == (["a", "b"], ["u", "v"])
        assert cukde.kendall_matrix(FRAME).loc["a", "a"] == 1.0
        assert cukde.concordance(FRAME, X).concordant.columns.tolist() == [0, 1]

    def test_one_option_for_all(self) -> None:
        want = cukde.score(X, Y, 0.5)
        with cukde.set_output("pandas"):
            got = cukde.score(X, Y, 0.5)
            assert isinstance(got, pd.DataFrame)
            assert isinstance(cukde.hdr_threshold(X, 0.5), float)  # whose own calls see arrays
            assert isinstance(cukde.KernelDensity().fit(X).score_samples(Y), np.ndarray)
        np.testing.assert_array_equal(got, want)
        with cukde.set_output("array"):
            assert isinstance(cukde.kde(FRAME, QUERIES, 0.5), np.ndarray)
            assert isinstance(cukde.kde(Tensor(X), Tensor(Y), 0.5), np.ndarray)
        assert isinstance(cukde.kde(FRAME, QUERIES, 0.5), pd.Series)
        with pytest.raises(ValueError, match=r"^kind\b"):
            cukde.set_output("numpy")
        if importlib.util.find_spec("polars"):
            with cukde.set_output("polars"):
                assert cukde.score(X, Y, 0.5).columns == ["x0", "x1"]

    def test_arrays_of_other_libraries(self, backend: Backend) -> None:
        x, y, w = Tensor(X), Tensor(Y), Tensor(W)
        want = backend.asnumpy(cukde.kde(*map(backend.asarray, (X, Y)), 0.5, weights=backend.asarray(W)))
        got = cukde.kde(x, y, 0.5, weights=w)
        assert isinstance(got, Tensor)
        np.testing.assert_allclose(got.kept, want, rtol=1e-12)
        assert isinstance(cukde.kde(x, Y, 0.5), Tensor)  # as the data came, where queries say nothing
        assert isinstance(cukde.hdr_threshold(x, 0.5, mass=[0.5, 0.9]), Tensor)
        assert isinstance(cukde.bandwidth.cross_validate(x).bandwidth, Tensor)
        assert isinstance(cukde.kde(x, QUERIES, 0.5), pd.Series)
        assert isinstance(cukde.kendalltau(x, x).statistic, Tensor)

    def test_array_api_strict(self) -> None:
        xp = pytest.importorskip("array_api_strict", reason="install the test extra")
        got = cukde.score(xp.asarray(X), xp.asarray(Y), 0.5)
        assert type(got) is type(xp.asarray(0.0))
        np.testing.assert_array_equal(np.from_dlpack(got), cukde.score(X, Y, 0.5))

    def test_tensors(self) -> None:
        torch = pytest.importorskip("torch", reason="PyTorch is not installed: no part of this library needs it")
        x, y = torch.from_numpy(X), torch.from_numpy(Y)
        got = cukde.kde(x, y, 0.5)
        np.testing.assert_array_equal(got.numpy(), cukde.kde(X, Y, 0.5))
        with pytest.raises(TypeError, match=r"Y must not require a gradient, which would be lost: write Y\.detach\(\)"):
            cukde.kde(x, y.requires_grad_(), 0.5)
        with pytest.raises(TypeError, match=r"X must hold real numbers in memory .* dtype torch\.bfloat16"):
            cukde.kde(x.to(torch.bfloat16), Y, 0.5)

    def test_a_gradient_would_be_lost(self) -> None:
        tracked = Tensor(X)
        tracked.requires_grad = True
        with pytest.raises(TypeError, match=r"X must not require a gradient, .* X\.detach\(\)"):
            cukde.kde(tracked, Y, 0.5)

    def test_calls_that_lack_an_argument(self) -> None:
        for call in (
            lambda: cukde.kde(FRAME, QUERIES),
            lambda: cukde.kde(nan_policy="omit"),
            lambda: cukde.kde(FRAME, X=1),
        ):
            with pytest.raises(TypeError, match=r"positional argument|multiple values"):
                call()


class OnDevice:
    """A frame or a column as of cuDF, of which each column may lack values; its arrays are NumPy's here."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.shape, self.ndim, self.index = frame.shape, frame.ndim, frame.index
        self.columns = types.SimpleNamespace(to_pandas=lambda: frame.columns) if frame.ndim == 2 else None

    @property
    def iloc(self) -> Any:
        frame = self._frame

        class Rows:
            def __getitem__(self, key: Any) -> OnDevice:
                return OnDevice(frame.iloc[key])

        return Rows()

    @property
    def dtype(self) -> Any:
        return getattr(self._frame.dtype, "numpy_dtype", self._frame.dtype)

    @property
    def has_nulls(self) -> bool:
        return bool(self._frame.isna().any())

    def fillna(self, value: Any) -> OnDevice:
        return OnDevice(self._frame.fillna(value))

    def isna(self) -> OnDevice:
        return OnDevice(self._frame.isna())

    def to_cupy(self) -> np.ndarray:
        return self._frame.to_numpy(dtype=self.dtype)


def test_frames_on_a_gpu(emulated_device: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of cuDF, by its documented methods: it is not installed where tests run."""
    made = types.SimpleNamespace(Series=pd.Series, DataFrame=pd.DataFrame)
    monkeypatch.setitem(sys.modules, "cudf", made)
    monkeypatch.setattr(libraries, "_of_kind", lambda kind: libraries.named("cudf") if kind is OnDevice else None)
    frame, queries = OnDevice(FRAME.astype({"b": "Float64"})), OnDevice(QUERIES)
    got = cukde.kde(frame, queries, {"b": 0.5, "a": 1.0})
    np.testing.assert_allclose(got, cukde.kde(X, Y, [1.0, 0.5]), rtol=1e-12)
    assert got.index is QUERIES.index
    lacking = FRAME.astype({"b": "Float64"})
    lacking.loc[3, "b"] = pd.NA
    lacking.index = [f"row {k}" for k in range(30)]
    lacks = OnDevice(lacking)
    lacks.index = types.SimpleNamespace(to_pandas=lambda: lacking.index)
    with pytest.raises(ValueError, match=r"its column 'b' has 1, the first in row 3 \(label 'row 3'\)"):
        cukde.kde(lacks, queries, 1.0)
    with pytest.raises(TypeError, match=r"^X\b.*'b'"):
        cukde.kde(OnDevice(FRAME.astype({"b": object})), queries, 1.0)


def test_threads_do_not_share_what_a_call_returns() -> None:
    """The option is the process's; a call of the library's own sees arrays whatever another thread has said."""
    results: list[Any] = []

    def work() -> None:
        results.extend(cukde.hdr_threshold(X, 0.5) for _ in range(20))

    with cukde.set_output("pandas"):
        thread = threading.Thread(target=work)
        thread.start()
        results.extend(cukde.kde(X, Y, 0.5) for _ in range(20))
        thread.join()
    assert {type(each) for each in results} == {np.float64, pd.Series}
