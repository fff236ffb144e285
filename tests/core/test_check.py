"""Every error a user can cause: its type, and a message that says what was expected, what came, what to do."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

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
    "kernel_sum": lambda X, Y, h, V=V, **options: cukde.kernel_sum(X, V, Y, h, **options),
    "debias": lambda X, Y, h, **options: cukde.debias(X, h, **options),
}
QUERIES_OF, WEIGHTS_OF = (tuple(name for name in FUNCTIONS if name != other) for other in ("debias", "kernel_sum"))


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


def _with(a: Any, entry: Any, dtype: Any = float) -> np.ndarray:
    """A copy with one entry replaced."""
    a = np.array(a, dtype)
    a.flat[-3] = entry
    return a


class Case(NamedTuple):
    """Arguments that are replaced in a good call, and the error: its message begins with an argument's name."""

    given: dict[str, Any]
    error: type[Exception]
    message: tuple[str, ...]  # parts of it, in this order
    functions: Collection[str] = tuple(FUNCTIONS)


def each(name: str, values: Iterable[Any], error: type[Exception], *message: str, of: Any = FUNCTIONS) -> list[Case]:
    """One argument's values that are refused alike: the first one's message is compared whole."""
    argument = message[0].split()[0]
    return [
        Case({name: value}, error, message if number == 0 else (f"{argument} ",), tuple(of))
        for number, value in enumerate(values)
    ]


NOT_FINITE = (np.nan, np.inf, -np.inf)
_REAL = "must hold real numbers"
_SHAPE = "must have shape (rows, columns), or (rows,)"
_MASK = np.arange(12).reshape(6, 2) == 1

