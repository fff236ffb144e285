"""``cukde.jax``: JAX's own check of gradients, plainly and under ``jax.jit``, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cukde
from tests.conftest import why_no_gpu

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install cukde[jax]")
jnp = jax.numpy
jax_tests = pytest.importorskip("jax.test_util")


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        yield


@pytest.fixture(autouse=True)
def current_device() -> Iterator[None]:
    """The current GPU of CUDA, which JAX changes when it looks for GPUs, is what it was before."""
    if why_no_gpu() is not None:
        yield
        return
    from cupy.cuda import runtime

    before = runtime.getDevice()
    yield
    runtime.setDevice(before)


def operands() -> tuple[Any, ...]:
    """X, Y, h, weights and V."""
    rng = np.random.default_rng(0)
    X, Y, V = (jnp.asarray(rng.normal(size=shape)) for shape in ((9, 2), (5, 2), (9, 2)))
    return X, Y, jnp.asarray(0.8), jnp.asarray(rng.uniform(0.5, 2, 9)), V


def checked(function: Any, *arguments: Any, compiled: bool = True) -> None:
    jax_tests.check_grads(jax.jit(function) if compiled else function, arguments, order=1, modes=["rev"])


@pytest.mark.parametrize("compiled", [False, True])
def test_densities(compiled: bool) -> None:
    X, Y, h, w, _ = operands()
    checked(lambda X, Y, h, w: cukde.jax.kde(X, Y, h, weights=w, log=True), X, Y, h, w, compiled=compiled)
    checked(lambda X, h: cukde.jax.kde(X, X, h, leave_one_out=True), X, h, compiled=compiled)


def test_a_covariance() -> None:
    X, Y, *_ = operands()
    root = jnp.asarray([[1.0, 0], [0.4, 0.7]])
    checked(lambda X, L: cukde.jax.kde(X, Y, L @ L.T, log=True), X, root)


def test_the_other_operations() -> None:
    X, Y, h, w, V = operands()
    checked(lambda X, Y, h, w: cukde.jax.score(X, Y, h, weights=w), X, Y, h, w)
    checked(cukde.jax.kernel_sum, X, V, Y, h)
    checked(lambda X, h: cukde.jax.evaluate_grid(X, [np.linspace(-1, 1, 3), [0.0, 1.0]], h), X, h)
    x, taps = V.reshape(1, 3, 6), Y[:3]
    checked(lambda x, w: cukde.jax.depthwise_conv1d(x, w, activation="silu", stride=2), x, taps)
    checked(lambda x, a: cukde.jax.pwpa(x, a, np.array([-3.0, 0, 3])), Y, V[:2])
    p = cukde.fit_piecewise(np.tanh, (-3, 3), 8, 3)
    checked(lambda x: cukde.jax.evaluate(p, x), Y)


def test_the_gradient_of_a_likelihood_by_jit_and_vmap() -> None:
    X, Y, h, *_ = operands()

    def loss(h: Any) -> Any:
        return -cukde.jax.kde(X, Y, h, log=True).mean()

    found = float(jax.jit(jax.grad(loss))(h))
    ends = [-cukde.kde(np.asarray(X), np.asarray(Y), 0.8 + step, log=True).mean() for step in (1e-5, -1e-5)]
    assert found == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-7)
    each = jax.vmap(jax.grad(lambda y: cukde.jax.kde(X, y[None], h, log=True)[0]))(Y)
    np.testing.assert_allclose(each, cukde.score(np.asarray(X), np.asarray(Y), 0.8), rtol=1e-12)


def test_float32_stays_float32() -> None:
    X, Y, h, *_ = (a.astype("float32") for a in operands())
    value, gradient = jax.value_and_grad(lambda h: cukde.jax.kde(X, Y, h).sum())(h)
    assert value.dtype == gradient.dtype == np.float32


def test_without_float64_grids_are_float32() -> None:
    """As JAX is by default; axes are constants in any form."""
    axes = np.linspace(-1, 1, 8).reshape(2, 4)
    with jax.enable_x64(False) if hasattr(jax, "enable_x64") else jax.experimental.disable_x64():
        X, _, h, *_ = operands()
        want = cukde.evaluate_grid(np.asarray(X), list(axes), 0.8)
        for each in (axes, [*axes], axes.tolist(), jnp.asarray(axes)):
            found = cukde.jax.evaluate_grid(X, each, h)
            assert found.dtype == np.float32
            np.testing.assert_allclose(found, want, rtol=1e-5)
        gradient = jax.grad(lambda X: cukde.jax.evaluate_grid(X, axes, h, log=jnp.asarray(True)).sum())(X)
        assert gradient.dtype == np.float32


def test_what_is_refused() -> None:
    X, Y, h, w, V = operands()
    with pytest.raises(TypeError, match=r"X must hold real numbers .*; got dtype complex"):
        cukde.jax.kde(X + 1j, Y, h)
    with pytest.raises(ValueError, match="Y must have 2 columns like X"):  # when it is traced
        jax.jit(lambda h: cukde.jax.kde(X, Y[:, :1], h)).lower(h)
    with pytest.raises(ValueError, match=r"rtol must be a number from 0 to 0\.1"):
        jax.jit(lambda h: cukde.jax.kde(X, Y, h, rtol=3)).lower(h)
    with pytest.raises(TypeError, match="knots must not be traced by JAX"):
        jax.jit(lambda knots: cukde.jax.pwpa(X, V[:1], knots))(w[:2])
    with pytest.raises(TypeError, match="periods must be left out, as gradients with it are not computed"):
        cukde.jax.kde(X, Y, h, periods=[None, 1.0])
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(lambda h: cukde.jax.kde(X, Y, h), (h,), (h,))
    with pytest.raises(Exception, match="h must be positive"):  # when it runs
        cukde.jax.kde(X, Y, -h)


@pytest.mark.gpu
def test_calls_compute_on_the_gpu_of_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    from cukde.gradients.operation import Operation

    if jax.default_backend() != "gpu":
        pytest.skip("JAX finds no GPU")
    X, Y, h, *_ = operands()
    names = []
    begun = Operation.__init__

    def noted(self: Any, *args: Any) -> None:
        begun(self, *args)
        names.append(self.backend.name)

    monkeypatch.setattr(Operation, "__init__", noted)
    value, gradient = jax.jit(jax.value_and_grad(lambda h: cukde.jax.kde(X, Y, h).sum()))(h)
    assert names == ["gpu", "gpu"]
    assert float(value) == pytest.approx(cukde.kde(np.asarray(X), np.asarray(Y), 0.8).sum(), rel=1e-9)
    assert np.isfinite(float(gradient))
