"""Kendall's tau of two samples and of matrices, on each backend, against counts over all pairs and against SciPy."""

from __future__ import annotations

import doctest
import math
import pickle
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from hypothesis import HealthCheck, example, given, settings, strategies as st
from hypothesis.extra.numpy import arrays

import cukde
from tests import extended, reference
from tests.conftest import Backend
from tests.private import Null, PairCounts, Ties, kendall_api, statistics

STATISTIC = 1e-12
"""Relative error of a statistic; it is a quotient of integers and one square root."""
P_VALUE = 1e-12
"""Relative error of a p-value above 1e-290, where the oracle takes erfc and SciPy's exact sums their running sums."""

VARIANTS = ("a", "b", "c")
DISTRIBUTIONS = ("auto", "exact", "asymptotic")
ALTERNATIVES = ("two-sided", "less", "greater")
DTYPES = ("float16", "float32", "float64", "int8", "uint16", "int32", "uint32", "int64", "uint64", "bool")

on_a_backend = settings(  # examples do not change what the fixture made, and each backend has a test of its own
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
    deadline=None,
)


def host(backend: Backend, a: Any) -> np.ndarray:
    """A result on the host; of no dimensions NumPy's are scalars."""
    return backend.asnumpy(np.asarray(a) if backend.xp is np else a)


def values(elements: st.SearchStrategy[float], most: int) -> st.SearchStrategy[tuple[np.ndarray, np.ndarray]]:
    """Two samples of one size from 0 to ``most``."""
    return st.integers(0, most).flatmap(
        lambda n: st.tuples(arrays(np.float64, n, elements=elements), arrays(np.float64, n, elements=elements))
    )


FEW_VALUES = st.sampled_from([0.0, -0.0, 1.0, 2.0, 3.5, -1e300, math.inf, -math.inf])
ANY_VALUES = st.one_of(FEW_VALUES, st.floats(allow_nan=False), st.integers(-5, 5).map(float))
WITH_NAN = st.one_of(ANY_VALUES, st.just(math.nan))


def check(backend: Backend, x: np.ndarray, y: np.ndarray, **options: Any) -> None:
    """Compare kendalltau of two samples, NaN left out, with the oracle."""
    counts = reference.pairs_of_samples(x, y)
    distribution, alternative = options.get("distribution", "auto"), options.get("alternative", "two-sided")
    tau = reference.kendall_tau(counts, options.get("variant", "b"))
    p = reference.kendall_p_value(counts, distribution, alternative)
    actual = cukde.kendalltau(backend.asarray(x), backend.asarray(y), nan_policy="omit", **options)
    np.testing.assert_allclose(host(backend, actual.statistic), tau, rtol=STATISTIC)
    np.testing.assert_allclose(host(backend, actual.pvalue), p, rtol=P_VALUE, atol=1e-290)
    assert abs(tau) != 1 or host(backend, actual.statistic) == tau


