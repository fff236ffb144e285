"""Reference rules of fourth order: errors on normal data by finite differences of the estimates, and their least."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import cukde
from tests.private import deviations, moved_normal, normal_reference, reference_factor

# Cells of a grid, by dimension: so narrow that sums over them are integrals, of normals and of their products.
GRIDS = {1: np.linspace(-8, 8, 129), 2: np.linspace(-5.5, 5.5, 21)}
METHODS = {"laplace": 1, "sd": 1, "sd, 2 steps": 2, "sd, 3 steps": 3, "positive": 1}


def parts(name: str, h: np.ndarray, d: int) -> tuple[np.ndarray, ...]:
    """The overlap, the mean's square and the integral of E[W^2], in units of the integral of p^2."""
    if name in ("laplace", "positive"):
        return tuple(map(np.exp, getattr(normal_reference, f"_{name}")(h, d)))
    return tuple(map(np.exp, normal_reference._sd(h, d, METHODS[name])))


def estimate(name: str, X: np.ndarray, h: float) -> Callable[[np.ndarray], np.ndarray]:
    """The estimate at its points by weights; that which is made positive without its mass."""

    def positive(weights: np.ndarray) -> np.ndarray:
        p, corrected = (f(X, X, h, weights=weights) for f in (cukde.kde, cukde.laplace_kde))
        t = corrected / p - 1
        return np.asarray(p * (t + np.sqrt(1 + t * t)))

    if name == "positive":
        return positive
    if name == "laplace":
        return lambda weights: np.asarray(cukde.laplace_kde(X, X, h, weights=weights))
    return lambda weights: np.asarray(cukde.sd_kde(X, X, h, weights=weights, steps=METHODS[name]))


@pytest.mark.parametrize(("d", "h"), [(1, 0.4), (1, 0.9), (2, 0.8)])
@pytest.mark.parametrize("name", [name for name, steps in METHODS.items() if steps < 3])
def test_errors_are_those_of_the_estimates(name: str, d: int, h: float) -> None:
    """A grid with the weights of a normal is the population; a little weight more on a row is its influence."""
    line = GRIDS[d]
    X = np.array(list(itertools.product(line, repeat=d)))
    cell = (line[1] - line[0]) ** d
    p = np.exp(-0.5 * (X**2).sum(axis=1)) / (2 * np.pi) ** (d / 2)
    w, unit = p * cell, (4 * np.pi) ** (-d / 2)
    at = estimate(name, X, h)
    mean = at(w)
    mass = mean.sum() * cell if name == "positive" else 1.0
    overlap, mean_square, square = parts(name, np.array([h]), d)
    ends = 1e-9 if d == 1 else 3e-6  # of the grid, where the smoothed density and the slow tails of g are cut off
    assert (p * mean).sum() * cell / unit / mass == pytest.approx(overlap[0], rel=ends)
    assert (mean**2).sum() * cell / unit / mass**2 == pytest.approx(mean_square[0], rel=ends)

    total, little = 0.0, 1e-4
    # Rows that mirror each other, or swap their columns, have the same influence.
    ordered = np.flatnonzero((X >= 0).all(axis=1) & (np.diff(X, axis=1) >= 0).all(axis=1) & (w > 1e-9 * w.max()))
    for row in ordered:
        images = {
            tuple(s * x for s, x in zip(signs, some, strict=True))
            for some in itertools.permutations(X[row])
            for signs in itertools.product((-1, 1), repeat=d)
        }
        share = np.zeros(len(X))
        share[row] = 1
        once, twice = (at((1 - k * little) * w + k * little * share) for k in (1, 2))
        influence = (4 * once - 3 * mean - twice) / (2 * little)
        total += len(images) * w[row] * (influence**2).sum() * cell
    variance = total / unit / mass**2
    assert variance == pytest.approx(square[0] - mean_square[0], rel=1e-4)


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("d", [1, 3, 20])
def test_numbers_with_infinitesimals_give_the_derivative_of_each_form(d: int, steps: int) -> None:
    """A chain of one move is the difference of two Gaussian integrals over a small number."""
    h = np.array([0.3, 0.9])
    a = deviations(h, steps)
    got, log_scale = moved_normal._pair(h, d, a, 1, 0)

    def gaussian(epsilon: float) -> np.ndarray:
        # y, z and u: K(y - a u) (p/p_k)(u) K(u - a' z) K(y - a z) p(z), and epsilon times the form of the move.
        A = np.zeros((2, 3, 3))
        for i, s in enumerate(h**2):
            last, before = a[-1][i], a[-2][i]
            variance = before**2 + s
            forms = [
                (np.array([1, 0, -last]), 1 / s),
                (np.array([0, -before, 1]), 1 / s),
                (np.array([1, -last, 0]), 1 / s),
            ]
            A[i] = sum(size * np.outer(v, v) for v, size in forms)
            A[i, 1, 1] += 1
            A[i, 2, 2] += 1 - 1 / variance
            r, u = np.array([1, 0, -last]), np.array([0, 0, 1])
            A[i] -= epsilon * (np.outer(u, r) + np.outer(r, u)) / 2
            A[i] += epsilon * last / s * np.outer(r, r)
        return np.linalg.slogdet(A)[1] * (-d / 2)

    small = 1e-4
    base = gaussian(0.0)
    slope = (np.exp(gaussian(small) - base) - np.exp(gaussian(-small) - base)) / (2 * small) + a[-1] * d / 2
    np.testing.assert_allclose(got, slope, rtol=1e-5)
    variance = a[-2] ** 2 + h**2
    constant = d / 2 * (np.log(4 * np.pi) + np.log(variance) - np.log(2 * np.pi) - 3 * np.log(2 * np.pi * h**2))
    np.testing.assert_allclose(log_scale, base + constant + d / 2 * 3 * np.log(2 * np.pi), rtol=1e-12)


