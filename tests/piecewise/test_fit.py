"""Fits of functions by piecewise polynomials: errors against dense grids, and the best ones against linear programs."""

from __future__ import annotations

import doctest
import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings, strategies as st
from numpy.polynomial import chebyshev, legendre
from scipy.optimize import linprog

import cukde
from cukde.piecewise import fit, remez
from tests.private import fit_pieces

APPROXIMATIONS = ("minimax", "chebyshev", "interpolate", "least_squares")


def gelu(x: np.ndarray) -> np.ndarray:
    return x * scipy.special.ndtr(x)


FUNCTIONS = {
    "exp": (np.exp, (0.0, 1.0)),
    "gelu": (gelu, (-6.0, 6.0)),
    "sine": (lambda x: np.sin(5 * x), (-2.0, 3.0)),
    "runge": (lambda x: 1 / (1 + 25 * x**2), (-1.0, 1.0)),
    "far": (lambda x: np.log(x), (1000.0, 1010.0)),
}


def value(p: Any, x: np.ndarray) -> np.ndarray:
    """The polynomial in float64, from its coefficients and knots alone."""
    i = np.clip(np.searchsorted(p.x, x, side="right") - 1, 0, len(p.x) - 2)
    y = np.zeros_like(x)
    for c in np.asarray(p.c, np.float64):
        y = y * (x - p.x[i]) + c[i]
    return y


def least_error(f: Any, low: float, high: float, degree: int, *, fixed: bool = False) -> float:
    """The error of the best polynomial on 2001 Chebyshev points, by a linear program."""
    t = -np.cos(np.linspace(0, np.pi, 2001))
    y = f(low + (high - low) * (t + 1) / 2)
    scale = np.abs(y).max()
    B = chebyshev.chebvander(t, degree)
    one = np.ones((len(t), 1))
    # Minimise e where -e <= y - B a <= e.
    constraints = np.block([[B, -one], [-B, -one]])
    ends = {"A_eq": np.c_[B[[0, -1]], [0, 0]], "b_eq": y[[0, -1]] / scale} if fixed else {}
    found = linprog(
        np.r_[np.zeros(degree + 1), 1],
        A_ub=constraints,
        b_ub=np.r_[y, -y] / scale,
        bounds=[(None, None)] * (degree + 1) + [(0, None)],
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        **ends,
    )
    assert found.status == 0, found.message
    return float(found.x[-1] * scale)


class TestMinimax:
    def test_exp_by_a_cubic(self) -> None:
        p = cukde.fit_piecewise(np.exp, (0, 1), 1, 3, dtype=np.float64)
        best = least_error(np.exp, 0, 1, 3)
        assert best == pytest.approx(5.448e-4, rel=1e-4)
        assert p.max_error <= 1.001 * 5.448e-4
        assert p.max_error == pytest.approx(best, rel=3e-6)
        x = np.linspace(0, 1, 100_001)
        error = np.exp(x) - value(p, x)
        # Five extrema of alternating sign, the level to a millionth.
        runs = np.split(error, np.flatnonzero(np.diff(np.sign(error))) + 1)
        peaks = np.array([run[np.argmax(np.abs(run))] for run in runs])
        assert len(peaks) == 5
        assert (np.sign(peaks[1:]) == -np.sign(peaks[:-1])).all()
        np.testing.assert_allclose(np.abs(peaks), p.max_error, rtol=2e-6)
        np.testing.assert_allclose(np.abs(peaks), np.abs(peaks).mean(), rtol=1e-6)

    @pytest.mark.parametrize("continuous", [False, True])
    @pytest.mark.parametrize("degree", [1, 2, 3, 5, 8])
    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_is_the_best_by_a_linear_program(self, name: str, degree: int, continuous: bool) -> None:
        f, (low, high) = FUNCTIONS[name]
        p = cukde.fit_piecewise(f, (low, high), 3, degree, dtype=np.float64, continuous=continuous)
        best = max(least_error(f, a, b, degree, fixed=continuous) for a, b in zip(p.x[:-1], p.x[1:], strict=True))
        # What max_error adds, what the program's grid misses beside extrema, and its tolerance for values near 7.
        rel = 2e-6 + ((degree + 3) * np.pi / 4000) ** 2 / 2
        assert p.max_error == pytest.approx(best, rel=rel, abs=2e-10)

    @pytest.mark.parametrize("f", [np.sqrt, np.abs, lambda x: np.abs(x - 0.3), lambda x: np.maximum(x, 0.6) ** 2])
    @pytest.mark.parametrize("degree", [1, 3, 4])
    def test_functions_that_are_not_smooth(self, f: Any, degree: int) -> None:
        p = cukde.fit_piecewise(f, (0, 1), 1, degree, dtype=np.float64)
        assert p.max_error <= 1.02 * least_error(f, 0, 1, degree) + 1e-14

    @pytest.mark.parametrize("continuous", [False, True])
    @pytest.mark.parametrize("degree", [1, 2, 3, 12])
    def test_polynomials_come_back(self, degree: int, continuous: bool) -> None:
        for order in range(degree + 1):
            p = cukde.fit_piecewise(
                lambda x, order=order: (x - 0.5) ** order, (-1, 2), 5, degree, dtype=np.float64, continuous=continuous
            )
            assert p.max_error < 1e-13 * 1.5**order

    def test_down_to_rounding(self) -> None:
        p = cukde.fit_piecewise(np.exp, (0, 1), 4, 14, dtype=np.float64)
        assert p.max_error < 1e-14
        p = cukde.fit_piecewise(np.zeros_like, (0, 1), 4, 14, dtype=np.float64)
        assert p.max_error == 0
        assert not p.c.any()

    def test_surplus_runs_keep_signs_and_the_largest(self) -> None:
        rng = np.random.default_rng(1)
        for count in (2, 3, 5):
            error = rng.standard_normal((200, 40)) * rng.random((200, 1))
            chosen, enough = remez._alternation(error, count)
            assert enough.all()
            peaks = np.take_along_axis(error, chosen, axis=1)
            assert (np.diff(chosen, axis=1) > 0).all()
            assert (peaks[:, 1:] * peaks[:, :-1] < 0).all()
            np.testing.assert_array_equal(np.abs(peaks).max(axis=1), np.abs(error).max(axis=1))


