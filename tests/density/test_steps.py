"""Debiasing in several steps, and without the own point, against the float64 oracle of the formula; what it is for.

Test bodies run on every backend: the CPU, the CUDA kernels emulated on the host, and a GPU where there is one.
"""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pytest

import cukde
import cukde.dask
from cukde import bandwidth, perf
from cukde.core.cost.registry import by_name, called
from tests import reference, tolerances
from tests.conftest import Backend

COVARIANCE = np.array([[0.5, 0.1, 0.0], [0.1, 0.4, 0.0], [0.0, 0.0, 0.3]])
N, M, H = 90, 20, 0.6

CPU = perf.Peaks("two cores", "cpu", {"memory": 2e10, "fma": 1e11, "scalar": 6e9}, 0.0, 2, 3e9, 2**25, (0, 0), "here")


def sample(d: int, dtype: str = "float64") -> tuple[np.ndarray, np.ndarray]:
    """Two clusters, and queries near them."""
    rng = np.random.default_rng(d)
    X = rng.standard_normal((N, d))
    X[::3] += 3
    return X.astype(dtype), rng.standard_normal((M, d)).astype(dtype)


def weights() -> np.ndarray:
    """Weights, one of them 0."""
    w = np.random.default_rng(0).exponential(size=N)
    w[3] = 0
    return w


OPTIONS: dict[str, dict[str, Any]] = {
    "number": {},
    "deviations": {"h": np.array([0.5, 0.7, 0.6])},
    "covariance": {"h": COVARIANCE},
    "score's own": {"score_bandwidth": 0.8},
    "score's covariance": {"score_bandwidth": COVARIANCE},
    "weights": {"weights": weights()},
}


@pytest.mark.usefixtures("many_pairs")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("d", "options"),
    [*((d, {"steps": 3}) for d in (1, 2, 3, 17)), *((d, {"own_point": False}) for d in (1, 3, 17))],
    ids=str,
)
def test_densities_match_the_reference(backend: Backend, options: dict[str, Any], d: int, dtype: str) -> None:
    X, Y = sample(d, dtype)
    h = H * d**0.25
    x, y = backend.asarray(X), backend.asarray(Y)
    moved = reference.debias(X, h, **options)
    near = reference.nearness(moved, Y, h)
    allowed = tolerances.sd_log_error(dtype, near, reference.size_in_bandwidths(X, h))
    log_p = backend.asnumpy(cukde.sd_kde(x, y, h, log=True, **options))
    tolerances.check_log(log_p, reference.log_kde(moved, Y, h), allowed)
    once = backend.asnumpy(cukde.sd_kde(x, y, h, log=True))
    assert np.abs(log_p - once).max() > 5 * allowed.max(), "they are told from one step with the own point"


@pytest.mark.parametrize("own_point", [True, False], ids=["all", "others"])
@pytest.mark.parametrize("name", OPTIONS)
def test_bandwidths_and_weights(backend: Backend, name: str, own_point: bool) -> None:
    X, Y = sample(3)
    options = {"h": H, **OPTIONS[name]}
    h, hs, w = (options.get(key) for key in ("h", "score_bandwidth", "weights"))
    want = reference.debias(X, h, hs, w, 2, own_point)
    of_backend: dict[str, Any] = {"score_bandwidth": hs, "weights": backend.asarray(w), "steps": 2}
    of_backend["own_point"] = own_point
    got = backend.asnumpy(cukde.debias(backend.asarray(X), h, **of_backend))
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-11)
    log_p = backend.asnumpy(cukde.sd_kde(backend.asarray(X), backend.asarray(Y), h, log=True, **of_backend))
    np.testing.assert_allclose(log_p, reference.log_kde(want, Y, h, w), rtol=0, atol=3e-11)