@pytest.mark.filterwarnings("ignore:.*too small")
class TestAgainstAllPairs:
    @on_a_backend
    @given(samples=values(WITH_NAN, 60), variant=st.sampled_from(VARIANTS), alternative=st.sampled_from(ALTERNATIVES))
    @example(samples=(np.ones(0), np.ones(0)), variant="a", alternative="less")
    @example(samples=(np.ones(1), np.ones(1)), variant="b", alternative="less")
    @example(samples=(np.arange(2.0), np.arange(2.0)), variant="c", alternative="less")
    @example(samples=(np.ones(9), np.arange(9.0)), variant="a", alternative="two-sided")
    @example(samples=(np.full(9, np.nan), np.arange(9.0)), variant="b", alternative="two-sided")
    def test_samples(
        self, backend: Backend, samples: tuple[np.ndarray, np.ndarray], variant: str, alternative: str
    ) -> None:
        check(backend, *samples, variant=variant, alternative=alternative)
        check(backend, *samples, variant=variant, alternative=alternative, distribution="asymptotic")

    @on_a_backend
    @given(order=st.permutations(range(40)), n=st.integers(2, 40), alternative=st.sampled_from(ALTERNATIVES))
    def test_orders(self, backend: Backend, order: list[int], n: int, alternative: str) -> None:
        y = np.array(order[:n])
        check(backend, np.arange(n), y, distribution="exact", alternative=alternative)
        check(backend, np.arange(n), np.sort(y), alternative=alternative)

    @pytest.mark.parametrize("n", [33, 34, 60])
    @pytest.mark.parametrize("swapped", [0, 1, 2])
    @pytest.mark.parametrize("sign", [1, -1])
    def test_almost_in_order(self, backend: Backend, n: int, swapped: int, sign: int) -> None:
        y = np.arange(n)
        for i in range(swapped):
            y[[2 * i, 2 * i + 1]] = y[[2 * i + 1, 2 * i]]
        for alternative in ALTERNATIVES:
            check(backend, np.arange(n), sign * y, alternative=alternative)

    @settings(on_a_backend, max_examples=8)
    @given(
        n=st.integers(0, 3000),
        classes=st.sampled_from([1, 2, 50, 10**6]),
        lost=st.sampled_from([0, 0.01, 0.9]),
        seed=st.integers(0, 2**32),
        variant=st.sampled_from(VARIANTS),
    )
    @example(n=3000, classes=50, lost=0.01, seed=5, variant="c")
    def test_many_samples(self, backend: Backend, n: int, classes: int, lost: float, seed: int, variant: str) -> None:
        rng = np.random.default_rng(seed)
        n = backend.size(n, n // 4)
        x = rng.integers(0, classes, n).astype(float)
        y = np.where(rng.random(n) < 0.3, x, rng.integers(0, classes, n))
        x[rng.random(n) < lost] = np.nan
        y[rng.random(n) < 0.01] = -np.inf
        check(backend, x, y, variant=variant)

    @pytest.mark.parametrize("dtype_y", ["float64", "int8"])
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_dtypes(self, backend: Backend, dtype: str, dtype_y: str) -> None:
        rng = np.random.default_rng(6)
        x = rng.integers(0, 2 if dtype == "bool" else 100, 50).astype(dtype)
        y = rng.integers(0, 100, 50).astype(dtype_y)
        check(backend, x, y)

    @pytest.mark.parametrize("dtype", ["int64", "uint64"])
    def test_64_bit_integers_are_not_rounded(self, backend: Backend, dtype: str) -> None:
        x = (np.arange(20, dtype=np.uint64) + np.uint64(2**62)).astype(dtype)
        result = cukde.kendalltau(backend.asarray(x), backend.asarray(x[::-1].copy()))
        assert host(backend, result.statistic) == -1


class TestAgainstScipy:
    @on_a_backend
    @given(
        samples=values(WITH_NAN, 50),
        variant=st.sampled_from("bc"),
        method=st.sampled_from(DISTRIBUTIONS),
        alternative=st.sampled_from(ALTERNATIVES),
        nan_policy=st.sampled_from(["propagate", "omit", "raise"]),
    )
    @pytest.mark.filterwarnings("ignore:.*too small")
    def test_samples(self, backend: Backend, samples: tuple[np.ndarray, np.ndarray], **options: Any) -> None:
        x, y = samples
        try:
            expected = scipy.stats.kendalltau(x, y, **options)
        except ZeroDivisionError:  # two samples by the normal approximation
            return
        except ValueError as error:
            with pytest.raises(ValueError, match=str(error)[:10]):
                cukde.kendalltau(backend.asarray(x), backend.asarray(y), **options)
            return
        actual = cukde.kendalltau(backend.asarray(x), backend.asarray(y), **options)
        np.testing.assert_allclose(host(backend, actual.statistic), expected.statistic, rtol=STATISTIC)
        np.testing.assert_allclose(host(backend, actual.pvalue), expected.pvalue, rtol=P_VALUE, atol=1e-290)

    @pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2), (2, 0), (0, 1, 2)])
    @pytest.mark.parametrize("keepdims", [False, True])
    @pytest.mark.parametrize("nan_policy", ["propagate", "omit"])
    def test_axes(self, backend: Backend, axis: Any, keepdims: bool, nan_policy: Any) -> None:
        rng = np.random.default_rng(7)
        x, y = rng.random((3, 4, 5)), rng.integers(0, 4, (1, 4, 5)).astype(float)
        if axis is None:
            y = np.broadcast_to(y, x.shape)
        x[0, 1, 2] = np.nan
        options = {"axis": axis, "keepdims": keepdims, "nan_policy": nan_policy}
        expected = scipy.stats.kendalltau(x, y, **options)
        actual = cukde.kendalltau(backend.asarray(x), backend.asarray(y), **options)
        for a, e in zip(actual, expected, strict=True):
            assert a.shape == e.shape
            np.testing.assert_allclose(host(backend, a), e, rtol=P_VALUE)

    @pytest.mark.parametrize("n", [100, 171, 500])
    @pytest.mark.parametrize("strength", [0, 1, 20])
    def test_exact_p_values_of_many_samples(self, backend: Backend, n: int, strength: float) -> None:
        rng = np.random.default_rng(8)
        x = rng.random(n)
        y = rng.random(n) + strength * x
        for alternative in ALTERNATIVES:
            expected = scipy.stats.kendalltau(x, y, method="exact", alternative=alternative)
            actual = cukde.kendalltau(backend.asarray(x), backend.asarray(y), method="exact", alternative=alternative)
            np.testing.assert_allclose(host(backend, actual.pvalue), expected.pvalue, rtol=P_VALUE, atol=1e-290)

    @pytest.mark.parametrize("n", [80_000, 100_000])
    def test_samples_whose_squares_leave_32_bits(self, backend: Backend, n: int) -> None:
        rng = np.random.default_rng(9)
        n = backend.size(n, 1500)
        x = rng.standard_normal(n)
        y = np.round(0.45 * x + rng.standard_normal(n), 2)
        expected = scipy.stats.kendalltau(x, y)
        actual = cukde.kendalltau(backend.asarray(x), backend.asarray(y))
        np.testing.assert_allclose(host(backend, actual.statistic), expected.statistic, rtol=STATISTIC)
        np.testing.assert_allclose(host(backend, actual.pvalue), expected.pvalue, rtol=P_VALUE, atol=1e-290)

    @pytest.mark.parametrize(
        ("x", "y"),
        [
            (np.array([1, 5, 3, 4], object), [1, 2, 3, 4]),
            (np.longdouble([1, 5, 3, 4]), [1, 2, 3, 4]),
            (np.array([3, 1, 2, 2], "M8[s]"), np.array([1, 2, 3, 4], "M8[s]")),
            (pd.Series([1.5, 2.5, 0.5, np.nan]), pd.Series([2, 1, 0, 5])),
            (np.ma.masked_array([1.0, 2, 4, 3, 0], [0, 1, 0, 0, 0]), [1, 2, 3, 4, 4]),
            (
                np.ma.masked_array([1, 2, 4, 3, 0], [0, 1, 0, 0, 0]),
                np.ma.masked_array([1, 2, 3, 4, 4], [1, 0, 0, 0, 0]),
            ),
            (np.ma.masked_array([1.0, np.nan, 4, 3, 0], [0, 1, 0, 0, 0]), [1, 2, 3, 4, 4]),
            (np.ma.masked_array([1.0, np.nan, 4, 3, 0], [0, 0, 0, 0, 1]), [1, 2, 3, 4, 4]),
            (np.ma.masked_array([1.0, 2, 4, 3, 0], False), [1, 2, 3, 4, np.nan]),
        ],
        ids=lambda a: f"{type(a).__name__}-{getattr(a, 'dtype', '')}",
    )
    @pytest.mark.parametrize("nan_policy", ["propagate", "omit"])
    def test_other_containers(self, x: Any, y: Any, nan_policy: Any) -> None:
        expected = scipy.stats.kendalltau(x, y, nan_policy=nan_policy)
        np.testing.assert_allclose(cukde.kendalltau(x, y, nan_policy=nan_policy), expected, rtol=P_VALUE)

    def test_text_is_in_order_of_the_alphabet(self) -> None:
        """As in SciPy before 1.18, which refuses text."""
        found = cukde.kendalltau(["b", "a", "d", "c"], ["x", "x", "z", "y"])
        np.testing.assert_allclose(found, scipy.stats.kendalltau([2, 1, 4, 3], [1, 1, 3, 2]), rtol=P_VALUE)

    def test_objects_with_nan(self) -> None:
        x = np.array([1, 5, np.nan, 3, 4], object)  # SciPy fails on these
        assert np.isnan(cukde.kendalltau(x, range(5))).all()
        assert cukde.kendalltau(x, range(5), nan_policy="omit") == cukde.kendalltau([1, 5, 3, 4], range(4))

    def test_masked_rows(self) -> None:
        rng = np.random.default_rng(10)
        x = np.ma.masked_array(rng.random((4, 12)), rng.random((4, 12)) < 0.3)
        x[2, 3] = np.nan
        for nan_policy in ("propagate", "omit"):
            expected = scipy.stats.kendalltau(x, rng.random(12), axis=1, nan_policy=nan_policy)
            assert np.isnan(expected.statistic[2]) == (nan_policy == "propagate")
        y = rng.random((1, 12))
        np.testing.assert_allclose(
            cukde.kendalltau(x, y, axis=1), scipy.stats.kendalltau(x, y, axis=1), rtol=P_VALUE, equal_nan=True
        )