class TestMethods:
    @pytest.mark.parametrize("degree", [1, 3, 6])
    def test_chebyshev_interpolates_at_the_zeros(self, degree: int) -> None:
        p = cukde.fit_piecewise(np.exp, (0, 1), 1, degree, approximation="chebyshev", dtype=np.float64)
        x = (chebyshev.chebroots(np.eye(degree + 2)[-1]) + 1) / 2
        np.testing.assert_allclose(value(p, x), np.exp(x), rtol=1e-14)

    @pytest.mark.parametrize("degree", [1, 3, 6])
    def test_interpolate_at_the_lobatto_points(self, degree: int) -> None:
        p = cukde.fit_piecewise(np.exp, (0, 1), 1, degree, approximation="interpolate", dtype=np.float64)
        x = (1 - np.cos(np.pi * np.arange(degree + 1) / degree)) / 2
        np.testing.assert_allclose(value(p, x), np.exp(x), rtol=1e-14)

    @pytest.mark.parametrize("degree", [1, 3, 6])
    def test_least_squares_leaves_an_orthogonal_error(self, degree: int) -> None:
        p = cukde.fit_piecewise(np.exp, (-1, 1), 1, degree, approximation="least_squares", dtype=np.float64)
        t, weights = legendre.leggauss(60)
        error = np.exp(t) - value(p, t)
        np.testing.assert_allclose((weights * error) @ legendre.legvander(t, degree), 0, atol=1e-14)

    def test_continuous_least_squares_leaves_an_orthogonal_error(self) -> None:
        p = cukde.fit_piecewise(np.exp, (-1, 1), 1, 5, approximation="least_squares", dtype=np.float64, continuous=True)
        t, weights = legendre.leggauss(60)
        error = np.exp(t) - value(p, t)
        inner = (1 - t**2)[:, None] * legendre.legvander(t, 3)  # what the error may be changed by
        np.testing.assert_allclose((weights * error) @ inner, 0, atol=1e-14)

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_minimax_has_the_smallest_error(self, name: str) -> None:
        f, domain = FUNCTIONS[name]
        errors = [cukde.fit_piecewise(f, domain, 8, 4, approximation=m).max_errors["float64"] for m in APPROXIMATIONS]
        assert errors[0] <= min(errors) + 1e-15 * np.abs(f(np.array(domain))).max()

    @pytest.mark.parametrize("approximation", APPROXIMATIONS)
    @pytest.mark.parametrize("degree", [1, 2, 3, 7])
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_continuous_pieces_meet_at_the_function(self, approximation: Any, degree: int, dtype: str) -> None:
        p = cukde.fit_piecewise(gelu, (-6, 6), 37, degree, approximation=approximation, dtype=dtype, continuous=True)
        ends = sum(c * np.diff(p.x) ** (degree - j) for j, c in enumerate(p.c))
        np.testing.assert_allclose(p.c[-1], gelu(p.x[:-1]), rtol=0, atol=0)
        np.testing.assert_allclose(ends, gelu(p.x[1:]), rtol=0, atol=5e-15)