def test_one_step_is_the_default(backend: Backend) -> None:
    X, Y = sample(3)
    x, y = backend.asarray(X), backend.asarray(Y)
    for call in (lambda **o: cukde.debias(x, H, **o), lambda **o: cukde.sd_kde(x, y, H, **o)):
        np.testing.assert_array_equal(
            backend.asnumpy(call(deterministic=True, steps=1)), backend.asnumpy(call(deterministic=True))
        )


@pytest.mark.small
@pytest.mark.parametrize("options", [{"steps": 2}, {"steps": 2, "check_finite": False}, {"own_point": False}], ids=str)
def test_calls_that_one_step_makes_by_a_way_of_its_own(backend: Backend, options: dict[str, Any]) -> None:
    X, Y = sample(3, "float32")
    got = backend.asnumpy(cukde.sd_kde(backend.asarray(X), backend.asarray(Y), H, **options))
    options = {name: value for name, value in options.items() if name != "check_finite"}
    np.testing.assert_allclose(got, np.exp(reference.log_kde(reference.debias(X, H, **options), Y, H)), rtol=3e-4)


@pytest.mark.parametrize(
    "domain", [{"periods": [7.0, None]}, {"bounds": [(-6.0, 9.0), (-6.0, None)]}], ids=["period", "bounds"]
)
def test_domains(backend: Backend, domain: dict[str, Any]) -> None:
    """Points move as images in all of space do: those of a column, in one cell of three."""
    X, Y = sample(2)
    x, y = backend.asarray(X), backend.asarray(Y)
    if "periods" in domain:
        images, center = np.concatenate([X + np.array([7 * k, 0]) for k in range(-3, 4)]), slice(3 * N, 4 * N)
    else:  # next to nothing reaches over these ends: X lies within -4 and 7
        images, center = X, slice(0, N)
    want = reference.debias(images, 0.4, steps=2)[center]
    got = backend.asnumpy(cukde.debias(x, 0.4, steps=2, **domain))
    away = got - want
    if "periods" in domain:
        away[:, 0] -= 7 * np.round(away[:, 0] / 7)
    np.testing.assert_allclose(away, 0, atol=1e-9)
    of_moved = backend.asnumpy(cukde.kde(backend.asarray(got), y, 0.4, **domain))
    np.testing.assert_allclose(backend.asnumpy(cukde.sd_kde(x, y, 0.4, steps=2, **domain)), of_moved, rtol=1e-9)


def test_a_row_far_from_all_others_stays(backend: Backend) -> None:
    X = sample(2)[0]
    for far in (30.0, 1e6):
        X[0] = far
        moved = backend.asnumpy(cukde.debias(backend.asarray(X), H, own_point=False))
        way = np.linalg.norm(moved - X, axis=1)
        assert way.max() <= np.sqrt(2) / 2 * H * (1 + 1e-12)
        assert way[0] < H / 10
        np.testing.assert_allclose(moved, reference.debias(X, H, own_point=False), rtol=0, atol=1e-9)


def test_others_with_local_factors(backend: Backend) -> None:
    X = sample(3)[0]
    factors = np.random.default_rng(1).uniform(0.6, 1.6, N)
    moved = X
    for _ in range(2):
        ways = (moved - X[:, None]) / H
        exponents = -0.5 * (ways**2).sum(axis=2) / factors**2 - 3 * np.log(factors)
        np.fill_diagonal(exponents, -np.inf)
        shares = np.exp(exponents - exponents.max(axis=1, keepdims=True))
        shift = np.einsum("ij,ijk->ik", shares / shares.sum(axis=1, keepdims=True), ways)
        shift *= (3 / np.maximum(3, (shift**2).sum(axis=1)))[:, None]
        moved = X + 0.5 * H * shift
    options: dict[str, Any] = {"local_factors": backend.asarray(factors), "steps": 2, "own_point": False}
    got = backend.asnumpy(cukde.debias(backend.asarray(X), H, **options))
    np.testing.assert_allclose(got, moved, rtol=0, atol=1e-11)


