"""What arguments hold: exact integers, missing values and categories of any library; what is no array; and results."""

from __future__ import annotations

import collections
import copy
import datetime
import decimal
import importlib.util
import pickle
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
import scipy.stats
from hypothesis import given, settings, strategies as st

import cukde
from tests.array_api import Tensor
from tests.framed_calls import FRAMED, LIBRARIES, framed
from tests.malformed_calls import Lazy
from tests.public_calls import CALLS, Draw

RNG = np.random.default_rng(5)
X = RNG.normal(size=(12, 2))
EXAMPLES = settings(max_examples=12, deadline=None, derandomize=True, database=None)

Columns = dict[str, tuple[str, list[Any]]]
"""Dtypes and values, None where one is missing."""


def _rows(columns: Columns) -> list[tuple[Any, ...]]:
    return list(zip(*(values for _, values in columns.values()), strict=True))


def _polars(columns: Columns) -> Any:
    import polars

    kinds = {"int64": polars.Int64, "uint64": polars.UInt64, "float64": polars.Float64}
    return polars.DataFrame(
        {name: polars.Series(values, dtype=kinds[kind]) for name, (kind, values) in columns.items()}
    )


def _nullable(columns: Columns) -> pd.DataFrame:
    kinds = {"int64": "Int64", "uint64": "UInt64", "float64": "Float64"}
    return pd.DataFrame({name: pd.array(values, kinds[kind]) for name, (kind, values) in columns.items()})


def _arrow(columns: Columns) -> pa.Table:
    return pa.table({name: pa.array(values, getattr(pa, kind)()) for name, (kind, values) in columns.items()})


CONTAINERS: dict[str, Callable[[Columns], Any]] = {
    "pandas, nullable": _nullable,
    "pandas, Arrow": lambda columns: _arrow(columns).to_pandas(types_mapper=pd.ArrowDtype),
    "pandas, objects": lambda columns: pd.DataFrame(
        {name: values for name, (_, values) in columns.items()}, dtype=object
    ),
    "Arrow": _arrow,
    "lists": _rows,
    "objects": lambda columns: np.array(_rows(columns), object),
    "pandas.NA": lambda columns: np.array([[pd.NA if v is None else v for v in row] for row in _rows(columns)], object),
}
if importlib.util.find_spec("polars"):
    CONTAINERS["polars"] = _polars
if importlib.util.find_spec("narwhals"):
    import narwhals

    CONTAINERS["a frame that hands its columns to Arrow"] = lambda columns: narwhals.from_native(_nullable(columns))


def _numbers(kind: str, centre: int | None = None) -> st.SearchStrategy[Any]:
    """Numbers that float64 does not tell apart, all of them near ``centre``."""
    if kind == "float64":
        return st.sampled_from([-1.5, 0.0, 2.0**53, 2.0**53 + 2, 2.0**63, float("inf")])
    low, high = (0, 2**64 - 1) if kind == "uint64" else (-(2**63), 2**63 - 1)
    centres = (0, 2**53, 2**62, high, low) if centre is None else (centre,)
    near = st.tuples(st.sampled_from(centres), st.integers(-3, 3)).map(sum)
    return near.map(lambda v: min(max(v, low), high))


@st.composite
def tables(draw: st.DrawFn, kinds: Sequence[str] = ("int64", "uint64", "float64")) -> Columns:
    n = draw(st.integers(3, 7))
    out = {}
    for name in "ab":
        kind = draw(st.sampled_from(kinds))
        out[name] = kind, draw(st.lists(st.none() | _numbers(kind), min_size=n, max_size=n))
    return out


def _tau(x: list[Any], y: list[Any]) -> float:
    """Kendall's tau by Python's comparisons, which are exact."""
    kept = [(a, b) for a, b in zip(x, y, strict=True) if a is not None and b is not None]
    ranks = [[sorted(set(side)).index(v) for v in side] for side in zip(*kept, strict=True)]
    return float(scipy.stats.kendalltau(*ranks).statistic) if len(kept) > 1 else np.nan


def _matrix(result: Any) -> np.ndarray:
    return np.asarray(result.to_pandas() if isinstance(result, pa.Table) else result, float)


