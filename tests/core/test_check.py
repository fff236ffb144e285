"""Every error a user can cause: its type, and a message that says what was expected, what came, what to do."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

import cukde
from tests import extended

X = np.arange(12.0).reshape(6, 2) / 7
Y = np.array([[0.5, 0.25], [1.0, 0.75]])
V = np.arange(6, dtype=np.int8)  # leaves the dtype of a kernel sum to X and Y
COVARIANCE = np.array([[1.0, 0.3], [0.3, 0.5]])

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "kde": cukde.kde,
    "score": cukde.score,
    "density_and_score": cukde.density_and_score,
    "sd_kde": cukde.sd_kde,
    "laplace_kde": cukde.laplace_kde,
    "kernel_sum": lambda X, Y, h, **options: cukde.kernel_sum(X, V, Y, h, **options),
    "debias": lambda X, Y, h, **options: cukde.debias(X, h, **options),
}
every_function = pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
takes_queries = pytest.mark.parametrize(
    "function", [f for name, f in FUNCTIONS.items() if name != "debias"], ids=[n for n in FUNCTIONS if n != "debias"]
)
takes_weights = pytest.mark.parametrize(
    "function",
    [f for name, f in FUNCTIONS.items() if name != "kernel_sum"],
    ids=[n for n in FUNCTIONS if n != "kernel_sum"],
)


def raises(error: type[Exception], *parts: str) -> Any:
    """Expect an error whose message holds all the parts, in this order."""
    return pytest.raises(error, match="(?s)" + ".*".join(map(re.escape, parts)))


class TestShapes:
    @every_function
    @pytest.mark.parametrize("shape", [(), (2, 3, 1, 1)])  # three dimensions are a stack
    def test_data_of_a_wrong_number_of_dimensions(self, function: Callable[..., Any], shape: tuple[int, ...]) -> None:
        with raises(ValueError, "X must have shape (rows, columns), or (rows,)", f"got {shape}"):
            function(np.ones(shape), Y, 1.0)

    @takes_queries
    @pytest.mark.parametrize("shape", [(), (2, 3, 1)])
    def test_queries_of_a_wrong_number_of_dimensions(
        self, function: Callable[..., Any], shape: tuple[int, ...]
    ) -> None:
        with raises(ValueError, "Y must have shape (rows, columns), or (rows,)", f"got {shape}"):
            function(X, np.ones(shape), 1.0)

    @takes_queries
    def test_queries_of_other_columns(self, function: Callable[..., Any]) -> None:
        with raises(ValueError, "Y must have 2 columns like X; got shape (5, 3)"):
            function(X, np.ones((5, 3)), 1.0)
        with raises(ValueError, "Y must have 1 columns like X; got shape (5, 2)"):
            function(X[:, 0], np.ones((5, 2)), 1.0)

    @takes_queries
    def test_a_vector_of_queries_in_several_dimensions_names_the_fix(self, function: Callable[..., Any]) -> None:
        with raises(ValueError, "Y must have 2 columns like X; got shape (2,): write Y[None, :]"):
            function(X, np.ones(2), 1.0)
        with raises(ValueError, "Y must have 2 columns like X; got shape (0,)"):
            function(X, [], 1.0)

    @every_function
    @pytest.mark.parametrize("empty", [np.empty(0), np.empty((0, 2)), []], ids=["vector", "matrix", "list"])
    def test_no_data(self, function: Callable[..., Any], empty: Any) -> None:
        with raises(ValueError, "X must have at least one row; got shape (0"):
            function(empty, np.ones(3), 1.0)

    @every_function
    def test_no_columns(self, function: Callable[..., Any]) -> None:
        with raises(ValueError, "X must have at least one column; got shape (6, 0)"):
            function(np.empty((6, 0)), np.empty((6, 0)), 1.0)

    def test_values_of_a_wrong_shape(self) -> None:
        for shape in ((), (5,), (1, 6), (6, 0), (6, 2, 1)):
            with raises(ValueError, "V must have shape (6,) or (6, k), a row for each row of X", f"got {shape}"):
                cukde.kernel_sum(X, np.ones(shape), Y, 1.0)

    @takes_weights
    @pytest.mark.parametrize("shape", [(), (5,), (1, 6), (6, 1)])
    def test_weights_of_a_wrong_shape(self, function: Callable[..., Any], shape: tuple[int, ...]) -> None:
        with raises(ValueError, "weights must have shape (6,), one for each row of X", f"got {shape}"):
            function(X, Y, 1.0, weights=np.ones(shape))


class TestDtypes:
    @every_function
    @pytest.mark.parametrize(
        "wrong",
        [
            X.astype(complex),
            pytest.param(X.astype(np.longdouble), marks=extended.needed, id="longdouble"),
            X.astype(str),
            X.astype(object),
            X.astype("datetime64[s]"),
            X.astype("timedelta64[s]"),
            np.zeros(3, [("a", float)]),
            [[datetime(2020, 1, 1)]],
            ["a", "b"],
            [1.0, None],
            None,
            {"a": 1},
        ],
        ids=lambda a: str(a.dtype) if isinstance(a, np.ndarray) else type(a).__name__,
    )
    def test_data_that_are_not_real_numbers(self, function: Callable[..., Any], wrong: Any) -> None:
        with raises(TypeError, "X must hold real numbers (float16, float32, float64, integers", "got dtype"):
            function(wrong, Y, 1.0)

    def test_other_arrays_that_are_not_real_numbers(self) -> None:
        with raises(TypeError, "Y must hold real numbers", "got dtype complex128"):
            cukde.kde(X, Y * 1j, 1.0)
        with raises(TypeError, "V must hold real numbers", "got dtype complex64"):
            cukde.kernel_sum(X, V.astype(np.complex64), Y, 1.0)
        with raises(TypeError, "weights must hold real numbers", "got dtype object"):
            cukde.kde(X, Y, 1.0, weights=V.astype(object))

    def test_ragged_lists(self) -> None:
        for name, call in (
            ("X", lambda ragged: cukde.kde(ragged, Y, 1.0)),
            ("Y", lambda ragged: cukde.kde(X, ragged, 1.0)),
            ("V", lambda ragged: cukde.kernel_sum(X, ragged, Y, 1.0)),
            ("weights", lambda ragged: cukde.kde(X, Y, 1.0, weights=ragged)),
        ):
            with raises(ValueError, f"{name} must be a rectangular array of numbers"):
                call([[1.0, 2.0], [3.0]])

    @every_function
    def test_masked_entries_are_refused(self, function: Callable[..., Any]) -> None:
        mask = np.zeros(X.shape, bool)
        mask[0, 1] = True
        with raises(ValueError, "X must not have masked entries", "drop those rows"):
            function(np.ma.array(X, mask=mask), Y, 1.0)

    def test_a_mask_without_entries_is_fine(self) -> None:
        np.testing.assert_array_equal(cukde.kde(np.ma.array(X), Y, 1.0), cukde.kde(X, Y, 1.0))

    def test_the_way_out_of_a_mask_works(self) -> None:
        """What the message says to write is accepted."""
        masked = np.ma.array(X, mask=np.arange(12).reshape(6, 2) == 3)
        with pytest.raises(ValueError, match="masked") as caught:
            cukde.kde(masked, Y, 1.0)
        expression = str(caught.value).partition("e.g. ")[2]
        rows = eval(expression, {"np": np, "numpy": np, "X": masked})
        np.testing.assert_array_equal(cukde.kde(rows, Y, 1.0), cukde.kde(np.delete(X, 1, axis=0), Y, 1.0))


class TestFinite:
    @every_function
    @pytest.mark.parametrize("h", [1.0, 1e-14, np.ones(2), COVARIANCE], ids=["scalar", "tiny", "vector", "matrix"])
    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_data_that_are_not_finite(self, function: Callable[..., Any], bad: float, h: Any) -> None:
        for dtype in ("float16", "float32", "float64"):
            broken = X.astype(dtype)
            broken[2, 1] = bad
            with raises(ValueError, "X must be finite; it holds NaN or infinity"):
                function(broken, Y, h)

    @takes_queries
    @pytest.mark.parametrize("h", [1.0, np.ones(2), COVARIANCE], ids=["scalar", "vector", "matrix"])
    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_queries_that_are_not_finite(self, function: Callable[..., Any], bad: float, h: Any) -> None:
        with raises(ValueError, "Y must be finite; it holds NaN or infinity"):
            function(X, [[0.0, 1.0], [bad, 0.0]], h)

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_values_that_are_not_finite(self, bad: float) -> None:
        with raises(ValueError, "V must be finite; it holds NaN or infinity"):
            cukde.kernel_sum(X, np.where(V == 3, bad, V), Y, 1.0)

    @takes_weights
    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_weights_that_are_not_finite(self, function: Callable[..., Any], bad: float) -> None:
        with raises(ValueError, "weights must be finite; it holds NaN or infinity"):
            function(X, Y, 1.0, weights=np.where(V == 3, bad, V))

    @every_function
    @pytest.mark.parametrize("h", [1.0, np.ones(2), COVARIANCE], ids=["scalar", "vector", "matrix"])
    def test_the_check_can_be_skipped(self, function: Callable[..., Any], h: Any) -> None:
        """Whatever comes out, nothing is raised and the shapes hold."""
        broken = X.copy()
        broken[2, 1] = np.nan
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", RuntimeWarning)
            got = function(broken, Y, h, check_finite=False)
            sound = function(X, Y, h, check_finite=False)
        for a, b in zip(got, function(X, Y, h), strict=True):
            assert np.shape(a) == np.shape(b)
        for a, b in zip(sound, function(X, Y, h), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)

    def test_the_first_argument_at_fault_is_named(self) -> None:
        with raises(ValueError, "X must be finite"):
            cukde.kde(X * np.nan, Y * np.nan, 1.0)


class TestBandwidth:
    @every_function
    @pytest.mark.parametrize(
        "h", [0, 0.0, -1.0, np.float32(-2), [1.0, 0.0], [-1.0, 1.0]], ids=lambda h: str(h).replace(" ", "")
    )
    def test_a_bandwidth_that_is_not_positive(self, function: Callable[..., Any], h: Any) -> None:
        with raises(ValueError, "h must be positive; got", str(h)):
            function(X, Y, h)

    @every_function
    @pytest.mark.parametrize("h", [np.nan, np.inf, -np.inf, [1.0, np.nan], [[1.0, 0.0], [0.0, np.inf]]], ids=str)
    def test_a_bandwidth_that_is_not_finite(self, function: Callable[..., Any], h: Any) -> None:
        with raises(ValueError, "h must be finite; got", str(h)):
            function(X, Y, h)

    @every_function
    @pytest.mark.parametrize("shape", [(1,), (3,), (1, 1), (2, 1), (3, 3), (2, 2, 2), (0,)], ids=str)
    def test_a_bandwidth_of_a_wrong_shape(self, function: Callable[..., Any], shape: tuple[int, ...]) -> None:
        expected = "h must be a scalar, 2 standard deviations of shape (2,), or a covariance of shape (2, 2)"
        with raises(ValueError, expected, f"got shape {shape}"):
            function(X, Y, np.ones(shape))

    @every_function
    def test_a_covariance_that_is_not_symmetric(self, function: Callable[..., Any]) -> None:
        for other, asymmetry in ((0.1, "0.2"), (0.3001, "0.0001")):
            with raises(ValueError, f"h must be a symmetric covariance; its largest asymmetry is {asymmetry}"):
                function(X, Y, [[1.0, 0.3], [other, 1.0]])

    def test_rounding_is_no_asymmetry(self) -> None:
        nearly = COVARIANCE.astype(np.float32) + np.array([[0, 3e-8], [0, 0]], np.float32)
        np.testing.assert_allclose(cukde.kde(X, Y, nearly), cukde.kde(X, Y, COVARIANCE), rtol=1e-6)

    @every_function
    @pytest.mark.parametrize(
        ("matrix", "least"),
        [
            ([[1.0, 2.0], [2.0, 1.0]], "-1"),
            ([[-1.0, 0.0], [0.0, 1.0]], "-1"),
            (np.zeros((2, 2)), "0"),
            (np.ones((2, 2)), ""),
        ],
        ids=["indefinite", "negative", "zero", "singular"],
    )
    def test_a_covariance_that_is_not_positive_definite(
        self, function: Callable[..., Any], matrix: Any, least: str
    ) -> None:
        with raises(ValueError, f"h must be a positive definite covariance; its smallest eigenvalue is {least}"):
            function(X, Y, matrix)

    @every_function
    def test_an_unknown_rule_lists_those_that_there_are(self, function: Callable[..., Any]) -> None:
        rules = ("scott", "silverman", "scott_deviations", "sd", "laplace", "positive", "isj", "cross_validate")
        with raises(ValueError, "h must be a number, an array or one of", *map(repr, rules), "; got 'wide'"):
            function(X, Y, "wide")

    @every_function
    @pytest.mark.parametrize(
        "h",
        [
            *(None, True, [True, True], 1j, ["1", "2"], [None, 1.0], 10**400, object()),
            pytest.param(np.longdouble(1), marks=extended.needed),
        ],
        ids=lambda h: type(h).__name__,
    )
    def test_a_bandwidth_that_is_no_real_number(self, function: Callable[..., Any], h: Any) -> None:
        with raises(TypeError, "h must be a real number or an array of them; got"):
            function(X, Y, h)

    @every_function
    def test_a_function_for_the_bandwidth(self, function: Callable[..., Any]) -> None:
        with raises(TypeError, "got <function silverman at ", ": write h=function(X)"):
            function(X, Y, cukde.bandwidth.silverman)

    def test_a_ragged_bandwidth(self) -> None:
        with raises(ValueError, "h must be"):
            cukde.kde(X, Y, [[1.0], [1.0, 2.0]])

    def test_lists_are_bandwidths(self) -> None:
        np.testing.assert_array_equal(cukde.kde(X, Y, [1, 2]), cukde.kde(X, Y, np.array([1.0, 2.0])))
        np.testing.assert_array_equal(cukde.kde(X, Y, COVARIANCE.tolist()), cukde.kde(X, Y, COVARIANCE))

    @pytest.mark.parametrize("function", [cukde.debias, lambda X, h, **o: cukde.sd_kde(X, Y, h, **o)])
    def test_the_bandwidth_of_the_score_is_checked_under_its_own_name(self, function: Callable[..., Any]) -> None:
        for wrong in (-1.0, np.nan, np.ones(3), [[1.0, 2.0], [2.0, 1.0]], [[1.0, 0.3], [0.1, 1.0]], "wide"):
            with raises(ValueError, "score_bandwidth must be"):
                function(X, 1.0, score_bandwidth=wrong)
        with raises(TypeError, "score_bandwidth must be a real number"):
            function(X, 1.0, score_bandwidth=True)

    @pytest.mark.parametrize(
        ("dtype", "far", "h"), [("float32", 1e20, 1e-5), ("float32", 1e30, 1e10), ("float64", 1e200, 1.0)]
    )
    @every_function
    def test_data_over_more_bandwidths_than_the_arithmetic_spans(
        self, function: Callable[..., Any], dtype: str, far: float, h: float
    ) -> None:
        wide = X.astype(dtype)
        wide[0, 0] = far
        with raises(ValueError, "must lie within", "bandwidths", "rescale the data or enlarge h"):
            function(wide, Y.astype(dtype), h)


class TestWeights:
    @takes_weights
    def test_negative_weights(self, function: Callable[..., Any]) -> None:
        with raises(ValueError, "weights must not be negative; the smallest is -0.5"):
            function(X, Y, 1.0, weights=[1, 1, -0.5, 1, 1, 1])

    @takes_weights
    def test_weights_that_are_all_zero(self, function: Callable[..., Any]) -> None:
        with raises(ValueError, "weights must not all be zero"):
            function(X, Y, 1.0, weights=np.zeros(6))

    def test_integers_and_booleans_are_weights(self) -> None:
        want = cukde.kde(X[:2], Y, 1.0)
        for dtype in (bool, np.int8, np.uint64, np.float16):
            got = cukde.kde(X, Y, 1.0, weights=np.array([1, 1, 0, 0, 0, 0], dtype))
            np.testing.assert_allclose(got, want, rtol=1e-14)


class TestOptions:
    @every_function
    @pytest.mark.parametrize("precision", ["double", "", 32, True, ["tf32"], np.float32])
    def test_an_unknown_precision(self, function: Callable[..., Any], precision: Any) -> None:
        with raises(ValueError, "precision must be one of float32, tf32, ieee, float64 or None; got", repr(precision)):
            function(X, Y, 1.0, precision=precision)

    @pytest.mark.parametrize("negative", ["zero", None, True, 0])
    def test_an_unknown_way_with_negative_densities(self, negative: Any) -> None:
        with raises(ValueError, 'negative must be "keep" or "clip"; got', repr(negative)):
            cukde.laplace_kde(X, Y, 1.0, negative=negative)


class _OnGpu:
    """Looks like an array in GPU memory; nothing must read it."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (2, 2), "typestr": "<f8", "data": (0, False), "version": 3}