def test_points_of_few_rows_and_many_columns_move_as_those_of_many_would() -> None:
    """On a normal the score of infinite data takes a point towards 0 by h^2 / (2 (1 + h^2)) of its distance."""
    X, h = np.random.default_rng(0).standard_normal((500, 12)), 0.9
    wanted = h * h / (2 * (1 + h * h))
    with_own, of_others = (1 - (cukde.debias(X, h, own_point=own) * X).sum() / (X * X).sum() for own in (True, False))
    assert with_own < 0.3 * wanted
    assert 0.75 * wanted < of_others < 1.25 * wanted


def test_leave_one_out_leaves_out_the_row_that_moved(backend: Backend) -> None:
    X, w = sample(3)[0], weights()
    moved = reference.debias(X, H, weights=w, steps=2)
    want = [reference.log_kde(np.delete(moved, i, axis=0), X[i : i + 1], H, np.delete(w, i))[0] for i in range(N)]
    options: dict[str, Any] = {"weights": backend.asarray(w), "leave_one_out": True, "log": True, "steps": 2}
    got = backend.asnumpy(cukde.sd_kde(backend.asarray(X), None, H, **options))
    np.testing.assert_allclose(got, want, rtol=0, atol=6e-11)


def test_stacks(backend: Backend) -> None:
    X, Y = sample(3)
    stack, y = backend.asarray(np.stack([X, 2 * X])), backend.asarray(Y)
    moved = backend.asnumpy(cukde.debias(stack, H, steps=2))
    densities = backend.asnumpy(cukde.sd_kde(stack, y, "sd", score_bandwidth=[0.5, 0.9], steps=2))
    for i, A in enumerate((X, 2 * X)):
        np.testing.assert_allclose(moved[i], reference.debias(A, H, steps=2), rtol=0, atol=1e-11)
        want = reference.sd_kde(A, Y, bandwidth.sd(A, steps=2), (0.5, 0.9)[i], steps=2)
        np.testing.assert_allclose(densities[i], want, rtol=3e-11)


@pytest.mark.parametrize(
    "options",
    [{}, {"score_bandwidth": 0.8}, {"periods": [9.0, None, None]}, {"weights": weights()}, {"own_point": False}],
    ids=str,
)
def test_dask_arrays(options: dict[str, Any]) -> None:
    X, Y = sample(3)
    x = da.from_array(X, chunks=(40, 3))
    for steps in (2, 3):
        both = cukde.debias(x, H, steps=steps, **options), cukde.sd_kde(x, Y, H, steps=steps, **options)
        want = cukde.debias(X, H, steps=steps, **options), cukde.sd_kde(X, Y, H, steps=steps, **options)
        for lazy, plain in zip(both, want, strict=True):
            np.testing.assert_allclose(lazy.compute(), plain, rtol=1e-12, atol=1e-12)


def test_boxes_do_not_leave_out_what_further_steps_need() -> None:
    X = np.sort(np.random.default_rng(0).standard_normal((400, 2)) * [30, 1], axis=0)
    x = da.from_array(X, chunks=(50, 2))
    boxes = cukde.dask.block_boxes(x)
    got = cukde.dask.sd_kde(x, X[:9], 0.5, steps=3, boxes=(boxes, None)).compute()
    np.testing.assert_allclose(got, cukde.sd_kde(X, X[:9], 0.5, steps=3), rtol=1e-12)


def test_points_come_to_rest() -> None:
    X = sample(2)[0]
    few, one_more, many = (cukde.debias(X, H, steps=k) for k in (40, 41, 100))
    np.testing.assert_allclose(few, one_more, rtol=0, atol=1e-6)
    np.testing.assert_allclose(few, many, rtol=0, atol=1e-5)