class TestExactIntegers:
    @pytest.mark.filterwarnings("ignore:.* sample arguments is too small:RuntimeWarning")
    @pytest.mark.filterwarnings("ignore:One or more sample arguments is too small:RuntimeWarning")
    @pytest.mark.parametrize("container", CONTAINERS)
    def test_kendall_compares_them_exactly(self, container: str) -> None:
        @EXAMPLES
        @given(tables())
        def check(columns: Columns) -> None:
            table = CONTAINERS[container](columns)
            (_, a), (_, b) = columns.values()
            got = _matrix(cukde.kendall_matrix(table, nan_policy="omit"))
            np.testing.assert_allclose(got, [[_tau(a, a), _tau(a, b)], [_tau(b, a), _tau(b, b)]], rtol=1e-12)
            alone = [CONTAINERS[container]({name: column}) for name, column in columns.items()]
            pair = cukde.kendalltau(alone[0], alone[1], nan_policy="omit")
            np.testing.assert_allclose(float(pair.statistic), _tau(a, b), rtol=1e-12)

        check()

    def test_decimals_and_more_than_64_bits(self) -> None:
        values = [decimal.Decimal("0.1"), None, decimal.Decimal("0.1000000000000000000001"), decimal.Decimal(3)]
        huge = [2**100, None, 2**100 + 1, 2**100 + 2]
        made = [pd.Series(each, dtype=object) for each in (values, huge)] + [pa.array(values, pa.decimal128(38, 22))]
        made += [pd.Series(made[-1].to_pandas(), dtype=pd.ArrowDtype(made[-1].type))]
        if importlib.util.find_spec("polars"):
            import polars

            made += [polars.Series(huge, dtype=polars.Int128), polars.Series(values, dtype=polars.Decimal(38, 22))]
        for x in made:
            assert cukde.kendalltau(x, range(4), nan_policy="omit").statistic == 1
        want = cukde.kde([0.1, 0.1, 3.0], [1.0], 0.5)
        for x in (made[0], made[2], made[3], *made[5:]):
            np.testing.assert_allclose(cukde.kde(x, [1.0], 0.5, nan_policy="omit"), want)
        with pytest.raises(ValueError, match=r"^X\b"):
            cukde.kde(made[1], [1.0], 0.5, nan_policy="omit")
        nothing = pa.table({"a": pa.nulls(4), "b": range(4)})
        assert np.isnan(_matrix(cukde.kendall_matrix(nothing, nan_policy="omit"))).sum() == 3

    def test_masked_integers(self) -> None:
        masked = np.ma.array([[2**53, 1], [2**53 + 1, 2], [2**53 + 2, 3], [7, 0]], mask=np.arange(8).reshape(4, 2) == 6)
        assert cukde.kendall_matrix(masked, nan_policy="omit").tolist() == [[1, 1], [1, 1]]
        with pytest.raises(ValueError, match=r"A must not have masked entries; write nan_policy=\"omit\" where"):
            cukde.kendall_matrix(masked)
        with pytest.raises(ValueError, match=r"or drop those rows, numpy\.ma\.compress_rows\(A\)"):
            cukde.concordance(masked)

    @pytest.mark.parametrize("container", CONTAINERS)
    def test_densities_have_them_all_or_say_so(self, container: str) -> None:
        """And what the message says to write gives the density."""
        queries, h = np.array([[0.0, 0.5], [1.0, -1.0]]), 1.5

        @EXAMPLES
        @given(tables(kinds=("int64", "uint64")))
        def check(columns: Columns) -> None:
            kept = [row for row in _rows(columns) if None not in row]
            if not kept:
                return
            origin = min(min(row) for row in kept)
            is_exact = all(int(float(v)) == v for row in _rows(columns) for v in row if v is not None)
            moved = {
                name: ("float64", [None if v is None else float(v - origin) for v in values])
                for name, (_, values) in columns.items()
            }
            want = cukde.kde(np.array([[v - origin for v in row] for row in kept], float), queries, h)
            got = cukde.kde(CONTAINERS[container](moved), queries, h, nan_policy="omit")
            np.testing.assert_allclose(np.asarray(got, float), want, rtol=1e-9)
            try:
                there = cukde.kde(CONTAINERS[container](columns), queries, h, nan_policy="omit")
            except ValueError as error:
                if is_exact or "X must hold integers that float64 has" not in str(error):
                    raise
            else:
                assert is_exact
                plain = cukde.kde(np.array(kept, np.float64), queries, h)
                np.testing.assert_allclose(np.asarray(there, float), plain, rtol=1e-9)

        check()

    @pytest.mark.parametrize(
        "function", ["kde", "cdf", "evaluate_grid", "conditional", "scott", "modes", "fit", "gaussian_kde", "pwpa"]
    )
    def test_every_entry_refuses_what_it_would_round(self, function: str) -> None:
        ids = 1000 * np.arange(8) + 2**60 + 1
        calls: dict[str, Callable[[Any], Any]] = {
            "kde": lambda a: cukde.kde(X[:, 0], a, 0.5),
            "cdf": lambda a: cukde.cdf(a, X[:, 0], 0.5),
            "evaluate_grid": lambda a: cukde.evaluate_grid(X[:, :1], [a], 0.5),
            "conditional": lambda a: cukde.conditional(X, {0: a}, X[:8, 1:], 0.5),
            "scott": cukde.bandwidth.scott,
            "modes": lambda a: cukde.modes(a, 0.5),
            "fit": lambda a: cukde.KernelDensity().fit(a.reshape(-1, 1)),
            "gaussian_kde": cukde.gaussian_kde,
            "pwpa": lambda a: cukde.pwpa(a, np.ones((2, 2)), [0.0, 1.0, 2.0]),
        }
        with pytest.raises(
            ValueError, match=r"must hold integers that float64 has, as all up to 2\*\*53; it has others"
        ):
            calls[function](ids)
        calls[function](ids - ids.min())
        if function != "pwpa":
            calls[function](ids.astype(float))

    def test_weights_and_values_may_be_rounded(self) -> None:
        large = np.arange(12) + 2**60 + 1
        np.testing.assert_allclose(
            cukde.kernel_sum(X, large, X, 0.5, nan_policy="omit"), cukde.kernel_sum(X, large.astype(float), X, 0.5)
        )
        np.testing.assert_allclose(cukde.kde(X, X, 0.5, weights=large), cukde.kde(X, X, 0.5, weights=large / 2**60))

    def test_blocks_of_dask(self) -> None:
        dd = pytest.importorskip("dask.dataframe")
        ids = pd.array([2**53, None, 2**53 + 1, 2**53 + 2], "Int64")
        lazy = dd.from_pandas(pd.DataFrame({"i": ids, "v": [1.0, 2.0, 3.0, 4.0]}), npartitions=2)
        with pytest.raises(ValueError, match=r"A must hold integers that float64 has, .* its column 'i' has others"):
            cukde.kendall_matrix(lazy, nan_policy="omit").compute()
        near = lazy.assign(i=lazy["i"] - 2**53)
        assert np.asarray(cukde.kendall_matrix(near, nan_policy="omit"))[0, 1] == 1


