"""Piecewise polynomials on each backend, against SciPy's PPoly and sums of powers in float64."""

from __future__ import annotations

import itertools
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st
from scipy.interpolate import BSpline, CubicSpline, PPoly, make_interp_spline

import cukde
from cukde.piecewise import pwpa
from tests import extended, reference, tolerances
from tests.conftest import Backend
from tests.private import piecewise_pieces

TOLERANCE = {"float64": 1e-13, "float32": 1e-6, "float16": 2**-11 + 1e-6}
"""Error in units of sum_j |c_j| |u|^(k-1-j), u = x - knot: of the recurrence, and in float16 of the one rounding."""

BEYOND = (True, False, "periodic", "clamp")

on_a_backend = settings(  # examples do not change what the fixture made, and each backend has a test of its own
    max_examples=20,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
    deadline=None,
)


def compare(actual: np.ndarray, expected: np.ndarray, scale: np.ndarray, dtype: str) -> None:
    assert actual.dtype == dtype
    assert actual.shape == expected.shape
    inside = ~(scale > np.finfo(dtype).max)  # beyond, terms are infinite
    actual, expected, scale = actual[inside], expected[inside], scale[inside]
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(actual), ~known)
    error = np.abs(actual[known].astype(np.float64) - expected[known])
    tolerances.check(error, TOLERANCE[dtype] * scale[known] + np.finfo(dtype).tiny, "values")