class TestErrors:
    """``max_error`` against grids of other points."""

    @pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
    @pytest.mark.parametrize("approximation", APPROXIMATIONS)
    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_holds_on_a_denser_grid(self, name: str, approximation: Any, dtype: str) -> None:
        f, domain = FUNCTIONS[name]
        for pieces, degree, knots in ((1, 3, "uniform"), (7, 2, "adaptive"), (64, 3, "adaptive"), (16, 6, "uniform")):
            if name == "far" and dtype == "float16":
                pieces = 1
            p = cukde.fit_piecewise(f, domain, pieces, degree, approximation=approximation, knots=knots, dtype=dtype)
            check_errors(p, f, dtype, 640 * (degree + 1) * pieces)

    @settings(max_examples=30, deadline=None)
    @given(
        pieces=st.integers(1, 300),
        degree=st.integers(1, 9),
        approximation=st.sampled_from(APPROXIMATIONS),
        knots=st.sampled_from(["uniform", "adaptive"]),
        dtype=st.sampled_from(["float16", "float32", "float64"]),
        continuous=st.booleans(),
        ends=st.tuples(st.floats(-5, 10), st.floats(0.5, 20)),
    )
    def test_holds_for_any_fit(self, pieces: int, degree: int, ends: tuple[float, float], **options: Any) -> None:
        domain = (ends[0], ends[0] + ends[1])
        p = cukde.fit_piecewise(gelu, domain, pieces, degree, **options)
        assert p.c.shape == (degree + 1, pieces)
        assert p.x[0] <= domain[0]
        assert p.x[-1] >= domain[1]
        check_errors(p, gelu, options["dtype"], 100_000)

    def test_values_just_beyond_a_power_of_2(self) -> None:
        """The last 0.0002 of the domain has values above 4, whose rounding is twice that of others."""
        p = cukde.fit_piecewise(gelu, (-2.139656511795528, 4.000343488204472), 146, 3)
        assert value(p, p.x[-1:]) > 4
        check_errors(p, gelu, "float32", 100_000)

    def test_both_are_told(self) -> None:
        p = cukde.fit_piecewise(np.exp, (0, 1), 100)
        assert p.max_errors.keys() == {"float64", "float32"}
        assert p.max_errors["float64"] < 1e-11
        assert 6e-8 < p.max_errors["float32"] < 5e-7
        assert p.max_error == max(p.max_errors.values())
        assert cukde.fit_piecewise(np.exp, (0, 1), 100, dtype=np.float64).max_errors.keys() == {"float64"}

    def test_offsets_do_not_spoil_float32(self) -> None:
        p = cukde.fit_piecewise(lambda x: np.sin(x - 1e4), (1e4, 1e4 + 8), 64)
        assert p.max_error < 5e-7

    def test_knots_are_numbers_of_the_dtype(self) -> None:
        p = cukde.fit_piecewise(np.exp, (0.1, 0.7), 10)
        np.testing.assert_array_equal(p.x.astype(np.float32), p.x)
        assert p.x[0] <= 0.1 < 0.7 <= p.x[-1]
        assert np.isfinite(p(np.array([0.1, 0.7]))).all()
        assert np.isnan(p(np.array([0.09, 0.71]), extrapolate=False)).all()


def check_errors(p: Any, f: Any, dtype: str, points: int) -> None:
    x = np.linspace(p.x[0], p.x[-1], points)
    assert np.abs(value(p, x) - f(x)).max() <= p.max_errors["float64"]
    x = x.astype(dtype)
    x = x[(x >= p.x[0]) & (x <= p.x[-1])]
    y = p(x)
    assert y.dtype == dtype
    assert np.abs(y.astype(np.float64) - f(x.astype(np.float64))).max() <= p.max_errors[dtype]