POLICIES = ("raise", "omit")


class TestMissing:
    @pytest.mark.parametrize("policy", POLICIES)
    @pytest.mark.parametrize("container", [*CONTAINERS, "masked", "index", "array of pandas"])
    def test_values_of_a_line(self, container: str, policy: Any) -> None:
        makers: dict[str, Callable[[list[Any]], Any]] = {
            "masked": lambda values: np.ma.masked_invalid(np.array(values, float)),
            "index": lambda values: pd.Index(values, dtype="Float64"),
            "array of pandas": lambda values: pd.array(values, "Float64"),
        }
        make = makers.get(container, lambda values: CONTAINERS[container]({"a": ("float64", values)}))

        @EXAMPLES
        @given(st.lists(st.none() | st.floats(-3, 3), min_size=2, max_size=8))
        def check(values: list[Any]) -> None:
            kept = np.array([v for v in values if v is not None])
            if not len(kept):
                return
            if policy == "raise" and len(kept) < len(values):
                with pytest.raises((TypeError, ValueError), match=r"missing|masked"):
                    cukde.kde(make(values), [0.0], 0.5)
                return
            if policy == "raise" and container in ("objects", "pandas.NA"):
                return  # objects are refused; see below
            got = cukde.kde(make(values), [0.0], 0.5, nan_policy=policy)
            np.testing.assert_allclose(np.asarray(got, float), cukde.kde(kept, [0.0], 0.5), rtol=1e-12)

        check()

    def test_beside_data_and_at_queries(self) -> None:
        weights = [1.0, None, *range(1, 11)]
        want = cukde.kde(np.delete(X, 1, axis=0), X[:3], 0.5, weights=[1.0, *range(1, 11)])
        for w in (weights, np.array(weights, object), np.ma.masked_invalid(np.array(weights, float))):
            np.testing.assert_allclose(cukde.kde(X, X[:3], 0.5, weights=w, nan_policy="omit"), want, rtol=1e-12)
        got = cukde.kde(X, [[0.0, None], [0.0, 0.0]], 0.5, nan_policy="omit")
        assert np.isnan(got[0])
        np.testing.assert_array_equal(got[1:], cukde.kde(X, [[0.0, 0.0]], 0.5))

    def test_advice_for_objects(self) -> None:
        with pytest.raises(TypeError, match=r"^X\b"):
            cukde.kde(X.astype(object), X, 0.5)
        with pytest.raises(TypeError, match=r"^X\b.*2"):
            cukde.kde([None, 1.0, None], [0.0], 0.5)

    def test_samples(self) -> None:
        x, y = [3, None, 2, 5, 4, 6], [1, 2, 3, 4, 5, 6]
        for made in (x, np.array(x, object), pd.Series(x, dtype=object), pd.array(x, "Int64"), pd.Index(x)):
            assert cukde.kendalltau(made, y, nan_policy="omit").statistic == pytest.approx(0.6)
            assert np.isnan(cukde.kendalltau(made, y).statistic)
            with pytest.raises(ValueError, match="The input contains nan values"):
                cukde.kendalltau(made, y, nan_policy="raise")