class _OnRocm:
    """A DLPack array on a device that no backend serves."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return (10, 0)

    def __dlpack__(self, **_: Any) -> Any:
        raise AssertionError("must not be asked for data")


class TestDevices:
    @takes_queries
    def test_queries_on_the_gpu_beside_data_on_the_cpu(self, function: Callable[..., Any]) -> None:
        with raises(TypeError, "Y is on the GPU but X is not; write cupy.asarray(X)", "cupy.asnumpy(Y)"):
            function(X, _OnGpu(), 1.0)

    def test_weights_and_values_on_the_gpu_beside_data_on_the_cpu(self) -> None:
        for name in ("weights", "local_factors"):
            with raises(TypeError, f"{name} is on the GPU but X is not", f"cupy.asnumpy({name})"):
                cukde.kde(X, Y, 1.0, **{name: _OnGpu()})
        with raises(TypeError, "V is on the GPU but X is not", "cupy.asnumpy(V)"):
            cukde.kernel_sum(X, _OnGpu(), Y, 1.0)

    @every_function
    def test_a_device_that_nobody_serves(self, function: Callable[..., Any]) -> None:
        with raises(TypeError, "host memory or on a CUDA device; got DLPack device type 10"):
            function(_OnRocm(), Y, 1.0)


class _Refusal(Exception):
    """An error that names the argument at fault."""


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """Turn this package's own errors into :class:`_Refusal`; others pass."""
    try:
        yield
    except ValueError as error:
        if re.match("(X|Y|weights|h) ", str(error)):
            raise _Refusal from error
        raise