class TestKnots:
    def test_gelu_by_64_adaptive_cubics(self) -> None:
        p = cukde.fit_piecewise(gelu, (-6, 6), 64, 3, knots="adaptive")
        assert p.max_errors["float64"] <= 5e-8
        assert p.max_error <= 1e-6
        x = np.linspace(-6, 6, 1_000_001)
        assert np.abs(value(p, x) - gelu(x)).max() <= 5e-8
        assert np.abs(p(x.astype(np.float32)) - gelu(x.astype(np.float32).astype(np.float64))).max() <= 1e-6

    @pytest.mark.parametrize("name", FUNCTIONS)
    @pytest.mark.parametrize("pieces", [1, 2, 3, 10, 100])
    def test_adaptive_is_no_worse_than_uniform(self, name: str, pieces: int) -> None:
        f, domain = FUNCTIONS[name]
        adaptive, uniform = (
            cukde.fit_piecewise(f, domain, pieces, 2, knots=knots, dtype=np.float64).max_error
            for knots in ("adaptive", "uniform")
        )
        assert adaptive <= 1.01 * uniform + 1e-15 * np.abs(f(np.array(domain))).max()

    def test_adaptive_finds_a_singularity(self) -> None:
        uniform = cukde.fit_piecewise(np.sqrt, (0, 1), 32, dtype=np.float64)
        adaptive = cukde.fit_piecewise(np.sqrt, (0, 1), 32, knots="adaptive", dtype=np.float64)
        assert adaptive.max_error < 1e-3 * uniform.max_error

    def test_errors_are_equal(self) -> None:
        knots = fit_pieces.adaptive_knots(np.exp, (0.0, 4.0), 20, 3)
        errors = fit_pieces.errors(np.exp, knots, fit_pieces.fit(np.exp, knots, 3, "minimax", False))
        assert errors.max() < 1.05 * errors.min()

    def test_an_array(self) -> None:
        knots = [0, 0.25, 1, 3]
        p = cukde.fit_piecewise(np.exp, (0, 3), knots=knots)
        np.testing.assert_array_equal(p.x, knots)
        np.testing.assert_array_equal(cukde.fit_piecewise(np.exp, (0, 3), 3, knots=knots).c, p.c)


