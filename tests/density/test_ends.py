"""What becomes of sums on a GPU: densities, gradients and moved points by one launch, of one split and of several."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from cukde.density import results
from cukde.density.sums import Epilogue, PartialSums, debiased, merge, to_density
from tests.conftest import Backend

pytest.importorskip("cupy", reason="needs CuPy: install the test extra")

SPLITS = [1, 3, 40]
ROUNDING = {"float32": 1e-6, "float64": 1e-13}


def _sums(splits: int, m: int, k: int) -> PartialSums:
    """Of splits of data, some of which a query is far from."""
    rng = np.random.default_rng([splits, m, k])
    reference = -rng.uniform(0, 40, (splits, m))
    reference[rng.random((splits, m)) < 0.2] -= 2000
    total = rng.uniform(1, 9, (splits, m))
    return PartialSums(reference, total, total[..., None] * rng.standard_normal((splits, m, k)) if k else None)


def _on(device: Backend, sums: PartialSums) -> Any:
    """As launchers take them: of one split without that axis, as an engine leaves them, or as splits."""
    from cukde.density.pairs.gpu import finish

    arrays = [None if a is None else device.asarray(a.copy()) for a in sums]
    if len(sums.reference) == 1:
        return PartialSums(*(None if a is None else a[0] for a in arrays))
    return finish.Splits((1, 1), len(sums.reference), 64, *arrays)


def _merged(sums: PartialSums) -> PartialSums:
    rows = range(len(sums.reference))
    return merge([PartialSums(*(None if a is None else a[s] for a in sums)) for s in rows], np)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("form", ["kde", "laplace", "positive"])
@pytest.mark.parametrize("splits", SPLITS)
def test_density(device: Backend, splits: int, form: str, log: bool, dtype: str) -> None:
    from cukde.density.pairs.gpu import ends

    sums, epilogue = _sums(splits, 37, int(form != "kde")), Epilogue(-3.5, log, np.dtype(dtype))
    got = device.asnumpy(ends.density(_on(device, sums), epilogue, form))
    with np.errstate(invalid="ignore"):
        if form == "laplace":
            want = results.laplace(_merged(sums), *epilogue, np)[0]
        else:
            want = (results.positive if form == "positive" else to_density)(_merged(sums), *epilogue, np)
    assert got.dtype == dtype
    np.testing.assert_allclose(got, want, rtol=ROUNDING[dtype])
    assert not np.signbit(got[got == 0]).any()


@pytest.mark.parametrize("form", ["kde", "laplace", "positive"])
def test_no_sum(device: Backend, form: str) -> None:
    from cukde.density.pairs.gpu import ends

    nothing = PartialSums(np.full((1, 3), -5.0), np.zeros((1, 3)), np.zeros((1, 3, 1)))
    for log, want in ((True, -math.inf), (False, 0.0)):
        got = device.asnumpy(ends.density(_on(device, nothing), Epilogue(1.0, log, np.dtype("f4")), form))
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("k", [1, 31, 70])
@pytest.mark.parametrize("splits", SPLITS)
def test_points(device: Backend, splits: int, k: int) -> None:
    from cukde.density.pairs.gpu import ends

    sums = _sums(splits, 37, k)
    merged = _merged(sums)
    want = merged.moments / merged.total[:, None]
    for dtype in ("float32", "float64"):
        got = device.asnumpy(ends.gradient(_on(device, sums), 0.3, np.dtype(dtype)))
        assert got.dtype == dtype
        np.testing.assert_allclose(got, want / 0.3**2, rtol=ROUNDING[dtype], atol=ROUNDING[dtype])
        X = np.random.default_rng(0).standard_normal((37, k)).astype(dtype)
        moved = device.asnumpy(ends.debiased(device.asarray(X), _on(device, sums), 0.25))
        np.testing.assert_allclose(
            moved, debiased(X, merged._replace(moments=merged.moments.copy()), 0.25), 1e-13, 1e-13
        )


def test_no_queries(device: Backend) -> None:
    from cukde.density.pairs.gpu import ends

    none = _on(device, _sums(1, 0, 3))
    assert ends.density(none, Epilogue(0.0, True, np.dtype("f4"))).shape == (0,)
    assert ends.gradient(none, 1.0, np.dtype("f4")).shape == (0, 3)