MAGNITUDES = st.floats(1e-300, 1e300)
COORDINATES = st.just(0.0) | MAGNITUDES | MAGNITUDES.map(lambda x: -x)


class TestNoSilentNaN:
    @settings(max_examples=400, deadline=None, derandomize=True)
    @given(
        data=st.integers(1, 2).flatmap(
            lambda d: st.tuples(
                st.lists(st.lists(COORDINATES, min_size=d, max_size=d), min_size=1, max_size=4),
                st.lists(st.lists(COORDINATES, min_size=d, max_size=d), min_size=1, max_size=3),
            )
        ),
        h=MAGNITUDES,
        vector=st.booleans(),
        weights=st.none() | st.lists(st.just(0.0) | MAGNITUDES, min_size=4, max_size=4),
        single=st.booleans(),
    )
    @example(data=([[0.0]], [[1e160]]), h=1e10, vector=False, weights=None, single=False)
    @example(data=([[0.0]], [[0.0]]), h=1e-300, vector=False, weights=None, single=False)
    @example(data=([[1e-300, 0.0]], [[0.0, 0.0]]), h=1e-300, vector=True, weights=None, single=False)
    @example(data=([[1e300], [-1e300]], [[0.0]]), h=1e300, vector=False, weights=None, single=False)
    @example(data=([[1e300], [1e300]], [[1e300]]), h=1e160, vector=False, weights=None, single=False)
    @example(data=([[0.0], [1e140]], [[1e140]]), h=1.0, vector=False, weights=[1.0, 0, 0, 0], single=False)
    @example(data=([[1e38], [1e38]], [[1e38]]), h=1e38, vector=False, weights=None, single=True)
    def test_extreme_numbers_give_an_error_or_numbers(
        self, data: Any, h: float, vector: bool, weights: list[float] | None, single: bool
    ) -> None:
        dtype = np.float32 if single else np.float64
        with np.errstate(over="ignore"):
            points, queries = (np.array(rows, dtype) for rows in data)
        bandwidth = np.full(points.shape[1], h) if vector else h
        w = None if weights is None else np.array(weights[: len(points)])
        for call in (
            lambda: cukde.kde(points, queries, bandwidth, weights=w),
            lambda: cukde.kde(points, queries, bandwidth, weights=w, log=True),
            lambda: cukde.score(points, queries, bandwidth, weights=w),
        ):
            # An error is one of this package's own, which begins with the argument's name.
            with contextlib.suppress(_Refusal), refusals():
                assert not np.isnan(call()).any()


