"""Columns of categories beside numbers, against products of kernels written out, and what holds whatever the numbers.

Both ways are taken: queries of few cells (combinations of levels) one cell at a time, and of many by distances.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import cukde
from tests.conftest import Backend

LEVELS = ["low", "mid", "high", "top"]
KINDS = ["number", "categorical", "ordered", "number", "categorical"]
SIZES = [0, 3, 4, 0, 2]
H = np.array([0.4, 0.3, 0.35, 0.8, 0.2])


def kernels(x: np.ndarray, y: np.ndarray, h: float, kind: str, c: int) -> np.ndarray:
    """The kernel of one column from each datum to each query, (m, n), by its formula."""
    if kind == "number":
        return np.exp(-0.5 * ((y[:, None] - x) / h) ** 2) / (h * np.sqrt(2 * np.pi))
    if kind == "categorical":
        return np.where(y[:, None] == x, 1 - h, h / max(c - 1, 1))
    sums = (h ** abs(np.arange(c)[:, None] - x)).sum(axis=0)
    return h ** abs(y[:, None] - x) / sums


def product(X: np.ndarray, Y: np.ndarray, h: Any = H, kinds: Any = KINDS, sizes: Any = SIZES, w: Any = None) -> Any:
    """The density of codes at codes, float64."""
    w = np.full(len(X), 1 / len(X)) if w is None else w / w.sum()
    out = np.ones((len(Y), len(X)))
    for k, (kind, c) in enumerate(zip(kinds, sizes, strict=True)):
        out *= kernels(X[:, k].astype(float), Y[:, k].astype(float), h[k], kind, c)
    return out @ w


def sample(n: int, seed: int = 0, sizes: Any = SIZES) -> np.ndarray:
    """Numbers and codes; every level occurs."""
    rng = np.random.default_rng(seed)
    columns = [rng.normal(size=n) if c == 0 else np.r_[np.arange(c), rng.integers(0, c, n - c)] for c in sizes]
    out = np.column_stack(columns)
    out[:, 0] += out[:, 1]
    return out


def frame(codes: np.ndarray) -> pd.DataFrame:
    """The same as a frame: text, an ordered dtype and booleans."""
    return pd.DataFrame(
        {
            "a": codes[:, 0],
            "site": np.array(["bay", "hill", "wood"])[codes[:, 1].astype(int)],
            "level": pd.Categorical.from_codes(codes[:, 2].astype(int), LEVELS, ordered=True),
            "b": codes[:, 3],
            "wet": codes[:, 4] == 1,
        }
    )


def of_polars(table: pd.DataFrame) -> pl.DataFrame:
    columns = {name: table[name].to_list() for name in table}
    return pl.DataFrame(columns | {"level": pl.Series(columns["level"], dtype=pl.Enum(LEVELS))})


@pytest.mark.parametrize("few", [True, False], ids=["few cells", "many cells"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_density_is_the_sum_of_products(backend: Backend, dtype: str, weighted: bool, few: bool) -> None:
    codes = sample(90)
    X, Y = codes.astype(dtype), sample(40, 1).astype(dtype)
    Y = Y[(Y[:, 2] == 1) & (Y[:, 4] == 0)] if few else Y
    w = np.random.default_rng(2).uniform(0.1, 1, 90) if weighted else None
    want = product(X, Y, w=w)
    arrays = [backend.asarray(a) for a in (X, Y)]
    options = {"kinds": KINDS, "weights": backend.asarray(w)}
    p = backend.asnumpy(cukde.kde(*arrays, H, **options))
    log_p = backend.asnumpy(cukde.kde(*arrays, H, log=True, **options))
    assert p.dtype == log_p.dtype == dtype
    allowed = 1e-12 if dtype == "float64" else 3e-5
    np.testing.assert_allclose(p, want, rtol=allowed)
    np.testing.assert_allclose(log_p, np.log(want), atol=allowed * 2)


@pytest.mark.parametrize("weighted", [False, True])
def test_leave_one_out(backend: Backend, weighted: bool) -> None:
    X = sample(24)
    w = np.random.default_rng(2).uniform(0.1, 1, 24) if weighted else np.ones(24)
    want = [product(np.delete(X, i, 0), X[[i]], w=np.delete(w, i))[0] for i in range(24)]
    options = {"kinds": KINDS, "weights": backend.asarray(w) if weighted else None, "leave_one_out": True}
    got = cukde.kde(backend.asarray(X), None, H, **options)
    np.testing.assert_allclose(backend.asnumpy(got), want, rtol=1e-11)


@pytest.mark.parametrize("kinds", [KINDS[1:3] + KINDS[4:], ["ordered"], ["categorical"]])
def test_levels_alone_sum_to_one(backend: Backend, kinds: list[str]) -> None:
    sizes = [{"categorical": 3, "ordered": 4}[kind] for kind in kinds]
    X = sample(30, sizes=[0, 3, 4])[:, 1:]
    X = np.column_stack([X[:, 0 if c == 3 else 1] for c in sizes])
    Y = np.array([*itertools.product(*map(range, sizes))], float)
    for h in (0.0, 0.3, 0.6):
        p = backend.asnumpy(cukde.kde(backend.asarray(X), backend.asarray(Y), [h] * len(kinds), kinds=kinds))
        np.testing.assert_allclose(p, product(X, Y, [h] * len(kinds), kinds, sizes), rtol=1e-12, atol=1e-300)
        assert p.sum() == pytest.approx(1, abs=1e-12)


def test_the_density_integrates_to_one_over_levels_and_bounds(backend: Backend) -> None:
    X = sample(40)[:, [0, 2, 4]]
    X[:, 0] = abs(X[:, 0])
    grid = (np.arange(400) + 0.5) * 0.02
    total = 0.0
    for cell in itertools.product(range(4), range(2)):
        Y = np.column_stack([grid, np.tile(cell, (400, 1))])
        arrays = [backend.asarray(a) for a in (X, Y)]
        options = {"kinds": ["number", "ordered", "categorical"], "bounds": [(0, None), None, None]}
        total += backend.asnumpy(cukde.kde(*arrays, [0.3, 0.5, 0.2], **options)).sum() * 0.02
    assert total == pytest.approx(1, abs=1e-3)


def test_bounds_are_the_same_both_ways() -> None:
    X = abs(sample(80))
    Y = abs(sample(60, 1))
    options = {"kinds": KINDS, "bounds": [(0, None), None, None, None, None], "periods": [None] * 3 + [3.0, None]}
    together = cukde.kde(X, Y, H, **options)
    np.testing.assert_allclose(together[:6], [cukde.kde(X, Y[[i]], H, **options)[0] for i in range(6)], rtol=1e-11)
    assert cukde.kde(X, np.array([[-1.0, 0, 0, 0, 0]]), H, **options).tolist() == [0.0]


def test_the_ends_of_bandwidths(backend: Backend) -> None:
    """0 counts equal levels alone; the largest does away with the column."""
    X, Y = sample(60), sample(50, 1)
    arrays = [backend.asarray(a) for a in (X, Y)]
    ends = H.copy()
    ends[[1, 2, 4]] = 0, 0, 0
    got = backend.asnumpy(cukde.kde(*arrays, ends, kinds=KINDS))
    np.testing.assert_allclose(got, product(X, Y, ends), rtol=1e-12, atol=1e-300)
    ends[[1, 2, 4]] = 2 / 3, 1, 0.5
    got = backend.asnumpy(cukde.kde(*arrays, ends, kinds=KINDS))
    numbers = cukde.kde(X[:, [0, 3]], Y[:, [0, 3]], H[[0, 3]]) / (3 * 4 * 2)
    np.testing.assert_allclose(got, numbers, rtol=1e-12)


def test_statsmodels_has_the_same_densities() -> None:
    """Of numbers and unordered levels. Its ordered kernel is that of all integers: it does not sum to 1 over levels."""
    multivariate = pytest.importorskip("statsmodels.nonparametric.kernel_density").KDEMultivariate
    X, Y, columns = sample(80), sample(30, 1), [0, 1, 3, 4]
    theirs = multivariate(X[:, columns], "cucu", bw=H[columns]).pdf(Y[:, columns])
    got = cukde.kde(X[:, columns], Y[:, columns], H[columns], kinds=[KINDS[k] for k in columns])
    np.testing.assert_allclose(got, theirs, rtol=1e-12)
    levels = np.arange(4.0)
    theirs = multivariate(X[:, [2]], "o", bw=[0.35]).pdf(levels)
    assert theirs.sum() < 0.9
    assert cukde.kde(X[:, 2], levels, 0.35, kinds=["ordered"]).sum() == pytest.approx(1)


def test_frames_say_the_kinds_by_their_dtypes() -> None:
    X, Y = sample(70), sample(40, 1)
    want = product(X, Y)
    by_name = dict(zip(frame(X).columns, H, strict=True))
    queries = frame(Y)[["wet", "b", "a", "site", "level"]].set_axis(np.arange(40) + 5)
    p = cukde.kde(frame(X), queries, by_name)
    assert isinstance(p, pd.Series)
    assert p.index[0] == 5
    for got in (
        p,
        cukde.kde(of_polars(frame(X)), of_polars(frame(Y)), by_name),
        cukde.kde(of_polars(frame(X)), queries, list(H)),
        cukde.kde(frame(X), pa.Table.from_pandas(queries, preserve_index=False), by_name),
        cukde.kde(frame(X), frame(Y).to_numpy(), H),
        cukde.kde(frame(X).convert_dtypes(), frame(Y).to_numpy().tolist(), H),
        cukde.kde(frame(X).astype({"site": "category", "wet": object}), queries, by_name),
    ):
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-12)
    single = frame(X).astype({"a": "float32", "b": "float32"})
    assert cukde.kde(single, single, by_name).dtype == np.float32


def test_kinds_of_a_frame_may_be_said() -> None:
    codes = sample(50)
    table = pd.DataFrame(codes, columns=list("abcde")).astype({"b": int, "c": int})
    want = product(codes, codes)
    kinds = {"b": "categorical", "c": "ordered", "e": "categorical"}
    np.testing.assert_allclose(cukde.kde(table, None, H, kinds=kinds), want, rtol=1e-12)
    np.testing.assert_allclose(cukde.kde(table, table, H, kinds=KINDS), want, rtol=1e-12)
    np.testing.assert_allclose(
        cukde.kde(codes, codes, H, kinds={1: "categorical", 2: "ordered", 4: "categorical"}), want
    )
    booleans = frame(codes)[["a", "wet"]]  # numbers where no column says otherwise
    want = cukde.kde(booleans.astype(float), None, 0.4)
    np.testing.assert_allclose(cukde.kde(booleans, None, 0.4), want, rtol=1e-12)


def test_missing_values() -> None:
    table = frame(sample(30))
    table.loc[3, "site"] = None
    table.loc[7, "level"] = np.nan
    with pytest.raises(
        ValueError, match=r"X must not have missing values; its column 'site' has 1, the first in row 3"
    ):
        cukde.kde(table, None, H)
    p = cukde.kde(table, None, H, nan_policy="omit")
    assert p.isna().sum() == 2
    np.testing.assert_allclose(p.dropna(), cukde.kde(table.drop([3, 7]), None, H), rtol=1e-12)


@pytest.mark.parametrize("m", [3, 40])  # of few cells, and of many
def test_missing_levels_unchecked_are_nan(backend: Backend, m: int) -> None:
    X, Y = sample(40), sample(40, 1)[:m]
    Y[0, 1] = np.nan
    options: dict[str, Any] = {"kinds": KINDS, "check_finite": False}
    p = backend.asnumpy(cukde.kde(backend.asarray(X), backend.asarray(Y), H, **options))
    assert np.isnan(p[0])
    np.testing.assert_allclose(p[1:], product(X, Y[1:]), rtol=1e-12)
    X[5, 2] = np.nan
    assert np.isnan(backend.asnumpy(cukde.kde(backend.asarray(X), backend.asarray(Y), H, **options))).all()


def test_columns_without_levels_are_refused() -> None:
    table = frame(sample(30))
    none = table.assign(level=pd.Categorical([None] * 30, []))
    with pytest.raises(ValueError, match=r"^X must have categories; its column 'level' has none but missing values"):
        cukde.kde(none, table, H, check_finite=False)
    with pytest.raises(ValueError, match=r"^X must have categories; its column 0 has none"):
        cukde.kde(np.full((3, 1), np.nan), None, [0.0], kinds=["categorical"], check_finite=False)
    with pytest.raises(ValueError, match=r"^X must be finite"):
        cukde.kde(np.array([[np.nan], [1.0]]), None, [0.3], kinds=["categorical"])
    with pytest.raises(ValueError, match=r"^X must have at least one row; got shape \(0, 5\)"):
        cukde.kde(table[:0], table, H)


def test_levels_are_those_of_all_rows_whatever_the_signs_of_weights(backend: Backend) -> None:
    X, Y = sample(60), sample(20, 1)
    w = np.where(X[:, 1] == 2, -0.2, 1.0) + np.where(X[:, 2] == 0, -0.9, 0.0)  # of some levels all are negative
    want = sum(each * product(X[k : k + 1], Y) for k, each in enumerate(w)) / w.sum()
    x, y = backend.asarray(X), backend.asarray(Y)
    got = cukde.kde(x, y, H, weights=backend.asarray(w), signed=True, kinds=KINDS)
    np.testing.assert_allclose(backend.asnumpy(got), want, rtol=1e-11, atol=1e-14)
    own = cukde.kde(x, None, H, weights=backend.asarray(w), signed=True, kinds=KINDS)
    again = cukde.kde(frame(X), frame(X), H, weights=w, signed=True)
    np.testing.assert_allclose(backend.asnumpy(own), again, rtol=1e-11, atol=1e-14)


def test_unused_levels_count() -> None:
    table = frame(sample(40)).assign(site=lambda t: pd.Categorical(t["site"], ["bay", "hill", "wood", "cave"]))
    where = {"site": np.array(["cave"]), "a": [0.0], "level": ["mid"], "b": [0.0], "wet": [True]}
    codes = np.array([[0.0, 3, 1, 0, 1]])
    got = cukde.kde(table, pd.DataFrame(where), H)
    np.testing.assert_allclose(got, product(sample(40), codes, sizes=[0, 4, 4, 0, 2]), rtol=1e-12)


class TestConditional:
    def test_quotients_of_sums(self, backend: Backend) -> None:
        X, Y = sample(60), sample(20, 1)
        want = product(X, Y) / product(X[:, [1, 3]], Y[:, [1, 3]], H[[1, 3]], ["categorical", "number"], [3, 0])
        x, y = backend.asarray(X), backend.asarray(Y[:, [0, 2, 4]])
        each = {1: backend.asarray(Y[:, 1]), 3: backend.asarray(Y[:, 3])}
        got = cukde.conditional(x, each, y, H, kinds=KINDS)
        np.testing.assert_allclose(backend.asnumpy(got), want, rtol=1e-11)
        got = cukde.conditional(x, {1: Y[0, 1], -2: Y[0, 3]}, y[:1], H, kinds=KINDS)
        np.testing.assert_allclose(backend.asnumpy(got), want[:1], rtol=1e-11)

    def test_labels(self) -> None:
        codes = sample(60)
        grid = np.linspace(-5, 8, 400)
        Y = np.column_stack([grid, np.ones(400), np.full(400, 2.0)])
        columns = [0, 1, 2]
        args = H[columns], KINDS[:3], SIZES[:3]
        want = product(codes[:, columns], Y, *args) / product(codes[:, 1:3], Y[:1, 1:], *(a[1:] for a in args))
        table = frame(codes)[["a", "site", "level"]]
        given = {"site": "hill", "level": "high"}
        p = cukde.conditional(table, given, grid, H[columns])
        np.testing.assert_allclose(p, want, rtol=1e-11)
        assert p.sum() * (grid[1] - grid[0]) == pytest.approx(1, abs=1e-4)
        each = {"site": ["hill"] * 400, "level": pd.Series(["high"] * 400)}
        np.testing.assert_allclose(cukde.conditional(table, each, grid, H[columns]), want, rtol=1e-11)
        p = cukde.conditional(table, {"a": 0.5, "level": "mid"}, ["bay", "hill", "wood"], H[columns])
        assert p.sum() == pytest.approx(1, abs=1e-12)
        p = cukde.conditional(table, {"a": 0.5}, pd.DataFrame({"level": LEVELS, "site": ["bay"] * 4}), H[columns])
        assert isinstance(p, pd.Series)
        assert len(p) == 4


H_OF = dict(zip(["a", "site", "level", "b", "wet"], H, strict=True))


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda t: cukde.kde(t, t, 0.3), ValueError, r"^h must be 5 numbers, .*columns 1, 2, 4"),
        (lambda t: cukde.kde(t, t, np.eye(5)), ValueError, "^h must be 5 numbers"),
        (lambda t: cukde.kde(t, t, "silverman"), ValueError, '^h must be numbers or "cross_validate"'),
        (lambda t: cukde.kde(t, t, H_OF | {"site": 0.7}), ValueError, "from 0 to 0.666667 for column 1, categorical"),
        (lambda t: cukde.kde(t, t, H_OF | {"level": -0.1}), ValueError, "from 0 to 1 for column 2, ordered with 4"),
        (lambda t: cukde.kde(t, t, H_OF | {"a": 0}), ValueError, "^h must be positive and finite"),
        (
            lambda t: cukde.kde(t, t.assign(site="sea"), H_OF),
            ValueError,
            "^Y must have categories of X; .*'site'.*'sea'",
        ),
        (lambda t: cukde.kde(t, t[["a", "site"]], H_OF), ValueError, "^Y must have the columns of X"),
        (
            lambda t: cukde.kde(t, t, H_OF, kinds={"site": "ordered"}),
            ValueError,
            "^kinds must be 'categorical' for text",
        ),
        (lambda t: cukde.kde(t, t, H_OF, kinds={"sites": "ordered"}), ValueError, "^kinds must have a value"),
        (lambda t: cukde.kde(t, t, H_OF, kinds={"site": "numbers"}), ValueError, "did you mean 'number'"),
        (lambda t: cukde.kde(t, t, H_OF, kinds=["number"]), ValueError, "^kinds must be a mapping or a sequence of 5"),
        (lambda t: cukde.kde(t, t, H_OF, local_factors=np.ones(30)), ValueError, "^local_factors must be None"),
        (lambda t: cukde.kde(t, t, H_OF, bounds={"site": (0, 1)}), ValueError, "^bounds must be None for columns of"),
        (lambda t: cukde.kde(t, t.to_numpy()[:, :2], H_OF), ValueError, "^Y must have 5 columns like X"),
        (lambda t: cukde.score(t, t, 0.3), TypeError, "^X must hold real numbers.*kinds"),
        (
            lambda t: cukde.conditional(t, {"site": "sea"}, t.drop(columns="site"), H_OF),
            ValueError,
            r"^given\['site'\]",
        ),
        (lambda t: cukde.kde(t, t.assign(site="3"), H_OF), ValueError, "^Y must have categories of X"),
        (lambda t: cukde.kde(t.assign(site="3"), t, H_OF), TypeError, "^X must have numbers as numbers; .*'site'"),
        (lambda t: cukde.kde(t, t, H_OF, boundary="linear"), ValueError, '^boundary must be "reflect"'),
        (lambda t: cukde.bandwidth.cross_validate(t, "sd"), ValueError, "^method must be 'kde'"),
        (lambda t: cukde.bandwidth.cross_validate(t, covariance=True), ValueError, "^covariance must be False"),
        (lambda t: cukde.bandwidth.cross_validate(t, n_eff=20), ValueError, "^n_eff must be None"),
        (lambda t: cukde.bandwidth.cross_validate(t, bounds={"a": (-9, 9)}), ValueError, "^bounds must be None"),
    ],
)
def test_wrong_arguments_say_what_to_do(call: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call(frame(sample(30)))


def test_one_level_takes_any_bandwidth() -> None:
    """Of a table that was cut down to the rows of a level."""
    X = np.column_stack([np.linspace(-1, 1, 9), np.zeros(9)])
    found = [cukde.kde(X, X, [0.5, h], kinds=["number", kind]) for h in (0, 0.3) for kind in ("categorical", "ordered")]
    for p in found:
        np.testing.assert_allclose(p, cukde.kde(X[:, 0], X[:, 0], 0.5), rtol=1e-12)
    with pytest.raises(ValueError, match=r"^h must lie from 0 to 1 for column 1, categorical with 1 level; got 2$"):
        cukde.kde(X, X, [0.5, 2], kinds=["number", "categorical"])


def test_arrays_have_levels_of_their_own() -> None:
    X = np.column_stack([np.random.default_rng(0).normal(size=20), np.resize([2.0, 5, 9], 20)])
    p = cukde.kde(X, np.array([[0.0, 5.0]]), [0.5, 0.2], kinds=["number", "categorical"])
    codes = np.column_stack([X[:, 0], np.resize([0, 1, 2], 20)])
    want = product(codes, np.array([[0.0, 1.0]]), [0.5, 0.2], ["number", "categorical"], [0, 3])
    np.testing.assert_allclose(p, want, rtol=1e-12)
    with pytest.raises(
        ValueError, match=r"^Y must have categories of X; its column 1 has 4.0 in row 0, and in X 2.0, 5.0"
    ):
        cukde.kde(X, np.array([[0.0, 4.0]]), [0.5, 0.2], kinds=["number", "categorical"])
    da = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match=r"^kinds must be None for Dask"):
        cukde.kde(da.from_array(X), X, [0.5, 0.2], kinds=["number", "categorical"])