class TestCategories:
    WORDS = ("low", None, "high", "mid", "low", "high")
    ORDER = ("low", "mid", "high")
    CODES = (0, np.nan, 2, 1, 0, 2)
    BESIDE = (1.0, 2.0, 3.0, 2.0, 0.0, 5.0)

    def made(self) -> dict[str, Any]:
        ordered = pd.Categorical(self.WORDS, self.ORDER, ordered=True)
        indices = pa.array([0, None, 2, 1, 0, 2], pa.int8())
        out = {
            "series": pd.Series(ordered),
            "array": ordered,
            "index": pd.CategoricalIndex(ordered),
            "Arrow": pa.DictionaryArray.from_arrays(indices, list(self.ORDER), ordered=True),
            "chunks": pa.chunked_array([pa.DictionaryArray.from_arrays(indices, list(self.ORDER), ordered=True)]),
        }
        if importlib.util.find_spec("polars"):
            import polars

            out["polars"] = polars.Series(self.WORDS, dtype=polars.Enum(self.ORDER))
        return out

    def test_in_their_own_order(self) -> None:
        want = cukde.kendalltau(self.CODES, self.BESIDE, nan_policy="omit")
        for name, made in self.made().items():
            assert cukde.kendalltau(made, self.BESIDE, nan_policy="omit") == want, name
            assert np.isnan(cukde.kendalltau(made, self.BESIDE).statistic)
        frame = pd.DataFrame({"c": self.made()["series"], "v": self.BESIDE})
        assert cukde.kendall_matrix(frame, nan_policy="omit").loc["c", "v"] == want.statistic
        for density in (cukde.score, cukde.sd_kde):
            with pytest.raises(TypeError, match=r"^X\b.*'c'"):
                density(frame, [[0.0, 0.0]], 0.5)

    def test_without_an_order(self) -> None:
        unordered = pd.Categorical(self.WORDS)
        made = [unordered, pd.Series(unordered), pa.array(self.WORDS).dictionary_encode()]
        if importlib.util.find_spec("polars"):
            import polars

            made.append(polars.Series(self.WORDS, dtype=polars.Categorical))
        for x in made:
            with pytest.raises(TypeError, match=r"^x\b"):
                cukde.kendalltau(x, self.BESIDE)
        with pytest.raises(TypeError, match="its column 'c' has dtype category: give its categories an order"):
            cukde.kendall_matrix(pd.DataFrame({"c": unordered, "v": self.BESIDE}))
        followed = pd.Series(unordered).cat.set_categories(self.ORDER, ordered=True)
        want = cukde.kendalltau(self.CODES, self.BESIDE, nan_policy="omit")
        assert cukde.kendalltau(followed, self.BESIDE, nan_policy="omit") == want