REFUSED = [
    # Shapes; three dimensions of data are a stack.
    *each("X", (np.ones(()), np.ones((2, 3, 1, 1))), ValueError, f"X {_SHAPE}", "got ("),
    *each("Y", (np.ones(()), np.ones((2, 3, 1))), ValueError, "Y", "got (", of=QUERIES_OF),
    *each("Y", [np.ones((5, 3))], ValueError, "Y must have 2 columns like X; got shape (5, 3)", of=QUERIES_OF),
    Case({"X": X[:, 0], "Y": Y}, ValueError, ("Y", "1", "(2, 2)"), QUERIES_OF),
    *each("Y", [np.ones(2)], ValueError, "Y", "(2,): write Y[None, :]", of=QUERIES_OF),
    *each("Y", [[]], ValueError, "Y", "(0,)", of=QUERIES_OF),
    *each("X", (np.empty(0), np.empty((0, 2)), []), ValueError, "X must have at least one row; got shape (0"),
    *each("X", [np.empty((6, 0))], ValueError, "X must have at least one column; got shape (6, 0)"),
    *each(
        "weights",
        (np.ones(()), np.ones(5), np.ones((1, 6)), np.ones((6, 1))),
        ValueError,
        *("weights must have shape (6,), one for each row of X", "got ("),
        of=WEIGHTS_OF,
    ),
    # Dtypes
    *each(
        "X",
        [
            *(X.astype(dtype) for dtype in (complex, str, object, "datetime64[s]", "timedelta64[s]")),
            *([] if extended.IS_DOUBLE else [X.astype(np.longdouble)]),
            *(np.zeros(3, [("a", float)]), [[datetime(2020, 1, 1)]], ["a", "b"], [1.0, None], None, {"a": 1}),
        ],
        TypeError,
        *(f"X {_REAL} (float16, float32, float64, integers", "got dtype"),
    ),
    *each("Y", [Y * 1j], TypeError, "Y", "got dtype complex128", of=QUERIES_OF),
    *each("weights", [V.astype(object)], TypeError, "weights", "got dtype object", of=WEIGHTS_OF),
    *each("X", [[[1.0, 2.0], [3.0]]], ValueError, "X must be a rectangular array of numbers"),
    *each("Y", [[[1.0, 2.0], [3.0]]], ValueError, "Y", of=QUERIES_OF),
    *each("weights", [[[1.0, 2.0], [3.0]]], ValueError, "weights", of=WEIGHTS_OF),
    *each("X", [np.ma.array(X, mask=_MASK)], ValueError, "X must not have masked entries", "drop those rows"),
    # Finite numbers, whatever the bandwidth; the first argument at fault is named
    *each("X", [_with(X, np.nan)], ValueError, "X must be finite; it holds NaN or infinity"),
    *(
        Case({"X": _with(X, bad, dtype), "Y": Y * np.nan, "h": h}, ValueError, ("X",))
        for bad in NOT_FINITE
        for h, dtype in ((1.0, "float16"), (1e-14, "float32"), (np.ones(2), "float64"), (COVARIANCE, "float32"))
    ),
    *(
        Case({"Y": _with(Y, bad), "h": h}, ValueError, ("Y",), QUERIES_OF)
        for bad in NOT_FINITE
        for h in (1.0, np.ones(2), COVARIANCE)
    ),
    *each("weights", (_with(V, bad) for bad in NOT_FINITE), ValueError, "weights", of=WEIGHTS_OF),
    # Bandwidths
    *each("h", (0, 0.0, -1.0, np.float32(-2), [1.0, 0.0], [-1.0, 1.0]), ValueError, "h must be positive; got"),
    *each("h", (*NOT_FINITE, [1.0, np.nan], [[1.0, 0.0], [0.0, np.inf]]), ValueError, "h must be finite; got"),
    *each(
        "h",
        (np.ones(shape) for shape in ((1,), (3,), (1, 1), (2, 1), (3, 3), (2, 2, 2), (0,))),
        ValueError,
        *("h must be a scalar, 2 standard deviations of shape (2,), or a covariance of shape (2, 2)", "got shape ("),
    ),
    *each("h", [[[1.0], [1.0, 2.0]]], ValueError, "h must be"),
    *each("h", [[[1.0, 0.3], [0.1, 1.0]]], ValueError, "h must be a symmetric covariance", "asymmetry is 0.2"),
    *each("h", [[[1.0, 0.3], [0.3001, 1.0]]], ValueError, "h", "0.0001"),
    *each(
        "h",
        ([[1.0, 2.0], [2.0, 1.0]], [[-1.0, 0.0], [0.0, 1.0]]),
        *(ValueError, "h must be a positive definite covariance; its smallest eigenvalue is -1"),
    ),
    *each(
        "h", (np.zeros((2, 2)), np.ones((2, 2))), ValueError, "h must be a positive definite covariance; its smallest"
    ),
    *each(
        *("h", ["wide"], ValueError, "h must be a number, an array or one of", "'scott', 'silverman'"),
        *("'scott_deviations'", "'sd', 'laplace', 'positive', 'isj', 'cross_validate'", "; got 'wide'"),
    ),
    *each(
        "h",
        (
            *(None, True, [True, True], 1j, ["1", "2"], [None, 1.0], 10**400, object()),
            *([] if extended.IS_DOUBLE else [np.longdouble(1)]),
        ),
        *(TypeError, "h must be a real number or an array of them; got"),
    ),
    *each(
        "h", [cukde.bandwidth.silverman], TypeError, "h must", "got <function silverman at ", ": write h=function(X)"
    ),
    *(
        Case({"X": _with(X, far, dtype), "Y": Y.astype(dtype), "h": h}, ValueError, ("X", "bandwidths"))
        for dtype, far, h in (("float32", 1e20, 1e-5), ("float32", 1e30, 1e10), ("float64", 1e200, 1.0))
    ),
    # Weights, and options
    *each("weights", [_with(np.ones(6), -0.5)], ValueError, "weights must not be negative", "-0.5", of=WEIGHTS_OF),
    *each("weights", [np.zeros(6)], ValueError, "weights must not all be zero", of=WEIGHTS_OF),
    *each(
        "precision",
        ("double", "", 32, True, ["tf32"], np.float32),
        *(ValueError, "precision must be one of float32, tf32, ieee, float64 or None; got"),
    ),
    *each(
        "negative",
        ("zero", None, True, 0),
        *(ValueError, 'negative must be "keep" or "clip"; got'),
        of=["laplace_kde"],
    ),
    *each(
        "score_bandwidth",
        (-1.0, np.nan, np.ones(3), [[1.0, 2.0], [2.0, 1.0]], [[1.0, 0.3], [0.1, 1.0]], "wide"),
        *(ValueError, "score_bandwidth must be"),
        of=("debias", "sd_kde"),
    ),
    *each("score_bandwidth", [True], TypeError, "score_bandwidth must be a real", of=("debias", "sd_kde")),
    # Values of sums
    *each(
        "V",
        (np.ones(shape) for shape in ((), (5,), (1, 6), (6, 0), (6, 2, 1))),
        *(ValueError, "V must have shape (6,) or (6, k), a row for each row of X", "got ("),
        of=["kernel_sum"],
    ),
    *each("V", [V.astype(np.complex64)], TypeError, "V", "got dtype complex64", of=["kernel_sum"]),
    *each("V", [[[1.0, 2.0], [3.0]]], ValueError, "V", of=["kernel_sum"]),
    *each("V", (_with(V, bad) for bad in NOT_FINITE), ValueError, "V", of=["kernel_sum"]),
    *each("V", [None], TypeError, "V must be an array; got None", of=["kernel_sum"]),
    # Devices
    *each(
        *("Y", [_OnGpu()], TypeError, "Y is on the GPU but X is not; write cupy.asarray(X)", "cupy.asnumpy(Y)"),
        of=QUERIES_OF,
    ),
    *each("weights", [_OnGpu()], TypeError, "weights", "asnumpy(weights)", of=WEIGHTS_OF),
    *each("local_factors", [_OnGpu()], TypeError, "local_factors", of=["kde"]),
    *each("V", [_OnGpu()], TypeError, "V", "cupy.asnumpy(V)", of=["kernel_sum"]),
    *each(
        "X", [_OnRocm()], TypeError, "arrays must live in host memory or on a CUDA device; got DLPack device type 10"
    ),
]