class TestDiagonal:
    @settings(max_examples=40, deadline=None, derandomize=True)
    @given(
        columns=arrays(
            np.float64, st.tuples(st.integers(1, 9), st.integers(1, 3)), elements=st.sampled_from([-1, 0, 2.5])
        ),
        variant=st.sampled_from(["a", "b", "c"]),
    )
    def test_is_1_but_for_ties(self, columns: np.ndarray, variant: Any) -> None:
        """Of a constant column it is NaN; "a" and "c" count tied pairs, too."""
        n = len(columns)
        for column, got in zip(columns.T, np.diag(cukde.kendall_matrix(columns, variant=variant)), strict=True):
            classes, counts = np.unique(column, return_counts=True)
            m, pairs = len(classes), n * (n - 1) / 2
            untied = pairs - (counts * (counts - 1) / 2).sum()
            if m == 1:
                assert np.isnan(got)
            elif variant == "b" or (variant == "a" and m == n):
                assert got == 1
            else:
                assert got == pytest.approx(untied / (pairs if variant == "a" else n**2 * (m - 1) / m / 2), rel=1e-14)


class TestResult:
    def test_is_a_pair_with_names(self) -> None:
        result = cukde.kendalltau([1, 2, 3], [1, 3, 2])
        statistic, pvalue = result
        assert result.statistic == result.correlation == statistic == pytest.approx(1 / 3)
        assert result.pvalue == pvalue == pytest.approx(1)
        assert isinstance(statistic, np.float64)
        assert isinstance(pvalue, np.float64)
        assert repr(result).startswith("SignificanceResult(statistic=")
        assert pickle.loads(pickle.dumps(result)) == result

    def test_two_samples_by_the_normal_approximation(self) -> None:
        result = cukde.kendalltau([1, 2], [1, 2], distribution="asymptotic")
        assert result == (1, pytest.approx(math.erfc(1 / math.sqrt(2))))  # the variance of C - D is 1

    def test_inputs_are_left_alone(self, backend: Backend) -> None:
        x = np.random.default_rng(11).random((6, 50))
        before = x.copy()
        a = backend.asarray(x)
        cukde.kendalltau(a[:, ::2], a[:, 1::2], axis=1)
        cukde.kendall_matrix(a.T)
        np.testing.assert_array_equal(backend.asnumpy(a), before)