class TestTolerance:
    @pytest.mark.parametrize("knots", ["uniform", "adaptive"])
    @pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-6])
    def test_is_reached_and_not_by_fewer(self, tol: float, knots: Any) -> None:
        p = cukde.fit_piecewise(gelu, (-6, 6), tol=tol, knots=knots)
        assert p.max_error <= tol
        fewer = cukde.fit_piecewise(gelu, (-6, 6), p.c.shape[1] - 1, knots=knots)
        assert fewer.max_error > tol

    def test_one_piece_can_be_enough(self) -> None:
        assert cukde.fit_piecewise(np.exp, (0, 1), tol=1e-3).c.shape == (4, 1)

    def test_below_rounding(self) -> None:
        with pytest.raises(ValueError, match=r"^tol\b") as e:
            cukde.fit_piecewise(gelu, (-6, 6), tol=1e-8)
        assert "rounding in float32 alone is above it" in str(e.value)
        assert cukde.fit_piecewise(gelu, (-6, 6), tol=1e-8, dtype=np.float64).max_error <= 1e-8

    def test_too_many_pieces(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(fit, "MOST_PIECES", 64)
        with pytest.raises(ValueError, match=r"the least error found is 0\.\d+, with \d+ pieces; more than 64 pieces"):
            cukde.fit_piecewise(lambda x: x > 1 / 3, (0, 1), tol=1e-3)

    def test_knots_that_round_together(self) -> None:
        with pytest.raises(ValueError, match=r"^tol\b"):
            cukde.fit_piecewise(lambda x: x > 1 + 5e-7, (1, 1 + 1e-6), tol=1e-3)


class TestUserErrors:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"degree": 0}, "degree must"),
            ({"pieces": 0}, "pieces must"),
            ({"pieces": -3}, "pieces must"),
            ({"domain": (1, 0)}, "domain must be two finite increasing numbers; got (1, 0)"),
            ({"domain": (0, 0)}, "domain must"),
            ({"domain": (0, math.inf)}, "domain must"),
            ({"domain": (math.nan, 1)}, "domain must"),
            ({"domain": (0, 1, 2)}, "domain must be two finite increasing numbers"),
            ({"domain": 3}, "domain must be two finite increasing numbers"),
            ({"domain": (0, 1e-60), "pieces": 9}, "two knots round to"),
            (
                {"approximation": "spline"},
                "approximation must",
            ),
            ({"knots": "random"}, "knots must"),
            ({"knots": [0, 0.5, 0.4, 1]}, "knots must increase strictly; got 0.5 before 0.4 at index 1"),
            ({"knots": [0, 0.5, 0.5, 1]}, "knots must"),
            ({"knots": [0, np.nan, 1]}, "knots must"),
            ({"knots": [0, 0.5]}, "knots must begin and end with the domain (0.0, 1.0); got 0.0 to 0.5"),
            ({"knots": [[0, 1]]}, "knots must be 'uniform', 'adaptive' or an array of at least two numbers"),
            ({"knots": [0]}, "knots must be 'uniform', 'adaptive' or an array of at least two numbers"),
            ({"knots": [0, 0.5, 1]}, "pieces must be left out or 2 like the knots say; got 4"),
            ({"knots": [0, 1], "pieces": None, "tol": 1}, "tol chooses the number of pieces"),
            ({"tol": 1e-3}, "exactly one of pieces and tol must be given; got pieces=4 and tol=0.001"),
            ({"pieces": None}, "exactly one of pieces and tol must be given"),
            ({"pieces": None, "tol": 0}, "tol must"),
            ({"pieces": None, "tol": math.nan}, "tol must be positive and finite; got nan"),
            ({"dtype": np.int32}, "dtype must"),
            ({"dtype": "quadruple"}, "dtype must be one of float16, float32, float64; got 'quadruple'"),
            ({"func": lambda x: x[:-1]}, "func must return one value for each x: called with shape"),
            ({"func": lambda x: x[:, None]}, "it returned shape"),
            ({"func": lambda x: [x, x]}, "called with shape (5,), it returned shape (2, 5)"),
            ({"func": lambda x: None}, "func must"),
            ({"func": lambda x: "1"}, "func must"),
            ({"func": lambda x: math.log(x)}, "func must be finite on the domain; it raises at x = 0.0: math domain"),
            ({"extrapolate": "nearest"}, 'extrapolate must be True, False, "periodic", "clamp" or "raise"'),
            ({"func": lambda x: x + 1j}, "func must return real numbers; got dtype complex128"),
            ({"func": lambda x: 1 / x}, "func must be finite on the domain; got inf at x = 0.0"),
            ({"func": lambda x: np.where(x == 1, np.nan, x)}, "func must"),
        ],
    )
    def test_values(self, changes: dict[str, Any], message: str) -> None:
        arguments = {"func": np.exp, "domain": (0, 1), "pieces": 4, "degree": 3, **changes}
        with pytest.raises(ValueError, match=re.escape(message)):
            cukde.fit_piecewise(**arguments)

    @pytest.mark.parametrize(
        "changes", [{"degree": 2.5}, {"degree": True}, {"pieces": "4"}, {"pieces": None, "tol": "small"}]
    )
    def test_types(self, changes: dict[str, Any]) -> None:
        with pytest.raises(TypeError, match=rf"^{[*changes][-1]}\b"):
            cukde.fit_piecewise(**{"func": np.exp, "domain": (0, 1), "pieces": 4, **changes})


