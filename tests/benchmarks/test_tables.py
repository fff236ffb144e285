"""The tables of benchmarks: every case has a name of its own, and small ones of each builder are right on the CPU."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from benchmarks import bench_tables
from benchmarks.conv1d import cases as conv1d
from benchmarks.density import cases as density, compositions
from benchmarks.estimators import cases as estimators
from benchmarks.kendall import cases as kendall
from benchmarks.piecewise import cases as piecewise
from benchmarks.record import Case
from benchmarks.sphere import cases as sphere
from tests.benchmarks import untimed

SMALL: list[functools.partial[Case]] = [
    functools.partial(density.density, "cpu", "kde", 300, 40, 16, "float32", ("scikit-learn", "cukde kde")),
    functools.partial(density.density, "cpu", "sd_kde", 300, 40, 1, "float64", ("cukde sd_kde",)),
    functools.partial(density.density, "cpu", "score", 300, 40, 3, "float64", (), "all pairs"),
    functools.partial(density.density, "cpu", "score", 300, 40, 1, "float32"),
    functools.partial(density.debias, "cpu", 300, 3, "float32", "all pairs"),
    functools.partial(density.distribution, "cpu", "cdf", 400, "float64"),
    functools.partial(density.distribution, "cpu", "log_cdf", 400, "float32"),
    functools.partial(density.stack, "cpu", "score", (3, 40, 5, 2), "float32"),
    functools.partial(density.kernel_sum, "cpu", 300, 0, 3, "float32"),
    functools.partial(density.grid, "cpu", 500, 2, 32, "float64", ("KDEpy",)),
    functools.partial(density.tolerance, "cpu", 5000, 2, "float64"),
    functools.partial(density.modes, "cpu", 500, 2, True),
    functools.partial(density.fitted, "cpu", 300),
    functools.partial(density.search, "float64", 400, 8),
    functools.partial(density.leave_one_out, "cpu", 200, 8, "float64"),
    functools.partial(density.leave_one_out, "cpu", 200, 8, "float64", "laplace", "least_squares"),
    functools.partial(density.picture, "cpu", "density", 300),
    functools.partial(compositions.conditional, "cpu", "conditional_cdf", 300, 40, 2, "float64"),
    functools.partial(compositions.regions, "cpu", 3000),
    functools.partial(sphere.density, "cpu", 300, 40, 5.0, "float64"),
    functools.partial(estimators.outliers, "cpu", "breast cancer", "silverman_deviations"),
    functools.partial(kendall.pair, "cpu", 100, True, ("SciPy",)),
    functools.partial(kendall.matrix, "cpu", 4, 50, False, ("pandas",)),
    functools.partial(piecewise.polynomials, 500, 16, 2, "random", "float32"),
    functools.partial(piecewise.function, 500, "gelu", "float64"),
    functools.partial(conv1d.forward, (2, 3, 40), 4, "float32", "silu", "BLC"),
    functools.partial(conv1d.long_taps, (2, 3, 400), 70, "float64"),
]


def test_every_case_has_a_name_of_its_own() -> None:
    names = [case.id for case in bench_tables.TABLE]
    assert len(set(names)) == len(names)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("build", SMALL, ids=lambda build: build.func.__name__)
def test_a_small_case_is_right(build: Callable[[], Case]) -> None:
    rows = untimed.Rows()
    with pytest.MonkeyPatch.context() as patch:
        untimed.use(patch)
        case = build()
        rows(*case)
    assert rows
    assert all(row["backend"] == "cpu" and row["median_ms"] > 0 for row in rows)
    assert all(row["rel_err_max"] is None or row["rel_err_max"] < 1e-3 for row in rows)


def test_every_builder_of_a_table_has_a_small_case() -> None:
    built = {case.values[0].func for case in bench_tables.TABLE}
    assert built - {build.func for build in SMALL} == {conv1d.input_grad, conv1d.weight_grad}  # in tests of their own


def test_a_wrong_result_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(density.cukde, "cdf", lambda X, Y, h: 0 * Y + 0.5)
    with pytest.raises(ArithmeticError, match=r"cdf of .* must be right to"):
        density.distribution("cpu", "cdf", 400, "float64")