FUNCTIONS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "kde": ("X", lambda a: cukde.kde(a, [[0.0, 0.0]], 0.5)),
    "queries": ("Y", lambda a: cukde.kde(X, a, 0.5)),
    "kendall_matrix": ("A", cukde.kendall_matrix),
    "kendalltau": ("x", lambda a: cukde.kendalltau(a, X)),
    "scott": ("X", cukde.bandwidth.scott),
    "fit": ("X", lambda a: cukde.KernelDensity().fit(a)),
    "gaussian_kde": ("dataset", lambda a: cukde.gaussian_kde(a)),
}


def _masked(a: np.ndarray) -> Any:
    out = np.ma.array(a, mask=False)
    out[1, 1] = np.ma.masked
    return out


UNREAD: dict[str, tuple[str, Callable[[np.ndarray], Any]]] = {
    "sparse": ("toarray()", scipy.sparse.csr_array),
    "lazy": ("collect()", Lazy),
    "generator": ("list(", lambda a: (row for row in a.tolist())),
    "values": ("list(", lambda a: dict(enumerate(a.tolist())).values()),
    "dictionary": ("numpy.column_stack(list(", lambda a: {"a": a[:, 0], "b": a[:, 1]}),
    "masked": ("", _masked),
    "times": ("timedelta64", lambda a: np.round(a * 100).astype("datetime64[s]")),
    "durations": ("timedelta64", lambda a: np.round(a * 100).astype("timedelta64[s]")),
    "structured": ("numpy.column_stack([", lambda a: np.rec.fromarrays(a.T, names="a,b")),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kind", UNREAD)
def test_what_a_message_says_to_write_is_accepted(name: str, kind: str) -> None:
    argument, call = FUNCTIONS[name]
    word, make = UNREAD[kind]
    if name == "kendalltau" and kind in ("masked", "times", "durations"):
        call(make(X))  # samples that NumPy compares
        return
    data = X.T if name == "gaussian_kde" and kind not in ("dictionary", "structured") else X
    given = make(data)
    with pytest.raises((TypeError, ValueError), match=argument) as caught:
        call(given)
    message = str(caught.value)
    if name == "fit" and kind == "sparse":
        assert "Use '.toarray()'" in message  # scikit-learn's own
        return
    if name == "kendalltau" and kind == "structured":
        assert "x must hold values that have an order" in message
        return
    assert word in message
    advice = message.rpartition("e.g. " if "e.g. " in message else "write ")[2].partition(" for seconds")[0]
    advice = advice.rpartition("those rows, ")[2] if name == "kendall_matrix" else advice
    followed = eval(advice, {"numpy": np, argument: given if kind != "generator" else make(data)})
    if name == "gaussian_kde" and kind in ("dictionary", "structured"):
        followed = followed.T
    call(followed)


LIKE_NUMBERS: dict[str, Callable[[Any], Any]] = {
    "h": lambda a: cukde.kde(X, X, a),
    "bounds": lambda a: cukde.kde(X, X, 0.5, bounds=a),
    "periods": lambda a: cukde.kde(X, X, 0.5, periods=a),
    "mean": lambda a: cukde.gaussian_kde(X.T).integrate_gaussian(a, np.eye(2)),
    "cov": lambda a: cukde.gaussian_kde(X.T).integrate_gaussian([0.0, 0.0], a),
    "low_bounds": lambda a: cukde.gaussian_kde(X.T).integrate_box(a, [9.0, 9.0]),
}


@pytest.mark.parametrize("argument", LIKE_NUMBERS)
@pytest.mark.parametrize("kind", ["sparse", "lazy", "generator", "values"])
def test_numbers_of_columns_are_read_first(argument: str, kind: str) -> None:
    word, make = UNREAD[kind]
    with pytest.raises(TypeError, match=f"^{argument} must .* write .*{re.escape(word)}"):
        LIKE_NUMBERS[argument](make(np.ones((2, 2))))


@pytest.mark.parametrize("call", [*(call for _, call in FUNCTIONS.values()), *LIKE_NUMBERS.values()])
def test_tensors_without_values_are_refused(call: Callable[[Any], Any]) -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="CUDA device"):
        call(torch.empty(9, 2, device="meta"))


