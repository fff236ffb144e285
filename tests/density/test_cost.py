"""Costs of the density family and of what CuPy does between kernels: what they count, and what was measured."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cukde
from cukde import perf
from cukde.core.cost import elementwise, host, radix_sort
from cukde.core.cost.registry import by_name, called
from cukde.core.plan import only
from cukde.density.cost import formulas as cost_formulas
from cukde.density.one_dimension import cost as one_dimension_cost
from cukde.density.pairs.cost import engines
from cukde.density.pairs.cost.engines import Pass
from cukde.density.plan import cpu as plan_cpu, gpu as plan_gpu, rates as plan_rates
from cukde.density.plan.shape import Shape
from cukde.density.plane import cost as plane_cost, plan as plane_plan
from cukde.perf._predict import predicted
from tests.perf.processors import H200

V100 = dataclasses.replace(H200, name="as a V100", capability=(7, 0))
CPU = perf.Peaks(
    "two cores",
    "cpu",
    {
        "memory": 2e10,
        "fma": 1e11,
        "float64": 5e10,
        "scalar": 6e9,
        "exponential": 2e9,
        "exponential_f64": 6e8,
        "gemm_f32": 1.3e11,
        "gemm_f64": 6.5e10,
    },
    0.0,
    2,
    3e9,
    2**25,
    (0, 0),
    "assumed",
)

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def test_papers_operations_bytes_and_intensity_are_those_it_prints() -> None:
    k = 32768
    assert perf.flash_flops(k, k / 8, 16) == 81.5 * k**2
    assert perf.flash_flops(k, k / 8, 1) == 17.75 * k**2
    assert perf.flash_flops(20, 7, 3) == 4 * 3 * 20**2 + 12 * 20**2 + 2 * 3 * 7 * 20 + 12 * 7 * 20
    assert f"{perf.flash_tile_bytes(16, 64, 1024):.1e}" == "7.4e+04"
    assert round(perf.flash_bytes(k, k / 8, 16) / k**2, 2) == 1.13
    assert perf.flash_bytes(k, k / 8, 1) == 5 * k
    assert round(perf.flash_intensity(k, k / 8, 16)) == 72
    assert round(perf.flash_intensity(k, k / 8, 1) / k, 2) == 3.55
    assert perf.flash_utilisation(1e-3, k, k / 8) == pytest.approx(81.5 * k**2 / (1e-3 * 155e12))
    with pytest.raises(ValueError, match="seconds must be positive"):
        perf.flash_utilisation(0, k, k)


def test_textbook_of_sd_kde_is_the_papers() -> None:
    for d in (1, 16):
        cost = perf.cost("sd_kde", H200, n=4096, m=512, d=d)
        assert cost.textbook_flops == perf.flash_flops(4096, 512, d)
        assert cost.textbook_bytes == perf.flash_bytes(4096, 512, d)
        assert cost.pairs == 4096**2 + 4096 * 512
    parts = perf.cost("score", H200, n=4096, m=4096, d=16), perf.cost("kde", H200, n=4096, m=512, d=16)
    assert sum(part.textbook_flops for part in parts) == perf.flash_flops(4096, 512, 16)


@pytest.mark.parametrize("d", [2, 5, 6, 16, 64, 128])
@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_a_share_of_the_pairs_takes_what_the_choice_reckons_with(share: float, d: int) -> None:
    n, m = 2**20, 2**17
    cost = perf.cost("kde", H200, n=n, m=m, d=d, share=share)
    parts = {part.name: part.seconds for part in predicted(cost, H200).parts}
    of_all, of_summed = plan_gpu.screening(d), plan_gpu.summing("float32", d, 1.0, once=False)
    assert set(parts) == {"survey", "order", "pass"} | ({"screen"} if d > 5 else set())
    assert parts["order"] == pytest.approx(1e-3 * plan_gpu.order_ms(), rel=1e-2)
    found = parts.get("screen", 0.0) + parts["pass"]
    assert found == pytest.approx(1e-12 * n * m * (of_all + share * of_summed), rel=0.1, abs=1e-5)
    assert cost.exponentials == share * n * m
    assert cost.pairs == n * m


def test_sums_without_own_rows_are_those_of_the_centred_pass() -> None:
    """Of more than three columns in float32; of two and three own terms are taken from sums of all pairs."""
    n = 2**17
    of = {"n": n, "m": n, "at_data": True}
    for d, name in ((16, "order"), (2, "own terms")):
        whole, others = (perf.predict("kde", H200, d=d, leave_one_out=own_out, **of) for own_out in (False, True))
        assert name in {part.name for part in others.parts} - {part.name for part in whole.parts}
        assert others.cost.exponentials == whole.cost.exponentials == n**2
        assert whole.seconds < others.seconds < 3 * whole.seconds
    cost = perf.cost("kde", H200, d=100, leave_one_out=True, **of)
    assert "order" not in {part.name for part in cost.parts}
    X = np.zeros((9, 4), "f4")
    assert called(cukde.kde, (X, X, 1.0), {"leave_one_out": True})[1]["leave_one_out"] is True
    assert "leave_one_out" not in called(cukde.kde, (X, X, 1.0), {})[1]


def test_a_pass_by_products_waits_for_the_radius() -> None:
    """The host has to know it, unless all is launched ahead; differences ask for nothing."""
    sizes = {"n": 2**16, "m": 2**13, "d": 16}
    ahead, waits = (perf.predict("kde", H200, check_finite=checked, **sizes).seconds for checked in (True, False))
    assert waits - ahead == pytest.approx(host.RADIUS, rel=0.1)
    ahead, waits = (
        perf.predict("kde", H200, check_finite=checked, precision="ieee", **sizes).seconds for checked in (True, False)
    )
    assert waits <= ahead


@pytest.mark.parametrize("d", [2, 5, 6, 16])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_share_of_the_pairs_on_the_cpu(dtype: str, d: int) -> None:
    """More pairs take longer, from less than all of them by the fastest pass to more."""
    sizes = {"n": 2**18, "m": 2**15, "d": d, "dtype": dtype}
    few, some, all_by_blocks = (perf.predict("kde", CPU, share=share, **sizes).seconds for share in (1e-3, 0.1, 1.0))
    dense = perf.predict("kde", CPU, **sizes).seconds
    assert few < some < all_by_blocks
    assert few < dense < 3 * all_by_blocks
    cost = perf.cost("kde", CPU, share=0.1, **sizes)
    screened = {"screen"} if d >= 6 else set()
    assert {"order", "pass"} | screened <= {part.name for part in cost.parts}
    assert cost.exponentials == pytest.approx(0.1 * 2**33)
    assert perf.cost("kde", CPU, share=0.1, local=True, **sizes).exponentials == cost.exponentials


def test_what_a_run_on_the_cpu_takes_is_told() -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((20_000, 8)), rng.standard_normal((500, 8))
    with only("skipping"):
        found = perf.explain(cukde.kde, X, Y, 0.1, on=CPU, calls=1)
    assert found.share is not None
    assert 0 < found.share[0] < 0.3
    assert "taken" in str(found)
    assert perf.explain(cukde.kde, X, Y, 50.0, on=CPU, calls=1).share is None  # all pairs matter


def test_a_share_of_sums_of_values() -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((20_000, 3)), rng.standard_normal((500, 3))
    found = perf.explain(cukde.kernel_sum, X, X, Y, 0.05, on=CPU, calls=1)
    assert found.share is not None
    assert 0 < found.share[0] < 0.3
    sizes = {"n": 2**16, "m": 2**16, "d": 3}
    seconds = [perf.predict("kernel_sum", CPU, k=k, share=0.1, **sizes).seconds for k in (1, 8, 32)]
    assert seconds == sorted(set(seconds))
    assert perf.cost("kernel_sum", CPU, k=8, share=0.1, **sizes).exponentials == pytest.approx(0.1 * 2**32)
    of_one, of_three = (perf.cost("kernel_sum", H200, k=k, share=0.1, **sizes) for k in (1, 3))
    assert of_one.exponentials == pytest.approx(0.1 * 2**32)
    assert of_three.exponentials == 3 * of_one.exponentials


@pytest.mark.parametrize(
    ("on", "sizes", "message"),
    [
        (H200, {"d": 8, "share": 1.5}, "share must be at most 1; got 1.5"),
        (H200, {"d": 8, "share": -0.1}, "share must"),
        (H200, {"d": 8, "share": "half"}, "share must"),
        (H200, {"d": 1, "share": 0.5}, "share must be None for 1 dimensions on an H200"),
        (H200, {"d": 129, "share": 0.5}, "at most 128"),
        (CPU, {"d": 1, "share": 0.5}, "share must be None for 1 dimensions on two cores"),
        (H200, {"d": 8, "share": 0.5, "local": True}, "takes all pairs"),
    ],
)
def test_a_share_that_no_pass_can_have_is_an_error(on: perf.Peaks, sizes: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        perf.cost("kde", on, n=1000, m=100, **sizes)


def test_part_waits_for_what_its_cache_cannot_keep_and_for_itself() -> None:
    def seconds(**fields: Any) -> float:
        part = perf.Part("pass", 1e6, **({"work": {"fma": 1e6}} | fields), requested=1e9)
        return predicted(perf.Counted((part,), "here").cost("op", {}), H200, launch_seconds=0, overlap=math.inf).seconds

    cached = 1e9 / H200.rate("cache")
    assert seconds() == seconds(footprint=1e6) == pytest.approx(cached)
    assert seconds(footprint=1e6, efficiency=0.5) == seconds(footprint=1e6)  # no part of the rates of what streams
    assert seconds(footprint=1e6, work={"fma": 1e11}, efficiency=0.5) == pytest.approx(2e11 / H200.rate("fma"))
    missed = 1 - H200.cache_bytes / 1.5e8  # of what is asked for again, that has to come from memory
    assert seconds(footprint=1.5e8) == pytest.approx(max(cached, (1e6 + missed * 0.999e9) / H200.rate("memory")))
    assert H200.rate("exponential_f64") == H200.rate("float64") / 24
    with pytest.raises(ValueError, match="no rate for exponential_f64"):
        dataclasses.replace(CPU, rates={"memory": 1.0}).rate("exponential_f64")


def _passes() -> list[Pass]:
    outputs: tuple[Any, ...] = ("sum", "moments", "laplace", "values")
    grid = itertools.product(
        outputs,
        ("float32", "tf32", "ieee", "float64"),
        (2, 3, 16, 17, 33, 64, 65, 128, 1024),
        (1, 32, 33),
        (False, True),
        (False, True),
    )
    return [
        Pass(output, rows, rows, d, precision, 4, k, itself=itself, ratio=ratio)
        for output, precision, d, k, itself, ratio in grid
        for rows in ((1000,) if d <= 64 else (100, 1000, 10_000))  # few of many dimensions have their own engine
        if output == "values" or k == 1
    ]


@pytest.mark.small
def test_products_are_those_of_the_launchers() -> None:
    ordered = [of for of in _passes() if engines.engine(of, H200) == "f16"]
    assert {of.output for of in ordered} == {"sum", "moments", "laplace", "values"}
    for of in ordered:
        form = plan_gpu.form(of.precision, of.d, 1.0, of.output)
        assert form is not None
        own = of.ratio and of.output == "moments" and of.itself
        assert engines.products(of) == (3 if own and form.split else form.products), of


def test_tiles_and_limits_are_those_of_the_launchers() -> None:
    pytest.importorskip("cupy")
    from cukde.density.pairs.gpu import f16, f16_symmetric, specialisation, tiles

    table = tiles.nearest((9, 0), tiles.tables())
    for task in f16.tasks():
        shape = specialisation.shapes(task, table)[0]
        tile = engines.tile("f16", (9, 0), dataclasses.asdict(task))
        assert (tile["warps"], tile["row_tiles"], tile["tile"]) == (shape.warps, shape.row_tiles, shape.tile)
    for depth, terms, columns in f16_symmetric.operands():
        layout = f16_symmetric._layout(depth, terms, columns, table)
        tile = engines.tile("f16_symmetric", (9, 0), {"depth": depth, "terms": terms, "columns": columns})
        assert (64 * tile["row_tiles"], tile["overlap"]) == (layout.rows, layout.overlap)


@pytest.mark.parametrize(("precision", "products"), [("float32", 3), ("tf32", 1)])
def test_a_density_takes_an_exponential_and_its_products_a_pair(precision: str, products: int) -> None:
    n, m, d = 4096, 512, 20
    cost = perf.cost("kde", H200, n=n, m=m, d=d, precision=precision)
    polynomials = 2 / 16 if precision == "tf32" else 0
    assert cost.exponentials == n * m * (1 - polynomials)
    assert cost.tensor_flops == n * m * (2 * 32 * products + 16)  # depth 32, and norms of depth 8
    assert cost.pairs == n * m
    # Operands of two terms and norms, data and queries, and no more than a few times that.
    assert 4 * d * (n + m) < cost.bytes < 10 * 4 * 32 * (n + m)


def test_data_at_themselves_take_half_unless_weights_or_order_forbid() -> None:
    n = 65536
    sizes = {"n": n, "m": n, "d": 16, "at_data": True}
    whole = perf.cost("score", H200, **(sizes | {"at_data": False})).exponentials
    assert whole == n * n
    assert 0.5 <= perf.cost("score", H200, **sizes).exponentials / whole < 0.51
    assert 0.5 <= perf.cost("kernel_sum", H200, k=16, **sizes).exponentials / whole < 0.51
    assert perf.cost("kernel_sum", H200, k=40, **sizes).exponentials == whole
    assert perf.cost("score", H200, weighted=True, **sizes).exponentials == whole
    assert perf.cost("score", H200, deterministic=True, **sizes).exponentials == whole
    wide = sizes | {"d": 128}
    assert 0.5 < perf.cost("score", H200, **wide).exponentials / whole < 0.55
    assert perf.cost("score", H200, **wide).work("gemm_f16") == 2 * 128 * n * n


def test_engines_take_the_units_they_are_made_for() -> None:
    sizes = {"n": 8192, "m": 1024, "d": 16}
    double = perf.cost("score", H200, dtype="float64", **sizes)
    assert double.work("tensor_f64") == 2 * (16 + 16) * 8192 * 1024
    assert double.tensor_flops == double.work("tensor_f64")
    for by_difference in (perf.cost("kde", V100, **sizes), perf.cost("kde", H200, precision="ieee", **sizes)):
        assert by_difference.tensor_flops == 0
        assert by_difference.exponentials == 8192 * 1024
    on_cpu = perf.cost("score", CPU, **sizes)
    assert on_cpu.exponentials == 8192 * 1024
    assert on_cpu.work("fma") == 5 * 16 * on_cpu.exponentials  # difference, square and sum; product and sum
    assert on_cpu.launches == 0


def _bytes(op: str, on: perf.Peaks, **sizes: Any) -> dict[str, float]:
    return {part.name: part.bytes / 8 for part in perf.cost(op, on, dtype="float64", **sizes).parts}


@pytest.mark.parametrize(
    ("op", "d", "k", "sums", "values"),
    [
        ("kde", 16, 0, 2, 0),
        ("score", 16, 0, 2 + 16, 0),
        ("laplace_kde", 16, 0, 3, 0),
        ("kernel_sum", 16, 5, 2 + 5, 5),
        ("kde", 100, 0, 2, 0),
        ("score", 100, 0, 2 + 100, 0),
        ("kernel_sum", 100, 5, 2 + 5, 5),
    ],
)
def test_bytes_of_double_are_those_of_the_arrays(op: str, d: int, k: int, sums: int, values: int) -> None:
    """Numbers of 8 bytes: points, their operands with a norm of each data row, powers, values and sums of queries."""
    n, m, rows, queries = 8100, 1000, 8192, 1024
    sizes = {"n": n, "m": m, "d": d} | ({"k": k} if k else {})
    points, results = d * (n + m), m * sums
    on_cpu = _bytes(op, CPU, **sizes)
    assert on_cpu["pass"] == points + values * n + results
    on_gpu = _bytes(op, H200, **sizes)
    if d <= 64:
        operands = (d + 1) * rows + d * m
        assert on_gpu["prepare"] == points + operands
        assert on_gpu["pass"] == operands + values * n + results
        assert on_gpu["finish"] == 2 * results
        return
    depth, powers = 104, rows * queries
    operands = (depth + 1) * (rows + queries)
    assert on_gpu["prepare"] == points + operands
    assert on_gpu["inner products"] == operands + powers
    assert on_gpu["powers"] == powers * (2 if sums > 2 else 1)  # read, and written where products take them
    if sums > 2:
        assert on_gpu["products"] == n * m + 2 * queries * (k or depth)  # added once to what is read and written
    assert on_gpu["finish"] == m * (2 + 2 * (sums - 2))


def test_factors_of_points_take_all_pairs_by_differences() -> None:
    sizes = {"n": 8192, "m": 1024, "d": 16}
    for d, dtype in itertools.product((1, 16, 100), ("float32", "float64")):
        cost = perf.cost("kde", H200, local=True, dtype=dtype, **(sizes | {"d": d}))
        assert (cost.tensor_flops, cost.pairs) == (0, 8192 * 1024)
        assert cost.exponentials == 8192 * 1024
        assert cost.launches > perf.cost("kde", H200, dtype=dtype, precision="ieee", **(sizes | {"d": d})).launches
    single, double = (
        perf.predict("kde", H200, local=True, dtype=dtype, **sizes).seconds for dtype in ("float32", "float64")
    )
    assert perf.predict("kde", H200, **sizes).seconds < single < double
    on_cpu = perf.cost("kde", CPU, local=True, **sizes)  # in double, whatever the dtype
    assert on_cpu.work("exponential_f64") == 8192 * 1024
    assert perf.cost("kde", CPU, local=True, **(sizes | {"m": 0})).pairs == 0


@pytest.mark.parametrize("d", [1, 2, 16])
@pytest.mark.parametrize("name", ["score", "density_and_score", "debias", "sd_kde", "laplace_kde"])
def test_factors_of_points_take_every_pair_of_every_pass(name: str, d: int) -> None:
    n, m = 8192, 1024
    sizes = {"n": n, "d": d} if name == "debias" else {"n": n, "m": m, "d": d}
    pairs = {"debias": n * n, "sd_kde": n * (n + m)}.get(name, n * m)
    on_gpu, on_cpu = (perf.cost(name, on, local=True, dtype="float32", **sizes) for on in (H200, CPU))
    assert (on_gpu.tensor_flops, on_gpu.exponentials, on_cpu.exponentials) == (0, pairs, pairs)
    assert on_cpu.work("float64") >= 3 * d * pairs


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("d", [2, 5, 16, 40, 100, 300])
def test_a_pass_takes_the_time_of_the_table_on_its_cores(d: int, dtype: str) -> None:
    table = plan_rates.table("cpu")
    on = dataclasses.replace(CPU, rates=table["peaks"] | {"memory": math.inf}, multiprocessors=table["cores"])
    n, m = 20_000, 1000
    for op, output in (("kde", "sum"), ("score", "moments")):
        parts = {part.name: part.seconds for part in perf.predict(op, on, n=n, m=m, d=d, dtype=dtype, rtol=0).parts}
        name = plan_cpu.of_double(n, m, d) if dtype == "float64" else "difference float32"
        of_all = 1e-9 * n * m * plan_cpu.dense_rate(name, output, d)
        assert parts["pass"] == pytest.approx(of_all, rel=0.01)
        assert parts["host"] == pytest.approx(1e-9 * table["calls"]["pairs"])


def test_one_dimension_takes_pairs_only_where_they_are_few() -> None:
    few, many = 2**14, 2**20
    assert perf.cost("kde", H200, n=few, m=few, d=1).exponentials == few**2
    assert perf.cost("kde", H200, n=2**15, m=few, d=1).exponentials == few * 2**15
    assert perf.cost("kde", H200, n=2**15, m=few, d=1, dtype="float64").exponentials == 0
    million = perf.cost("sd_kde", H200, n=many, m=many // 8, d=1)
    assert million.exponentials == 0
    assert perf.cost("kde", H200, n=many, m=many, d=1, precision="ieee").exponentials == many**2
    doubled = perf.cost("sd_kde", H200, n=2 * many, m=many // 4, d=1)
    assert 1.8 < doubled.bytes / million.bytes < 2.2  # not by four: the work is linear
    assert perf.cost("kde", CPU, n=2**11, m=2**10, d=1).exponentials == 0


def test_sd_kde_is_its_score_its_shift_and_its_density() -> None:
    cost = perf.cost("sd_kde", H200, n=32768, m=4096, d=16)
    stages = [part.name.split(":")[0] for part in cost.parts]
    assert list(dict.fromkeys(stages)) == ["survey", "score", "shift", "kde"]
    for d, on in itertools.product((1, 2, 100), (H200, V100, CPU)):
        names = {part.name.split(":")[0] for part in perf.cost("sd_kde", on, n=4096, m=512, d=d).parts}
        assert names == {"survey", "score", "shift", "kde"} | ({"host"} if on is CPU else set())


def test_every_operation_is_predicted_on_every_processor() -> None:
    operations = [op for op in perf.operations() if by_name(op).formula.__module__ == cost_formulas.__name__]
    assert {"kde", "score", "density_and_score", "debias", "sd_kde", "laplace_kde", "kernel_sum"} <= set(operations)
    grid = itertools.product(operations, (1, 2, 40, 130), (H200, V100, CPU), ("float32", "float64"), (1, 3000))
    for op, d, on, dtype, n in grid:
        sizes: dict[str, Any] = {"n": n, "d": d}
        if not op.startswith(("bandwidth", "sphere.reference")):
            sizes |= {} if op in ("debias", "positive_mass") else {"m": 300}
        if op.startswith("study") or (op.endswith("cdf") and d > 1):
            continue
        times = [perf.predict(op, on, dtype=dtype, **(sizes | {"n": some * n})) for some in (1, 4)]
        assert all(0 < part.bytes + part.cycles + sum(part.work.values()) < math.inf for part in times[0].cost.parts), (
            op,
            d,
            on.name,
        )
        assert all(0 < time.seconds < 10 for time in times), (op, d, on.name, dtype, n)
        # In one dimension more points can take less: then they are so many that no pairs are taken. Few pairs take
        # NumPy longer than more take compiled loops.
        assert d == 1 or (on, n) == (CPU, 1) or times[0].seconds <= times[1].seconds, (op, d, on.name, dtype, n)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"n": 0, "m": 1, "d": 1}, "n must be at least 1; got 0"),
        ({"n": 1, "m": 1, "d": 0}, "d must be at least 1; got 0"),
        ({"n": 3, "m": 2, "d": 1, "at_data": True}, "m must be n = 3"),
        ({"n": 3, "m": 2, "d": 1, "precision": "half"}, "precision must be one of"),
        ({"n": 3, "d": 1}, "kde takes the sizes d, m, n"),
    ],
)
def test_sizes_that_cannot_be_are_refused(sizes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        perf.cost("kde", H200, **sizes)


class _Untouchable:
    """An array of which nothing but its shape and dtype may be asked."""

    def __init__(self, shape: tuple[int, ...], dtype: str) -> None:
        self.shape, self.dtype = shape, np.dtype(dtype)

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        raise AssertionError("copied")


def test_sizes_of_calls_are_read_without_the_arrays() -> None:
    X, Y = _Untouchable((100, 3), "float16"), _Untouchable((7, 3), "float32")
    V = _Untouchable((100, 5), "float64")
    operation, sizes = called(cukde.sd_kde, (X, Y, 1.0), {"score_bandwidth": 2.0, "log": True, "precision": "tf32"})
    assert operation.name == "sd_kde"
    assert sizes == {
        "n": 100,
        "m": 7,
        "d": 3,
        "dtype": "float32",
        "precision": "tf32",
        "weighted": False,
        "at_data": False,
        "deterministic": False,
        "check_finite": True,
    }
    of_values = called(cukde.kernel_sum, (X, V, Y, 1.0), {})[1]
    assert (of_values["k"], of_values["dtype"], of_values["m"]) == (5, "float64", 7)
    itself = called(cukde.score, (X, X, 1.0), {"weights": [1.0]})[1]
    assert (itself["m"], itself["at_data"], itself["weighted"]) == (100, True, True)
    for function, args in ((cukde.kde, (X, Y, 1.0)), (cukde.debias, (X, 1.0)), (cukde.laplace_kde, (X, Y, 1.0))):
        of = [called(function, args, {"local_factors": f})[1].get("local", False) for f in (None, X)]
        assert of == [False, True]
    found, given = called(cukde.bandwidth.abramson, (V, 1.0), {"alpha": 0.3, "weights": X})
    assert (found.name, given) == (
        "bandwidth.abramson",
        {"n": 100, "d": 5, "dtype": "float64", "weighted": True},
    )
    assert called(cukde.debias, ([1, 2, 3], 1.0), {})[1]["dtype"] == "int64"
    assert called(cukde.bandwidth.scott, (V,), {})[1] == {"n": 100, "d": 5, "dtype": "float64", "weighted": False}
    for fn, args in ((cukde.kde, (X, Y, 1.0)), (cukde.debias, (X, 1.0)), (cukde.bandwidth.sd, (X,))):
        found, given = called(fn, args, {})
        assert perf.predict(found.name, CPU, **given).seconds > 0


@pytest.mark.parametrize("h", [0.4, [0.3, 0.4, 0.5], [[0.2, 0.05, 0], [0.05, 0.2, 0], [0, 0, 0.3]]])
def test_stages_of_sd_kde_make_it_up(h: Any) -> None:
    rng = np.random.default_rng(1)
    X, Y = rng.standard_normal((60, 3)), rng.standard_normal((5, 3))
    stages = by_name("sd_kde").stages
    assert stages is not None
    calls = stages(X, Y, h, score_bandwidth=0.6)
    assert list(calls) == ["score", "shift", "kde"]
    np.testing.assert_allclose(calls["shift"](), cukde.debias(X, h, score_bandwidth=0.6), rtol=1e-12)
    np.testing.assert_allclose(calls["kde"](), cukde.sd_kde(X, Y, h, score_bandwidth=0.6), rtol=1e-10)


_DENSITIES = ("kde", "score", "density_and_score", "debias", "sd_kde", "laplace_kde")


def _measured(note: str = "") -> list[tuple[str, dict[str, Any], float]]:
    """Recorded operations of more than 2 ms, beside which the host's 0.3 to 0.5 ms of a single call are little.

    They are not in the model: the 2.93 ms of SD-KDE of 32 dimensions, predicted to take 2.2, are 2.39 ms where calls
    follow each other. Section 3 of the sources' report takes all pairs, in one dimension.
    """
    found = []
    records = ("sd_kde_h200", "engine_h200", "dimensions_h200", "ablation_h200", "density_1d_h200", "perf_h200")
    for name in ("sources_h200/section-5",) if note else (*records, "sources_h200/section-3"):
        for row in json.loads((RESULTS / f"{name}.json").read_text())["rows"]:
            precision, *others = (row["precision"] or "").removesuffix(" all pairs").split(" ", 1)
            sizes = dict(row["shape"])
            if name == "sd_kde_h200" and sizes["n"] >= 2**18 and not row["precision"].endswith(" all pairs"):
                continue  # pairs are left out, of which the model knows nothing
            if row.get("median_ms") is None or row["median_ms"] < 2 or row["backend"] != "gpu":
                continue
            if name == "perf_h200" and not (row["op"] in _DENSITIES and 2 <= sizes["d"] <= 64):
                continue  # tests/perf/test_benchmarks.py holds the mean error of all its rows
            # Rivals, and the one row from before there was a transform for one dimension.
            if others != [note] * bool(note) or (name, sizes["d"]) == ("dimensions_h200", 1):
                continue
            sizes |= {"dtype": row["dtype"], "precision": precision}
            if row["op"] == "kernel_sum":  # of one value a point
                sizes |= {"k": 1, "at_data": sizes.pop("own")}
            op = row["op"]
            if note == "(wmma study)":
                op = {"kde": "study.density_wmma", "score": "study.score_wmma"}[op]
                sizes = {key: sizes[key] for key in ("n", "m", "d")}
            case = op, sizes, row["median_ms"] / 1e3
            if case not in found:  # a row for each rival
                found.append(case)
    return found


def test_model_is_near_what_was_measured_on_an_h200() -> None:
    factors, of_report = [], []
    for op, sizes, seconds in _measured():
        prediction = predicted(by_name(op).formula(H200, **sizes).cost(op, sizes), H200)
        factors.append(max(prediction.seconds / seconds, seconds / prediction.seconds))
        of_report.append(max(prediction.report_seconds / seconds, seconds / prediction.report_seconds))
        assert factors[-1] < 1.35, (op, sizes, seconds, prediction)
    assert len(factors) >= 25
    assert np.exp(np.mean(np.log(factors))) < 1.12
    assert np.exp(np.mean(np.log(of_report))) > 2  # what the better rule is better than


def test_model_of_the_study_is_near_what_was_measured_on_an_h200() -> None:
    pytest.importorskip("cupy")
    from benchmarks.density import study_wmma  # noqa: F401, declares the costs

    rows = _measured("(wmma study)")
    assert rows
    for op, sizes, seconds in rows:
        assert 1 / 1.35 < perf.predict(op, H200, **sizes).seconds / seconds < 1.35, (op, sizes, seconds)


def test_costs_need_no_cupy() -> None:
    program = (
        "import sys; sys.modules['cupy'] = None; from cukde import perf; import cukde; "
        "print(perf.cost('sd_kde', n=64, m=8, d=16).flops > 0, 'scipy' in sys.modules, 'numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "False"]


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("op", ["kde", "score"])
def test_transforms(op: str, d: int) -> None:
    sizes = {"n": 2**20, "m": 2**20, "d": d, "dtype": "float32"}
    few, many = (perf.predict(op, H200, cells=cells, **sizes).seconds for cells in (10_000, 100_000))
    assert few < many < perf.predict(op, H200, **sizes).seconds / 5
    plan = plane_plan.plan(1.0, plane_plan.TOLERANCE["float32"], "moments" if op == "score" else "sum", d)
    shape = Shape(plan.output, 2**20, 2**20, d)
    ms = [plan_gpu.plane_transform_ms(shape, plane_cost.products(plan, cells), 0.0) for cells in (10_000, 100_000)]
    assert many - few == pytest.approx(1e-3 * (ms[1] - ms[0]), rel=0.5)
    on_cpu = [perf.predict(op, CPU, cells=cells, **sizes).seconds for cells in (100, 10_000)]
    assert on_cpu[0] < on_cpu[1] < perf.predict(op, CPU, **sizes).seconds / 5


def test_a_transform_is_found_by_a_run() -> None:
    X = np.random.default_rng(0).standard_normal((20_000, 2)).astype(np.float32)
    found = perf.explain(cukde.sd_kde, X, X, 1.0, on=CPU, calls=1)
    assert found.share is None
    assert found.cells is not None
    assert all(10 < (cells or 0) < 500 for cells in found.cells)
    assert "cells and" in str(found)
    assert found.row()["cells"] == list(found.cells)
    assert perf.explain(cukde.kde, X, X[:1000], 0.001, on=CPU, calls=1).cells is None


def test_cells_are_those_of_a_transform() -> None:
    with pytest.raises(ValueError, match="cells must be None but for 2 and 3 dimensions; got d = 4"):
        perf.cost("kde", H200, n=100, m=100, d=4, cells=10)
    with pytest.raises((TypeError, ValueError), match="cells"):
        perf.cost("kernel_sum", H200, n=100, m=100, d=2, cells=10)


def test_many_data_at_themselves_take_each_pair_once() -> None:
    few, many = (perf.cost("debias", CPU, n=n, d=8, rtol=0.0).exponentials / n**2 for n in (2000, 5000))
    assert (few, many) == (1, 0.5)


def test_what_a_run_finds_beside_a_pass_takes_time() -> None:
    sizes = {"n": 2**16, "m": 2**10, "d": 8}
    whole = perf.predict("kde", CPU, **sizes)
    again = perf.predict("kde", CPU, again=0.5, **sizes)
    double = perf.predict("kde", CPU, again=1.0, **sizes)
    in_vain = perf.predict("kde", CPU, in_vain=True, **sizes)
    assert whole.seconds < again.seconds < double.seconds
    assert {part.name for part in again.parts} - {part.name for part in whole.parts} == {"copy", "other queries"}
    assert {part.name for part in in_vain.parts} - {part.name for part in whole.parts} == {"order", "tried"}
    of_double = perf.predict("kde", CPU, ran="difference float64", **sizes).seconds
    assert whole.seconds < of_double < double.seconds
    with pytest.raises(ValueError, match="again must be at most 1; got 2"):
        perf.cost("kde", CPU, again=2, **sizes)


_RATES: dict[Any, float] = {
    "memory": 4.23e12,
    "cache": 6.5e12,
    "fma": 6.58e13,
    "float64": 3.32e13,
    "exponential": 4.15e12,
    "exponential_f64": 1.23e12,
}
MEASURED = perf.Peaks("an MEASURED", "gpu", _RATES, 7.3e-6, 132, 1.964e9, 60 * 2**20, (9, 0), "measured")


def _measured_seconds(*parts: perf.Part) -> float:
    return predicted(perf.Counted(parts, "here").cost("op", {}), MEASURED, launch_seconds=0).seconds


@pytest.mark.parametrize(("numbers", "traffic", "microseconds"), [(2**26, 4 + 2, 318.3), (2**24, 4 + 8, 81.5)])
def test_a_pass_takes_a_time_a_number_whatever_its_bytes(numbers: int, traffic: int, microseconds: float) -> None:
    """Times by Nsight Compute of CuPy's copies of float32 to float16 and to float64."""
    part = elementwise.passes("copy", MEASURED, numbers, float(traffic * numbers))
    assert 1e6 * _measured_seconds(part) == pytest.approx(microseconds, rel=0.15)
    assert _measured_seconds(elementwise.passes("copy", MEASURED, 10, 40.0)) == pytest.approx(4e-6, rel=0.02)
    assert elementwise.passes("copy", CPU, numbers, 1.0).cycles == 0


