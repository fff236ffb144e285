"""Gradients by passes against derivatives of the dense formulas, on both backends, without PyTorch or JAX."""

from __future__ import annotations

import functools
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import cukde
from cukde.gradients.convolution import Convolution
from cukde.gradients.density import Density, Grid
from cukde.gradients.kernel_sum import KernelSum
from cukde.gradients.piecewise import Curve, Table
from cukde.gradients.score import Score
from tests.conftest import Backend
from tests.gradients import oracle

KINDS = ("number", "deviations", "covariance")


def operands(d: int, kind: str = "number", n: int = 11, m: int = 6, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(d, d))
    h = {"number": np.array(0.8), "deviations": rng.uniform(0.5, 1.5, d), "covariance": root @ root.T + np.eye(d)}
    return {
        "X": rng.normal(size=(n, d)) + 3,
        "Y": rng.normal(size=(m, d)) + 3,
        "h": h[kind],
        "weights": rng.uniform(0.3, 2, n),
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_densities(backend: Backend, d: int, log: bool, kind: str) -> None:
    function = oracle.log_kde if log else oracle.kde
    oracle.check(backend, Density, function, operands(d, kind), {"log": log})


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_densities_at_the_data_without_the_own_point(backend: Backend, kind: str, weighted: bool, log: bool) -> None:
    arrays = operands(2, kind) | {"Y": None}
    if not weighted:
        arrays["weights"] = None
    function = functools.partial(oracle.log_kde if log else oracle.kde, leave_one_out=True)
    oracle.check(backend, Density, function, arrays, {"log": log, "leave_one_out": True})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [1, 2, 3])
def test_kernel_sums(backend: Backend, d: int, kind: str) -> None:
    arrays = operands(d, kind)
    del arrays["weights"]
    V = np.random.default_rng(1).normal(size=(11, 2))
    oracle.check(backend, KernelSum, oracle.kernel_sum, arrays | {"V": V})
    oracle.check(backend, KernelSum, oracle.kernel_sum, arrays | {"V": V[:, 0], "Y": None})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [1, 2, 3])