@pytest.mark.parametrize("h", [5e-324, [5e-324, 1.0]])
def test_a_bandwidth_whose_reciprocal_leaves_float64(h: Any) -> None:
    """Of subnormal numbers; without a warning of NumPy's about it."""
    with raises(ValueError, "X and Y must lie within", "bandwidths of their centre"):
        cukde.kde(X, Y, h)


@pytest.mark.parametrize("h", [1.0, [1.0, 2.0], COVARIANCE], ids=["scalar", "vector", "covariance"])
@pytest.mark.parametrize("entry", [np.nan, np.inf, 1e300])
def test_nothing_is_said_where_nobody_looks(h: Any, entry: float) -> None:
    """With ``check_finite=False`` such data make what they make, without warnings of NumPy's, as on the GPU."""
    points = X.copy()
    points[3, 1] = entry
    for function in FUNCTIONS.values():
        function(points, Y, h, check_finite=False)


def test_values_beyond_single_precision_are_infinite() -> None:
    single = [a.astype(np.float32) for a in (X, Y)]
    found = cukde.kernel_sum(single[0], np.full(6, 1e300), single[1], 1.0, precision="float32", check_finite=False)
    assert np.isinf(found).all()


def test_a_kernel_sum_without_values() -> None:
    with raises(TypeError, "V must be an array; got None"):
        cukde.kernel_sum(X, None, Y, 1.0)


def test_points_that_the_score_moves_out_of_range() -> None:
    with raises(ValueError, "X and Y must lie within", "bandwidths of their centre"):
        cukde.sd_kde(X, Y, [1e300, 1e300], score_bandwidth=1.5)


@pytest.mark.parametrize("factor", [0.0, 1e-200, np.nan, np.inf, -1.0])
def test_factors_that_nobody_looks_at(factor: float) -> None:
    for dtype in ("float32", "float64"):
        cukde.kde(X.astype(dtype), Y.astype(dtype), 1.0, local_factors=np.full(6, factor), check_finite=False)