@pytest.mark.parametrize(
    "case", REFUSED, ids=lambda case: f"{[*case.given]}-{case.error.__name__}-{case.message[0][:20]}"
)
def test_what_is_refused(case: Case) -> None:
    """By every function: the first one's message is compared, of others the argument that it begins with."""
    first, *others = case.functions
    for name in (first, *others):
        parts = case.message if name == first else (case.message[0].split()[0] + " ",)
        with pytest.raises(case.error, match="(?s)^" + ".*".join(map(re.escape, parts))):
            FUNCTIONS[name](**{"X": X, "Y": Y, "h": 1.0} | case.given)


def test_what_is_allowed() -> None:
    """A mask without entries, rounding of a symmetric covariance, lists, and weights of any dtype."""
    want = cukde.kde(X, Y, COVARIANCE)
    np.testing.assert_array_equal(cukde.kde(np.ma.array(X), Y, COVARIANCE), want)
    nearly = COVARIANCE.astype(np.float32) + np.array([[0, 3e-8], [0, 0]], np.float32)
    np.testing.assert_allclose(cukde.kde(X, Y, nearly), want, rtol=1e-6)
    np.testing.assert_array_equal(cukde.kde(X, Y, COVARIANCE.tolist()), want)
    np.testing.assert_array_equal(cukde.kde(X, Y, [1, 2]), cukde.kde(X, Y, np.array([1.0, 2.0])))
    want = cukde.kde(X[:2], Y, 1.0)
    for dtype in (bool, np.int8, np.uint64, np.float16):
        got = cukde.kde(X, Y, 1.0, weights=np.array([1, 1, 0, 0, 0, 0], dtype))
        np.testing.assert_allclose(got, want, rtol=1e-14)


def test_the_way_out_of_a_mask_works() -> None:
    """What the message says to write is accepted."""
    masked = np.ma.array(X, mask=np.arange(12).reshape(6, 2) == 3)
    with pytest.raises(ValueError, match="X") as caught:
        cukde.kde(masked, Y, 1.0)
    expression = str(caught.value).partition("e.g. ")[2]
    rows = eval(expression, {"np": np, "numpy": np, "X": masked})
    np.testing.assert_array_equal(cukde.kde(rows, Y, 1.0), cukde.kde(np.delete(X, 1, axis=0), Y, 1.0))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("h", [1.0, np.ones(2), COVARIANCE], ids=["scalar", "vector", "matrix"])
def test_the_check_can_be_skipped(name: str, h: Any) -> None:
    """Whatever comes out, nothing is raised and the shapes hold."""
    function, broken = FUNCTIONS[name], _with(X, np.nan)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        got = function(broken, Y, h, check_finite=False)
        sound = function(X, Y, h, check_finite=False)
    for a, b, c in zip(got, sound, function(X, Y, h), strict=True):
        assert np.shape(a) == np.shape(c)
        np.testing.assert_allclose(b, c, rtol=1e-12)


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
    with pytest.raises(ValueError, match="X and Y"):
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


def test_points_that_the_score_moves_out_of_range() -> None:
    with pytest.raises(ValueError, match="X and Y"):
        cukde.sd_kde(X, Y, [1e300, 1e300], score_bandwidth=1.5)


@pytest.mark.parametrize("factor", [0.0, 1e-200, np.nan, np.inf, -1.0])
def test_factors_that_nobody_looks_at(factor: float) -> None:
    for dtype in ("float32", "float64"):
        cukde.kde(X.astype(dtype), Y.astype(dtype), 1.0, local_factors=np.full(6, factor), check_finite=False)