def test_scores(backend: Backend, d: int, kind: str) -> None:
    oracle.check(backend, Score, oracle.score, operands(d, kind), rtol=1e-8)
    oracle.check(backend, Score, oracle.score, operands(d, kind) | {"Y": None, "weights": None}, rtol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("log", [False, True])
def test_grids(backend: Backend, log: bool, kind: str) -> None:
    axes = [np.linspace(2, 4, 3), np.array([3.0, 2.5])]
    arrays = operands(2, kind)
    Y = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    del arrays["Y"]

    def function(**given: Any) -> Any:
        return (oracle.log_kde if log else oracle.kde)(Y=Y, **given).reshape(3, 2)

    oracle.check(backend, Grid, function, arrays, {"axes": axes, "log": log})


@pytest.mark.parametrize("d", [1, 2, 5, 20])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_many_rows(backend: Backend, d: int, dtype: str) -> None:
    """So many that other passes take them; float32 is judged beside the formula of the rounded numbers."""
    arrays = operands(d, n=backend.size(2000, 150), m=backend.size(100, 70))
    arrays = {name: a.astype(dtype) for name, a in arrays.items()} | {"h": np.array(1.5)}
    rtol = 1e-9 if dtype == "float64" else 3e-4
    oracle.check(backend, Density, oracle.log_kde, arrays, {"log": True}, rtol)
    V = np.random.default_rng(1).normal(size=(len(arrays["X"]), 2)).astype(dtype)
    del arrays["weights"]
    oracle.check(backend, KernelSum, oracle.kernel_sum, arrays | {"V": V}, rtol=rtol)


def test_float32_data_and_a_bandwidth_for_each_column(backend: Backend) -> None:
    """Gradients of data and queries nearly cancel there, and are summed in float64."""
    arrays = operands(3, "deviations", n=60, m=30)
    arrays = {name: (30 * a if name in "XY" else a).astype("float32") for name, a in arrays.items()}
    oracle.check(backend, Density, oracle.log_kde, arrays | {"h": 20 * arrays["h"]}, {"log": True}, 3e-4)


@pytest.mark.parametrize("of", [Density, Score])
def test_queries_far_from_the_data(backend: Backend, of: Any) -> None:
    """Densities underflow there; their logarithms and gradients do not."""
    arrays = operands(2)
    arrays["Y"] = arrays["Y"] + np.array([60.0, 0])
    is_score = of is Score
    options = {} if is_score else {"log": True}
    oracle.check(backend, of, oracle.score if is_score else oracle.log_kde, arrays, options, 1e-7)


def test_data_far_from_zero(backend: Backend) -> None:
    arrays = operands(2, "deviations")
    moved = arrays | {name: arrays[name] + 2.0**20 for name in "XY"}
    for of, options in ((Density, {"log": True}), (Score, {})):
        found, expected = (
            of({name: backend.asarray(a) for name, a in given.items()}, options).gradients(
                backend.asarray(np.ones(6 if of is Density else (6, 2))), ["X", "Y", "h", "weights"]
            )
            for given in (moved, arrays)
        )
        for name in found:
            got, want = map(backend.asnumpy, (found[name], expected[name]))
            np.testing.assert_allclose(got, want, rtol=0, atol=1e-7 * abs(want).max(), err_msg=name)


@pytest.mark.parametrize("wanted", ["X", "Y", "h", "weights"])
def test_a_gradient_alone_is_the_same(backend: Backend, wanted: str) -> None:
    g = backend.asarray(np.array([1.0, -2, 0, 3, 0, 1]))
    for of, options in ((Density, {"log": True}), (Density, {}), (Score, {})):
        given = {name: backend.asarray(a) for name, a in operands(2).items()}
        incoming = g if of is Density else g[:, None] * backend.asarray(np.array([1.0, 2.0]))
        alone = of(given, options).gradients(incoming, [wanted])
        together = of(given, options).gradients(incoming, ["X", "Y", "h", "weights"])
        assert [*alone] == [wanted]
        np.testing.assert_allclose(*(backend.asnumpy(a[wanted]) for a in (alone, together)), rtol=1e-9, atol=1e-14)


def test_a_weight_of_zero_has_a_gradient(backend: Backend) -> None:
    arrays = operands(2)
    arrays["weights"][3] = 0
    oracle.check(backend, Density, oracle.kde, arrays)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_incoming_gradients_that_are_not_finite(backend: Backend, bad: float) -> None:
    given = {name: backend.asarray(a) for name, a in operands(2).items()}
    found = Density(given, {}).gradients(backend.asarray(np.array([bad, 0, 0, 0, 0, 1])), ["X", "h"])
    assert all(np.isnan(backend.asnumpy(a)).all() for a in found.values())


def test_nothing_comes_of_no_incoming_gradient_and_of_no_query(backend: Backend) -> None:
    given = {name: backend.asarray(a) for name, a in operands(2).items()}
    for Y in (given["Y"], given["Y"][:0]):
        found = Density(given | {"Y": Y}, {"log": True}).gradients(backend.xp.zeros(len(Y)), ["X", "Y", "h", "weights"])
        assert all((backend.asnumpy(a) == 0).all() for a in found.values())


def test_scores_of_many_columns_are_refused(backend: Backend) -> None:
    X = backend.xp.zeros((3, 17))
    with pytest.raises(ValueError, match="X must have at most 16 columns for gradients of the score"):
        Score({"X": X, "Y": X, "h": np.array(1.0)}, {})


ACTIVATION = cukde.fit_piecewise(np.tanh, (-3, 3), 8, 3, extrapolate="clamp")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"activation": "silu", "stride": 2},
        {"activation": ACTIVATION, "padding": "same", "dilation": 2},
        {"layout": "BLC", "flip": True, "padding": 3},
    ],
)
def test_convolutions(backend: Backend, options: dict[str, Any]) -> None:
    """Against finite differences, of which those of sums of products are exact but for rounding."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 9, 3) if "layout" in options else (2, 3, 9))
    arrays = {"x": x, "w": rng.normal(size=(3, 1, 4)), "bias": rng.normal(size=3)}
    differences(backend, Convolution, arrays, options)


@pytest.mark.parametrize("beyond", ["clamp", True, "periodic"])
@pytest.mark.parametrize("origin", ["global", "local"])
@pytest.mark.parametrize("layout", ["aos", "soa"])
def test_tables(backend: Backend, layout: str, origin: str, beyond: Any) -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=(3, 4) if layout == "aos" else (4, 3))
    options = {"knots": [-1, 0.0, 0.5, 2], "layout": layout, "origin": origin, "extrapolate": beyond}
    differences(backend, Table, {"x": rng.uniform(-3, 3, (4, 5)), "coefficients": a}, options)


@pytest.mark.parametrize("beyond", ["clamp", True, "periodic"])
@pytest.mark.parametrize("nu", [0, 1])
def test_polynomials(backend: Backend, nu: int, beyond: Any) -> None:
    rng = np.random.default_rng(0)
    p = cukde.PiecewisePolynomial(rng.normal(size=(4, 3, 2)), [-1, 0.0, 0.5, 2], extrapolate=beyond)
    differences(backend, Curve, {"x": rng.uniform(-3, 3, 9)}, {"p": p, "nu": nu})


def test_beyond_the_knots_without_values_there(backend: Backend) -> None:
    given = {"x": backend.asarray(np.array([0.5, 3.0])), "coefficients": backend.asarray(np.array([[1.0, 0.0]]))}
    call = Table(given, {"knots": [0.0, 1.0], "extrapolate": False})
    assert np.isnan(backend.asnumpy(call.result())).tolist() == [False, True]
    found = call.gradients(backend.xp.ones(2), ["x", "coefficients"])
    np.testing.assert_array_equal(backend.asnumpy(found["x"]), [1, np.nan])
    assert np.isnan(backend.asnumpy(found["coefficients"])[0, 0])


def differences(backend: Backend, of: Any, arrays: dict[str, Any], options: dict[str, Any]) -> None:
    rng = np.random.default_rng(1)

    def value(given: dict[str, Any]) -> Any:
        return backend.asnumpy(of({name: backend.asarray(a) for name, a in given.items()}, options).result())

    g = rng.normal(size=value(arrays).shape)
    call = of({name: backend.asarray(a) for name, a in arrays.items()}, options)
    found = call.gradients(backend.asarray(g), of.operands)
    for name in of.operands:
        along = rng.normal(size=arrays[name].shape)
        ends = (value(arrays | {name: arrays[name] + step * along}) for step in (1e-6, -1e-6))
        want = float((g * (next(ends) - next(ends))).sum()) / 2e-6
        assert float((backend.asnumpy(found[name]) * along).sum()) == pytest.approx(want, rel=1e-6), name


def test_importing_the_modules_loads_neither_library() -> None:
    code = "import sys, cukde, cukde.torch, cukde.jax; assert not {'torch', 'jax', 'cupy'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_plain_arrays_are_handed_on() -> None:
    X, Y = np.array([0.0, 1.0]), np.array([0.5])
    assert cukde.torch.kde(X, Y, 1.0) == cukde.kde(X, Y, 1.0)
    assert cukde.jax.kernel_sum(X, X, Y, 1.0) == cukde.kernel_sum(X, X, Y, 1.0)