@pytest.mark.parametrize("d", [1, 2, 8, 40])
def test_variance_as_the_bandwidth_goes_to_0(d: int) -> None:
    h = np.array([1e-3])
    of_sd = 1 + d / 3 * (2 / 3) ** (d / 2) + d * (d + 2) / 64 * 2 ** (-d / 2)
    assert moved_normal.log_square(h, d, 1) + d * np.log(h) == pytest.approx(np.log(of_sd), abs=2e-3)
    of_laplace = np.log((d + 2) * (d + 8) / 16) - d * np.log(h)
    assert normal_reference._positive(h, d)[2] == pytest.approx(of_laplace, abs=2e-3)


@pytest.mark.parametrize("d", [1, 2, 8, 40])
def test_leading_bias(d: int) -> None:
    """Its integrated square, where h is so small that little else counts, and so large that it is no rounding."""
    h = np.array([0.1 / d**0.5])
    for name, constant in (
        ("sd", 25 * d * (d + 2) / 256),
        ("sd, 2 steps", d * (d + 2) / 256),
        ("laplace", d * (d + 2) * (d + 4) * (d + 6) / 1024),
        ("positive", d * (d + 2) / 16),
    ):
        overlap, mean_square, _ = parts(name, h, d)
        assert (1 - 2 * overlap + mean_square) / h**8 == pytest.approx(constant, rel=0.12), name


@pytest.mark.parametrize(("d", "n"), [(1, 2.0), (1, 1e6), (5, 5e3), (30, 60.0)])
@pytest.mark.parametrize("name", METHODS)
def test_factor_is_where_the_error_is_least(name: str, d: int, n: float) -> None:
    def error(t: np.ndarray) -> np.ndarray:
        overlap, mean_square, square = parts(name, np.exp(t), d)
        return np.asarray(1 - 2 * overlap + mean_square + (square - mean_square) / n)

    got = np.log(reference_factor(name.partition(",")[0], n, d, METHODS[name]))
    least, *near = error(got + np.array([0.0, -1e-3, 1e-3]))
    assert least < min(*near, *error(np.linspace(-3, 1.5, 91)))
    # The error is even about its least, but for a cubic term.
    assert near[1] - near[0] == pytest.approx(0, abs=0.02 * (sum(near) - 2 * least) + 1e-15)


@pytest.mark.parametrize(("d", "n"), [(1, 100), (1, 1e6), (4, 2000), (8, 1e6), (16, 100)])
def test_more_steps_lose_little_by_the_variance_of_two(d: int, n: float) -> None:
    def error(t: float) -> float:
        h = np.array([np.exp(t)])
        overlap, mean_square, _ = normal_reference._sd(h, d, 3)
        square = moved_normal.log_square(h, d, 3)
        return float((1 - 2 * np.exp(overlap) + (1 - 1 / n) * np.exp(mean_square) + np.exp(square) / n)[0])

    got = np.log(reference_factor("sd", n, d, 3))
    found = minimize_scalar(error, bounds=(got - 0.3, got + 0.3), method="bounded", options={"xatol": 1e-9})
    assert error(got) <= found.fun * (1 + 3e-4)


@pytest.mark.parametrize("name", METHODS)
def test_hundreds_of_dimensions(name: str) -> None:
    factor = partial(reference_factor, name.partition(",")[0], steps=METHODS[name])
    for d in (300, 3000):
        few, many = (factor(n=n, d=d) for n in (2.0, 1e9))
        assert 0.9 < many < few < 1.5


def test_rounding_of_the_number_of_rows_does_not_show() -> None:
    for n in (1.0, 40.0, 12345.678):
        assert len({reference_factor("sd", n * (1 + k * 1e-15), 2) for k in range(-3, 4)}) == 1
