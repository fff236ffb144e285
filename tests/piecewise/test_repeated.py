"""Repeated evaluations on a GPU: the same values, and what is like none before is prepared anew."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cukde
from tests.conftest import Backend

KNOTS, CUBIC = np.linspace(0, 2, 5), np.random.default_rng(0).standard_normal((4, 4))


@pytest.fixture
def counted(emulated_device: None, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Evaluations that were not kept; NumPy arrays count as the GPU's."""
    from tests.private import piecewise_gpu as passes

    evaluate, calls = passes.evaluate, []

    def noted(*arguments: Any) -> Any:
        calls.append(arguments)
        return evaluate(*arguments)

    monkeypatch.setattr("cukde.core.dispatch.is_gpu_array", lambda a: isinstance(a, np.ndarray))
    monkeypatch.setattr(passes, "evaluate", noted)
    return calls


def test_a_polynomial(counted: list[Any]) -> None:
    p = cukde.PiecewisePolynomial(CUBIC, KNOTS)
    x = np.linspace(-1, 3, 40).astype(np.float32)
    expected = p.to_scipy()(x)
    for points, beyond, fresh in (
        (x, None, True),
        (x, None, False),
        (x[::-1].copy(), True, False),
        (x[::-1], None, True),
        (x[::-1], None, True),
        (x.reshape(8, 5), None, True),
        (x.reshape(8, 5), None, False),
        (x.astype(np.float64), None, True),
        (x, False, True),
        (x, False, False),
        (x, 1, False),
        (x, "periodic", True),
        (x, "periodic", True),
    ):
        before = len(counted)
        values = p(points, extrapolate=beyond)
        assert (len(counted) > before) == fresh
        assert (values.shape, values.dtype) == (points.shape, points.dtype)
        if beyond != "periodic":
            want = np.interp(points.reshape(-1), x, expected).reshape(points.shape)
            want = np.where((points < 0) | (points > 2), np.nan, want) if beyond is False else want
            np.testing.assert_allclose(values, want, rtol=1e-4, atol=1e-5)
    for wrong in ({"nu": 1.0}, {"nu": -1}, {"extrapolate": 1.0}, {"extrapolate": ["clamp"]}):
        with pytest.raises((TypeError, ValueError)):
            p(x, **wrong)
    assert p(x, nu=1).shape == x.shape


def test_values_with_an_axis(counted: list[Any]) -> None:
    x = np.linspace(0, 2, 7)
    for c in (CUBIC[..., None], CUBIC[..., None].repeat(3, axis=2)):
        p = cukde.PiecewisePolynomial(c, KNOTS)
        for _ in range(2):
            assert p(x).shape == (7, c.shape[2])


def test_decreasing_knots(counted: list[Any]) -> None:
    p = cukde.PiecewisePolynomial(CUBIC, KNOTS[::-1])
    x = np.linspace(0, 2, 7)
    for _ in range(2):
        np.testing.assert_allclose(p(x), p.to_scipy()(x), rtol=1e-12)


def test_tables_that_are_changed_in_place(device: Backend) -> None:
    """Tables on the GPU come to the host together; what they hold is looked at in every call."""
    x = device.asarray(np.linspace(0, 2, 9))
    rows, knots = CUBIC.T.copy(), KNOTS.copy()
    for kind in (device.asarray, np.asarray):
        a, ends = kind(rows), kind(knots)
        first = device.asnumpy(cukde.pwpa(x, a, ends))
        np.testing.assert_array_equal(device.asnumpy(cukde.pwpa(x, a, ends)), first)
        a *= 2
        np.testing.assert_allclose(device.asnumpy(cukde.pwpa(x, a, ends)), 2 * first, rtol=1e-15)
        a /= 2
        ends[1] = ends[2]
        with pytest.raises(ValueError, match=r"^knots\b"):
            cukde.pwpa(x, a, ends)
        ends[1] = 0.5
        np.testing.assert_array_equal(device.asnumpy(cukde.pwpa(x, a[:, ::1], device.asarray(knots.copy()))), first)


@pytest.mark.gpu
def test_arrays_come_to_the_host_together() -> None:
    import cupy as cp

    from tests.private import gpu_arrays as arrays

    a, b, empty = cp.arange(12.0).reshape(3, 4).T, cp.arange(5, dtype=np.int8), cp.zeros((0, 2))
    host = np.arange(3)
    copies = arrays.asnumpy_together(a, host, b, empty)
    assert copies[1] is host
    for copy, of in zip((copies[0], *copies[2:]), (a, b, empty), strict=True):
        assert isinstance(copy, np.ndarray)
        np.testing.assert_array_equal(copy, cp.asnumpy(of))
