"""Values in two bfloat16 terms, emulated: their precision, range, padding and order."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from tests.density.samples import as_float, in_order
from tests.tolerances import check


@pytest.fixture
def values(emulated_device: None) -> ModuleType:
    """The launcher, on the emulated device."""
    from cukde.density.pairs.gpu import values as pairs_values

    return pairs_values


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("n", "k"), [(1, 1), (127, 7), (128, 16), (129, 17), (40, 30), (40, 64), (40, 65), (5, 130)])
def test_two_terms_keep_17_bits(values: ModuleType, n: int, k: int, dtype: str) -> None:
    rng = np.random.default_rng([n, k])
    V = (rng.standard_normal((n, k)) * 10.0 ** rng.uniform(-30, 30, (n, k))).astype(dtype)
    hi, lo = (in_order(as_float(term)) for term in values.prepare(V))
    columns = values.columns_of(k)
    assert hi.shape == lo.shape == (-(-n // 128) * 128, -(-k // columns) * columns)
    check(np.abs((hi + lo)[:n, :k] - V), 2.0**-17 * np.abs(V), "values")
    check(np.abs(lo[:n, :k]), 2.0**-8 * np.abs(V), "the lower term")
    for term in (hi, lo):
        assert not term[n:].any()
        assert not term[:, k:].any()


def test_the_ends_of_the_range(values: ModuleType) -> None:
    """The largest float32 rounds to infinity in bfloat16, and is kept all the same."""
    V = np.array([[np.finfo(np.float32).max, np.inf, np.nan, 0.0, -np.finfo(np.float32).max]], np.float32)
    hi, lo = (in_order(as_float(term))[0, :5] for term in values.prepare(V))
    assert np.isfinite(hi).all()
    np.testing.assert_allclose((hi + lo)[[0, 3, 4]], V[0, [0, 3, 4]].astype(float), rtol=2.0**-16)
    assert (hi + lo)[1] == np.inf
    assert np.isnan((hi + lo)[2])


def test_any_order_in_memory(values: ModuleType) -> None:
    V = np.random.default_rng(0).standard_normal((60, 9)).astype(np.float32)
    for terms in zip(values.prepare(V), values.prepare(np.asfortranarray(V)), strict=True):
        np.testing.assert_array_equal(*terms)
