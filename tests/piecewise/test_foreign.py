"""Splines and polynomials of SciPy as piecewise polynomials, against SciPy's values and the definition."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
import scipy.interpolate as si
from hypothesis import given, settings, strategies as st

import cukde

drawn = settings(max_examples=60, deadline=None, derandomize=True)
WIDTHS = st.lists(st.sampled_from([0.0, 0.0, 0.5, 1.0, 1.5]), min_size=1, max_size=8)


def points(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """On the knots, next to them, between them, and up to twice the range beyond."""
    low, high = x.min(), x.max()
    span = high - low
    return np.concatenate(
        [x, np.nextafter(x, -np.inf), np.nextafter(x, np.inf), rng.uniform(low - span, high + span, 40), [np.nan]]
    )


def close(got: np.ndarray, want: np.ndarray) -> None:
    assert got.shape == want.shape
    size = np.nanmax(np.abs(want), initial=1.0)
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9 * size)


@drawn
@given(
    widths=WIDTHS,
    k=st.integers(0, 4),
    ends=st.sampled_from(["repeated", "padded", "short"]),
    trailing=st.sampled_from([(), (2,), (2, 3)]),
    extrapolate=st.sampled_from([True, False, "periodic"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_spline(widths: list[float], k: int, ends: str, trailing: Any, extrapolate: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    around = np.ones(k) * (ends == "padded")
    t = np.cumsum(np.concatenate([[-1.0], around, widths if ends != "short" else np.ones(2 * k + 2), around]))
    if ends == "repeated":
        t = np.concatenate([np.repeat(t[0], k), t, np.repeat(t[-1], k)])
    n = len(t) - k - 1
    if n < k + 1 or t[k] == t[n]:
        return
    spline = si.BSpline(t, rng.normal(size=(n, *trailing)), k, extrapolate)
    x = points(np.unique(t), rng)
    at = t[k] + (x - t[k]) % (t[n] - t[k]) if extrapolate == "periodic" else x
    want = spline(at, extrapolate=True if extrapolate == "periodic" else None)
    p = cukde.PiecewisePolynomial.from_spline(spline)
    close(p(x), want)
    close(cukde.PiecewisePolynomial.from_spline((t, spline.c, k), extrapolate=extrapolate)(x), want)
    close(p.derivative()(x), p(x, 1))
    assert (p.x[0], p.x[-1]) == (t[k], t[n])


@drawn
@given(
    widths=WIDTHS,
    k=st.integers(1, 6),
    falls=st.booleans(),
    bernstein=st.booleans(),
    trailing=st.sampled_from([(), (2,)]),
    extrapolate=st.sampled_from([True, False, "periodic"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_polynomial(
    widths: list[float], k: int, falls: bool, bernstein: bool, trailing: Any, extrapolate: Any, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    if bernstein:  # SciPy has NaN in pieces without width
        widths = [width for width in widths if width]
    if not sum(widths):
        return
    x = np.cumsum([0.25, *widths]) * (-1 if falls else 1)
    kind, c = si.BPoly if bernstein else si.PPoly, rng.normal(size=(k, len(widths), *trailing))
    made = kind(c, x, extrapolate)
    at = points(np.unique(x), rng)
    p = cukde.PiecewisePolynomial.from_scipy(made)
    close(p(at), made(at))
    close(cukde.PiecewisePolynomial.from_scipy(p.to_scipy())(at), made(at))
    close(p.integrate(*x[[0, -1]]), np.asarray(kind(c, x).integrate(*x[[0, -1]])))


X, Y = np.array([0.0, 1, 2.5, 3, 4.25, 5, 6, 7]), np.array([1.0, 1.5, 2.5, 2, 0.5, 1.25, 2, 1])


@pytest.mark.parametrize(
    "made",
    [
        *(si.make_interp_spline(X, Y, k=k) for k in (0, 1, 2, 3, 5)),
        si.make_interp_spline(X, Y, bc_type="periodic"),
        si.make_interp_spline(X, np.stack([Y, Y[::-1]], axis=1)),
        si.make_smoothing_spline(X, Y),
        si.splrep(X, Y),
        si.splrep(X, Y, per=True),
        si.InterpolatedUnivariateSpline(X, Y, k=4),
        si.UnivariateSpline(X, Y, s=0.1, ext="const"),
        si.UnivariateSpline(X, Y, ext=2),
        si.CubicSpline(X, Y),
        si.CubicSpline(X, Y, bc_type="periodic"),
        si.PchipInterpolator(X, Y, extrapolate=False),
        si.Akima1DInterpolator(X, Y),
        si.CubicHermiteSpline(X, Y, Y),
        si.BPoly.from_derivatives(X, np.stack([Y, Y, -Y], axis=1)),
    ],
    ids=lambda made: type(made).__name__,
)
def test_what_scipy_makes(made: Any) -> None:
    """Steps end with their last value; splines of FITPACK keep what they do beyond the knots."""
    convert = cukde.PiecewisePolynomial.from_scipy if hasattr(made, "x") else cukde.PiecewisePolynomial.from_spline
    x = points(X, np.random.default_rng(0))
    p = convert(made)
    if p.extrapolate == "raise":
        with pytest.raises(ValueError, match=r"^x\b"):
            p(x)
        x = x[(x >= X[0]) & (x <= X[-1])]
    number = x[~np.isnan(x)]
    value = (lambda q: si.splev(q, made)) if isinstance(made, tuple) else made
    close(p(number), np.asarray(value(number)))


def test_a_last_piece_without_width() -> None:
    """It is for the last knot and beyond, as in SciPy, also in float32; "clamp" gives the value at the last knot."""
    step = si.PPoly([[7.0, 1, 2, 9]], [0, 0, 1, 2, 2])
    p = cukde.PiecewisePolynomial.from_scipy(step)
    x = np.array([-1, 0, 0.5, 1, 1.5, 2, 3])
    for dtype in (np.float32, np.float64):
        np.testing.assert_array_equal(p(x.astype(dtype)), step(x))
        np.testing.assert_array_equal(p(x.astype(dtype), extrapolate=False), step(x, extrapolate=False))
        np.testing.assert_array_equal(p(x.astype(dtype), extrapolate="clamp"), [1, 1, 1, 2, 2, 9, 9])
        np.testing.assert_array_equal(p(x.astype(dtype), extrapolate="periodic"), [2, 1, 1, 2, 2, 1, 2])
    assert p.integrate(-1, 3) == step.integrate(-1, 3) == 7 + 1 + 2 + 9
    assert p.integrate(-1, 3, extrapolate="clamp") == 1 + 1 + 2 + 9
    np.testing.assert_array_equal(p.to_scipy()(x), step(x))
    np.testing.assert_array_equal(p.antiderivative()(x), step.antiderivative()(x))


@pytest.mark.parametrize(
    ("convert", "given", "message"),
    [
        (
            "from_scipy",
            si.make_interp_spline(X, Y),
            "PPoly of SciPy or CuPy; got BSpline: .*; from_spline takes it",
        ),
        ("from_scipy", si.UnivariateSpline(X, Y), r"got \w*UnivariateSpline: .*; from_spline takes it"),
        ("from_scipy", si.KroghInterpolator(X, Y), "PPoly of SciPy or CuPy; got KroghInterpolator"),
        ("from_spline", si.CubicSpline(X, Y), r"BSpline or a tuple \(t, c, k\); got CubicSpline; from_scipy takes it"),
        ("from_spline", si.BSpline(X, np.ones(4) * 1j, 3), r"^c\b"),
        ("from_scipy", si.PPoly([[1j]], [0, 1]), r"^c\b"),
    ],
)
def test_what_is_refused(convert: str, given: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        getattr(cukde.PiecewisePolynomial, convert)(given)


@pytest.mark.parametrize("convert", ["from_scipy", "from_spline"])
def test_surfaces_are_cut(convert: str) -> None:
    x, y = np.linspace(0, 1, 8), np.linspace(0, 2, 9)
    z = np.sin(x[:, None] + y)
    surface = si.RectBivariateSpline(x, y, z)
    others = [
        si.NdPPoly(np.ones((2, 2, 1, 1)), ([0, 1], [0, 1])),
        si.NdBSpline((X, X), np.ones((4, 4)), 3),
        si.RegularGridInterpolator((x, y), z),
        si.bisplrep(np.repeat(x, 9), np.tile(y, 8), z.ravel()),
    ]
    for each in (surface, *others):
        with pytest.raises(TypeError, match=r"of one variable; got \w+, which is for several: take its values v at"):
            getattr(cukde.PiecewisePolynomial, convert)(each)
    cut = cukde.PiecewisePolynomial.from_spline(si.make_interp_spline(x, surface(x, 0.3)[:, 0]))
    queries = np.linspace(0, 1, 31)
    close(cut(queries), surface(queries, 0.3)[:, 0])


def test_advice_that_works() -> None:
    of = cukde.PiecewisePolynomial
    both = np.stack([Y, Y[::-1]])
    for made in (si.make_interp_spline(X, both, axis=1), si.CubicSpline(X, both, axis=1)):
        with pytest.raises(ValueError, match="must have axis 0; got 1: give "):
            (of.from_scipy if hasattr(made, "x") else of.from_spline)(made)
    tck, spline = si.make_interp_spline(X, both, axis=1), si.CubicSpline(X, both, axis=1)
    close(of.from_spline(si.BSpline(tck.t, tck.c, tck.k, tck.extrapolate))(X), both.T)
    close(of.from_scipy(si.PPoly(spline.c, spline.x, spline.extrapolate))(X), both.T)
    (t, c, k), u = si.splprep(both, s=0)
    with pytest.raises(ValueError, match=r"got 2 arrays, as splprep returns them: give np.stack\(c, axis=1\)"):
        of.from_spline((t, c, k))
    close(of.from_spline((t, np.stack(c, axis=1), k))(u), both.T)
    with pytest.raises(ValueError, match='make it with ext="extrapolate"'):
        of.from_spline(si.UnivariateSpline(X, Y, ext=1))


@drawn
@given(
    start=st.sampled_from([0.0, 1.0, -3.0, 1e6]),
    gaps=st.lists(st.sampled_from([1e-10, 0.1, 0.4, 1.0, 1.7, 2e4]), min_size=2, max_size=6),
    dtype=st.sampled_from(["float32", "float64"]),
    mode=st.sampled_from([True, False, "clamp"]),
    raw=st.booleans(),
)
def test_pieces_narrower_than_a_step_of_float32(
    start: float, gaps: list[float], dtype: str, mode: Any, raw: bool
) -> None:
    """Each number has the value of its piece, by comparison with the knots; gaps are in steps of float32."""
    step = float(np.spacing(np.float32(abs(start) + 1)))
    knots = start + step * np.cumsum([0.3, *gaps])
    if not (np.diff(knots) > 0).all():
        return
    numbers = np.arange(1.0, len(knots))
    near = np.unique(knots.astype(dtype))
    infinite = np.array(np.inf, dtype)
    far = np.array([knots[0] - 1e5 * step, knots[-1] + 1e5 * step], dtype)
    x = np.unique(np.concatenate([near, np.nextafter(near, infinite), np.nextafter(near, -infinite), far]))
    exact = x.astype(np.float64)
    piece = np.clip(np.searchsorted(knots, exact, "right") - 1, 0, len(numbers) - 1)
    inside = (exact >= knots[0]) & (exact <= knots[-1])
    want = np.where(inside | (mode is not False), numbers[piece], np.nan)

    def values() -> np.ndarray:
        if raw:
            return cukde.pwpa(x, numbers[:, None], knots, extrapolate=mode)
        line = np.stack([0 * numbers, numbers])  # of degree 1, whose leading coefficients are 0
        return cukde.PiecewisePolynomial(line, knots, extrapolate=mode)(x)

    with contextlib.suppress(ValueError) if np.unique(x[inside]).size < 2 else contextlib.nullcontext():
        np.testing.assert_array_equal(values(), want.astype(dtype), strict=True)