class TestSmallSamples:
    @pytest.mark.parametrize(
        ("x", "y", "options", "words"),
        [
            ([], [], {}, "^One or more sample"),
            ([1.0], [2.0], {}, "^One or more sample"),
            ([1.0, np.nan], [2.0, 1.0], {"nan_policy": "omit"}, "^After omitting NaNs, one or more sample"),
            (np.ones((2, 0)), np.ones((2, 0)), {"axis": 1}, "^All axis-slices"),
            (
                [[1.0, np.nan], [1, 2]],
                [[2.0, 1.0]],
                {"axis": 1, "nan_policy": "omit"},
                "^After omitting NaNs, one or more axis-slices",
            ),
        ],
    )
    def test_warn_as_scipy_does(self, x: Any, y: Any, options: dict[str, Any], words: str) -> None:
        with pytest.warns(RuntimeWarning, match=words) as ours:
            actual = cukde.kendalltau(x, y, **options)
        with pytest.warns(RuntimeWarning, match=words) as theirs:
            expected = scipy.stats.kendalltau(x, y, **options)
        np.testing.assert_allclose(actual, expected)
        assert (ours[0].category, str(ours[0].message)) == (theirs[0].category, str(theirs[0].message))
        assert ours[0].filename == __file__

    @pytest.mark.parametrize(
        ("x", "options"),
        [(np.array([1.0, np.nan]), {}), (np.ones((2, 1)), {"axis": 1}), (np.ones((0, 5)), {"axis": 1})],
        ids=["NaN that propagates", "rows of one", "no rows"],
    )
    def test_do_not_warn_where_scipy_does_not(self, backend: Backend, x: np.ndarray, options: dict[str, Any]) -> None:
        result = cukde.kendalltau(backend.asarray(x), backend.asarray(x), **options)
        assert np.isnan(host(backend, result.statistic)).all()
        assert host(backend, result.pvalue).shape == x.shape[:-1]