def test_a_sort_takes_a_pass_a_digit() -> None:
    n = 2**24
    single, double = (radix_sort.keys("sort", n, size) for size in (4, 8))
    assert single.bytes == n * 4 * (3 + 2 * 4)
    assert double.bytes == n * 8 * (3 + 2 * 8)
    assert 3 < _measured_seconds(double) / _measured_seconds(single) < 5
    positions = radix_sort.positions("sort", MEASURED, n, 4)
    assert positions[-1].bytes == n * (12 + 4 * 2 * 12)
    assert _measured_seconds(*positions) > 2 * _measured_seconds(single)


def test_densities_of_a_line_are_near_what_was_measured() -> None:
    """Times of single calls; of those that are recorded most is the host's."""
    rows = json.loads((RESULTS / "density_1d_h200.json").read_text())["rows"]
    large = [row for row in rows if row["op"] == "sd_kde" and row["shape"]["n"] >= 2**20]
    assert len({str((row["shape"], row["dtype"])) for row in large}) == 4
    many = {"n": 2**24, "m": 2**21, "d": 1, "check_finite": False}
    known = [(row["op"], row["shape"] | {"dtype": row["dtype"]}, row["median_ms"]) for row in large]
    known += [
        ("kde", many, 0.966),
        ("kde", many | {"dtype": "float64"}, 2.026),
        ("kernel_sum", many, 2.514),
        ("sd_kde", many, 1.919),
        ("sd_kde", many | {"dtype": "float64"}, 2.542),
        ("sd_kde", {"n": 2**17, "m": 2**17, "d": 1, "precision": "ieee", "check_finite": False}, 14.28),
    ]
    for op, sizes, milliseconds in known:
        assert 1 / 1.25 < 1e3 * perf.predict(op, MEASURED, **sizes).seconds / milliseconds < 1.25, (op, sizes)


