"""Ratios of densities against float64 oracles, and what holds whatever the numbers."""

from __future__ import annotations

from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from scipy import stats

import cukde
from cukde import perf
from cukde.core.cost.registry import called
from tests import reference, tolerances
from tests.conftest import Backend


def sample(d: int, dtype: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng([d, seed])
    X, Z, Y = (rng.standard_normal((rows, d)) + shift for rows, shift in ((90, 0), (60, 0.5), (30, 0.2)))
    return X.astype(dtype), Z.astype(dtype), Y.astype(dtype)


def weights_of(n: int) -> np.ndarray:
    w = 10.0 ** np.random.default_rng(n).uniform(-6, 3, n)
    w[::5] = 0
    return w


def verify(
    backend: Backend, X: Any, Z: Any, Y: Any, h: Any, hz: Any, w: Any, wz: Any, dtype: str, **options: Any
) -> None:
    x, z, y, weights, denominator_weights = (backend.asarray(a) for a in (X, Z, Y, w, wz))
    log_ratio, ratio = (
        backend.asnumpy(
            cukde.density_ratio(
                x,
                z,
                y,
                h,
                denominator_bandwidth=hz,
                weights=weights,
                denominator_weights=denominator_weights,
                log=log,
                **options,
            )
        )
        for log in (True, False)
    )
    width = h if hz is None else hz
    want = reference.log_kde(X, Y, h, w) - reference.log_kde(Z, Y, width, wz)
    allowed = sum(
        tolerances.log_error(backend.device, dtype, reference.nearness(data, Y, of, by).exponent)
        for data, of, by in ((X, h, w), (Z, width, wz))
    )
    assert log_ratio.dtype == ratio.dtype == dtype
    tolerances.check_log(log_ratio, want, np.asarray(allowed))
    tolerances.check_density(ratio, want, np.asarray(allowed))


@settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    d=st.integers(1, 4),
    dtype=st.sampled_from(["float32", "float64"]),
    form=st.sampled_from(["scalar", "vector", "covariance"]),
    own=st.booleans(),
    weighted=st.tuples(st.booleans(), st.booleans()),
    seed=st.integers(0, 2**16),
)
def test_ratio_matches_reference(
    either: Backend, d: int, dtype: str, form: str, own: bool, weighted: tuple[bool, bool], seed: int
) -> None:
    X, Z, Y = sample(d, dtype, seed)
    root = np.eye(d) + 0.5 * np.tril(np.ones((d, d)), -1)
    h = {"scalar": 0.4, "vector": np.linspace(0.3, 0.5, d), "covariance": 0.2 * root @ root.T}[form]
    w, wz = (weights_of(n) if some else None for n, some in zip((90, 60), weighted, strict=True))
    verify(either, X, Z, Y, h, 0.6 if own else None, w, wz, dtype)


def test_kernels_of_every_backend(backend: Backend) -> None:
    X, Z, Y = sample(3, "float32")
    Y[-1] += 1e3  # far from both
    verify(backend, X, Z, Y, 0.5, np.array([0.3, 0.5, 0.7]), weights_of(90), None, "float32")


def test_dtypes_rise_together(backend: Backend) -> None:
    """Single-precision data over others in double: both densities are taken in double."""
    X, Z, Y = sample(3, "float64")
    verify(backend, X.astype("f4"), Z, Y.astype("f4"), 0.5, None, None, None, "float64")
    X, Z, Y = (4 * a for a in (X, Z, Y))
    verify(backend, X.astype("f2"), Z.astype("f2"), Y.astype("f4"), 0.5, None, None, None, "float32")
    verify(backend, X.astype("i2"), Z.astype("i4"), Y.astype("i8"), 0.5, None, None, np.arange(60), "float64")


def test_a_sample_over_itself_and_turned(backend: Backend) -> None:
    X, Z, Y = (backend.asarray(a) for a in sample(2, "float64"))
    np.testing.assert_array_equal(backend.asnumpy(cukde.density_ratio(X, X, Y, 0.3)), np.ones(30))
    one, other = (backend.asnumpy(cukde.density_ratio(*of, Y, 0.3, log=True)) for of in ((X, Z), (Z, X)))
    np.testing.assert_allclose(one, -other, rtol=1e-12)
    at_data = backend.asnumpy(cukde.density_ratio(X, Z, X, 0.3, log=True))
    copied = backend.asnumpy(cukde.density_ratio(X, Z, X.copy(), 0.3, log=True))
    np.testing.assert_allclose(at_data, copied, rtol=1e-12, atol=1e-12)
    assert backend.asnumpy(cukde.density_ratio(X, Z, Y[:0], 0.3)).shape == (0,)


