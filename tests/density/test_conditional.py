"""Marginal and conditional densities against float64 oracles, and the properties that hold whatever the numbers.

Test bodies run on every backend: the CPU, the CUDA kernels emulated on the host, and a GPU where there is one.
"""

from __future__ import annotations

from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from scipy import integrate

import cukde
from cukde import perf
from cukde.core.cost.registry import called
from tests import reference, tolerances
from tests.conftest import Backend

SETTINGS = settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


FORMS = ("scalar", "vector", "covariance")


def bandwidth(scale: float, d: int, form: str) -> Any:
    """A bandwidth of about ``scale``; the covariance correlates all columns."""
    if form == "scalar":
        return scale
    if form == "vector":
        return scale * np.linspace(0.7, 1.4, d)
    root = np.eye(d) + 0.6 * np.tril(np.ones((d, d)), -1)
    return scale**2 * root @ root.T


def block(h: Any, columns: list[int]) -> Any:
    """The bandwidth of some columns, written out."""
    h = np.asarray(h)
    return h if h.ndim == 0 else h[columns] if h.ndim == 1 else h[columns][:, columns]


def sample(d: int, n: int, m: int, dtype: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Correlated data and queries like them."""
    rng = np.random.default_rng([d, n, seed])
    X, Y = (rng.standard_normal((rows, d)) + rng.standard_normal((rows, 1)) for rows in (n, m))
    return X.astype(dtype), Y.astype(dtype)


def weights_of(n: int) -> np.ndarray:
    """Some of them tiny, and every fifth zero."""
    w = 10.0 ** np.random.default_rng(n).uniform(-6, 3, n)
    w[::5] = 0
    return w


def log_density(X: Any, Y: Any, h: Any, w: Any) -> tuple[np.ndarray, np.ndarray]:
    """The oracle, and the exponent that its error is judged by."""
    return reference.log_kde(X, Y, h, w), reference.nearness(X, Y, h, w).exponent


def check_both(backend: Backend, call: Any, want: np.ndarray, exponents: list[np.ndarray], dtype: str) -> None:
    """A density and its logarithm, whose error is that of densities with the given exponents together."""
    allowed = sum(tolerances.log_error(backend.device, dtype, exponent) for exponent in exponents)
    p, log_p = (backend.asnumpy(call(log)) for log in (False, True))
    assert p.dtype == log_p.dtype == dtype
    tolerances.check_log(log_p, want, np.asarray(allowed))
    tolerances.check_density(p, want, np.asarray(allowed))


@SETTINGS
@given(
    d=st.integers(1, 4),
    dtype=st.sampled_from(["float32", "float64"]),
    form=st.sampled_from(FORMS),
    weighted=st.booleans(),
    seed=st.integers(0, 2**16),
    data=st.data(),
)
def test_marginal_matches_reference(
    either: Backend, d: int, dtype: str, form: str, weighted: bool, seed: int, data: st.DataObject
) -> None:
    columns = data.draw(st.permutations(range(d)).map(lambda order: order[: 1 + seed % d]))
    X, Y = sample(d, 90, 40, dtype, seed)
    h, w = bandwidth(0.4, d, form), weights_of(90) if weighted else None
    queries = Y[:, columns]
    given_columns = [c - d if seed % 3 == 0 else c for c in columns]
    want, exponent = log_density(X[:, columns], queries, block(h, columns), w)
    arrays = [either.asarray(a) for a in (X, queries, w)]
    check_both(
        either,
        lambda log: cukde.marginal(arrays[0], given_columns, arrays[1], h, weights=arrays[2], log=log),
        want,
        [exponent],
        dtype,
    )


@SETTINGS
@given(
    d=st.integers(2, 4),
    dtype=st.sampled_from(["float32", "float64"]),
    form=st.sampled_from(FORMS),
    weighted=st.booleans(),
    each=st.booleans(),
    seed=st.integers(0, 2**16),
    data=st.data(),
)
def test_conditional_matches_reference(
    either: Backend, d: int, dtype: str, form: str, weighted: bool, each: bool, seed: int, data: st.DataObject
) -> None:
    """With one value for all queries, which is a pass of its own, and with values of their own, beside a number."""
    columns = data.draw(st.permutations(range(d)).map(lambda order: order[: 1 + seed % (d - 1)]))
    rest = [c for c in range(d) if c not in columns]
    X, Y = sample(d, 90, 40, dtype, seed)
    h, w = bandwidth(0.4, d, form), weights_of(90) if weighted else None
    Y[:, columns if not each else columns[1:]] = 0.25
    joint, joint_exponent = log_density(X, Y, h, w)
    marginal, exponent = log_density(X[:, columns], Y[:, columns], block(h, columns), w)
    values: dict[int, Any] = dict.fromkeys(columns, 0.25)
    if each:
        values[columns[0]] = either.asarray(Y[:, columns[0]])
    arrays = [either.asarray(a) for a in (X, Y[:, rest], w)]
    check_both(
        either,
        lambda log: cukde.conditional(arrays[0], values, arrays[1], h, weights=arrays[2], log=log),
        joint - marginal,
        [joint_exponent, exponent],
        dtype,
    )


@pytest.mark.parametrize("each", [False, True])
def test_kernels_of_every_backend(backend: Backend, each: bool) -> None:
    X, Y = sample(4, backend.size(700, 120), backend.size(150, 40), "float32")
    h, w = bandwidth(0.5, 4, "covariance"), weights_of(len(X))
    Y[:, [3, 1] if not each else [1]] = 0.25
    joint, joint_exponent = log_density(X, Y, h, w)
    marginal, exponent = log_density(X[:, [3, 1]], Y[:, [3, 1]], block(h, [3, 1]), w)
    x, y, given_y, weights = (backend.asarray(a) for a in (X, Y[:, [0, 2]], Y[:, [3, 1]], w))
    values = {3: given_y[:, 0] if each else 0.25, 1: 0.25}
    check_both(
        backend,
        lambda log: cukde.conditional(x, values, y, h, weights=weights, log=log),
        joint - marginal,
        [joint_exponent, exponent],
        "float32",
    )
    check_both(
        backend,
        lambda log: cukde.marginal(x, [3, 1], given_y, h, weights=weights, log=log),
        marginal,
        [exponent],
        "float32",
    )


@pytest.mark.parametrize("form", FORMS)
def test_one_value_and_the_same_for_each_agree(backend: Backend, form: str) -> None:
    X, Y = sample(3, 120, 30, "float64")
    X += 1e4
    arrays = [backend.asarray(a) for a in (X, Y[:, :2] + 1e4)]
    h = bandwidth(0.3, 3, form)
    one = cukde.conditional(arrays[0], {2: 1e4 + 0.7}, arrays[1], h, log=True)
    each = cukde.conditional(arrays[0], {-1: backend.asarray(np.full(30, 1e4 + 0.7))}, arrays[1], h, log=True)
    want = reference.log_kde(X, np.column_stack((Y[:, :2] + 1e4, np.full(30, 1e4 + 0.7))), h)
    want -= reference.log_kde(X[:, 2], [1e4 + 0.7], block(h, [2]))
    for got in (one, each):
        np.testing.assert_allclose(backend.asnumpy(got), want, rtol=1e-9, atol=1e-9)  # the offset takes 4 digits


@pytest.mark.parametrize("form", ["scalar", "covariance"])
@pytest.mark.parametrize("values", [{0: 0.5}, {0: 40.0}], ids=["near", "far"])
def test_integral_over_the_queries_is_one(either: Backend, form: str, values: dict[int, float]) -> None:
    X, _ = sample(2, 60, 1, "float64")
    h = bandwidth(0.5, 2, form)
    X = either.asarray(X)
    grid = np.linspace(-60, 60, 2401)  # a step of a tenth of a bandwidth, beyond which the trapezoid's error is nothing
    p = either.asnumpy(cukde.conditional(X, values, either.asarray(grid), h))
    assert integrate.trapezoid(p, grid) == pytest.approx(1, abs=1e-12)


def test_marginal_is_the_integral_of_the_joint() -> None:
    X, _ = sample(2, 50, 1, "float64")
    h = bandwidth(0.5, 2, "covariance")
    grid = np.linspace(-12, 12, 481)
    joint = cukde.kde(X, np.column_stack((grid, np.full_like(grid, 0.3))), h)
    np.testing.assert_allclose(cukde.marginal(X, 1, [0.3], h), [integrate.trapezoid(joint, grid)], rtol=1e-11)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("each", [False, True])
def test_far_from_all_data_the_nearest_rows_answer(backend: Backend, each: bool, dtype: str) -> None:
    """The given value is 5,000 bandwidths away: of the last row alone, then of two that are as near."""
    X = np.array([[-1.0, 7.0], [0.0, 3.0], [1.0, 5.0]], dtype)
    Y = np.array([3.0, 5.0, 100.0], dtype)
    value = backend.asarray(np.full(3, 2501.0, dtype)) if each else 2501
    options: dict[str, Any] = {"log": True, "precision": "float64" if each else None}
    got = backend.asnumpy(cukde.conditional(backend.asarray(X), {0: value}, backend.asarray(Y), 0.5, **options))
    want = reference.log_kde(X[2:, 1], Y, 0.5)
    np.testing.assert_allclose(got, want, rtol=1e-6 if dtype == "float32" else 1e-12, atol=1e-5 if each else 0)
    X[1:, 0] = 1
    both = backend.asnumpy(cukde.conditional(backend.asarray(X), {0: 1e5}, backend.asarray(Y), 0.5, log=True))
    np.testing.assert_allclose(both, reference.log_kde(X[1:, 1], Y, 0.5), rtol=1e-6)
    assert (backend.asnumpy(cukde.conditional(backend.asarray(X), {0: 1e5}, backend.asarray(Y), 0.5))[:2] > 0).all()


@pytest.mark.parametrize("form", ["scalar", "covariance"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_shares_of_any_size(backend: Backend, dtype: str, form: str) -> None:
    """Rows have shares down to exp(-1e6) by a narrow bandwidth, and queries so far off that the least count again."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((backend.size(1500, 150), 3)).astype(dtype)
    Y = (50.0 ** rng.uniform(-1, 1, (20, 1)) * rng.standard_normal((20, 2))).astype(dtype)
    h = bandwidth(0.02, 3, form)
    for value in (0.5, 3.0, 40.0):
        whole, given_value = np.column_stack((np.full(20, value), Y)), np.array([[value]])
        marginal, exponent = log_density(X[:, :1], given_value, block(h, [0]), None)
        want = reference.log_kde(X, whole, h) - marginal
        got = backend.asnumpy(cukde.conditional(backend.asarray(X), {0: value}, backend.asarray(Y), h, log=True))
        allowed = tolerances.log_error(backend.device, dtype, np.abs(want) + tolerances.NEAR.value)
        tolerances.check_log(got, want, allowed + 2 * tolerances.FAR["float64"].value * exponent)


def test_rows_of_weight_zero_count_for_nothing_however_near(backend: Backend) -> None:
    X = backend.asarray(np.array([[0.0, 0.0], [1e20, 3.0]]))
    got = cukde.conditional(X, {0: 1e20}, backend.asarray([0.5]), 1.0, weights=backend.asarray([1.0, 0.0]), log=True)
    np.testing.assert_allclose(backend.asnumpy(got), reference.log_kde([0.0], [0.5], 1.0), rtol=1e-12)


def test_correlated_kernels_move(backend: Backend) -> None:
    """The density of one point given half of it is normal, with the mean and variance of a regression."""
    h = np.array([[4.0, 1.5], [1.5, 1.0]])
    got = cukde.conditional(backend.asarray([[1.0, 2.0]]), {0: 3.0}, backend.asarray([0.0, 2.75]), h)
    want = reference.kde([2 + 1.5 / 4 * 2.0], [0.0, 2.75], np.sqrt(1 - 1.5**2 / 4))
    np.testing.assert_allclose(backend.asnumpy(got), want, rtol=1e-13)


def test_an_offset_costs_float32_nothing_but_its_rounding(backend: Backend) -> None:
    X, Y = sample(3, 150, 40, "float32")
    X, Y = X + np.float32(1e3), Y + np.float32(1e3)
    h = bandwidth(0.5, 3, "covariance")
    value = 1000.5
    whole = np.column_stack((np.full(40, value), Y[:, 1:]))
    want, exponent = log_density(X, whole, h, None)
    want -= reference.log_kde(X[:, 0], [value], block(h, [0]))
    got = cukde.conditional(backend.asarray(X), {0: value}, backend.asarray(Y[:, 1:]), h, log=True)
    tolerances.check_log(backend.asnumpy(got), want, 2 * tolerances.log_error(backend.device, "float32", exponent))


def test_names_of_a_data_frame() -> None:
    X, Y = sample(3, 40, 5, "float64")
    frame = pd.DataFrame(X, columns=["height", "weight", "age"])
    h = bandwidth(0.5, 3, "covariance")
    for columns in (["age", "height"], [-1, 0], ["age", 0], np.array([2, 0]), (2, -3), pd.Index(["age", "height"])):
        np.testing.assert_array_equal(
            cukde.marginal(frame, columns, Y[:, [2, 0]], h), cukde.marginal(X, [2, 0], Y[:, [2, 0]], h)
        )
    np.testing.assert_array_equal(cukde.marginal(frame, "age", Y[:, 2], h), cukde.marginal(X, [2], Y[:, 2], h))
    by_name = cukde.conditional(frame, {"age": 0.5, "height": Y[:, 0]}, pd.DataFrame(Y[:, [1]]), h)
    np.testing.assert_array_equal(by_name, cukde.conditional(X, {2: 0.5, 0: Y[:, 0]}, Y[:, 1], h))
    numbered = pd.DataFrame(X, columns=[5, 0, 1])  # an integer is a name where the names are integers
    np.testing.assert_array_equal(cukde.marginal(numbered, 0, Y[:, 1], 0.5), cukde.marginal(X, 1, Y[:, 1], 0.5))
    with pytest.raises(ValueError, match=r"columns must name columns of X, which has none called 2; it has .* 5, 0, 1"):
        cukde.marginal(numbered, 2, Y[:, 0], 0.5)
    tuples = pd.DataFrame(X, columns=pd.MultiIndex.from_tuples([("a", "x"), ("a", "y"), ("b", "x")]))
    for columns in (("b", "x"), [("b", "x")]):
        np.testing.assert_array_equal(cukde.marginal(tuples, columns, Y[:, 2], 0.5), cukde.marginal(X, 2, Y[:, 2], 0.5))


def test_dtypes_of_results(backend: Backend) -> None:
    X, Y = (backend.asarray(a) for a in sample(2, 20, 3, "float32"))
    assert cukde.conditional(X, {0: np.float64(0.1)}, Y[:, 1], 1.0).dtype == "float32"
    assert cukde.conditional(X, {0: Y[:, 0].astype("float64")}, Y[:, 1], 1.0).dtype == "float64"
    assert cukde.conditional(X, {0: backend.asarray(np.arange(3))}, Y[:, 1], 1.0).dtype == "float64"
    assert cukde.marginal(X, 0, Y[:, 1].astype("float64"), 1.0).dtype == "float64"
    for each in (1, backend.asarray(np.ones(0, "float32"))):
        assert cukde.conditional(X, {0: each}, Y[:0, :1], 1.0).shape == (0,)


X3 = np.arange(12.0).reshape(4, 3)
FRAME = pd.DataFrame(X3, columns=["a", "b", "b"])


@pytest.mark.parametrize(
    ("error", "columns", "message"),
    [
        (ValueError, [0, 3], r"columns must hold columns of X, which has columns 0 to 2; got 3"),
        (ValueError, [-4], r"which has columns 0 to 2; got -4"),
        (ValueError, [10**30], r"which has columns 0 to 2; got 1000"),
        (ValueError, [0, -3], r"columns must name each column once; got column 0 twice"),
        (ValueError, [], r"columns must name at least one column; X has columns 0 to 2"),
        (ValueError, "a", r"by position where X has no names; X has columns 0 to 2; got 'a'"),
        (TypeError, [0.0], r"columns must hold positions \(integers\) or names \(text\) of columns; got 0\.0"),
        (TypeError, [True], r"columns must hold positions .* got True"),
        (TypeError, [[0]], r"columns must hold positions .* got \[0\]"),
        (TypeError, np.array([[1]]), r"columns must hold positions .* got array\(\[1\]\)"),
        (TypeError, {0, 1}, r"columns must be a column or a sequence of columns, .* got \{0, 1\}"),
        (TypeError, {0: 1}, r"columns must be a column or a sequence of columns"),
        (TypeError, None, r"columns must be a column or a sequence of columns, .* got None"),
        (TypeError, np.array(1.5), r"columns must be a column or a sequence of columns"),
    ],
)
def test_columns_that_are_refused(error: type[Exception], columns: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        cukde.marginal(X3, columns, [1.0], 1.0)


def test_names_that_are_refused() -> None:
    for X, name, message in (
        (FRAME, "c", r"columns of X, which has none called 'c'; it has the columns 'a', 'b', 'b'"),
        (FRAME, "b", r"which has several called 'b'"),
        (FRAME, ["a", 0], r"once; got column 'a' twice"),
        (FRAME, 7, r"which has the columns 'a', 'b', 'b'; got 7"),
        (pd.DataFrame(np.ones((2, 14))), "x", r"the columns 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more"),
        ([1.0, 2.0], "x", r"X has column 0; got 'x'"),
    ):
        with pytest.raises(ValueError, match=message):
            cukde.marginal(X, name, [1.0], 1.0)


def test_queries_and_bandwidths_that_are_refused(backend: Backend) -> None:
    X, Y = backend.asarray(X3), backend.asarray(X3[:2])
    with pytest.raises(ValueError, match=r"Y must have 2 columns, one for each of columns; got shape \(2, 3\)"):
        cukde.marginal(X, [0, 1], Y, 1.0)
    with pytest.raises(ValueError, match=r"Y must have 2 columns, .* got shape \(2,\): write Y\[None, :\]"):
        cukde.marginal(X, [0, 1], Y[:, 0], 1.0)
    with pytest.raises(ValueError, match=r"Y must have 2 columns, those of X that are not given: 0, 2; got shape"):
        cukde.conditional(X, {1: 0.0}, Y, 1.0)
    indefinite = np.array([[1.0, 0, 0], [0, 1, 2], [0, 2, 1]])  # though the block of the chosen columns is not
    with pytest.raises(ValueError, match="h must be a positive definite covariance; its smallest eigenvalue is -1"):
        cukde.marginal(X, [0, 1], Y[:, :2], indefinite)
    with pytest.raises(ValueError, match="h must be a positive definite covariance"):
        cukde.conditional(X, {0: 1.0}, Y[:, :2], indefinite)


@pytest.mark.parametrize(
    ("error", "values", "message"),
    [
        (TypeError, [0.0], r"given must be a mapping from columns to values, such as \{0: 1\.5\}; got \[0\.0\]"),
        (TypeError, None, r"given must be a mapping from columns to values"),
        (ValueError, {}, r"given must name at least one column; write cukde\.kde\(X, Y, h\)"),
        (ValueError, {0: 1.0, 1: 1.0, 2: 1.0}, r"given must leave at least one column of X for Y; got all 3"),
        (ValueError, {0: 1.0, -3: 1.0}, r"given must name each column once; got column 0 twice"),
        (ValueError, {5: 1.0}, r"given must hold columns of X, which has columns 0 to 2; got 5"),
        (ValueError, {0: np.nan}, r"given\[0\] must be finite; got nan"),
        (ValueError, {0: [1.0, np.inf]}, r"given\[0\] must be finite; it holds NaN or infinity"),
        (ValueError, {0: [1.0]}, r"given\[0\] must be a number, or an array of shape \(2,\), one for each row of Y"),
        (TypeError, {0: "x"}, r"given\[0\] must hold real numbers .* got dtype"),
        (TypeError, {0: None}, r"given\[0\] must hold real numbers"),
        (TypeError, {0: 1j}, r"given\[0\] must hold real numbers"),
        (TypeError, {0: da.ones(2)}, r"given\[0\] must be a number or a plain array; got a Dask collection"),
        (ValueError, {0: 1e200}, r"given must lie within 1e\+150 bandwidths of the data"),
    ],
)
def test_values_that_are_refused(error: type[Exception], values: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        cukde.conditional(X3, values, X3[:2, :2], 1.0)


def test_data_that_are_not_finite(backend: Backend) -> None:
    """Of a marginal the other columns are no matter."""
    broken = X3.copy()
    broken[1, 0] = np.nan
    X, Y = backend.asarray(broken), backend.asarray(X3[:2])
    np.testing.assert_array_equal(
        backend.asnumpy(cukde.marginal(X, [1, 2], Y[:, 1:], 1.0)),
        backend.asnumpy(cukde.kde(backend.asarray(X3[:, 1:]), Y[:, 1:], 1.0)),
    )
    for values in ({0: 0.0}, {1: 0.0}, {0: Y[:, 0]}):
        with pytest.raises(ValueError, match="X must be finite; it holds NaN"):
            cukde.conditional(X, values, Y[:, :2], 1.0)
        cukde.conditional(X, values, Y[:, :2], 1.0, check_finite=False)


class TestDask:
    X, Y = sample(3, 80, 21, "float64")
    W = weights_of(80)

    @pytest.fixture(autouse=True)
    def here(self) -> Any:
        with dask.config.set(scheduler="synchronous"):
            yield

    @staticmethod
    def blocks(a: np.ndarray) -> da.Array:
        return da.from_array(a, chunks=tuple(max(1, size // 2) for size in a.shape))

    def test_results_are_those_of_plain_arrays(self) -> None:
        h = bandwidth(0.4, 3, "covariance")
        frame = dd.from_pandas(pd.DataFrame(self.X, columns=["a", "b", "c"]), npartitions=3)
        X, Y, blocks = self.X, self.Y, self.blocks
        pairs = [
            (cukde.marginal(frame, ["c", "a"], Y[:, :2], h), cukde.marginal(X, [2, 0], Y[:, :2], h)),
            (
                cukde.conditional(frame, {"b": 0.3, "a": Y[:, 0]}, Y[:, 2], h),
                cukde.conditional(X, {1: 0.3, 0: Y[:, 0]}, Y[:, 2], h),
            ),
            (
                cukde.conditional(blocks(X), {0: blocks(Y[:, 0])}, Y[:, 1:], h, weights=self.W),
                cukde.conditional(X, {0: Y[:, 0]}, Y[:, 1:], h, weights=self.W),
            ),
        ]
        for lazy, plain in pairs:
            assert lazy.dtype == plain.dtype
            np.testing.assert_allclose(lazy.compute(), plain, rtol=1e-11, atol=1e-300)

    def test_single_precision_far_away(self) -> None:
        """Logarithms are subtracted in double precision, and queries of unknown number are taken."""
        X, Y = self.X.astype("f4"), self.Y.astype("f4")
        some = self.blocks(Y[:, :2])
        some = some[some[:, 0] < np.inf]
        got = cukde.conditional(self.blocks(X), {2: 9.0}, some, 0.5, log=True)
        assert got.dtype == "float32"
        np.testing.assert_allclose(got.compute(), cukde.conditional(X, {2: 9.0}, Y[:, :2], 0.5, log=True), rtol=2e-5)

    def test_forms_are_checked_when_the_graph_is_made(self) -> None:
        lazy = self.blocks(self.X)
        with pytest.raises(ValueError, match=r"given\[0\] must be a number, or an array of shape \(21,\)"):
            cukde.conditional(lazy, {0: self.X[:, 0]}, self.Y[:, 1:], 1.0)
        with pytest.raises(TypeError, match=r"given\[0\] must be a number or a plain array; got a Dask collection"):
            cukde.conditional(lazy, {0: da.ones(())}, self.Y[:, 1:], 1.0)
        with pytest.raises(TypeError, match="h must be a number or a plain array; got a Dask collection"):
            cukde.marginal(lazy, 0, self.Y[:, 0], da.ones(3))


def test_costs_are_those_of_the_passes() -> None:
    H200 = perf.peaks("H200")
    sizes = {"n": 4096, "m": 512}
    X, Y = np.empty((4096, 5), "f4"), np.empty((512, 5), "f4")
    one, each = (
        perf.cost("conditional", H200, d=5, given=2, each=each, **sizes).exponentials for each in (False, True)
    )
    assert (one, each) == (4096 * 512, 2 * 4096 * 512)
    assert called(cukde.conditional, (X, {0: 1.0, 1: Y[:, 0]}, Y[:, 2:], 1.0), {})[1]["each"]
    given_sizes = called(cukde.conditional, (X, {0: 1.0, 1: 2.0}, Y[:, 2:], 1.0), {"log": True})[1]
    assert (given_sizes["given"], given_sizes["each"], given_sizes["d"]) == (2, False, 5)
    assert called(cukde.marginal, (X, [0, 1], Y[:, :2], 1.0), {})[1]["d"] == 2
    with pytest.raises(ValueError, match="given must be at least 1 and less than d = 5; got 5"):
        perf.cost("conditional", H200, d=5, given=5, **sizes)


@SETTINGS
@given(st.data())
def test_given_arrays_follow_queries_with_missing_values(data: Any) -> None:
    """Rows with a missing value in the query or in what is given are NaN; the others are as if they were alone."""
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    m = data.draw(st.integers(1, 9))
    X = pd.DataFrame(rng.normal(size=(30, 3)), columns=["a", "b", "c"])
    Q = pd.DataFrame(rng.normal(size=(m, 3)), columns=["a", "b", "c"]).mask(rng.random((m, 3)) < 0.25)
    several = data.draw(st.booleans())
    of = ["a", "b"] if several else ["a"]
    left = ["c"] if several else ["b", "c"]
    kept = Q.dropna()
    got = cukde.conditional(X, {each: Q[each] for each in of}, Q[left], 0.5, nan_policy="omit")
    assert got.index.equals(Q.index)
    assert got.notna().tolist() == Q.notna().all(axis=1).tolist()
    if len(kept):
        want = cukde.conditional(X, {each: kept[each] for each in of}, kept[left], 0.5)
        np.testing.assert_array_equal(got[kept.index], want)
    plain = cukde.conditional(
        X.values, {"abc".index(each): Q[each].values for each in of}, Q[left].values, 0.5, nan_policy="omit"
    )
    np.testing.assert_array_equal(plain, got)