def test_objects_that_are_no_numbers_are_not_to_be_converted() -> None:
    with pytest.raises(TypeError, match=r"^X\b"):
        cukde.kde([datetime.datetime(2020, 1, 1)] * 3, [0.0], 1.0)
    with pytest.raises(TypeError, match=r"must be a number; got np\.timedelta64"):
        cukde.kde(X[:, 0], X[:, 0], 0.5, periods=np.timedelta64(24, "h"))


def test_sequences_are_arrays() -> None:
    want = cukde.kde(np.arange(5.0), [1.0], 0.5)
    for a in (range(5), collections.deque(range(5)), tuple(range(5)), memoryview(np.arange(5.0))):
        np.testing.assert_array_equal(cukde.kde(a, [1.0], 0.5), want)
    sparse = pd.DataFrame({"a": pd.arrays.SparseArray([0.0, 0.0, 1.0]), "b": [1.0, 2.0, 3.0]})
    np.testing.assert_array_equal(cukde.kde(sparse, [[0.0, 1.0]], 0.5), cukde.kde(sparse.to_numpy(), [[0.0, 1.0]], 0.5))


@pytest.mark.parametrize(
    "column",
    [
        pd.interval_range(0, 3),
        pd.period_range("2020", periods=3, freq="D"),
        pd.date_range("2020", periods=3),
        pd.timedelta_range("1D", periods=3),
        pd.Series([1j, 2, 3]),
    ],
    ids=lambda column: str(column.dtype),
)
def test_other_columns_say_their_dtype(column: Any) -> None:
    for call in (lambda: cukde.kde(pd.Series(column), [0.0], 0.5), lambda: cukde.kde(column, [0.0], 0.5)):
        with pytest.raises(TypeError, match=r"^X\b"):
            call()


def _printed(result: Any) -> None:
    """Raise for a result that does not print in a line or two, or is another one after it was kept."""
    text = repr(result)
    if hasattr(result, "_fields"):
        assert text.startswith(f"{type(result).__name__}(")
        assert len(text) < 200 + 100 * len(result)
        html = result._repr_html_()
        assert html is None or "<table" in html
        for other in (copy.copy(result), copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
            assert type(other) is type(result)
            assert repr(other) == text


class TestResultsPrint:
    @pytest.mark.parametrize("library", [*LIBRARIES, "an array of another library"])
    @pytest.mark.parametrize("name", sorted(FRAMED))
    @pytest.mark.filterwarnings("ignore::cukde.BandwidthRangeWarning", "ignore::cukde.ConvergenceWarning")
    def test_of_each_function(self, name: str, library: str) -> None:
        if library in LIBRARIES:
            call = framed(name, lambda options: library if [*options] == [*LIBRARIES] else options[0], 3).framed
        else:
            call = CALLS[name](Draw(3)).moved(Tensor)
        _printed(call())

    def test_of_dask(self) -> None:
        da = pytest.importorskip("dask.array")
        lazy = da.from_array(X, chunks=(6, 2))
        _printed(cukde.kendall_matrix(lazy, pvalue=True))
        _printed(cukde.positive_mass(lazy, 0.8))
        _printed(cukde.dask.block_boxes(lazy))

    def test_how(self) -> None:
        frame = pd.DataFrame(X, columns=["a", "b"])
        found = cukde.kendall_matrix(frame, pvalue=True)
        shown = "<pandas DataFrame of shape (2, 2)>"
        assert repr(found) == f"SignificanceResult(statistic={shown}, pvalue={shown})"
        assert found._repr_html_().count("<table") == 2
        assert cukde.kendall_matrix(X, pvalue=True)._repr_html_() is None
        modes = cukde.modes(pa.table({"a": X[:, 0]}), 0.5)
        assert "labels=<pyarrow Int64Array of shape (12,)>" in repr(modes)
