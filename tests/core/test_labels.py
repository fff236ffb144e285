"""What has labels is matched by them or refused: columns in any order, in any container, for all kinds of calls."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from matplotlib.figure import Figure
from sklearn.base import clone

import cukde
from tests.framed_calls import numbers

plot = importlib.import_module("cukde.plot")

RNG = np.random.default_rng(3)
SCALES = np.array([1.0, 100.0, 0.01])
X, Y, W = (
    RNG.normal(size=(30, 3)) * SCALES + [0, 500, 1],
    RNG.normal(size=(4, 3)) * SCALES + [0, 500, 1],
    RNG.random(30),
)
H = 0.4 * SCALES
BOUNDS, PERIODS = [None, (0.0, None), None], [7.0, None, None]

NAMES: dict[str, Any] = {
    "text": ["b", "a", "größe"],
    "permuted integers": [2, 0, 1],
    "integers": [5, 7, 1],
    "positions": [0, 1, 2],
    "tuples": pd.MultiIndex.from_tuples([("u", "y"), ("u", "x"), ("v", "x")]),
}
TEXT_ALONE = {
    "polars": lambda frame: pytest.importorskip("polars").DataFrame({k: v.to_numpy() for k, v in frame.items()}),
    "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
}
CONTAINERS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "nullable": lambda frame: frame.convert_dtypes(),
    "dask": lambda frame: dd.from_pandas(frame, npartitions=2),
    **TEXT_ALONE,
}

Moved = Callable[[], list[int]]


def bandwidth(form: str, columns: pd.Index, moved: Moved) -> Any:
    """H by the names of columns, in another order."""
    series = pd.Series(H, index=columns).iloc[moved()]
    if form == "series":
        return series
    if form == "mapping":
        return dict(series.items())
    if form == "covariance":
        return pd.DataFrame(np.diag(H**2), index=columns, columns=columns).iloc[moved(), moved()]
    row = pd.DataFrame([series.to_numpy()], columns=series.index)
    return row if form == "row" else TEXT_ALONE[form](row)


def ends(form: str, columns: pd.Index, moved: Moved) -> dict[str, Any]:
    """The bounds and periods by the names of columns, in another order."""
    places = moved()
    names = [columns[k] for k in places]
    if form == "mapping":
        return {
            "bounds": {columns[k]: BOUNDS[k] for k in places if BOUNDS[k]},
            "periods": {columns[k]: PERIODS[k] for k in places if PERIODS[k]},
        }
    periods = pd.Series(PERIODS, index=columns).iloc[places]  # whose None are NaN
    if form == "series":
        return {"bounds": pd.Series([BOUNDS[k] for k in places], index=pd.Index(names)), "periods": periods}
    table = pd.DataFrame([BOUNDS[k] or (None, None) for k in places], index=periods.index, columns=["low", "high"])
    return {"bounds": table if form == "rows" else table.T, "periods": periods.to_frame().T}


def drawn(axes: Any) -> list[np.ndarray]:
    """The numbers of pictures."""
    lines = [np.asarray(line.get_xydata()) for each in np.ravel(axes) for line in each.lines]
    return lines + [
        path.vertices for each in np.ravel(axes) for one in each.collections for path in one.get_paths() if len(path)
    ]


def _fitted(data: Any, h: Any, **domain: Any) -> Any:
    return clone(cukde.KernelDensity(bandwidth=h, **domain)).fit(data).score_samples(Y)


ENTRIES: dict[str, Callable[..., Any]] = {
    "kde": lambda data, h, **domain: cukde.kde(data, Y, h, **domain),
    "score": lambda data, h, **domain: cukde.score(data, Y, h, **domain),
    "evaluate_grid": lambda data, h, **domain: cukde.evaluate_grid(data, [[0.0], [500.0], [1.0, 1.1]], h, **domain),
    "laplace_kde": lambda data, h, **domain: cukde.laplace_kde(data, Y, h, **domain),
    "estimator": _fitted,
    "function": lambda data, h, **domain: _fitted(data, lambda X: h, **domain),
    "pairs": lambda data, h, **domain: drawn(
        plot.pairs(data, h, ax=Figure().subplots(3, 3), points=8, tau=False, **domain)
    ),
}


class TestColumns:
    @settings(max_examples=40, deadline=None, derandomize=True)
    @given(data=st.data())
    def test_arguments_by_column(self, data: st.DataObject) -> None:
        scheme = data.draw(st.sampled_from([*NAMES]))
        containers = [c for c in CONTAINERS if scheme == "text" or c not in TEXT_ALONE]
        container = data.draw(st.sampled_from([c for c in containers if (scheme, c) != ("tuples", "dask")]))
        entry = data.draw(st.sampled_from([*ENTRIES]))
        form = data.draw(
            st.sampled_from(["series", "mapping", "covariance", "row", *(TEXT_ALONE if scheme == "text" else ())])
        )
        frame = pd.DataFrame(X, columns=NAMES[scheme])

        def moved() -> list[int]:
            return data.draw(st.permutations(range(3)))

        h, domain, plain = bandwidth(form, frame.columns, moved), {}, {}
        if data.draw(st.booleans()):
            domain = ends(data.draw(st.sampled_from(["mapping", "series", "rows", "columns"])), frame.columns, moved)
            plain = {"bounds": BOUNDS, "periods": PERIODS}
        want = ENTRIES[entry](X, H, **plain)
        if (container, entry) == ("dask", "function"):  # functions take data in memory
            with pytest.raises(ValueError, match="rules take data in memory"):
                ENTRIES[entry](CONTAINERS[container](frame), h, **domain)
            return
        got = ENTRIES[entry](CONTAINERS[container](frame), h, **domain)
        for one, other in zip(got, want, strict=True) if entry == "pairs" else [(numbers(got), np.asarray(want))]:
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-300)

    @settings(max_examples=4, deadline=None, derandomize=True)
    @given(scheme=st.sampled_from([*NAMES]), moved=st.permutations(range(3)), kept=st.integers(0, 2))
    def test_columns_that_are_chosen(self, scheme: str, moved: list[int], kept: int) -> None:
        frame = pd.DataFrame(X, columns=NAMES[scheme])
        others, queries = [k for k in moved if k != kept], pd.DataFrame(Y, columns=frame.columns)
        rest = sorted(others)
        h = bandwidth("series", frame.columns, lambda: moved)
        got = cukde.conditional(frame, {frame.columns[kept]: Y[0, kept]}, queries.iloc[:, others], h)
        np.testing.assert_allclose(got, cukde.conditional(X, {kept: Y[0, kept]}, Y[:, rest], H), rtol=1e-12)
        got = cukde.marginal(frame, [frame.columns[k] for k in others], queries.iloc[:, others[::-1]], h)
        np.testing.assert_allclose(got, cukde.marginal(X, others, Y[:, others], H), rtol=1e-12)
        names = [frame.columns[k] for k in others]
        by_name, plain = h[names], H[others]
        got = plot.pairs(frame, by_name, columns=names, ax=Figure().subplots(2, 2), points=8)
        want = plot.pairs(X, plain, columns=others, ax=Figure().subplots(2, 2), points=8)
        for one, other in zip(drawn(got), drawn(want), strict=True):
            np.testing.assert_allclose(one, other)

    @pytest.mark.parametrize("chosen", [0, 3])
    def test_a_chosen_column_whose_name_may_be_a_position(self, chosen: int) -> None:
        """Names are integers, and the first of one column that is called 0 looks like no name."""
        frame, H = pd.DataFrame(X[:, :2], columns=[3, 0]), np.array([0.4, 0.7])
        k = [3, 0].index(chosen)
        want = cukde.marginal(X[:, :2], [k], Y[:, [k]], H)
        for queries in (Y[:, [k]], pd.DataFrame(Y[:, [k]]), pd.DataFrame(Y[:, [k]], columns=[chosen])):
            np.testing.assert_allclose(cukde.marginal(frame, [chosen], queries, H), want, rtol=1e-12)
        for other in ("z", 5):
            with pytest.raises(ValueError, match=rf"columns of X\[\[{chosen}\]\].*{chosen} missing and {other!r}"):
                cukde.marginal(frame, [chosen], pd.DataFrame(Y[:, [k]], columns=[other]), H)
        without_names = pd.DataFrame(X[:, :2])
        np.testing.assert_allclose(
            cukde.marginal(without_names, [k], pd.DataFrame(Y[:, [k]], columns=["z"]), H), want, rtol=1e-12
        )

    @pytest.mark.parametrize("scheme", NAMES)
    @pytest.mark.parametrize("container", ["pandas", "dask"])
    def test_queries_of_an_estimator_are_in_the_order_of_fit(self, scheme: str, container: str, tmp_path: Any) -> None:
        frame = pd.DataFrame(X, columns=NAMES[scheme])
        if (scheme, container) == ("tuples", "dask"):
            return
        fitted = cukde.KernelDensity(bandwidth=H).fit(CONTAINERS[container](frame))
        estimators = [fitted, copy.deepcopy(fitted)]
        if container == "pandas":
            fitted.save(tmp_path / "saved.npz")
            estimators.append(cukde.KernelDensity.load(tmp_path / "saved.npz"))
        for estimator in estimators:
            assert len(estimator.score_samples(frame)) == 30
            with pytest.raises(ValueError, match=r"order of fit|same order as they were in fit"):
                estimator.score_samples(frame.iloc[:, [1, 0, 2]])
        fitted.fit(X).score_samples(frame)

    @pytest.mark.parametrize("library", ["pandas", "nullable", *TEXT_ALONE])
    def test_a_function_takes_the_frame_of_fit(self, library: str) -> None:
        frame, w = CONTAINERS[library](pd.DataFrame(X, columns=[*"cab"])), pd.Series(W)
        given: list[Any] = []

        def deviations(data: Any, weights: Any = None) -> Any:
            given[:] = data, weights
            return {"b": H[2], "c": H[0], "a": H[1]} if library == "arrow" else data.std()

        fitted = cukde.KernelDensity(bandwidth=deviations).fit(frame)
        assert given[0] is frame
        assert given[1] is None
        want = H if library == "arrow" else X.std(axis=0, ddof=1)
        np.testing.assert_allclose(fitted.bandwidth_, want, rtol=1e-12)
        cukde.KernelDensity(bandwidth=deviations).fit(frame, sample_weight=w)
        assert given[0] is frame
        assert given[1] is w
        cukde.KernelDensity(bandwidth=lambda a, weights: a.std(axis=0)).fit(X, sample_weight=w)

    def test_labels_are_not_lost_in_a_file(self, tmp_path: Any) -> None:
        frame = pd.DataFrame(X, columns=[*"abc"])
        for h in (pd.Series(H, index=[*"abc"]), pd.DataFrame(np.diag(H**2), index=[*"abc"], columns=[*"abc"])):
            with pytest.raises(TypeError, match=r"(?s)bandwidth is .* whose labels would be lost: give an array"):
                cukde.KernelDensity(bandwidth=h).fit(frame).save(tmp_path / "h.npz")
        cukde.KernelDensity(bandwidth={"c": H[2], "b": H[1], "a": H[0]}).fit(frame).save(tmp_path / "h.npz")
        again = cukde.KernelDensity.load(tmp_path / "h.npz")
        np.testing.assert_array_equal(again.fit(frame).bandwidth_, H)

    @pytest.mark.parametrize(
        ("h", "message"),
        [
            ({"a": 1.0, "b": 1.0}, r"^bandwidth\b.*'c'"),
            (pd.Series(H, index=[*"abz"]), r"^bandwidth\b.*'c'.*'z'"),
            (pd.DataFrame([H], columns=[*"aab"]), "bandwidth has several columns called 'a'"),
            (pd.DataFrame(np.eye(3), index=[*"abz"], columns=[*"abc"]), r"^bandwidth\b.*'c'.*'z'"),
        ],
    )
    def test_names_that_do_not_fit(self, h: Any, message: str) -> None:
        frame = pd.DataFrame(X, columns=[*"abc"])
        for given_as in (h, lambda X: h):
            with pytest.raises(ValueError, match=message):
                cukde.KernelDensity(bandwidth=given_as).fit(frame)
        with pytest.raises(ValueError, match=message.replace("bandwidth", "h").replace("X", "the picture")):
            plot.pairs(frame, h, ax=Figure().subplots(3, 3))

    def test_a_frame_of_one_number_is_a_deviation_or_a_variance(self) -> None:
        frame = pd.DataFrame({"a": X[:, 0]})
        variance = pd.DataFrame({"a": [0.25]}, index=["a"])
        np.testing.assert_allclose(cukde.kde(frame, Y[:, 0], variance), cukde.kde(frame, Y[:, 0], 0.5))
        for h in (pd.DataFrame({"a": [0.5]}), pa.table({"a": [0.5]}), frame.std().to_frame()):
            for call in (lambda h=h: cukde.kde(frame, Y[:, 0], h), cukde.KernelDensity(bandwidth=h).fit):
                with pytest.raises(ValueError, match=r"must be a number for one column, the deviation; got a frame"):
                    call(*[frame][: call is not None and hasattr(call, "__self__")])

    @pytest.mark.parametrize("dtype", ["float64", "Float64", pd.ArrowDtype(pa.float64()), object])
    def test_ends_that_are_missing_are_open(self, dtype: Any) -> None:
        frame, want = pd.DataFrame(X, columns=[*"abc"]), cukde.kde(X, Y, H, bounds=BOUNDS, periods=PERIODS)
        table = pd.DataFrame({"low": [0.0, None, None], "high": None}, index=[*"bca"]).astype(dtype)
        periods = pd.Series([None, None, 7.0], index=[*"bca"], dtype=dtype)
        for bounds in (table, table.T):
            np.testing.assert_array_equal(cukde.kde(frame, Y, H, bounds=bounds, periods=periods), want)

    def test_a_name_that_is_there_twice(self) -> None:
        frame = pd.DataFrame(X, columns=["a", "a", "b"])
        np.testing.assert_array_equal(cukde.kde(frame, Y, H), cukde.kde(X, Y, H))
        for options in ({"h": {"a": 1.0, "b": 1.0}}, {"h": 1.0, "bounds": {"a": (None, None)}}):
            with pytest.raises(ValueError, match="X has several columns called 'a': rename them"):
                cukde.kde(frame, Y, **options)


class TestOneColumn:
    @settings(max_examples=8, deadline=None, derandomize=True)
    @given(data=st.data())
    def test_a_pair_or_a_number_and_the_name_of_a_series(self, data: st.DataObject) -> None:
        x = abs(X[:, 0])
        series = pd.Series(x, name="t")
        column = data.draw(st.sampled_from([x, x[:, None], series, series.to_frame(), pa.table({"t": x})]))
        named = not isinstance(column, np.ndarray)
        bound = data.draw(st.sampled_from([(0, None), [0, None], np.array([0, np.inf]), [(0, None)], {0: (0, None)}]))
        period = data.draw(st.sampled_from([24, 24.0, np.array(24), [24], {0: 24}, pd.Series({0: 24})]))
        h: Any = 0.3
        if named and data.draw(st.booleans()):
            bound, period = {"t": (0, None)}, pd.Series({"t": 24.0})
            h = data.draw(st.sampled_from([{"t": 0.3}, pd.Series({"t": 0.3})]))
        for options, plain in (({"bounds": bound}, {"bounds": [(0, None)]}), ({"periods": period}, {"periods": [24]})):
            want = cukde.kde(x, x, 0.3, **plain)
            np.testing.assert_allclose(numbers(cukde.kde(column, x, h, **options)), want, rtol=1e-12)
            if column is not x and column is not series:
                fitted = cukde.KernelDensity(bandwidth=h, **options).fit(column)
                np.testing.assert_allclose(np.exp(fitted.score_samples(x[:, None])), want, rtol=1e-9)
            ax = plot.density(column, h, ax=Figure().subplots(), band=None, **options)
            plain_ax = plot.density(x, 0.3, ax=Figure().subplots(), band=None, **plain)
            np.testing.assert_allclose(drawn(ax)[0], drawn(plain_ax)[0])


class TestRows:
    @settings(max_examples=2, deadline=None, derandomize=True)
    @given(seed=st.integers(0, 99), labels=st.sampled_from(["numbers", "text"]))
    def test_rows_in_another_order_are_refused(self, seed: int, labels: str) -> None:
        index = range(30) if labels == "numbers" else [f"row {k}" for k in range(30)]
        frame = pd.DataFrame(X, columns=[*"abc"], index=pd.Index(index)).assign(g=["p", "q"] * 15)
        a, g, weights = frame["a"], frame["g"], pd.Series(W, index=frame.index)
        order = np.random.default_rng(seed).permutation(30)
        order = order if (order != range(30)).any() else order[::-1]

        def of(column: Any) -> Any:
            return column.iloc[order]

        for call in (
            lambda w, g, a, f: cukde.kde(frame["a"], [0.0], 0.5, weights=w),
            lambda w, g, a, f: cukde.kde(frame["a"], [0.0], 0.5, local_factors=w + 1),
            lambda w, g, a, f: cukde.kernel_sum(frame["a"], f, [0.0], 0.5),
            lambda w, g, a, f: cukde.kendalltau(frame["b"], a).statistic,
            lambda w, g, a, f: cukde.kendall_matrix(frame[["b"]], f),
            lambda w, g, a, f: cukde.concordance(frame[["b"]], f).concordant,
            lambda w, g, a, f: cukde.KernelDensity().fit(frame[["a"]], sample_weight=w).score_samples([[0.0]]),
            lambda w, g, a, f: cukde.gaussian_kde(frame["a"], weights=w)([0.0]),
            lambda w, g, a, f: cukde.gaussian_kde(frame[["a"]].T, weights=w)([0.0]),
            lambda w, g, a, f: cukde.conditional(frame[[*"abc"]], {"b": a}, frame[["a", "c"]], 0.5),
            lambda w, g, a, f: cukde.conditional_quantile(frame[[*"abc"]], {"b": frame["b"], "c": a}, 0.5, 0.5),
            lambda w, g, a, f: cukde.conditional_sample(
                frame[[*"abc"]], {"b": w, "c": frame["c"]}, 0.5, random_state=0
            ),
            lambda w, g, a, f: drawn(plot.density(frame["a"], ax=Figure().subplots(), band=None, weights=w))[0],
            lambda w, g, a, f: drawn(plot.density(frame["a"], ax=Figure().subplots(), band=None, hue=g))[0],
            lambda w, g, a, f: drawn(plot.anomalies(frame["a"], ax=Figure().subplots(), hue=g))[0],
        ):
            want = call(weights, g, frame["a"], frame[["a", "b"]])
            assert want is not None
            with pytest.raises(ValueError, match=r"must have the index of .*: write \S+\.loc\["):
                call(of(weights), of(g), of(frame["a"]), of(frame[["a", "b"]]))
        aligned = of(weights).loc[a.index]  # what the message says to write
        np.testing.assert_array_equal(
            cukde.kde(a, [0.0], 0.5, weights=aligned), cukde.kde(X[:, 0], [0.0], 0.5, weights=W)
        )

    @pytest.mark.parametrize("container", ["pandas", "tuples", *TEXT_ALONE])
    def test_a_column_that_tells_groups_apart(self, container: str) -> None:
        frame, kind = pd.DataFrame({"a": X[:, 0], "g": ["p", "q"] * 15, "b": X[:, 1]}), "g"
        want = drawn(plot.contours(X[:, :2], ax=Figure().subplots(), points=8, hue=frame["g"]))
        if container == "tuples":
            frame.columns, kind = pd.MultiIndex.from_product([["u"], [*"agb"]]), ("u", "g")
        got = drawn(
            plot.contours(
                CONTAINERS.get(container, pd.DataFrame.copy)(frame), ax=Figure().subplots(), points=8, hue=kind
            )
        )
        for one, other in zip(got, want, strict=True):
            np.testing.assert_array_equal(one, other)

    def test_the_message_has_both_lists_and_what_works(self) -> None:
        a, w = pd.Series(X[:, 0]), pd.Series(W, index=[f"row {k}" for k in range(30)])
        with pytest.raises(ValueError, match=r"^weights\b"):
            cukde.kde(pd.Series([1.0, 2.0], index=["b", "a"]), [0.0], 1.0, weights=pd.Series([1.0, 2.0], index=[*"ab"]))
        labelled = a.set_axis([f"line {k}" for k in range(30)])
        with pytest.raises(ValueError, match=r"^weights\b") as raised:
            cukde.kde(labelled, [0.0], 0.5, weights=w)
        assert ".loc" not in str(raised.value)

    def test_frames_of_dask_that_are_sorted_by_another_index(self) -> None:
        frame = pd.DataFrame(X, columns=[*"abc"]).assign(w=W, id=np.random.default_rng(1).permutation(30) + 100)
        numbered, by_id = (dd.from_pandas(each, npartitions=2) for each in (frame, frame.set_index("id")))
        want = cukde.kde(X, Y, H, weights=W)
        for lazy in (numbered, by_id):
            np.testing.assert_allclose(np.asarray(cukde.kde(lazy[[*"abc"]], Y, H, weights=lazy["w"])), want)
            fitted = cukde.KernelDensity(bandwidth=H).fit(lazy[[*"abc"]], sample_weight=lazy["w"])
            np.testing.assert_allclose(np.exp(fitted.score_samples(Y)), want)
        data = by_id[[*"abc"]]
        for call in (
            lambda: cukde.kde(data, Y, H, weights=numbered["w"]),
            lambda: cukde.KernelDensity(bandwidth=H).fit(data, sample_weight=numbered["w"]),
            lambda: cukde.kendall_matrix(data, numbered[["w"]]),
        ):
            with pytest.raises(ValueError, match=r"must have the index of .*divided at 100.*and \w+ at 0.*\w+\.values"):
                call()
        assert plot.contours(numbered[["a", "b"]], weights=frame["w"], ax=Figure().subplots(), points=8)
        with pytest.raises(ValueError, match=r"^weights\b"):
            plot.contours(numbered[["a", "b"]], weights=frame["w"][::-1], ax=Figure().subplots())

    def test_coordinates_of_gaussian_kde(self) -> None:
        frame, other = pd.DataFrame(X, columns=[*"abc"]), pd.DataFrame(Y, columns=[*"abc"])[[*"cab"]]
        estimate, plain = cukde.gaussian_kde(frame.T), cukde.gaussian_kde(X.T)
        np.testing.assert_allclose(estimate(other.T), plain(Y.T), rtol=1e-12)
        np.testing.assert_allclose(estimate(other.iloc[0]), plain(Y[0]), rtol=1e-12)
        mean, deviations = pd.Series(Y[0], index=[*"abc"]), pd.Series(SCALES, index=[*"abc"])
        cov = pd.DataFrame(np.diag(SCALES**2), index=[*"abc"], columns=[*"abc"])[[*"bca"]].loc[[*"cab"]]
        got, want = estimate.integrate_gaussian(mean[[*"bca"]], cov), plain.integrate_gaussian(Y[0], np.diag(SCALES**2))
        np.testing.assert_allclose(got, want, rtol=1e-12)
        sides = (mean - deviations)[[*"cba"]], (mean + deviations)[[*"bac"]]
        got, want = estimate.integrate_box(*sides, rng=0), plain.integrate_box(Y[0] - SCALES, Y[0] + SCALES, rng=0)
        np.testing.assert_allclose(got, want)
        np.testing.assert_allclose(
            estimate.marginal([2, 0])(other.T.loc[[*"ac"]]), plain.marginal([2, 0])(Y[:, [2, 0]].T)
        )
        with pytest.raises(ValueError, match=r"^points\.T\b.*'a'.*'z'"):
            estimate(other.T.rename({"a": "z"}))
        with pytest.raises(ValueError, match="the same coordinates in the same order"):
            estimate.integrate_kde(cukde.gaussian_kde(frame[[*"cab"]].T))


class TestEqualData:
    @pytest.mark.parametrize("library", ["numpy", "pandas", *TEXT_ALONE])
    def test_they_leave_their_own_row_out(self, library: str) -> None:
        want = cukde.kde(X, X, H, leave_one_out=True)
        make = CONTAINERS.get(library, pd.DataFrame.to_numpy)
        for other in (pd.DataFrame(X, columns=[*"abc"]), pd.DataFrame(X, columns=[*"abc"])[[*"cab"]]):
            other = other if library != "numpy" else other[[*"abc"]]
            got = cukde.kde(make(pd.DataFrame(X, columns=[*"abc"])), make(other), H, leave_one_out=True)
            np.testing.assert_array_equal(numbers(got), want)
        with pytest.raises(ValueError, match="leave_one_out=True needs the data themselves"):
            cukde.kde(*(make(pd.DataFrame(a, columns=[*"abc"])) for a in (X, X[::-1])), H, leave_one_out=True)

    def test_with_missing_values(self) -> None:
        spoilt, weights = X.copy(), W.copy()
        spoilt[3, 1] = weights[5] = np.nan
        kept = [k for k in range(30) if k not in (3, 5)]
        want = cukde.kde(X[kept], X[kept], H, weights=W[kept], leave_one_out=True)
        options = {"weights": weights, "nan_policy": "omit", "leave_one_out": True}
        for again in (spoilt, spoilt.copy()):
            got = cukde.kde(spoilt, again, H, **options)
            np.testing.assert_allclose(got[kept], want, rtol=1e-12)
            assert np.isnan(got[[3, 5]]).all()

    def test_of_another_dtype_or_a_column_as_a_vector(self) -> None:
        x = X[:, :1].astype(np.float32)
        want = cukde.kde(x.astype(float), None, 0.5, leave_one_out=True)
        np.testing.assert_allclose(cukde.kde(x, x.astype(float), 0.5, leave_one_out=True), want, rtol=1e-12)
        assert cukde.score(x, x[:, 0].copy(), 0.5, leave_one_out=True).shape == (30,)