def near(knots: np.ndarray, dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Points on the knots, next to them, between and beyond them, and NaN; of one dtype, in any order."""
    number = np.dtype(dtype).type
    at = knots.astype(dtype)
    span = abs(float(knots[-1] - knots[0]))
    middle = (float(knots[0]) + float(knots[-1])) / 2
    within = rng.uniform(middle - span, middle + span, 200)
    x = [at, np.nextafter(at, number(np.inf)), np.nextafter(at, number(-np.inf)), within.astype(dtype), [np.nan]]
    return rng.permutation(np.concatenate(x).astype(dtype))


def limit(c: np.ndarray, sign: int) -> float:
    """Of the polynomial of coefficients c, the leading one first, at infinity of that sign."""
    for degree, coefficient in zip(range(len(c) - 1, -1, -1), c, strict=True):
        if coefficient != 0:
            return float(coefficient * (np.inf * sign**degree if degree else 1))
    return 0.0


def held(x: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """Points held at the ends, or at the next numbers of their dtype within."""
    low, high = x.dtype.type(knots.min()), x.dtype.type(knots.max())
    low = np.nextafter(low, high) if low < knots.min() else low
    high = np.nextafter(high, low) if high > knots.max() else high
    return np.clip(x, low, high)


def some_knots(m: int, spacing: str, rng: np.random.Generator, falls: bool = False) -> np.ndarray:
    """m + 1 of float64, about 1 apart."""
    if spacing == "uniform":
        knots = np.arange(m + 1) - m / 3
    elif spacing == "crowded":  # most of them where they fill a millionth of the range
        knots = np.sort(rng.uniform(0, 1, m + 1) ** 6) * m
    else:
        knots = np.cumsum(rng.uniform(0.01, 2, m + 1)) - m / 3
    assert (np.diff(knots) > 0).all()
    return knots[::-1].copy() if falls else knots


class TestEvaluation:
    @on_a_backend
    @given(
        m=st.one_of(st.integers(1, 40), st.sampled_from([64, 255, 256, 1000, 4096])),
        k=st.integers(1, 13),
        spacing=st.sampled_from(["uniform", "random", "crowded"]),
        falls=st.booleans(),
        trailing=st.sampled_from([(), (), (3,), (2, 2)]),
        dtype=st.sampled_from(["float32", "float64"]),
        beyond=st.sampled_from(BEYOND),
        seed=st.integers(0, 2**32 - 1),
    )
    @example(m=1, k=1, spacing="uniform", falls=False, trailing=(), dtype="float64", beyond=True, seed=0)
    @example(m=4096, k=4, spacing="crowded", falls=True, trailing=(), dtype="float32", beyond=False, seed=0)
    @example(m=256, k=4, spacing="uniform", falls=False, trailing=(), dtype="float64", beyond="clamp", seed=0)
    @example(m=3, k=13, spacing="random", falls=False, trailing=(2, 2), dtype="float64", beyond="periodic", seed=0)
    @example(m=3, k=1, spacing="uniform", falls=True, trailing=(), dtype="float32", beyond=True, seed=0)  # denormal x
    def test_sums_of_powers(
        self,
        backend: Backend,
        m: int,
        k: int,
        spacing: str,
        falls: bool,
        trailing: tuple[int, ...],
        dtype: str,
        beyond: Any,
        seed: int,
    ) -> None:
        rng = np.random.default_rng(seed)
        knots = some_knots(m, spacing, rng, falls)
        c = rng.standard_normal((k, m, *trailing))
        x = near(knots, dtype, rng)
        p = cukde.PiecewisePolynomial(c, knots, extrapolate=beyond)
        y = backend.asnumpy(p(backend.asarray(x)))
        at = held(x, knots) if beyond == "clamp" else x
        expected, scale = reference.piecewise(c, knots, at.astype(np.float64), beyond)
        compare(y, expected, scale, dtype)

    @pytest.mark.parametrize("beyond", [True, False, "periodic"])
    @pytest.mark.parametrize("falls", [False, True], ids=["rising", "falling"])
    @pytest.mark.parametrize("nu", [0, 1, 2, 4, 7])
    def test_derivatives_are_scipys(self, backend: Backend, nu: int, falls: bool, beyond: Any) -> None:
        rng = np.random.default_rng(nu)
        knots = some_knots(37, "random", rng, falls)
        c = rng.standard_normal((5, 37, 2))
        x = near(knots, "float64", rng)
        if beyond == "periodic":  # where rounding carries a point beyond the period SciPy has NaN
            with np.errstate(invalid="ignore"):
                x = x[~(np.abs((x - knots[0]) % (knots[-1] - knots[0])) >= np.abs(knots[-1] - knots[0]) * (1 - 1e-15))]
        expected = PPoly(c, knots, extrapolate=beyond)(x, nu)
        p = cukde.PiecewisePolynomial(c, knots, extrapolate=beyond)
        d = p.derivative(nu)
        _, scale = reference.piecewise(np.asarray(d.c), knots, x, beyond)
        for y in (p(backend.asarray(x), nu), d(backend.asarray(x))):
            compare(backend.asnumpy(y), expected, scale, "float64")

    @pytest.mark.parametrize("falls", [False, True], ids=["rising", "falling"])
    @pytest.mark.parametrize("nu", [1, 2, 3])
    def test_antiderivatives_are_scipys(self, backend: Backend, nu: int, falls: bool) -> None:
        rng = np.random.default_rng(nu)
        knots = some_knots(37, "random", rng, falls)
        c = rng.standard_normal((4, 37))
        x = near(knots, "float64", rng)
        expected = PPoly(c, knots).antiderivative(nu)(x)
        d = cukde.PiecewisePolynomial(c, knots).antiderivative(nu)
        _, scale = reference.piecewise(d.c, knots, x)
        compare(backend.asnumpy(d(backend.asarray(x))), expected, scale + np.abs(d.c[-1]).max(), "float64")
        np.testing.assert_allclose(d.derivative(nu).c, c, rtol=1e-15)

    def test_infinities(self, backend: Backend) -> None:
        c = np.array([[1.0, -2.0], [3.0, 4.0], [0.5, 0.25]])
        x = backend.asarray(np.array([-np.inf, np.inf]))
        expected = {True: [np.inf, -np.inf], False: [np.nan] * 2, "periodic": [np.nan] * 2, "clamp": [0.5, 2.25]}
        for beyond, values in expected.items():
            p = cukde.PiecewisePolynomial(c, [0.0, 1.0, 2.0], extrapolate=beyond)
            np.testing.assert_array_equal(backend.asnumpy(p(x)), values)
        expected |= {True: [0.5, 0.25], "clamp": [0.5, 0.25]}
        for constant in (c[2:], c * [[0.0], [0.0], [1.0]]):
            for beyond, values in expected.items():
                p = cukde.PiecewisePolynomial(constant, [0.0, 1.0, 2.0], extrapolate=beyond)
                np.testing.assert_array_equal(backend.asnumpy(p(x)), values)

    @pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
    @pytest.mark.parametrize("k", [2, 3, 4, 6])
    def test_limits_where_leading_coefficients_are_zero(self, backend: Backend, k: int, dtype: str) -> None:
        rng = np.random.default_rng(k)
        x = np.array([0.5, np.inf, np.nan, -np.inf, 1.5] * 3, dtype)
        up, down = x == np.inf, x == -np.inf
        for zeros in range(1, k + 1):
            c = rng.uniform(1, 2, (k, 2)) * rng.choice([-1, 1], (k, 2))
            c[:zeros] = 0
            expected, _ = reference.piecewise(c, np.arange(3.0), np.where(np.isinf(x), 1, x).astype(np.float64))
            expected[up], expected[down] = limit(c[:, 1], 1), limit(c[:, 0], -1)
            y = cukde.PiecewisePolynomial(c, [0, 1, 2])(backend.asarray(x))
            z = cukde.pwpa(backend.asarray(x), c.T, [0, 1, 2], extrapolate=True)  # other polynomials, the same limits
            tolerance = {"rtol": TOLERANCE[dtype], "atol": 16 * TOLERANCE[dtype]}
            np.testing.assert_allclose(backend.asnumpy(y), expected, **tolerance)
            np.testing.assert_allclose(backend.asnumpy(z)[up | down], expected[up | down], **tolerance)

    @pytest.mark.parametrize("falls", [False, True], ids=["rising", "falling"])
    def test_limits_of_several_values(self, backend: Backend, falls: bool) -> None:
        """Coefficients of either sign and 0 in each place."""
        columns = np.array(list(itertools.product((-2.0, 0.0, 3.0), repeat=4))).T
        c = np.stack([columns, columns[:, ::-1]], axis=1)
        expected = [[limit(of, sign) for of in c[:, piece].T] for piece, sign in ((0, -1), (1, 1))]
        if falls:
            c = c[:, ::-1]
        p = cukde.PiecewisePolynomial(c, [2, 1, 0] if falls else [0, 1, 2])
        y = backend.asnumpy(p(backend.asarray(np.array([-np.inf, 0.5, np.inf]))))
        np.testing.assert_array_equal(y[[0, 2]], expected)
        assert np.isfinite(y[1]).all()

    def test_nan_of_a_constant(self, backend: Backend) -> None:
        x = backend.asarray(np.array([np.nan, 0.5]))
        for beyond in BEYOND:
            p = cukde.PiecewisePolynomial([[3.0]], [0.0, 1.0], extrapolate=beyond)
            np.testing.assert_array_equal(backend.asnumpy(p(x)), [np.nan, 3.0])

    def test_float16_is_rounded_once(self, backend: Backend) -> None:
        x = np.arange(2**16, dtype=np.uint16).view(np.float16)[:: backend.size(1, 7)]
        x = x[np.abs(x) < 100]
        c = np.array([[0.25, -0.5, 1], [1, 2, 3], [4, 5, 6.0]])
        knots = np.array([-50, -1.1, 2.3, 60])
        p = cukde.PiecewisePolynomial(c, knots)
        expected, scale = reference.piecewise(c, knots, x.astype(np.float64))
        y = backend.asnumpy(p(backend.asarray(x)))
        compare(y, expected, scale, "float16")
        # Nowhere more than half a unit of float16, but for what float32 leaves over.
        half = np.spacing(np.abs(expected).astype(np.float16)).astype(np.float64) / 2
        assert (np.abs(y.astype(np.float64) - expected) <= half + 1e-6 * scale).all()

    def test_knots_that_the_dtype_does_not_have(self, backend: Backend) -> None:
        """Points of float32 on either side of a knot of float64 are in its pieces, and beyond ends are beyond."""
        knots = np.array([0.1, 0.3, 0.7, 1.1])
        x = np.float32(knots)
        x = np.sort(np.concatenate([np.nextafter(x, np.float32(-9)), x, np.nextafter(x, np.float32(9))]))
        c = np.array([[1e3, -1e3, 1e3], [1.0, 20.0, 300.0]])
        for beyond in BEYOND:
            y = backend.asnumpy(cukde.PiecewisePolynomial(c, knots, extrapolate=beyond)(backend.asarray(x)))
            at = held(x, knots) if beyond == "clamp" else x
            expected, scale = reference.piecewise(c, knots, at.astype(np.float64), beyond)
            compare(y, expected, scale, "float32")

    @settings(max_examples=40, deadline=None, derandomize=True)
    @given(knots=st.lists(st.floats(0.01, 100), min_size=2, max_size=5, unique=True), zeros=st.integers(0, 2))
    def test_zeros_next_to_knots_of_float64(self, knots: list[float], zeros: int) -> None:
        """The sizes of small values next to a knot follow its distance; below the first one that of a rounded knot."""
        at = np.sort(np.array(knots))
        if (np.diff(at) < 1e-3 * at[-1]).any():
            return
        c = np.random.default_rng(0).uniform(1, 2, (4, at.size - 1))
        c[4 - zeros :] = 0
        x = at.astype(np.float32)
        x = np.concatenate([x, np.nextafter(x, np.float32(-1)), np.nextafter(x, np.float32(999))])
        piece = np.clip(np.searchsorted(at, x.astype(np.float64), "right") - 1, 0, at.size - 2)
        u = x.astype(np.float64) - at[piece]
        size = np.abs(u) + np.where(u < 0, 2 * np.spacing(x).astype(np.float64), 0)
        want, scale = np.zeros((2, x.size))
        for row in c:
            want, scale = want * u + row[piece], scale * size + row[piece]
        compare(cukde.PiecewisePolynomial(c, at)(x), want, scale, "float32")

    def test_pieces_narrower_than_the_dtype(self, backend: Backend) -> None:
        knots = np.array([0.0, 1.0, 1 + 1e-12, 1 + 2e-12, 2.0])
        c = np.array([[1.0, 2.0, 3.0, 4.0]])
        y = cukde.PiecewisePolynomial(c, knots)(backend.asarray(np.float32([0.5, 1.0, 1.0000001, 3])))
        np.testing.assert_array_equal(backend.asnumpy(y), np.float32([1, 2, 4, 4]))

    @pytest.mark.parametrize("dtype", ["int8", "int64", "uint32", "bool"])
    def test_integers_are_float64(self, backend: Backend, dtype: str) -> None:
        x = np.array([0, 1, 1, 0]).astype(dtype)
        y = backend.asnumpy(cukde.PiecewisePolynomial([[1], [2]], [0, 1])(backend.asarray(x)))
        np.testing.assert_array_equal(y, [2.0, 3, 3, 2])
        assert y.dtype == np.float64

    @pytest.mark.parametrize("shape", [(), (0,), (3, 0), (7,), (2, 3, 4)])
    @pytest.mark.parametrize("trailing", [(), (2,), (1, 3)])
    def test_shapes(self, backend: Backend, shape: tuple[int, ...], trailing: tuple[int, ...]) -> None:
        rng = np.random.default_rng(0)
        c, knots = rng.standard_normal((3, 4, *trailing)), np.arange(5.0)
        x = rng.uniform(-1, 6, shape)
        x = np.asarray(x)
        y = cukde.PiecewisePolynomial(c, knots)(backend.asarray(x))
        assert y.shape == shape + trailing
        np.testing.assert_allclose(backend.asnumpy(y), PPoly(c, knots)(x), rtol=1e-12, atol=1e-12)

    def test_arrays_that_are_not_contiguous(self, backend: Backend) -> None:
        rng = np.random.default_rng(1)
        c, knots = rng.standard_normal((2, 9, 4)).transpose(2, 1, 0)[:, ::2], np.arange(12.0)[::2]
        x = backend.asarray(rng.uniform(0, 10, (30, 8)))
        for view in (x.T, x[::3, ::-2], x[::-1]):
            y = backend.asnumpy(cukde.PiecewisePolynomial(c, knots)(view))
            expected = PPoly(c, knots)(backend.asnumpy(backend.xp.ascontiguousarray(view)))
            np.testing.assert_allclose(y, expected, rtol=1e-11, atol=1e-11)

    def test_read_only_points(self) -> None:
        x = np.linspace(0, 1, 9)
        x.flags.writeable = False
        np.testing.assert_array_equal(cukde.PiecewisePolynomial([[1.0], [0.0]], [0, 1])(x), x)

    @pytest.mark.parametrize("dtype", [">f2", ">f4", ">f8"])
    def test_points_of_the_other_byte_order(self, dtype: str) -> None:
        x = np.linspace(0, 1, 9).astype(dtype)
        y = cukde.PiecewisePolynomial([[1.0], [0.0]], [0, 1])(x)
        np.testing.assert_array_equal(y, x)
        assert y.dtype == x.dtype.newbyteorder("=")

    def test_many_blocks_and_threads(self, backend: Backend) -> None:
        rng = np.random.default_rng(2)
        x = rng.uniform(-1, 33, backend.size(300_001, 3001))
        for trailing in ((), (2,)):
            c, knots = rng.standard_normal((4, 32, *trailing)), some_knots(32, "random", rng)
            y = backend.asnumpy(cukde.PiecewisePolynomial(c, knots)(backend.asarray(x)))
            compare(y, *reference.piecewise(c, knots, x), "float64")

    @pytest.mark.parametrize("knots", [[-1.7e308, 0.0, 1.7e308], [0.0, 5e-324, 1e-323], [1e300, 1.1e300, 1.7e308]])
    def test_extreme_knots(self, backend: Backend, knots: list[float]) -> None:
        at = np.array(knots)
        x = np.concatenate([at, np.nextafter(at, -np.inf), [-np.inf, np.inf]])
        y = cukde.PiecewisePolynomial([[1.0, 2.0]], at)(backend.asarray(x))
        np.testing.assert_array_equal(backend.asnumpy(y), np.where(x >= at[1], 2.0, 1.0))


class TestIntegrate:
    @pytest.mark.parametrize("beyond", [True, False, "periodic"])
    @pytest.mark.parametrize("trailing", [(), (2,)])
    def test_is_scipys(self, beyond: Any, trailing: tuple[int, ...]) -> None:
        rng = np.random.default_rng(3)
        knots = some_knots(17, "random", rng)
        c = rng.standard_normal((4, 17, *trailing))
        p, q = cukde.PiecewisePolynomial(c, knots, extrapolate=beyond), PPoly(c, knots, extrapolate=beyond)
        size = PPoly(np.abs(c), knots)
        low, high = knots[0], knots[-1]
        bounds = [(low, high), (high, low), (knots[3], knots[3]), (knots[2], knots[9]), (low + 0.1, high - 0.1)]
        bounds += [(low - 1, low), (low - 1, high + 30), (high + 2, low - 40), (knots[4] + 1e-9, knots[4])]
        for a, b in bounds:
            scale = size.integrate(low, high) * (1 + abs(b - a) / (high - low))
            actual, expected = p.integrate(a, b), q.integrate(a, b)
            assert actual.shape == expected.shape
            np.testing.assert_array_equal(np.isnan(actual), np.isnan(expected))
            assert np.isnan(actual).all() or (np.abs(actual - expected) <= 1e-13 * scale * 10 ** (beyond is True)).all()

    @pytest.mark.parametrize("beyond", BEYOND)
    def test_of_falling_knots_is_that_of_rising_ones(self, beyond: Any) -> None:
        rng = np.random.default_rng(4)
        spline = CubicSpline(np.arange(9.0), rng.standard_normal(9))
        p = cukde.PiecewisePolynomial(spline.c, spline.x, extrapolate=beyond)
        shifted = np.array([spline(spline.x[1:], nu) / math.factorial(nu) for nu in (3, 2, 1, 0)])
        shifted[0] = spline.c[0]
        q = cukde.PiecewisePolynomial(shifted[:, ::-1], spline.x[::-1], extrapolate=beyond)
        for a, b in ((0, 8), (1.5, 6.25), (7, -3), (-2, 30)):
            np.testing.assert_allclose(p.integrate(a, b), q.integrate(a, b), rtol=1e-11, atol=1e-11)

    def test_clamped(self) -> None:
        p = cukde.PiecewisePolynomial([[1.0, -1.0], [2.0, 1.0]], [0.0, 1.0, 3.0], extrapolate="clamp")
        assert p.integrate(-5, 0) == 10
        assert p.integrate(3, 7) == -4
        assert p.integrate(7, -5) == -p.integrate(-5, 7) == -(10 + 2.5 + 0 - 4)
        F = p.antiderivative()
        assert F(0.0) == 0
        for a, b in ((-4.0, -1.0), (-2.0, 0.5), (0.25, 2.0), (2.5, 6.0), (-3.0, 9.0)):
            np.testing.assert_allclose(F(b) - F(a), p.integrate(a, b), rtol=1e-14)

    def test_nan_and_infinite_bounds(self) -> None:
        p = cukde.PiecewisePolynomial([[1.0], [0.0]], [0.0, 1.0])
        assert np.isnan(p.integrate(np.nan, 1))
        assert p.integrate(0, np.inf) == np.inf
        assert np.isnan(p.integrate(0, np.inf, extrapolate="periodic"))
        assert np.isnan(p.integrate(0, np.inf, extrapolate=False))

    def test_extrapolate_of_the_call(self) -> None:
        p = cukde.PiecewisePolynomial([[1.0], [0.0]], [0.0, 1.0])
        assert p.integrate(0, 2) == 2
        assert p.integrate(0, 2, extrapolate="periodic") == 1
        assert p.integrate(0, 2, extrapolate="clamp") == 1.5
        assert np.isnan(p.integrate(0, 2, extrapolate=False))
        assert np.isnan(p(2.0, extrapolate=False))
        assert p(2.5, extrapolate="periodic") == 0.5


class TestConversions:
    def test_scipy_and_back(self) -> None:
        spline = CubicSpline(np.arange(7.0), np.sin(np.arange(7)))
        p = cukde.PiecewisePolynomial.from_scipy(spline)
        q = p.to_scipy()
        assert type(q) is PPoly
        np.testing.assert_array_equal(q.c, spline.c)
        np.testing.assert_array_equal(q.x, spline.x)
        assert p.extrapolate is True
        y = np.array([0.0, 1, 2, 0])
        assert cukde.PiecewisePolynomial.from_scipy(CubicSpline(range(4), y, bc_type="periodic")).extrapolate == (
            "periodic"
        )

    def test_clamped_in_scipy(self) -> None:
        p = cukde.PiecewisePolynomial([[1.0, -3.0], [2.0, 5.0]], [1, 2, 4], extrapolate="clamp")
        x = np.linspace(-3, 9, 200)
        np.testing.assert_allclose(p.to_scipy()(x), p(x), rtol=1e-15)

    @pytest.mark.parametrize("sign", [1, -1])
    @pytest.mark.parametrize("edge", [1.0, 1.5e308])
    def test_clamped_pieces_that_would_round_away_or_overflow(self, edge: float, sign: int) -> None:
        inside = np.nextafter(edge, 0) if edge == 1 else 0.1 * edge
        knots = sign * np.array([-edge, -inside, inside, edge])
        p = cukde.PiecewisePolynomial([[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]], knots, extrapolate="clamp")
        x = sign * np.array([-1.1, -0.05, 0.05, 1.1]) * edge
        np.testing.assert_array_equal(p(x), [1, 2, 2, 3])
        np.testing.assert_array_equal(p.to_scipy()(x), [1, 2, 2, 3])

    @pytest.mark.parametrize("k", [0, 1, 3, 5])
    def test_splines(self, backend: Backend, k: int) -> None:
        rng = np.random.default_rng(k)
        t = np.concatenate([[0.0] * (k + 1), [1, 2, 2, 3.5], [5.0] * (k + 1)])
        spline = BSpline(t, rng.standard_normal(len(t) - k - 1), k)
        x = near(np.array([0, 1, 2, 3.5, 5]), "float64", rng)
        for p in (cukde.PiecewisePolynomial.from_spline(s) for s in (spline, spline.tck)):
            assert len(p.x) == 5
            y = backend.asnumpy(p(backend.asarray(x)))
            np.testing.assert_allclose(y, spline(x), rtol=1e-9, atol=1e-9 * np.abs(spline(x[~np.isnan(x)])).max())
        periodic = make_interp_spline(range(6), [0, 1, 2, 1, 2, 0], bc_type="periodic")
        assert cukde.PiecewisePolynomial.from_spline(periodic).extrapolate == "periodic"

    def test_pickle_and_copy_leave_the_device(self, backend: Backend) -> None:
        p = cukde.PiecewisePolynomial([[1.0], [2.0]], [0.0, 1.0])
        p.max_error = 0.5
        x = backend.asarray(np.array([0.5]))
        p(x)
        q = pickle.loads(pickle.dumps(p))
        assert q.max_error == 0.5
        np.testing.assert_array_equal(backend.asnumpy(q(x)), [2.5])

    def test_prepared_once(self, backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
        made: list[Any] = []
        rounded = piecewise_pieces.rounded
        monkeypatch.setattr(piecewise_pieces, "rounded", lambda *a: made.append(a) or rounded(*a))
        p = cukde.PiecewisePolynomial([[1.0], [2.0]], [0.0, 1.0])
        for dtype in ("float32", "float64", "float32"):
            p(backend.asarray(np.ones(3, dtype)))
            p(backend.asarray(np.ones(3, dtype)), 1)
        assert len(made) == 4

    @pytest.mark.gpu
    def test_where_it_is_computed(self) -> None:
        import cupy as cp

        c, knots, x = np.array([[1.0, 2.0]]), np.arange(3.0), np.array([0.5, 1.5])
        host, held = cukde.PiecewisePolynomial(c, knots), cukde.PiecewisePolynomial(cp.asarray(c), knots)
        assert isinstance(host.c, np.ndarray)
        assert isinstance(host(x), np.ndarray)
        for p, points in ((host, cp.asarray(x)), (held, x), (held, cp.asarray(x))):
            y = p(points)
            assert isinstance(y, cp.ndarray)
            np.testing.assert_array_equal(y.get(), [1, 2])
        assert isinstance(held.c, cp.ndarray)
        assert isinstance(held.derivative().c, cp.ndarray)
        assert float(held.integrate(0, 2)) == 3
        assert isinstance(held.to_scipy(), PPoly)

    def test_dtypes_of_coefficients(self) -> None:
        assert cukde.PiecewisePolynomial(np.float32([[1]]), np.float16([0, 1])).c.dtype == np.float32
        assert cukde.PiecewisePolynomial([[1]], [0, 1]).c.dtype == np.float64
        p = cukde.PiecewisePolynomial(c := np.ones((1, 1)), [0, 1])
        c[:] = 7
        assert p(0.5) == 1
        with pytest.raises(ValueError, match="read-only"):
            p.c[0] = 2


class TestPwpa:
    @on_a_backend
    @given(
        pieces=st.integers(1, 40),
        degree=st.integers(0, 6),
        origin=st.sampled_from(["global", "local"]),
        layout=st.sampled_from(["aos", "soa"]),
        beyond=st.sampled_from(BEYOND),
        dtype=st.sampled_from(["float16", "float32", "float64"]),
        seed=st.integers(0, 2**32 - 1),
    )
    def test_loop(
        self,
        backend: Backend,
        pieces: int,
        degree: int,
        origin: str,
        layout: str,
        beyond: Any,
        dtype: str,
        seed: int,
    ) -> None:
        rng = np.random.default_rng(seed)
        knots = np.sort(rng.choice(np.arange(-200, 200), pieces + 1, replace=False)) / 64
        a = rng.standard_normal((pieces, degree + 1))
        x = near(knots, dtype, rng)
        expected, scale = np.zeros((2, len(x)))
        for n, point in enumerate(x.astype(np.float64)):
            if beyond == "clamp" and not np.isnan(point):
                point = min(max(point, knots[0]), knots[-1])
            if beyond == "periodic":
                point = knots[0] + (point - knots[0]) % (knots[-1] - knots[0])
            i = sum(1 for knot in knots[1:-1] if point >= knot)
            u = point - knots[i] if origin == "local" else point
            terms = [a[i, j] * u ** (degree - j) for j in range(degree + 1)]
            outside = beyond is False and not knots[0] <= point <= knots[-1]
            expected[n] = np.nan if np.isnan(point) or outside else sum(terms)
            scale[n] = sum(map(abs, terms))
        given = backend.asarray(a if layout == "aos" else a.T)
        y = cukde.pwpa(
            backend.asarray(x), given, backend.asarray(knots), layout=layout, origin=origin, extrapolate=beyond
        )
        compare(backend.asnumpy(y), expected, scale, dtype)

    @pytest.mark.parametrize("beyond", BEYOND)
    def test_out(self, backend: Backend, beyond: Any) -> None:
        xp = backend.xp
        a, knots = np.array([[1.0, 0], [2, -1]]), np.arange(3.0)
        x = backend.asarray(np.float32([[-1, 0.5, 1.5, 2], [7, 1, 0.25, 0]]))
        expected = backend.asnumpy(cukde.pwpa(x, a, knots, extrapolate=beyond))
        for out in (xp.zeros((2, 4), np.float32), xp.zeros((4, 2), np.float32).T, xp.zeros((4, 4), np.float32)[::2]):
            assert cukde.pwpa(x, a, knots, extrapolate=beyond, out=out) is out
            np.testing.assert_array_equal(backend.asnumpy(xp.ascontiguousarray(out)), expected)

    def test_tables_are_prepared_once(self, backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
        made: list[Any] = []
        rounded = piecewise_pieces.rounded
        monkeypatch.setattr(piecewise_pieces, "rounded", lambda *a: made.append(a) or rounded(*a))
        pwpa._kept_evaluator.cache_clear()
        a, knots = backend.asarray(np.array([[1.0, 7.0], [2.0, -1.0]])), backend.asarray(np.array([0, 1, 2.125]))
        x = backend.asarray(np.array([0.5, 1.5]))
        for n in range(12):  # more than are kept, and each again at once
            a[0, 0] = n
            for _ in range(2):
                y = cukde.pwpa(x, a, knots)
            np.testing.assert_array_equal(backend.asnumpy(y), [n / 2 + 7, 2])
        assert len(made) == 12
        cukde.pwpa(x, 0 + a, 0 + knots)
        assert len(made) == 12
        a[0, 0] = 0
        cukde.pwpa(x, a, knots)
        assert len(made) == 13

    def test_tables_of_the_same_numbers(self, backend: Backend) -> None:
        """Changed knots, layouts and origins are told apart."""
        a, knots = backend.asarray(np.array([[1.0, 7.0], [2.0, -1.0]])), backend.asarray(np.array([0, 1, 2.25]))
        x = backend.asarray(np.array([0.5, 1.25]))
        for layout, origin, expected in (
            ("aos", "global", [7.5, 1.5]),
            ("soa", "global", [2.5, 7.75]),
            ("aos", "local", [7.5, -0.5]),
            ("soa", "local", [2.5, 0.75]),
        ):
            y = cukde.pwpa(x, a, knots, layout=layout, origin=origin)
            np.testing.assert_array_equal(backend.asnumpy(y), expected)
        knots[1] = 0.25
        y = cukde.pwpa(x, a, knots)
        np.testing.assert_array_equal(backend.asnumpy(y), [0, 1.5])

    def test_large_tables_are_not_kept(self, backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
        made: list[Any] = []
        rounded = piecewise_pieces.rounded
        monkeypatch.setattr(piecewise_pieces, "rounded", lambda *a: made.append(a) or rounded(*a))
        x, a, knots = backend.asarray(np.array([1.5])), np.ones((2**14, 8)), np.arange(2**14 + 1.0)
        for _ in range(2):
            cukde.pwpa(x, a, knots)
        assert len(made) == 2

    def test_layouts(self, backend: Backend) -> None:
        a = backend.asarray(np.arange(6.0).reshape(3, 2))
        soa = cukde.aos_to_soa(a)
        assert soa.shape == (2, 3)
        assert soa.flags.c_contiguous
        assert not backend.xp.shares_memory(soa, a)
        np.testing.assert_array_equal(backend.asnumpy(soa), np.arange(6.0).reshape(3, 2).T)
        np.testing.assert_array_equal(backend.asnumpy(cukde.soa_to_aos(soa)), np.arange(6.0).reshape(3, 2))
        with pytest.raises(ValueError, match="two dimensions"):
            cukde.aos_to_soa(a[0])


class TestErrors:
    @pytest.mark.parametrize(
        ("c", "x", "message"),
        [
            (np.ones((2, 2)), [0, 2, 1], "strictly increasing or strictly decreasing; got 2 and then 1 at index 2"),
            (np.ones((2, 2)), [0, 0, 1], r"^x\b"),
            (np.ones((2, 2)), [3, 2, 2], r"^x\b"),
            (np.ones((2, 2)), [0, 1], r"c must have shape \(coefficients, 1, ...\)"),
            (np.ones(2), [0, 1], r"c must have shape"),
            (np.ones((0, 1)), [0, 1], r"c must have shape"),
            (np.ones((2, 1, 0)), [0, 1], r"c must have shape"),
            (np.ones((2, 1)), [0], "x must have shape"),
            (np.ones((2, 1)), [[0, 1]], "x must have shape"),
            ([[np.nan], [1]], [0, 1], "c must be finite; got 1 NaN"),
            ([[1], [1]], [0, np.inf], r"^x\b"),
            ([[1], [1, 2]], [0, 1], "rectangular"),
        ],
    )
    def test_polynomial(self, c: Any, x: Any, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            cukde.PiecewisePolynomial(c, x)

    @pytest.mark.parametrize(
        ("c", "x"),
        [
            ([[1j]], [0, 1]),
            ([["a"]], [0, 1]),
            pytest.param([[1.0]], np.longdouble([0, 1]), marks=extended.needed),
        ],
        ids=["complex", "text", "long doubles"],
    )
    def test_dtypes(self, c: Any, x: Any) -> None:
        with pytest.raises(TypeError, match=r"^[cx]\b"):
            cukde.PiecewisePolynomial(c, x)

    def test_calls(self, backend: Backend) -> None:
        p = cukde.PiecewisePolynomial([[1.0, 2.0]], [0, 1, 2])
        x = backend.asarray(np.ones(2))
        for bad in ("no", None.__class__, 2, 1.0):
            with pytest.raises(ValueError, match=r"^extrapolate\b"):
                p(x, extrapolate=bad)
            with pytest.raises(ValueError, match=r"^extrapolate\b"):
                cukde.PiecewisePolynomial([[1.0]], [0, 1], extrapolate=bad)
        with pytest.raises(ValueError, match="nu must be at least 0"):
            p(x, -1)
        for call in (p, lambda _, nu: p.derivative(nu), lambda _, nu: p.antiderivative(nu)):
            with pytest.raises(TypeError, match="nu must be an integer"):
                call(x, 0.5)
        with pytest.raises(TypeError, match=r"^x\b"):
            p(backend.asarray(np.ones(2, complex)))
        with pytest.raises(TypeError, match="a must be a number"):
            p.integrate([1, 2], 3)
        with pytest.raises(ValueError, match="axis 0"):
            cukde.PiecewisePolynomial.from_scipy(CubicSpline(range(4), np.ones((2, 4)), axis=1))

    def test_beyond_the_dtype(self, backend: Backend) -> None:
        x = backend.asarray(np.ones(2, np.float32))
        with pytest.raises(ValueError, match="coefficients are beyond the range of float32"):
            cukde.PiecewisePolynomial([[1e40]], [0, 1])(x)
        with pytest.raises(ValueError, match="knots are too large or too close together for float32"):
            cukde.PiecewisePolynomial([[1.0]], [1, 1 + 1e-12])(x)

    def test_pwpa(self, backend: Backend) -> None:
        x, a, knots = backend.asarray(np.ones(4)), np.ones((2, 3)), np.arange(3.0)
        for options, message in (
            ({"layout": "row"}, r"^layout\b.*'aos'.*'soa'.*'row'"),
            ({"origin": 0}, r"^origin\b"),
            ({"extrapolate": "nan"}, r"^extrapolate\b"),
            ({"layout": "soa"}, r"coefficients must have shape \(degree \+ 1, 2\)"),
            ({"knots": [0, 2, 1]}, r"^knots\b.*2.*1"),
            ({"knots": [2, 1, 0]}, r"^knots\b.*2.*1.*1"),
            ({"knots": [0, 1]}, r"^coefficients\b.*1"),
            ({"knots": [0, np.nan, 1]}, r"^knots\b"),
            ({"coefficients": a * np.inf}, r"^coefficients\b"),
            ({"coefficients": a[0]}, r"^coefficients\b"),
            ({"out": backend.xp.ones(3)}, r"out must have shape \(4,\)"),
            ({"out": backend.xp.ones(4, np.float32)}, "out must have shape"),
            ({"out": x}, "out must not overlap x"),
        ):
            with pytest.raises(ValueError, match=message):
                cukde.pwpa(**({"x": x, "coefficients": a, "knots": knots} | options))
        for out in ([0] * 4, np.ma.masked_less(np.zeros(4), 1)):
            with pytest.raises(TypeError, match="out must be a"):
                cukde.pwpa(x, a, knots, out=out)

    def test_pwpa_overlap(self, backend: Backend) -> None:
        memory = backend.xp.ones(16)
        x, a = memory[:4], memory[8:12].reshape(2, 2)
        knots = np.arange(3.0)
        for out, name in ((memory[2:6], "x"), (memory[10:14], "coefficients")):
            with pytest.raises(ValueError, match=f"out must not overlap {name}"):
                cukde.pwpa(x, a, knots, out=out)
        cukde.pwpa(x, a, knots, out=memory[4:8])

    def test_read_only_out(self) -> None:
        out = np.ones(1)
        out.flags.writeable = False
        with pytest.raises(ValueError, match="writeable"):
            cukde.pwpa([0.5], [[1.0]], [0, 1], out=out)


class TestWhatIsNoPolynomial:
    @pytest.mark.parametrize("given", [None, np.ones(3), "abc", 2.0])
    def test_of_scipy(self, given: Any) -> None:
        with pytest.raises(TypeError, match="p must be a PPoly of SciPy or CuPy; got"):
            cukde.PiecewisePolynomial.from_scipy(given)
        with pytest.raises(TypeError, match=r"^tck\b"):
            cukde.PiecewisePolynomial.from_spline(given)

    @pytest.mark.parametrize(
        ("tck", "error", "message"),
        [
            ((None, [1.0], 1), TypeError, r"^t\b"),
            (([0.0, 0, 1, 1], [1j, 2], 1), TypeError, r"^c\b"),
            (([[0.0, 1.0]], [1.0], 1), ValueError, r"t must have shape \(knots,\); got \(1, 2\)"),
            (([0.0, 0, 1, 1], [1.0, 2], 1.5), TypeError, "k must be an integer; got 1.5"),
        ],
    )
    def test_parts_of_a_spline(self, tck: Any, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            cukde.PiecewisePolynomial.from_spline(tck)

    def test_an_antiderivative_of_a_huge_order(self) -> None:
        p = cukde.PiecewisePolynomial([[1.0]], [0, 1])
        for call in (lambda: p.antiderivative(10**30), lambda: p.derivative(-(2**63))):
            with pytest.raises(ValueError, match="nu must be at most 1000 for an antiderivative; got"):
                call()
