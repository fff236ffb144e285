"""Elementary functions as piecewise polynomials, on each backend, against SciPy in float64."""

from __future__ import annotations

import doctest
import re
from typing import Any

import numpy as np
import pytest
import scipy.special

import cukde
from cukde import functions
from cukde.piecewise import functions as piecewise_functions
from tests import extended
from tests.conftest import Backend

INF = np.inf

EXACT = {
    "gelu": lambda x: x * scipy.special.ndtr(x),
    "silu": lambda x: x * scipy.special.expit(x),
    "tanh": np.tanh,
    "sigmoid": scipy.special.expit,
    "erf": scipy.special.erf,
    "softplus": lambda x: np.logaddexp(0, x),
    "exp": np.exp,
    "log": np.log,
}
LIMITS = {  # at minus infinity, infinity and NaN
    "gelu": (0, INF),
    "silu": (0, INF),
    "tanh": (-1, 1),
    "sigmoid": (0, 1),
    "erf": (-1, 1),
    "softplus": (0, INF),
    "exp": (0, INF),
    "log": (np.nan, INF),
}
DTYPES = ("float16", "float32", "float64")
HALF = 2.0**-11
"""Relative rounding of float16."""


def documented() -> dict[str, dict[str, float]]:
    """The maximum errors that the module's docstring promises, by function and dtype."""
    assert functions.__doc__ is not None
    rows = re.findall(r"^(\w+) +\[.*\] +\d+ +(\S+) +(\S+)$", functions.__doc__, re.MULTILINE)
    return {
        name: {"float64": float(double), "float32": float(single), "float16": float(single) + HALF}
        for name, double, single in rows
    }


def arguments(name: str, dtype: str, n: int) -> np.ndarray:
    """A dense grid over the pieces and the tails, of either sign and of many powers of ten."""
    if name == "log":
        x = np.geomspace(1e-7, 6e4, n) if dtype == "float16" else np.geomspace(1e-37, 1e38, n)
        return np.concatenate([x, np.linspace(0.5, 2, n)]).astype(dtype)
    if name == "exp":  # the results are normal numbers
        low, high = {"float16": (-9.7, 11.08), "float32": (-87.3, 88.7), "float64": (-708.3, 709.7)}[dtype]
        return np.concatenate([np.linspace(low, high, n), np.linspace(-1, 1, n)]).astype(dtype)
    far = np.geomspace(20, 6e4 if dtype == "float16" else 1e37, n // 8)
    return np.concatenate([-far, np.linspace(-25, 25, 2 * n), far]).astype(dtype)


def test_all_functions_are_documented() -> None:
    assert documented().keys() == EXACT.keys()
    assert {*functions.__all__} == {*EXACT, "polynomial"}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", EXACT)
def test_the_documented_error_holds(backend: Backend, name: str, dtype: str) -> None:
    x = arguments(name, dtype, backend.size(500_000, 2_000))
    y = backend.asnumpy(getattr(functions, name)(backend.asarray(x)))
    assert y.dtype == dtype
    exact = EXACT[name](x.astype(np.float64))
    scale = exact if name == "exp" else np.maximum(1, np.abs(exact))
    assert (np.abs(y - exact) / scale).max() <= documented()[name][dtype]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", EXACT)
def test_infinities_and_nan(backend: Backend, name: str, dtype: str) -> None:
    x = np.array([-INF, INF, np.nan], dtype)
    y = backend.asnumpy(getattr(functions, name)(backend.asarray(x)))
    np.testing.assert_array_equal(y, [*LIMITS[name], np.nan])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["gelu", "silu", "softplus", "tanh", "sigmoid", "erf"])
def test_tails_are_exact(backend: Backend, name: str, dtype: str) -> None:
    x = np.linspace(21, 6e4, 1001).astype(dtype)
    function = getattr(functions, name)
    below, above = LIMITS[name]
    np.testing.assert_array_equal(backend.asnumpy(function(backend.asarray(-x))), below)
    np.testing.assert_array_equal(backend.asnumpy(function(backend.asarray(x))), x if above == INF else above)


def values(backend: Backend, function: Any, x: list[float], dtype: str) -> list[float]:
    out: list[float] = backend.asnumpy(function(backend.asarray(np.array(x, dtype)))).tolist()
    return out


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_without_error(backend: Backend, dtype: str) -> None:
    for name in ("gelu", "silu", "tanh", "erf"):
        assert values(backend, getattr(functions, name), [0, -0.0], dtype) == [0, 0]
    assert values(backend, functions.exp, [0, -0.0], dtype) == [1, 1]
    assert values(backend, functions.log, [1], dtype) == [0]
    assert values(backend, functions.sigmoid, [0], dtype) == [0.5]


