"""Both ways that the GPU counts for all pairs of columns, by products of signs and by sorting, against the CPU."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

import cukde
from cukde.core import plan as core_plan
from tests.conftest import Backend
from tests.private import (
    NO_TIES,
    PairCounts,
    kendall_matrix_on_cpu,
    kendall_pairs_on_cpu,
    kendall_plan,
    matrix_on_gpu,
)


@pytest.fixture
def kendall(device: Backend) -> ModuleType:
    """The counts of the GPU backend."""
    from tests.private import kendall_gpu as kendall

    return kendall


def columns(n: int, p: int, seed: int = 0) -> np.ndarray:
    """Columns with many ties, with few, without, and a constant one."""
    rng = np.random.default_rng([seed, n, p])
    A = rng.standard_normal((n, p))
    A[:, 1::4] = np.round(A[:, 1::4])
    A[:, 2::4] = np.round(A[:, 2::4], 2)
    A[:, -1] = np.inf
    return A


def with_gaps(A: np.ndarray) -> np.ndarray:
    """The same, with NaN in a few columns, and in one nothing else."""
    out = A.copy()
    out[::7, 1] = out[::5, 3] = out[:, 5] = np.nan
    return out


def check(device: Backend, got: PairCounts, want: PairCounts) -> None:
    shape = want.concordant.shape
    pairs = zip(
        (got.samples, got.concordant, got.discordant, *got.x, *got.y),
        (want.samples, want.concordant, want.discordant, *want.x, *want.y),
        strict=True,
    )
    for found, expected in pairs:
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(np.broadcast_to(device.asnumpy(found), shape), np.broadcast_to(expected, shape))


@pytest.mark.parametrize("path", ["products", "sorting"])
@pytest.mark.parametrize("deletion", [False, True])
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("others", [False, True])
def test_all_pairs_of_columns(
    device: Backend, kendall: ModuleType, path: str, deletion: bool, gaps: bool, others: bool
) -> None:
    A, B = columns(45, 9), columns(45, 7, seed=1).astype(np.float32) if others else None
    if gaps:
        A = with_gaps(A)
    with core_plan.only(path, f"{path} with ties"), core_plan.traced() as ran:
        got = kendall.matrix(device.asarray(A), device.asarray(B), deletion=deletion)
    assert [one.name.removesuffix(" with ties") for one in ran] == [path]
    check(device, got, kendall_matrix_on_cpu(A, B, deletion=deletion))


def test_columns_that_all_have_gaps(device: Backend, kendall: ModuleType) -> None:
    A = columns(30, 4)
    A[3] = np.nan
    for deletion in (False, True):
        with core_plan.only("products", "products with ties"):
            got = kendall.matrix(device.asarray(A), deletion=deletion)
        check(device, got, kendall_matrix_on_cpu(A, deletion=deletion))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_pairs_of_rows(device: Backend, kendall: ModuleType, dtype: str) -> None:
    """Ranked together where both are of one type."""
    x, y = with_gaps(columns(70, 9)).T.copy(), columns(70, 9, seed=1).astype(dtype).T.copy()
    check(device, kendall.pairs(device.asarray(x), device.asarray(y)), kendall_pairs_on_cpu(x, y))


@pytest.mark.parametrize("others", [False, True])
def test_a_matrix_waits_once(emulated_device: None, monkeypatch: pytest.MonkeyPatch, others: bool) -> None:
    """For all that the host has to know of both sides."""
    from tests.private import kendall_gpu as kendall

    waits: list[tuple[int, ...]] = []

    def copied(a: np.ndarray) -> np.ndarray:
        waits.append(a.shape)
        return a

    monkeypatch.setattr(kendall.cp, "asnumpy", copied)
    A, B = columns(45, 9), columns(45, 7, seed=1)
    kendall.matrix(A, B if others else None, deletion=True)
    assert waits == [(3 * (9 + 7 * others),)]


def test_two_samples_take_no_launch_for_ties_of_each(emulated_device: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.perf import launched

    with core_plan.only("sorting"), launched.noted() as found:
        cukde.kendalltau(np.arange(50.0), np.arange(50.0)[::-1])
    of_pairs = {"pair_keys", "pair_runs", "value_runs", "pair_counts", "kendall_statistics"}
    assert {name for _, name, _ in found} == {"order_keys", "sort_tiles", "rank_runs"} | of_pairs


def measured(table: str) -> Iterator[tuple[bool, int, int, float, float]]:
    """Whether there are ties, p, n and the times of both ways, of the table in the rule's docstring."""
    tied, columns = False, []
    for line in table.splitlines():
        tied = tied or line.strip() == "with ties"
        if "p  " in line:
            columns = [int(p) for p in line.split("p", 1)[1].split()]
        cells = re.findall(r"(\S+) / (\S+)", line)
        if len(cells) == len(columns) > 0:
            n = int(line.split()[0])
            yield from ((tied, p, n, float(a), float(b)) for p, (a, b) in zip(columns, cells, strict=True))


def multiplies(p: int, n: int, tied: bool, capability: tuple[int, int] = (9, 0)) -> bool:
    plan = matrix_on_gpu(p, p, n, symmetric=True, wide=True, capability=capability, counted=True)
    return plan.first(*(() if tied else (NO_TIES,))) != "sorting"


def test_the_rule_is_that_of_the_measured_times() -> None:
    """It loses less than half a millisecond, or a third of the time, to the faster way."""
    cells = [cell for cell in measured(str(kendall_plan.__doc__).split("On the CPU")[0]) if not np.isnan(cell[-1])]
    assert len(cells) == 38
    for tied, p, n, products, by_sorting in cells:
        chosen = products if multiplies(p, n, tied) else by_sorting
        assert chosen <= max(4 / 3 * min(products, by_sorting), min(products, by_sorting) + 0.5), (tied, p, n)


def test_products_have_a_limit() -> None:
    """Of samples, as many as there are float16 numbers; of the device, tensor cores that multiply integers."""
    assert multiplies(1000, 1000, tied=True)
    assert not multiplies(1, 1000, tied=True)
    assert not multiplies(1000, 70_000, tied=False)
    assert not multiplies(1000, 1000, tied=True, capability=(7, 5))
