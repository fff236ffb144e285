"""Piecewise polynomials of the GPU backend, against float64 sums from the definition."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests import tolerances
from tests.conftest import Backend
from tests.piecewise.gpu_cases import allowed, arithmetic, coefficients_of, expected, knots_of
from tests.private import Pieces, fit_pieces, piecewise_plan, rounded_knots

DTYPES = ("float16", "float32", "float64")
MODES: tuple[bool | str, ...] = (True, False, "clamp", "periodic")


@pytest.fixture
def piecewise(device: Backend) -> ModuleType:
    """The launcher, on the device."""
    from tests.private import piecewise_gpu as piecewise

    return piecewise


def points_of(knots: np.ndarray, dtype: str, many: int = 500) -> np.ndarray:
    """On knots and next to them, inside, beyond both ends, signed zeros and denormal numbers, NaN and infinities."""
    rng = np.random.default_rng(0)
    width = float(knots[-1] - knots[0])
    near = np.unique(knots[:: max(1, knots.size // 700)].tolist() + knots[-2:].tolist()).astype(dtype)
    inside = rng.uniform(knots[0], knots[-1], many).astype(dtype)
    beyond = np.concatenate([knots[0] - width * rng.random(50), knots[-1] + width * rng.random(50)]).astype(dtype)
    tiny = np.array([0, np.finfo(dtype).smallest_subnormal], dtype)
    special = np.array([np.nan, np.inf, -np.inf], dtype)
    infinity = np.array(np.inf, dtype)
    x = np.concatenate(
        [near, np.nextafter(near, infinity), np.nextafter(near, -infinity), inside, beyond, tiny, -tiny, special]
    )
    return rng.permutation(x)


def check(pieces: Pieces, x: np.ndarray, got: np.ndarray, mode: bool | str) -> None:
    if mode == "periodic":  # denormal numbers, which may be taken for zero, may be those next to the end of a period
        usual = (np.abs(x) >= np.finfo(arithmetic(x.dtype.name)).tiny) | (x == 0) | np.isnan(x)
        x, got = x[usual], got[usual]
    want, size = expected(pieces, x, mode)
    got = got.reshape(want.shape)
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    largest = float(np.finfo(got.dtype).max)
    whole, beyond = np.abs(want) <= largest * 0.999, np.abs(want) > largest * 1.001  # between, either may come
    np.testing.assert_array_equal(got[beyond], np.sign(want[beyond]) * np.inf)
    error = np.abs(got[whole].astype(np.float64) - want[whole])
    tolerances.check(error, allowed(pieces, x.dtype, want, size)[whole], "piecewise polynomial")


def check_all_modes(device: Backend, piecewise: ModuleType, pieces: Pieces, x: np.ndarray) -> Any:
    prepared = piecewise.prepare(pieces, x.dtype)
    on_device = device.asarray(x)
    for mode in MODES:
        got = piecewise.evaluate(prepared, on_device, mode)
        columns = pieces.coefficients.shape[2]
        assert got.shape == (x.size,) if columns == 1 else (x.size, columns)
        check(pieces, x, device.asnumpy(got), mode)
    return prepared


def searches(dtype: str) -> Iterator[tuple[str, int]]:
    """Knots of every kind and number."""
    for kind in ("whole", "uniform", "paired", "random", "clustered"):
        for m in (1, 2, 3, 255, 256, 1000, 4096):
            if kind != "clustered" or m <= 256:
                yield kind, m


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_point_is_on_its_piece(device: Backend, piecewise: ModuleType, dtype: str) -> None:
    for kind, m in searches(dtype):
        knots = knots_of(kind, m, dtype)
        pieces = Pieces(coefficients_of(4, m, 1, dtype), knots, True)
        check_all_modes(device, piecewise, pieces, points_of(knots, dtype))


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_degrees(device: Backend, piecewise: ModuleType, dtype: str, local: bool) -> None:
    for kind in ("whole", "uniform", "clustered"):
        for k in (*range(1, 14), 21):
            knots = knots_of(kind, 5, dtype)
            if k > 4:  # powers of what is near 1
                knots = knots * knots.dtype.type(0.25)
            pieces = Pieces(coefficients_of(k, 5, 1, dtype), knots, local)
            check_all_modes(device, piecewise, pieces, points_of(knots, dtype, 60))


@pytest.mark.parametrize("columns", [2, 5, 700])
@pytest.mark.parametrize("dtype", DTYPES)
def test_several_values_at_a_point(device: Backend, piecewise: ModuleType, dtype: str, columns: int) -> None:
    for kind, k, m in (("whole", 1, 3), ("uniform", 4, 1), ("random", 4, 20), ("random", 7, 3)):
        knots = knots_of(kind, m, dtype)
        pieces = Pieces(coefficients_of(k, m, columns, dtype), knots, kind == "random")
        check_all_modes(device, piecewise, pieces, points_of(knots, dtype, 600 if columns == 5 else 20))


def test_how_pieces_are_found(device: Backend, piecewise: ModuleType) -> None:
    """Uniform knots by their formula, near ones by a guide, crowded ones and doubles by a tree."""

    def search(kind: str, m: int, dtype: str, k: int = 4) -> tuple[str, int]:
        knots = knots_of(kind, m, dtype)
        plan = piecewise.prepare(Pieces(coefficients_of(k, m, 1, dtype), knots, True), dtype).plan
        return plan.table.search, plan.copies

    assert search("whole", 256, "float32") == search("whole", 256, "float16") == ("uniform", 3)
    assert search("whole", 1000, "float64", 2) == ("uniform", 2)
    assert search("uniform", 256, "float32") == search("paired", 255, "float16") == ("guide", 3)
    assert search("uniform", 255, "float64", 2)[0] == "tree"
    assert search("random", 256, "float32")[0] == "guide"  # a few cells with more than two knots
    assert search("clustered", 256, "float16") == ("tree", 3)
    assert search("whole", 20_000, "float32") == ("uniform", 0)  # too large for shared memory


@pytest.mark.parametrize("dtype", DTYPES)
def test_tables_in_global_memory(device: Backend, piecewise: ModuleType, dtype: str) -> None:
    for kind in ("whole", "random"):
        knots = knots_of(kind, 8000, dtype)
        pieces = Pieces(coefficients_of(4, 8000, 1, dtype), knots, True)
        prepared = check_all_modes(device, piecewise, pieces, points_of(knots, dtype))
        assert ("SHARED", "0") in prepared.plan.kernel[2]


@pytest.mark.parametrize("dtype", DTYPES)
def test_sizes_and_alignments(device: Backend, piecewise: ModuleType, dtype: str) -> None:
    """Sizes around vectors and tiles, arrays that begin anywhere, and a given result."""
    knots = knots_of("whole", 7, dtype)
    pieces = Pieces(coefficients_of(4, 7, 1, dtype), knots, True)
    prepared = piecewise.prepare(pieces, dtype)
    x = np.random.default_rng(0).uniform(-4, 5, 60_000).astype(dtype)
    tile = 512 * 2 * 16 // x.itemsize
    for n in (0, 1, 7, 8, 9, 513, tile - 1, tile, tile + 1, 13 * tile + 17):
        check(pieces, x[:n], device.asnumpy(piecewise.evaluate(prepared, device.asarray(x)[:n], True)), True)
    for x_at, y_at in ((0, 1), (1, 0), (1, 1), (3, 2), (8, 16)):
        for n in (5, tile + 5):
            whole = device.asarray(np.zeros(n + 20, dtype))
            out = whole[y_at : y_at + n]
            assert piecewise.evaluate(prepared, device.asarray(x)[x_at : x_at + n], "clamp", out) is out
            check(pieces, x[x_at : x_at + n], device.asnumpy(out), "clamp")
            assert (
                np.flatnonzero(device.asnumpy(whole)).tolist() == (y_at + np.flatnonzero(device.asnumpy(out))).tolist()
            )


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("dtype", DTYPES)
def test_infinite_points_take_the_limit(device: Backend, piecewise: ModuleType, dtype: str, columns: int) -> None:
    """Of leading coefficients that are zero, each sign, and either parity of the degree."""
    for k in (1, 2, 4, 7):
        for zeros in range(k + 1):
            for sign in (1, -1):
                c = sign * np.abs(coefficients_of(k, 3, columns, dtype))
                c[:zeros] = 0
                pieces = Pieces(c, knots_of("whole", 3, dtype), zeros % 2 == 0)
                check_all_modes(device, piecewise, pieces, np.array([np.inf, -np.inf, 0.5, np.nan] * 5, dtype))


EXACT: dict[str, Any] = {"exp": np.exp, "log": np.log}


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("dtype", DTYPES)
def test_reduced_arguments(device: Backend, piecewise: ModuleType, dtype: str, name: str) -> None:
    """Every exponent of the dtype, what is next to the ends of the short range, and what has no value."""
    reduction: Any = name
    low, high = (-0.375, 0.375) if name == "exp" else (0.75, 1.5)
    knots = np.linspace(low, high, 25)
    local = fit_pieces.fit(EXACT[name], knots, 3, "minimax", True)[:, :, None]
    pieces = Pieces(local.astype(arithmetic(dtype)), knots.astype(arithmetic(dtype)), True, reduction)
    prepared = piecewise.prepare(pieces, dtype)
    information = np.finfo(dtype)
    rng = np.random.default_rng(0)
    if name == "exp":
        most = 1.1 * float(np.log(information.max))
        n = np.arange(-1100, 1100)
        halfway = (n[(np.abs(n) + 1) * np.log(2) < most] + 0.5) * np.log(2)
        x = np.concatenate([rng.uniform(-most, most, 2000), halfway, [0, most, -most]])
    else:
        powers = 2.0 ** np.arange(information.minexp - information.nmant, information.maxexp)
        x = np.concatenate([p * powers for p in (1.0, 0.75, 1.25, 1.75)])
    x = np.concatenate([x, [0.0, -0.0, -1.0, np.inf, -np.inf, np.nan]]).astype(dtype)
    got = device.asnumpy(piecewise.evaluate(prepared, device.asarray(x), True))
    with np.errstate(all="ignore"):
        want = EXACT[name](x.astype(np.float64))
        rounded = want.astype(dtype)
    special = ~np.isfinite(rounded)
    np.testing.assert_array_equal(got[special], rounded[special])
    size = want[~special] if name == "exp" else np.maximum(1, np.abs(want[~special]))
    allowed = {"float16": 2.0**-11 + 2e-7, "float32": 2e-7, "float64": 8e-9}[dtype] * size
    allowed += 2.0**-25 if dtype == "float16" else float(information.tiny)  # smaller results may be taken for zero
    tolerances.check(np.abs(got[~special] - want[~special]), allowed, name)


@pytest.mark.parametrize(("kind", "k"), [("whole", 4), ("whole", 6), ("random", 3)])
def test_many_float16_points_are_looked_up(
    device: Backend, piecewise: ModuleType, monkeypatch: pytest.MonkeyPatch, kind: str, k: int
) -> None:
    """The same bits as computed, whatever the size and alignment."""
    pieces = Pieces(coefficients_of(k, 9, 1, "float16"), knots_of(kind, 9, "float16"), True)
    prepared = piecewise.prepare(pieces, "float16")
    assert (prepared.lookups is None) == (kind == "whole" and k == 4)
    x = np.append(np.random.default_rng(0).permutation(2**16).astype(np.uint16).view(np.float16), np.float16(1))
    for mode in (True, False, "clamp"):
        want = device.asnumpy(piecewise.evaluate(prepared, device.asarray(x), mode))
        with monkeypatch.context() as patch:
            patch.setattr(piecewise_plan, "FEWEST_LOOKUPS", 0)
            for part in (slice(None), slice(3, 40_000), slice(8, 24)):
                got = device.asnumpy(piecewise.evaluate(prepared, device.asarray(x)[part], mode))
                np.testing.assert_array_equal(got.view(np.uint16), want[part].view(np.uint16))
    assert prepared.lookups is None or len(prepared.lookups) == 3


def test_no_points_of_several_values(device: Backend, piecewise: ModuleType) -> None:
    pieces = Pieces(coefficients_of(2, 3, 4, "float32"), knots_of("whole", 3, "float32"), True)
    got = piecewise.evaluate(piecewise.prepare(pieces, "float32"), device.asarray(np.zeros(0, "f4")), True)
    assert got.shape == (0, 4)


@pytest.mark.parametrize(
    "knots", [[1e-45, 2e-45, 3e-45], [1e6, 1e6 + 0.0625, 1e6 + 0.25], [-3e38, 0, 3e38], [0, 1, 1e30]]
)
def test_ranges_beyond_a_guide(device: Backend, piecewise: ModuleType, knots: list[float]) -> None:
    """Denormal, far from zero, wider than the largest number, and of every size: constants tell the pieces apart."""
    pieces = Pieces(np.array([[[1.0], [2.0]]], "f4"), np.array(knots, "f4"), True)
    x = np.append(pieces.knots, np.float32(np.nan))
    x = np.concatenate([x, np.nextafter(x, np.float32(np.inf)), np.nextafter(x, np.float32(-np.inf))])
    prepared = piecewise.prepare(pieces, "float32")
    for mode in (True, False, "clamp"):
        check(pieces, x, device.asnumpy(piecewise.evaluate(prepared, device.asarray(x), mode)), mode)


@pytest.mark.parametrize("seed", range(20))
def test_random_knots_and_degrees(device: Backend, piecewise: ModuleType, seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype = DTYPES[seed % 3]
    m, k, columns = int(rng.integers(1, 400)), int(rng.integers(2, 6)), int(rng.choice([1, 1, 3]))
    knots = np.unique((rng.standard_normal(m + 1) ** 3).astype(arithmetic(dtype)))
    pieces = Pieces(coefficients_of(k, knots.size - 1, columns, dtype), knots, bool(rng.integers(2)))
    check_all_modes(device, piecewise, pieces, points_of(knots, dtype, int(rng.integers(1, 3000))))


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "knots",
    [
        [0, 0.5, 1 - 2e-8, 1 + 3e-8],  # a last piece of one float32
        [0, 0.5, 1 + 1e-9, 1 + 2e-9],  # of none
        [1 + 1e-9, 1 + 2e-9, 2, 3],  # a first piece of none
        [1 + 1e-9, 1 + 2e-9, 1 + 2.0**-23 + 1e-9, 1 + 2.0**-22 + 1e-9],  # and uniform ones
        [1, 1, 2, 3, 3],  # without width
    ],
)
def test_narrow_end_pieces(
    device: Backend, piecewise: ModuleType, knots: list[float], dtype: str, columns: int
) -> None:
    given = np.array(knots, np.float64)
    m = given.size - 1
    pieces = Pieces(np.repeat(np.arange(1.0, m + 1)[None, :, None], columns, axis=2), given, True)
    near = np.unique(given.astype(dtype))
    infinite = np.array(np.inf, dtype)
    x = np.concatenate([near, np.nextafter(near, infinite), np.nextafter(near, -infinite), near - 4, near + 4])
    exact = x.astype(np.float64)
    want = 1.0 + np.clip(np.searchsorted(given, exact, "right") - 1, 0, m - 1)
    for mode in (True, False):
        rounded = rounded_knots(pieces, np.dtype(arithmetic(dtype)), mode)
        got = device.asnumpy(piecewise.evaluate(piecewise.prepare(rounded, dtype), device.asarray(x), mode)).reshape(
            -1, columns
        )
        inside = (exact >= given[0]) & (exact <= given[-1]) | mode
        np.testing.assert_array_equal(got, np.where(inside, want, np.nan)[:, None] + np.zeros(columns))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_many_points(dtype: str) -> None:
    """Against NumPy on a sample, and every value there."""
    import cupy as cp

    from tests.private import piecewise_gpu as piecewise

    knots = knots_of("random", 256, dtype)
    pieces = Pieces(coefficients_of(4, 256, 1, dtype), knots, True)
    x = cp.random.default_rng(0).uniform(-2, 2, 2**26 + 3).astype(dtype)
    y = piecewise.evaluate(piecewise.prepare(pieces, dtype), x, True)
    assert not bool(cp.isnan(y).any())
    sample = slice(None, None, 1009)
    check(pieces, x[sample].get(), y[sample].get(), True)