@pytest.mark.parametrize("dtype", DTYPES)
def test_exp_overflows_and_underflows(backend: Backend, dtype: str) -> None:
    largest = float(np.finfo(dtype).max)
    assert values(backend, functions.exp, [largest, -largest, 710, -746], dtype) == [INF, 0, INF, 0]


@extended.needed
@pytest.mark.parametrize(("dtype", "low", "high"), [("float32", -104, -87.4), ("float64", -745.2, -708.4)])
def test_exp_of_subnormal_results(dtype: str, low: float, high: float) -> None:
    x = np.linspace(low, high, 1001, dtype=dtype)
    exact = np.exp(x.astype(np.longdouble))
    smallest = np.finfo(dtype).smallest_subnormal.astype(np.longdouble)
    assert (np.abs(functions.exp(x) - exact) <= documented()["exp"][dtype] * exact + smallest / 2).all()


@extended.needed
@pytest.mark.parametrize("dtype", DTYPES)
def test_exp_of_large_results(backend: Backend, dtype: str) -> None:
    """It is infinite only where the exponential is, up to the error of the function."""
    edge = float(np.log(np.finfo(dtype).max.astype(np.longdouble)))
    x = np.linspace(edge - 1e-3 * edge, edge + 1e-3 * edge, 400).astype(dtype)
    exact = np.exp(x.astype(np.longdouble))
    largest = float(np.finfo(dtype).max)
    y = backend.asnumpy(functions.exp(backend.asarray(x)))
    error = documented()["exp"][dtype]
    assert np.isinf(y[exact > largest * (1 + error)]).all()
    assert np.isfinite(y[exact < largest * (1 - error)]).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_log_beyond_its_domain(backend: Backend, dtype: str) -> None:
    y = values(backend, functions.log, [0, -0.0, -1, -float(np.finfo(dtype).max)], dtype)
    np.testing.assert_array_equal(y, [-INF, -INF, np.nan, np.nan])


@pytest.mark.parametrize(("dtype", "least"), [("float32", -149), ("float64", -1074)])
def test_log_of_subnormal_numbers(dtype: str, least: int) -> None:
    x = np.ldexp(np.linspace(1, 2, 9, dtype=dtype), np.arange(least, least + 60)[:, None])
    np.testing.assert_allclose(functions.log(x), np.log(x.astype(np.float64)), rtol=documented()["log"][dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_log_where_mantissas_begin_anew(backend: Backend, dtype: str) -> None:
    x = np.ldexp(np.array([0.75, 1], dtype), np.arange(-13, 15)[:, None]).astype(dtype).ravel()
    x = np.concatenate([x, np.nextafter(x, np.zeros(1, dtype))])
    exact = np.log(x.astype(np.float64))
    y = backend.asnumpy(functions.log(backend.asarray(x)))
    assert (np.abs(y - exact) <= documented()["log"][dtype] * np.maximum(1, np.abs(exact))).all()


@pytest.mark.parametrize("name", EXACT)
def test_shapes_and_other_dtypes(backend: Backend, name: str) -> None:
    function = getattr(functions, name)
    x = np.arange(1, 13).reshape(3, 4)
    y = backend.asnumpy(function(backend.asarray(x)))
    assert y.dtype == np.float64
    np.testing.assert_array_equal(y, backend.asnumpy(function(backend.asarray(x.astype(np.float64)))))
    np.testing.assert_array_equal(backend.asnumpy(function(backend.asarray(x.T[::2]))), y.T[::2])
    assert function(backend.asarray(np.zeros((2, 0, 3), np.float32))).shape == (2, 0, 3)
    assert function(backend.asarray(np.float32(0.5))).shape == ()


@pytest.mark.parametrize("name", EXACT)
def test_what_is_refused(backend: Backend, name: str) -> None:
    has_longdouble = backend.xp is np and not extended.IS_DOUBLE  # which CuPy has not
    dtypes = (complex, np.longdouble) if has_longdouble else (complex,)
    for dtype in dtypes:
        with pytest.raises(TypeError, match=r"^x\b"):
            getattr(functions, name)(backend.asarray(np.ones(2, dtype)))


@pytest.mark.parametrize("name", EXACT)
def test_polynomials_are_exact_in_float32(name: str) -> None:
    p = functions.polynomial(name)
    assert p is functions.polynomial(name)
    np.testing.assert_array_equal(p.x.astype(np.float32), p.x)
    np.testing.assert_array_equal(np.diff(p.x.astype(np.float32)), np.float32(p.x[1] - p.x[0]))


def test_examples() -> None:
    for module in (functions, piecewise_functions):
        results = doctest.testmod(module)
        assert results.failed == 0
        assert results.attempted > 0


def test_unknown_name() -> None:
    with pytest.raises(ValueError, match=r"^name\b.*'gelu'.*'relu'"):
        functions.polynomial("relu")


def test_the_module_is_public() -> None:
    assert cukde.functions is functions