def test_known_ratio() -> None:
    """N(0, 1) over N(1, 1) is exp(1/2 - x); kernels of one bandwidth leave exp((1/2 - x) / (1 + h^2)) in the mean."""
    n, h = 20_000, 0.2
    quantiles = (np.arange(n) + 0.5) / n
    x = stats.norm.ppf(quantiles)
    y = np.linspace(-1, 2, 7)
    got = cukde.density_ratio(x, x + 1, y, h, log=True)
    np.testing.assert_allclose(got, (0.5 - y) / (1 + h * h), atol=1e-3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_beyond_the_range_it_is_infinite_or_zero_and_never_nan(backend: Backend, dtype: str) -> None:
    X, Z, Y = (backend.asarray(np.array(a, dtype)[:, None]) for a in ([0.0], [1.0], [-1e4, 1e4, 0.5]))
    got = backend.asnumpy(cukde.density_ratio(X, Z, Y, 0.1))
    assert got[:2].tolist() == [np.inf, 0]
    assert got[2] == pytest.approx(1, rel=1e-6)
    log_ratio = backend.asnumpy(cukde.density_ratio(X, Z, Y, 0.1, log=True))
    want = (0.5 - backend.asnumpy(Y)[:, 0].astype(float)) / 0.01
    np.testing.assert_allclose(log_ratio, want, rtol=1e-6 if dtype == "float64" else 3e-2, atol=1e-4)


Q = np.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize(
    ("error", "arguments", "message"),
    [
        (ValueError, {"Z": np.ones((4, 3))}, r"Z must have 2 columns like X; got shape \(4, 3\)"),
        (ValueError, {"Z": np.ones((0, 2))}, r"Z must have at least one row; got shape \(0, 2\)"),
        (TypeError, {"Z": None}, "Z must hold real numbers"),
        (ValueError, {"Z": Q * np.nan}, "Z must be finite"),
        (ValueError, {"denominator_bandwidth": 0.0}, "denominator_bandwidth must be positive"),
        (ValueError, {"denominator_bandwidth": -np.eye(2)}, "denominator_bandwidth must be a positive definite"),
        (
            ValueError,
            {"denominator_weights": [1.0]},
            r"denominator_weights must have shape \(3,\), one for each row of Z",
        ),
        (ValueError, {"denominator_weights": [1.0, 1, np.inf]}, "denominator_weights must be finite"),
        (ValueError, {"denominator_weights": [1, -1, 1]}, "denominator_weights must not be negative"),
        (ValueError, {"denominator_weights": [0, 0, 0]}, "denominator_weights must not all be zero"),
        (ValueError, {"denominator_bandwidth": 1e-160}, r"Z and Y must lie within 1e\+150 bandwidths"),
    ],
)
def test_arguments_that_are_refused(error: type[Exception], arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(error, match=message):
        cukde.density_ratio(**({"X": Q, "Z": Q + 1, "Y": Q, "h": 1.0} | arguments))


def test_dask_arrays() -> None:
    X, Z, Y = sample(3, "float64")
    w = weights_of(60)

    def blocks(a: np.ndarray) -> da.Array:
        return da.from_array(a, chunks=tuple(max(1, size // 2) for size in a.shape))

    with dask.config.set(scheduler="synchronous"):
        options: dict[str, Any] = {"denominator_bandwidth": [0.3, 0.4, 0.5], "log": True}
        want = cukde.density_ratio(X, Z, Y, 0.4, denominator_weights=w, **options)
        for x, z, y, of in (
            (blocks(X), blocks(Z), blocks(Y), blocks(w)),
            (X, blocks(Z), Y, w),
            (X, Z, blocks(Y), w),
            (X, Z, Y, blocks(w)),
        ):
            got = cukde.density_ratio(x, z, y, 0.4, denominator_weights=of, **options)
            np.testing.assert_allclose(got.compute(), want, rtol=1e-11, atol=1e-11)
        with pytest.raises(TypeError, match="denominator_bandwidth must be a number or a plain array"):
            cukde.density_ratio(blocks(X), Z, Y, 0.4, denominator_bandwidth=da.ones(3))


def test_costs_are_those_of_both_densities() -> None:
    found = perf.cost("density_ratio", perf.peaks("H200"), n=4096, k=2048, m=512, d=5)
    assert found.exponentials == (4096 + 2048) * 512
    X, Z, Y = np.empty((9, 2), "f4"), np.empty((4, 2)), np.empty((3, 2), "f4")
    sizes = called(cukde.density_ratio, (X, Z, Y, 1.0), {"denominator_weights": np.ones(4)})[1]
    assert [sizes[name] for name in ("n", "k", "m", "d", "dtype", "weighted")] == [9, 4, 3, 2, "float64", True]