class _Cuda:
    """What passes for a GPU array until its data is asked for."""

    __cuda_array_interface__ = None


class TestErrorsOfKendalltau:
    @pytest.mark.parametrize(
        ("x", "y", "options", "error", "words"),
        [
            ([1, 2, 3], [1, 2], {}, ValueError, "incompatible for broadcasting. x has 3 values and y has 2"),
            (np.ones((2, 3)), np.ones((3, 2)), {"axis": 0}, ValueError, "incompatible for broadcasting. x has shape"),
            ([1, 2], [1, 2], {"axis": 1}, np.exceptions.AxisError, "axis 1 is out of bounds"),
            ([[1, 2]], [[1, 2]], {"axis": (0, -2)}, ValueError, "axis must not name one twice"),
            ([1, 2], [1, 2], {"axis": 0.5}, TypeError, "axis must be an integer"),
            ([1, 2], [1, 2], {"nan_policy": "drop"}, ValueError, "nan_policy must"),
            ([1, 2], [1, 2], {"distribution": "t"}, ValueError, "distribution must"),
            ([1, 2], [1, 2], {"method": "approximate"}, ValueError, "method must"),
            ([1, 2], [1, 2], {"method": "exact", "distribution": "exact"}, TypeError, "must not both be given"),
            ([1, 2], [1, 2], {"variant": "d"}, ValueError, "variant must"),
            ([1, 2], [1, 2], {"alternative": "more"}, ValueError, "`alternative` must be 'less', 'greater', or"),
            ([1, np.nan], [1, 2], {"nan_policy": "raise"}, ValueError, "The input contains nan values: x"),
            ([1, 2, 2], [1, 2, 3], {"distribution": "exact"}, ValueError, "Ties found, exact method cannot be used"),
            ([1, 2j], [1, 2], {}, TypeError, "x must hold values that have an order; got dtype complex128"),
            ([1, 2], [[1, 2], [3]], {}, ValueError, "y must be a rectangular array"),
            (
                np.array([1, "a"], object),
                [1, 2],
                {},
                TypeError,
                "x must hold values that have an order: '<' not supported",
            ),
            ([1, 2], _Cuda(), {}, TypeError, "y is"),
        ],
    )
    def test_says_what_is_wrong(self, x: Any, y: Any, options: Any, error: type[Exception], words: str) -> None:
        with pytest.raises(error, match=re.escape(words)):
            cukde.kendalltau(x, y, **options)

    @pytest.mark.parametrize(
        ("y", "words"),
        [
            (np.ma.masked_array([1, 2], [0, 1]), "y must not be masked on the GPU; write y.astype(float).filled"),
            (np.longdouble([1, 2]), "y must hold real numbers of up to 8 bytes on the GPU; got dtype"),
            (["a", "b"], "y must hold real numbers of up to 8 bytes on the GPU; got dtype <U1"),
        ],
        ids=["masked", "long doubles", "text"],
    )
    @pytest.mark.usefixtures("emulated_device")
    def test_what_a_gpu_does_not_take(self, y: Any, words: str) -> None:
        with pytest.raises(TypeError, match=re.escape(words)):
            cukde.kendalltau(np.ones(2), y)

    def test_masked_nan_is_no_nan(self) -> None:
        x = np.ma.masked_array([1, 2, np.nan, 3], [0, 0, 1, 0])
        assert cukde.kendalltau(x, [1, 2, 3, 4], nan_policy="raise").statistic == 1
        x[0] = np.nan
        with pytest.raises(ValueError, match="The input contains nan values"):
            cukde.kendalltau(x, [1, 2, 3, 4], nan_policy="raise")

    def test_ties_in_one_of_many_rows(self, backend: Backend) -> None:
        x = backend.asarray(np.array([[1.0, 2, 3, 4], [1, 1, 1, 1], [np.nan, 2, 2, 3]]))
        y = backend.asarray(np.array([[1.0, 4, 3, 2]]))
        result = cukde.kendalltau(x, y, axis=1, distribution="exact")  # constants and NaN have no statistic to ask for
        np.testing.assert_allclose(host(backend, result.pvalue), [1, np.nan, np.nan], rtol=P_VALUE)
        with pytest.raises(ValueError, match="Ties found"):
            cukde.kendalltau(x, y, axis=1, distribution="exact", nan_policy="omit")