def test_rules_by_name_are_those_of_the_steps(backend: Backend) -> None:
    X, Y = sample(3)
    x, y = backend.asarray(X), backend.asarray(Y)
    got = backend.asnumpy(cukde.sd_kde(x, y, "sd", steps=2))
    np.testing.assert_allclose(got, backend.asnumpy(cukde.sd_kde(x, y, bandwidth.sd(x, steps=2), steps=2)), rtol=1e-12)
    asked: dict[str, dict[str, Any]] = {"steps=2": {"steps": 2}, "own_point=False": {"own_point": False}}
    for name, options in asked.items():
        with pytest.raises(ValueError, match=f"h must be a number or \"sd\" for {name}; got 'cross_validate'"):
            cukde.sd_kde(x, y, "cross_validate", **options)
        with pytest.raises(ValueError, match=f"h must be a number or \"sd\" for {name}; got 'cross_validate'"):
            cukde.debias(x, "cross_validate", **options)


def test_own_points_that_cannot_be_left_out(backend: Backend) -> None:
    x = backend.asarray(sample(2)[0])
    one = "own_point=False needs two rows or more that have a weight; got 1"
    for error, message, call in (
        (ValueError, one, lambda: cukde.debias(x[:1], H, own_point=False)),
        (ValueError, one, lambda: cukde.debias(x[:2], H, own_point=False, weights=backend.asarray(np.array([1.0, 0])))),
        (
            ValueError,
            "own_point must be True for stacks: call for each member",
            lambda: cukde.sd_kde(x[None], x, H, own_point=False),
        ),
        (ValueError, "own_point must be True or False; got 2", lambda: cukde.debias(x, H, own_point=2)),
    ):
        with pytest.raises(error, match=message):
            call()


@pytest.mark.parametrize(
    ("steps", "error", "message"),
    [
        (0, ValueError, "steps must be at least 1; got 0"),
        (101, ValueError, "steps must be at most 100, from where on points no longer move; got 101"),
        (1.5, TypeError, "steps must be an integer; got 1.5"),
        (True, TypeError, "steps must be an integer; got True"),
        (None, TypeError, "steps must be an integer; got None"),
    ],
)
def test_steps_that_are_none(steps: Any, error: type[Exception], message: str) -> None:
    X, Y = sample(2)
    for call in (
        lambda: cukde.debias(X, H, steps=steps),
        lambda: cukde.sd_kde(X, Y, H, steps=steps),
        lambda: cukde.debias(X[None], H, steps=steps),
        lambda: cukde.sd_kde(X[None], Y, H, steps=steps),
        lambda: cukde.debias(da.from_array(X), H, steps=steps),
        lambda: cukde.sd_kde(da.from_array(X), Y, H, steps=steps),
        lambda: bandwidth.sd(X, steps=steps),
    ):
        with pytest.raises(error, match=message):
            call()


def test_stages_and_sizes_of_a_call() -> None:
    X, Y = sample(3)
    assert called(cukde.debias, (X, H), {"steps": 3})[1]["steps"] == 3
    assert "steps" not in called(cukde.debias, (X, H), {"steps": 1})[1]
    stages = by_name("sd_kde").stages
    assert stages is not None
    calls = stages(X, Y, H, steps=2)
    assert list(calls) == ["debias", "kde"]
    np.testing.assert_allclose(calls["debias"](), cukde.debias(X, H, steps=2), rtol=1e-12)
    np.testing.assert_allclose(calls["kde"](), cukde.sd_kde(X, Y, H, steps=2), rtol=1e-10)


def test_more_steps_have_less_error() -> None:
    """Of 300 rows of a normal in 4 columns, by the rule of each; the errors are exact sums."""
    d, errors = 4, np.empty((3, 8))
    for number in range(8):
        X = np.random.default_rng(number).standard_normal((300, d))
        for k in (1, 2, 3):
            h = bandwidth.sd(X, steps=k)
            moved = cukde.debias(X, h, steps=k)
            square = cukde.kde(moved, moved, np.sqrt(2) * h).mean()
            errors[k - 1, number] = square - 2 * cukde.kde(moved, np.zeros((1, d)), np.sqrt(1 + h * h))[0]
    errors += (4 * np.pi) ** (-d / 2)  # the integral of the squared density
    one, two, three = errors.mean(axis=1)
    assert two < 0.8 * one
    assert three < two