class Tensor:
    """A tensor that knows its gradient, as PyTorch's: NumPy cannot read it before it is detached."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")

    def detach(self) -> np.ndarray:
        return np.asarray(self.values)


def only_of_tensors(x: Any) -> Any:
    if not isinstance(x, Tensor):
        raise TypeError(f"sigmoid(): argument 'input' must be Tensor, not {type(x).__name__}")
    return x


class TestFunctionsOfOtherKinds:
    """The fit is that of the function of an array, whatever the function takes and returns."""

    @pytest.mark.parametrize(
        ("func", "same"),
        [
            (math.sin, np.sin),
            (lambda x: x if x > 0.3 else 0.1 * x, lambda x: np.where(x > 0.3, x, 0.1 * x)),
            (lambda x: max(x, 0.5), lambda x: np.maximum(x, 0.5)),
            (lambda x: 2.0, lambda x: np.full(x.shape, 2.0)),
            (lambda x: np.float32(0.5), lambda x: np.full(x.shape, 0.5)),
            (lambda x: Fraction(x) ** 2, lambda x: x**2),
            (lambda x: [v * v for v in x], lambda x: x**2),
            (lambda x: Tensor(x**2), lambda x: x**2),
            (lambda x: Tensor(math.exp(x)), np.exp),
            (lambda x: x > 0.5, lambda x: np.where(x > 0.5, 1.0, 0.0)),
        ],
    )
    def test_equals_that_of_an_array(self, func: Any, same: Any) -> None:
        got, want = (cukde.fit_piecewise(f, (0, 1), 4, 2, dtype=np.float64) for f in (func, same))
        np.testing.assert_allclose(got.c, want.c, rtol=0, atol=1e-11)

    def test_an_error_tells_both(self) -> None:
        with pytest.raises(
            TypeError, match=r"array raised TypeError: sigmoid.*number 0.0 TypeError: .*not float; write"
        ):
            cukde.fit_piecewise(only_of_tensors, (0, 1), 4)
        with pytest.raises(TypeError, match="func must be a function of x; got 'tanh'"):
            cukde.fit_piecewise("tanh", (0, 1), 4)


class TestBeyondTheDomain:
    def test_default_is_an_error(self, backend: Any) -> None:
        p = cukde.fit_piecewise(np.exp, (-1, 1), 4)
        inside = backend.asarray(np.float32([-1, 0, 1, np.nan]))
        for _ in range(2):  # a GPU may keep what the first call prepared
            assert np.isnan(backend.asnumpy(p(inside))).tolist() == [False, False, False, True]
            outside = backend.asarray(np.float32([[0, 7], [np.nan, -2]]))
            for nu in (0, 1):
                with pytest.raises(ValueError, match=r"from -1.0 to 1.0; got 7.0, the first of 2 beyond: write extrap"):
                    p(outside, nu)
        assert backend.asnumpy(p(backend.asarray(np.empty(0, np.float32)))).shape == (0,)
        assert np.isnan(backend.asnumpy(p(outside, extrapolate=False))).tolist() == [[False, True], [True, True]]

    @pytest.mark.parametrize("beyond", [True, False, "periodic", "clamp", "raise"])
    def test_is_that_of_the_polynomial(self, beyond: Any) -> None:
        p = cukde.fit_piecewise(np.exp, (-1, 1), 4, dtype=np.float64, extrapolate=beyond)
        assert p.extrapolate == beyond
        assert p.derivative().extrapolate == beyond
        if beyond != "raise":
            want = cukde.PiecewisePolynomial(p.c, p.x, extrapolate=beyond)(2.5)
            np.testing.assert_array_equal(p(2.5), want)
            return
        assert p.to_scipy().extrapolate is False
        with pytest.raises(ValueError, match=r"a and b must lie within the knots, from -1.0 to 1.0; got 0.0 and 2.5"):
            p.integrate(0, 2.5)
        assert p.integrate(-1, 1) == pytest.approx(np.e - 1 / np.e, abs=1e-3)
        falling = cukde.PiecewisePolynomial([[1.0, 1.0]], [2, 1, 0], extrapolate="raise")
        with pytest.raises(ValueError, match=r"^x\b"):
            falling([1, -1.5])
        with pytest.raises(ValueError, match=r"^x\b"):
            cukde.pwpa([1.0, 3.0], [[1.0], [1.0]], [0, 1, 2], extrapolate="raise")


def test_reprs_are_short() -> None:
    p = cukde.fit_piecewise(np.exp, (0, 1), 1, 3, dtype=np.float64)
    assert repr(p) == "FittedPolynomial(1 piece of degree 3 on [0, 1], extrapolate='raise', max_error=0.000545)"
    q = cukde.PiecewisePolynomial(np.ones((2, 3, 4)), [3, 2, 1, 0])
    assert repr(q) == "PiecewisePolynomial(3 pieces of degree 1 on [0, 3], values of shape (4,), extrapolate=True)"


def test_func_may_change_its_argument() -> None:
    def f(x: np.ndarray) -> np.ndarray:
        x *= 2
        return x

    assert cukde.fit_piecewise(f, (0, 1), 3).max_errors["float64"] < 1e-14


def test_examples() -> None:
    assert doctest.testmod(fit).failed == 0


def test_knots_are_real_numbers() -> None:
    with pytest.raises(ValueError, match=r"^knots\b.*'uniform'.*'adaptive'"):
        cukde.fit_piecewise(np.exp, (0, 1), knots=np.array([0, 1], complex))