def test_queries_in_the_tails_wait_for_each_other_where_they_are_neighbours() -> None:
    """Only a score by self-interaction (Y = X), in order, has its queries in one block; and only to 1e-6."""

    def chain(op: str, **sizes: Any) -> float:
        parts = perf.cost(op, MEASURED, n=2**24, d=1, **sizes).parts
        return sum(part.cycles for part in parts if "outlying" in part.name) / one_dimension_cost._OUTWARD

    assert chain("debias") == chain("kde", m=2**21) == 1
    assert chain("sd_kde", m=2**21) == 20 + 1
    assert chain("sd_kde", m=2**21, weighted=True) == 1 + 1
    assert chain("sd_kde", m=2**21, dtype="float64") == 0


def test_what_becomes_of_sums_takes_a_warp_for_each_query() -> None:
    def end(op: str, **sizes: Any) -> float:
        return perf.predict(op, H200, dtype="float32", **sizes).parts[-1].seconds

    assert end("debias", n=2**24, d=1) == pytest.approx(8 * end("debias", n=2**21, d=1))
    sizes = {"n": 2**14, "m": 2**20}
    assert end("score", d=1, **sizes) == pytest.approx(end("score", d=4, **sizes), rel=0.05)
    assert end("density_and_score", d=1, **sizes) == pytest.approx(2 * end("score", d=1, **sizes), rel=0.05)


@pytest.mark.parametrize("algorithm", ["fft", "exact"])
def test_grids_take_array_operations_a_block_at_a_time(algorithm: str) -> None:
    def cost(n: int, on: Any = H200) -> perf.Cost:
        return perf.cost("evaluate_grid", on, n=n, m=2**16, d=2, algorithm=algorithm)

    few, many = (cost(n).parts[1] for n in (2**20, 2**24))
    assert many.cycles == pytest.approx(16 * few.cycles)
    assert many.launches >= 14 * few.launches
    assert cost(2**20, CPU).launches == 0
