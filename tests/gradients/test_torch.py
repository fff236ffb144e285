"""``cukde.torch``: PyTorch's own check of gradients, tensors in and out, and what is refused."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import cukde
from cukde.density import keywords
from tests.conftest import why_no_gpu

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install cukde[torch]")

F64 = torch.float64
DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch finds no GPU")],
    ),
]


def operands(device: str = "cpu", dtype: Any = F64) -> tuple[Any, ...]:
    """X, Y, h, weights and V, each with a gradient."""
    rng = np.random.default_rng(0)
    shapes = ((9, 2), (5, 2), (), (9,), (9, 2))
    numbers = [rng.normal(size=shape) for shape in shapes]
    numbers[2:4] = np.array(0.8), rng.uniform(0.5, 2, 9)
    return tuple(torch.tensor(a, dtype=dtype, device=device, requires_grad=True) for a in numbers)


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def checked(function: Any, *arguments: Any) -> None:
    assert torch.autograd.gradcheck(function, arguments)


@pytest.mark.parametrize("log", [False, True])
def test_kde(device: str, log: bool) -> None:
    X, Y, h, w, _ = operands(device)
    checked(lambda X, Y, h, w: cukde.torch.kde(X, Y, h, weights=w, log=log), X, Y, h, w)
    checked(lambda X, h, w: cukde.torch.kde(X, X, h, weights=w, log=log, leave_one_out=True), X, h, w)


@pytest.mark.parametrize("kind", ["deviations", "covariance"])
def test_bandwidths(device: str, kind: str) -> None:
    X, Y, *_ = operands(device)
    root = torch.tensor([[1.0, 0], [0.4, 0.7]], dtype=F64, device=device, requires_grad=True)
    for function in (cukde.torch.kde, cukde.torch.score):
        checked(lambda X, L, of=function: of(X, Y, L @ L.T if kind == "covariance" else L[:, 0] ** 2 + 0.5), X, root)


def test_score(device: str) -> None:
    X, Y, h, w, _ = operands(device)
    checked(lambda X, Y, h, w: cukde.torch.score(X, Y, h, weights=w), X, Y, h, w)


def test_kernel_sum(device: str) -> None:
    X, Y, h, _, V = operands(device)
    checked(cukde.torch.kernel_sum, X, V, Y, h)


def test_evaluate_grid(device: str) -> None:
    X, _, h, w, _ = operands(device)
    axes = [np.linspace(-1, 1, 3), torch.tensor([0.0, 1.0], dtype=F64)]
    checked(lambda X, h, w: cukde.torch.evaluate_grid(X, axes, h, weights=w), X, h, w)


def test_convolution_and_polynomials(device: str) -> None:
    x = torch.rand(2, 3, 7, dtype=F64, device=device, requires_grad=True)
    w, bias = (torch.rand(*shape, dtype=F64, device=device, requires_grad=True) for shape in ((3, 4), (3,)))
    checked(lambda x, w, b: cukde.torch.depthwise_conv1d(x, w, bias=b, activation="gelu", padding="same"), x, w, bias)
    a = torch.rand(3, 4, dtype=F64, device=device, requires_grad=True)
    checked(lambda x, a: cukde.torch.pwpa(x, a, [0, 0.31, 0.52, 1], origin="local"), x, a)
    p = cukde.fit_piecewise(np.tanh, (-3, 3), 8, 3)
    checked(lambda x: cukde.torch.evaluate(p, x), x)


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_results_and_gradients_are_of_the_dtype_and_the_device_of_the_arguments(device: str, dtype: Any) -> None:
    X, Y, _, w, _ = operands(device, dtype)
    h = torch.tensor(0.8, dtype=F64, requires_grad=True)
    p = cukde.torch.kde(X, Y, h, weights=w)
    p.sum().backward()
    assert (p.dtype, p.device) == (dtype, X.device)
    assert all(a.grad.dtype == a.dtype and a.grad.device == a.device for a in (X, Y, h, w))
    plain = cukde.kde(X.detach(), Y.detach(), 0.8, weights=w.detach())
    torch.testing.assert_close(p.detach(), plain)


def test_tensors_without_gradients_and_other_arrays() -> None:
    X, Y, h, *_ = operands()
    with torch.no_grad():
        assert not cukde.torch.kde(X, Y, h).requires_grad
    of_list = cukde.torch.kde(X.detach().tolist(), Y.detach().numpy(), h, log=True).sum()
    (found,) = torch.autograd.grad(of_list, h)
    (expected,) = torch.autograd.grad(cukde.torch.kde(X, Y, h, log=True).sum(), h)
    torch.testing.assert_close(found, expected)


def test_queries_that_equal_the_data_have_gradients_of_their_own() -> None:
    X, _, h, *_ = operands()
    Y = X.detach().clone().requires_grad_()
    options = {"log": True, "leave_one_out": True}
    apart = torch.autograd.grad(cukde.torch.kde(X, Y, h, **options).square().sum(), (X, Y))
    (together,) = torch.autograd.grad(cukde.torch.kde(X, X, h, **options).square().sum(), X)
    torch.testing.assert_close(apart[0] + apart[1], together)
    assert not torch.allclose(apart[0], together)


def test_only_what_is_wanted_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    from cukde.gradients import sums

    X, Y, h, *_ = operands()
    monkeypatch.setattr(sums, "exchanged", lambda problem: pytest.fail("a pass for the gradient of X"))
    cukde.torch.kde(X.detach(), Y, h, log=True).sum().backward()
    assert h.grad is not None


def test_the_likelihood_without_own_points_finds_the_bandwidth_of_cross_validation() -> None:
    X = np.random.default_rng(0).normal(size=200)
    log_h = torch.zeros((), dtype=F64, requires_grad=True)
    optimizer = torch.optim.LBFGS([log_h], max_iter=10, line_search_fn="strong_wolfe")

    def loss() -> Any:
        optimizer.zero_grad()
        value = -cukde.torch.kde(torch.from_numpy(X), None, log_h.exp(), log=True, leave_one_out=True).mean()
        value.backward()
        return value

    optimizer.step(loss)
    expected = np.ravel(cukde.bandwidth.cross_validate(X).bandwidth)[0]
    assert log_h.exp().item() == pytest.approx(expected, rel=1e-3)


def test_a_period_ends_where_it_begins() -> None:
    """The upper knot belongs to the first piece, in gradients as in values."""
    a = torch.tensor([[1.0, 0.5], [10.0, 5.0]], dtype=F64, requires_grad=True)
    x = torch.tensor([2.0], dtype=F64)
    value = cukde.torch.pwpa(x, a, [0, 1, 2], origin="local", extrapolate="periodic")
    (gradient,) = torch.autograd.grad(value.sum(), a)
    assert value.item() == 0.5
    assert gradient.tolist() == [[0, 1], [0, 0]]


def test_no_points_of_a_polynomial() -> None:
    x = torch.zeros(0, dtype=F64, requires_grad=True)
    p = cukde.PiecewisePolynomial(np.ones((3, 1, 2)), [0, 1])
    (gradient,) = torch.autograd.grad(cukde.torch.evaluate(p, x).sum(), x)
    assert gradient.shape == (0,)


def test_no_queries_give_gradients_of_zero() -> None:
    X, Y, h, w, V = operands()
    for out in (
        cukde.torch.score(X, Y[:0], h, weights=w),
        cukde.torch.kde(X, Y[:0], h, weights=w),
        cukde.torch.kernel_sum(X, V, Y[:0], h),
    ):
        of_data, of_h = torch.autograd.grad(out.sum(), (X, h))
        assert out.shape[0] == 0
        assert not of_data.any()
        assert not of_h


def test_what_is_refused() -> None:
    X, Y, h, w, V = operands()
    with pytest.raises(TypeError, match="bounds must be left out, as gradients with it are not computed"):
        cukde.torch.kde(X, Y, h, bounds=[None, None])
    of_sum = functools.partial(cukde.torch.kernel_sum, X, V)
    of_grid = functools.partial(cukde.torch.evaluate_grid, X, [[0.0], [1.0]])
    of_points = functools.partial(cukde.torch.kde, X, Y)
    for name, function in {"kinds": of_points, "signed": of_points, "boundary": of_points, "log": of_sum}.items():
        with pytest.raises(TypeError, match=f"{name} must be left out, as gradients with it"):
            function(h=h, **{name: keywords.TABLE[name].default})
    with pytest.raises(TypeError, match="signed must be left out, as gradients with it"):
        of_grid(h=h, signed=True)
    with pytest.raises(TypeError, match=r"evaluate_grid\(\) got an unexpected keyword argument 'kinds'"):
        of_grid(h=h, kinds=["number"])
    with pytest.raises(TypeError, match=r"h must be a tensor or an array for gradients, or a number; got \{'a': 1.0\}"):
        cukde.torch.kde(X, Y, {"a": 1.0})
    da = pytest.importorskip("dask.array")
    with pytest.raises(TypeError, match="Y must be an array in memory here; got a Dask collection"):
        cukde.torch.kde(X, da.zeros((5, 2)), h)
    with pytest.raises(TypeError, match="h must be a tensor or an array for gradients, or a number; got 'scott'"):
        cukde.torch.kde(X, Y, "scott")
    with pytest.raises(TypeError, match="knots must not require a gradient"):
        cukde.torch.pwpa(X, V[:1], w[:2])
    with pytest.raises(TypeError, match=r"kde\(\) got an unexpected keyword argument 'weight': did you mean 'weights'"):
        cukde.torch.kde(X, Y, h, weight=w)
    with pytest.raises(ValueError, match="Y must have 2 columns like X"):
        cukde.torch.kde(X, Y[:, :1], h)
    with pytest.raises(TypeError, match="Y must be a tensor or an array for gradients, not a frame"):
        cukde.torch.kde(X, pytest.importorskip("pandas").DataFrame(Y.detach().numpy()), h)


def test_second_derivatives_are_refused() -> None:
    X, Y, h, *_ = operands()
    (found,) = torch.autograd.grad(cukde.torch.kde(X, Y, h).sum(), h, create_graph=True)
    with pytest.raises(RuntimeError, match=r"once_differentiable|does not require grad"):
        torch.autograd.grad(found + 0 * h, h)[0].backward()


def test_a_change_in_place_is_noticed() -> None:
    X, Y, h, *_ = operands()
    data = X.detach().clone()
    p = cukde.torch.kde(data, Y, h).sum()
    data += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        p.backward()


@pytest.mark.gpu
@pytest.mark.skipif(bool(why_no_gpu()) or not torch.cuda.is_available(), reason="no GPU")
def test_the_current_stream_is_pytorchs() -> None:
    """Work before and after on a stream of its own is in order without a wait."""
    X, Y, h, *_ = operands("cuda")
    expected = cukde.torch.kde(X * 2, Y, h).sum()
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        data = (X.detach() * 2).requires_grad_()
        p = cukde.torch.kde(data, Y, h).sum()
        p.backward()
        found = data.grad.clone()
    stream.synchronize()
    torch.testing.assert_close(p, expected)
    assert bool(found.abs().sum() > 0)