def made_up(n: int, concordant: int, discordant: int, groups_x: list[int], groups_y: list[int]) -> PairCounts:
    """Counts by hand, of one pair of variables."""

    def ties(groups: list[int]) -> Ties:
        return Ties(
            np.array([sum(t * (t - 1) // 2 for t in groups)]),
            np.array([float(sum(t * (t - 1) * (t - 2) for t in groups))]),
            np.array([float(sum(t * (t - 1) * (2 * t + 5) for t in groups))]),
            np.array([n - sum(groups) + len(groups)]),
        )

    return PairCounts(np.array([n]), np.array([concordant]), np.array([discordant]), ties(groups_x), ties(groups_y))


class TestLargeCounts:
    N = 10**8

    def test_without_ties(self) -> None:
        pairs = self.N * (self.N - 1) // 2
        counts = made_up(self.N, pairs // 2 + 10**11, pairs - pairs // 2 - 10**11, [], [])
        for variant in "ab":
            np.testing.assert_allclose(statistics.tau(counts, variant), 2e11 / pairs, rtol=STATISTIC)
        n = self.N
        z = 2e11 / math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
        actual = statistics.p_value(counts, Null("auto", "two-sided"))
        np.testing.assert_allclose(actual, math.erfc(z / math.sqrt(2)), rtol=P_VALUE)

    def test_in_order(self) -> None:
        counts = made_up(self.N, self.N * (self.N - 1) // 2, 0, [], [])
        assert statistics.tau(counts, "b") == 1
        assert statistics.p_value(counts, Null("auto", "two-sided")) == 0
        assert statistics.p_value(counts, Null("auto", "less")) == 1
        assert statistics.exact_p_value(counts, "less") == 1

    def test_two_large_groups(self) -> None:
        half = self.N // 2
        # x and y in two halves each, which agree on a quarter more samples than they would by chance.
        both, crossed = 3 * half // 4, half // 4
        counts = made_up(self.N, both**2, crossed**2, [half, half], [half, half])
        np.testing.assert_allclose(statistics.tau(counts, "b"), 0.5, rtol=STATISTIC)
        np.testing.assert_allclose(statistics.tau(counts, "c"), 0.5, rtol=STATISTIC)
        groups = [half, half]
        oracle = reference.PairsOfSamples(self.N, half**2 // 2 + 7919 * half, half**2 // 2, 0, 0, 0, groups, groups)
        counts = made_up(self.N, oracle.concordant, oracle.discordant, groups, groups)
        expected = reference.kendall_p_value(oracle, "asymptotic", "two-sided")
        assert 0.01 < expected < 0.9
        actual = statistics.p_value(counts, Null("auto", "two-sided"))
        np.testing.assert_allclose(actual, expected, rtol=1e-9)  # the variance is a difference of sums 4 times as large


MATRIX = st.tuples(st.integers(0, 25), st.integers(1, 5)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.one_of(FEW_VALUES, st.floats(-1, 1), st.just(math.nan)))
)


class TestMatrix:
    @on_a_backend
    @given(A=MATRIX, variant=st.sampled_from(VARIANTS), nan_policy=st.sampled_from(["propagate", "omit"]))
    @pytest.mark.filterwarnings("ignore:.*too small")
    def test_entries_are_those_of_kendalltau(
        self, backend: Backend, A: np.ndarray, variant: Any, nan_policy: Any
    ) -> None:
        statistic, pvalue = cukde.kendall_matrix(
            backend.asarray(A), variant=variant, pvalue=True, nan_policy=nan_policy
        )
        x, y = backend.asarray(A.T[:, None, :]), backend.asarray(A.T[None, :, :])
        pairs = cukde.kendalltau(x, y, variant=variant, nan_policy=nan_policy, axis=2)
        for actual, expected in zip((statistic, pvalue), pairs, strict=True):
            np.testing.assert_allclose(backend.asnumpy(actual), backend.asnumpy(expected), rtol=STATISTIC)
            assert actual.dtype == np.float64

    def test_two_matrices(self, backend: Backend) -> None:
        rng = np.random.default_rng(12)
        A, B = rng.random((30, 3)).astype(np.float32), rng.integers(0, 5, (30, 4))
        actual = backend.asnumpy(cukde.kendall_matrix(backend.asarray(A), backend.asarray(B)))
        expected = [[scipy.stats.kendalltau(a, b).statistic for b in B.T] for a in A.T]
        np.testing.assert_allclose(actual, expected, rtol=STATISTIC)
        same = backend.asarray(A)
        np.testing.assert_array_equal(
            backend.asnumpy(cukde.kendall_matrix(same, same)), backend.asnumpy(cukde.kendall_matrix(same))
        )

    def test_as_pandas(self, backend: Backend) -> None:
        rng = np.random.default_rng(13)
        A = rng.integers(0, 9, (60, 6)).astype(float)
        A[rng.random(A.shape) < 0.1] = np.nan
        A[:, 5] = rng.random(60)
        actual = backend.asnumpy(cukde.kendall_matrix(backend.asarray(A), nan_policy="omit"))
        np.testing.assert_allclose(actual, pd.DataFrame(A).corr("kendall"), rtol=STATISTIC)
        assert (np.diag(actual) == 1).all()
        propagated = backend.asnumpy(cukde.kendall_matrix(backend.asarray(A)))
        assert np.isnan(propagated).tolist() == [[i < 5 or j < 5 for j in range(6)] for i in range(6)]

    def test_pandas_tables(self) -> None:
        table = pd.DataFrame({"a": [1.5, 2, 3, 0], "b": [True, False, True, True], "c": [4, 1, 3, 9]})
        table["d"] = pd.array([1, None, 3, 4], dtype="Int64")
        actual = cukde.kendall_matrix(table, nan_policy="omit")
        pd.testing.assert_frame_equal(actual, table.corr("kendall"), rtol=STATISTIC)

    def test_constants_and_infinities(self, backend: Backend) -> None:
        A = np.array([[1, np.inf, 3], [1, -np.inf, 2], [1, 0, np.inf], [1, 7, 1.0]])
        for variant in VARIANTS:
            actual = backend.asnumpy(cukde.kendall_matrix(backend.asarray(A), variant=variant))
            assert np.isnan(actual).tolist() == [[True, True, True], [True, False, False], [True, False, False]]
            assert actual[1, 1] == actual[2, 2] == 1
            np.testing.assert_allclose(actual[1, 2], 0, atol=STATISTIC)

    @pytest.mark.parametrize("shape", [(0, 0), (5, 0), (0, 3), (1, 3)])
    def test_empty(self, backend: Backend, shape: tuple[int, int]) -> None:
        A = backend.asarray(np.ones(shape))
        for result in cukde.kendall_matrix(A, pvalue=True):
            assert np.isnan(backend.asnumpy(result)).all()
            assert result.shape == (shape[1], shape[1])
        counts = cukde.concordance(A, backend.asarray(np.ones((shape[0], 2))))
        for count in counts:
            assert count.shape == (shape[1], 2)
            assert count.dtype == np.int64
            assert not backend.asnumpy(count).any()

    @pytest.mark.parametrize("function", [cukde.kendall_matrix, cukde.concordance], ids=lambda f: f.__name__)
    @pytest.mark.parametrize(
        ("A", "B", "error", "words"),
        [
            (np.ones(3), None, ValueError, "A must have shape (rows, columns), a variable a column; got (3,)"),
            (np.ones((3, 2, 1)), None, ValueError, "A must have shape (rows, columns)"),
            (np.ones((3, 2)), np.ones((4, 2)), ValueError, "B must have 3 rows like A; got shape (4, 2)"),
            (np.ones((3, 2), complex), None, ValueError, "A must hold real numbers"),
            pytest.param(
                np.ones((3, 2), np.longdouble), None, ValueError, "A must hold real numbers", marks=extended.needed
            ),
            ([["a"], ["b"]], None, ValueError, "A must hold real numbers"),
            (pd.DataFrame({"a": ["x", "y"]}), None, TypeError, "its column 'a' has dtype"),
            (np.ones((2, 2)), [[1, 2], [3]], ValueError, "B must be a rectangular array of numbers"),
            (np.ma.masked_array([[1, 2]], [[0, 1]]), None, ValueError, "A must not have masked entries"),
            (np.ones((2, 2)), _Cuda(), TypeError, "B is"),
        ],
    )
    def test_errors(self, function: Any, A: Any, B: Any, error: type[Exception], words: str) -> None:
        with pytest.raises(error, match=re.escape(words)):
            function(A, B)

    def test_errors_of_options(self) -> None:
        with pytest.raises(ValueError, match=r"^variant\b"):
            cukde.kendall_matrix([[1], [2]], variant="d")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=r"^nan_policy\b"):
            cukde.kendall_matrix([[1], [2]], nan_policy="drop")  # type: ignore[arg-type]

    @pytest.mark.parametrize("where", ["A", "B"])
    def test_nan_is_raised(self, backend: Backend, where: str) -> None:
        arrays = {"A": np.ones((3, 2)), "B": np.ones((3, 1))}
        arrays[where][1, 0] = np.nan
        A, B = map(backend.asarray, arrays.values())
        with pytest.raises(ValueError, match=f"The input contains nan values: {where}"):
            cukde.kendall_matrix(A, B, nan_policy="raise")
        with pytest.raises(ValueError, match=f"The input contains nan values: {where}"):
            cukde.concordance(A, B)


class TestConcordance:
    @on_a_backend
    @given(
        AB=st.integers(0, 25).flatmap(
            lambda n: st.tuples(
                arrays(np.int64, (n, 3), elements=st.integers(-3, 3)),
                arrays(np.float64, (n, 2), elements=st.one_of(FEW_VALUES, st.floats(-1, 1))),
            )
        )
    )
    def test_counts(self, backend: Backend, AB: tuple[np.ndarray, np.ndarray]) -> None:
        A, B = AB
        for other in (B, None):
            counts = cukde.concordance(backend.asarray(A), backend.asarray(other))
            for i, x in enumerate(A.T):
                for j, y in enumerate((A if other is None else other).T):
                    oracle = reference.pairs_of_samples(x, y)
                    both = oracle.tied_both
                    expected = (oracle.concordant, oracle.discordant, oracle.tied_x - both, oracle.tied_y - both, both)
                    assert tuple(int(count[i, j]) for count in counts) == expected
            total = sum(backend.asnumpy(count) for count in counts)
            assert (total == len(A) * (len(A) - 1) // 2).all()

    def test_the_statistic_of_gpukendall(self, backend: Backend) -> None:
        """Its source counts pairs that are tied in both as concordant: ((C + Txy) - (N - C - Txy)) / N."""
        A = np.random.default_rng(14).integers(0, 4, (40, 5)).astype(np.float32)
        n, p = A.shape
        counts = cukde.concordance(backend.asarray(A))
        pairs = n * (n - 1) // 2
        actual = (2 * (counts.concordant + counts.tied_both) - pairs) / pairs
        expected = np.zeros((p, p))
        for i in range(n):
            for j in range(i + 1, n):
                signs = np.sign(A[i] - A[j])
                expected += np.where(signs[:, None] == signs, 1.0, -1.0)
        np.testing.assert_allclose(backend.asnumpy(actual), expected / pairs, rtol=STATISTIC, atol=STATISTIC)


@pytest.mark.gpu
def test_one_hundred_million_samples() -> None:
    """Neighbours exchanged, and neighbours tied: 5e7 of 5e15 pairs."""
    import cupy as cp

    n = 10**8
    pairs, odd = n * (n - 1) // 2, n // 2
    x = cp.arange(n, dtype=np.int32)
    exchanged = cukde.kendalltau(x, x ^ 1)
    np.testing.assert_allclose(float(exchanged.statistic), (pairs - 2 * odd) / pairs, rtol=1e-15)
    tied = cukde.kendalltau(x, x // 2, variant="a")
    np.testing.assert_allclose(float(tied.statistic), (pairs - odd) / pairs, rtol=1e-15)


def test_examples_of_the_documentation() -> None:
    results = doctest.testmod(kendall_api)
    assert results.attempted >= 6
    assert results.failed == 0
