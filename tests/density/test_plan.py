"""Plans of the density family: which pass is asked first, and that passes agree on both sides of every choice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cukde
from cukde.core.plan import only, traced
from cukde.density.kernel_density import kernel_density
from cukde.density.plan import gpu
from cukde.density.plan.shape import Device, Shape
from tests.density import plans

pytestmark = pytest.mark.small

H200 = Device.of((9, 0))


def test_plans_are_those_of_the_table() -> None:
    """If a plan has changed on purpose, ``python -m tests.density.plans`` writes the table anew."""
    assert plans.lines() == plans.FILE.read_text(encoding="utf-8").splitlines()


def test_the_table_has_every_pass() -> None:
    names = {
        name
        for line in plans.FILE.read_text(encoding="utf-8").splitlines()
        for name in line.split(": ")[-1].split(", ")
    }
    on_gpu = {
        "small",
        "f16 ahead",
        "plane",
        "line",
        "line pairs",
        "skipping",
        "apart",
        "f16",
        "f16_symmetric",
        "centred",
    }
    on_gpu |= {"wide", "f64", "wide_f64", "difference", "radial", "radial skipping"}
    on_cpu = {"few queries", "few", "line few", "each pair once", "difference float32", "difference float64"} | {
        "product float64"
    }
    on_cpu |= {"radial few"}
    assert names == on_gpu | on_cpu


@pytest.mark.parametrize(
    "shape", [one for one in plans.shapes() if one.device is not None and one.kernel == "gaussian"]
)
def test_some_pass_takes_any_data(shape: Shape) -> None:
    for squared_radius in (0.0, 150.0, 650.0, 3e3, 1e7, np.inf, np.nan, None):
        one = gpu.served(shape, squared_radius)
        assert one in gpu.dense(shape)
        if squared_radius is not None and np.isfinite(squared_radius):
            assert squared_radius <= one.limit


def test_a_plan_reads_as_a_list() -> None:
    shape = Shape("sum", 262_144, 32_768, 16, device=H200)
    text = str(gpu.plan(shape))
    assert text.startswith(
        "sums of 262,144 data at 32,768 queries, 16 columns, float32; GPU of compute capability 9.0\n"
    )
    assert "   -  small" in text
    assert "not asked: more than" in text
    assert "   1. f16 ahead" in text


def test_radii_fall_between_all_limits() -> None:
    for d in (2, 9, 16, 17, 64, 100):
        for precision in ("float32", "tf32", "float64", "ieee"):
            radii = gpu.radii(precision, d, H200)
            assert list(radii) == sorted(radii)
            for output in ("sum", "moments", "laplace"):
                shape = Shape(output, 2, 2, d, precision, device=H200)
                served = {gpu.served(shape, radius).name for radius in radii}
                assert {one.name for one in gpu.dense(shape) if one.limit > 0} == served


def points(d: int, n: int, m: int, spread: float, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([d, n, m])
    X = rng.standard_normal((n, d)) + spread * rng.integers(0, 3, (n, 1))
    return X.astype(dtype), (X[rng.integers(0, n, m)] + 0.3 * rng.standard_normal((m, d))).astype(dtype)


def exact_log(X: np.ndarray, Y: np.ndarray, h: float) -> np.ndarray:
    """Log densities by the formula, in float64."""
    exponents = -((Y[:, None].astype(np.float64) - X.astype(np.float64)) ** 2).sum(axis=2) / (2 * h * h)
    n, d = X.shape
    out: np.ndarray = np.logaddexp.reduce(exponents, axis=1) - np.log(n) - d / 2 * np.log(2 * np.pi * h * h)
    return out


SEAMS = [
    *((d, names) for d in (2, 3) for names in ("few", "plane", "skipping", "")),
    *((d, names) for d in (5, 17, 70) for names in ("few", "skipping", "")),
    *((1, names) for names in ("few", "line", "")),
]


@pytest.mark.parametrize(("d", "name"), SEAMS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_pass_of_the_cpu_gives_the_same_density(d: int, name: str, dtype: str) -> None:
    X, Y = points(d, 500, 150, 3.0, dtype)
    h = 0.8 if d < 20 else 2.0
    with only(*filter(None, [name])), traced() as ran:
        found = cukde.kde(X, Y, h, log=True)
    np.testing.assert_allclose(found, exact_log(X, Y, h), atol=1e-5 if dtype == "float32" else 1e-11)
    if name in ("plane", "skipping"):
        assert ran[0].name == name


@pytest.mark.parametrize("kernel", ["tophat", "epanechnikov", "linear", "cosine", "exponential"])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_other_kernels_give_the_same_where_blocks_are_left_out(kernel: Any, d: int) -> None:
    X, Y = points(d, 900, 150, 4.0, "float64")
    with only("radial skipping"):
        found = kernel_density(X, Y, 1.3, kernel=kernel)
    with only():
        expected = kernel_density(X, Y, 1.3, kernel=kernel)
    np.testing.assert_allclose(found, expected, rtol=1e-11)
