"""Which passes take Kendall's tau, on both sides of each threshold.

A table with other names is printed by ``python -m tests.kendall.test_plan``; a change of names is a change of speed,
to be measured by ``python -m benchmarks.kendall.crossover``.
"""

from __future__ import annotations

import pytest

from cukde.core.plan import Plan, only
from tests.private import NO_TIES, few_on_gpu, kendall_plan, matrix_on_gpu

HOPPER, BLACKWELL, TURING = (9, 0), (10, 0), (7, 5)

# Columns, samples and compute capability, with each other: names of those that serve the statistic, in order.
MATRICES = {
    (5, 100, HOPPER): "comparisons products tied sorting",
    (1000, 1000, TURING): "sorting",
    (1000, 1000, HOPPER): "products tied sorting",
    (1000, 1000, BLACKWELL): "products tied sorting",
    (2, 8191, HOPPER): "comparisons sorting products tied",
    (2, 8192, HOPPER): "sorting products tied",
    (1000, 17887, BLACKWELL): "products tied sorting",
    (1000, 17888, BLACKWELL): "products sorting tied",
    (1000, 63487, HOPPER): "products tied sorting",
    (1000, 63488, HOPPER): "sorting",
    (8, 2045, HOPPER): "comparisons sorting products tied",
    (8, 2046, HOPPER): "sorting products tied",
    (32, 503, HOPPER): "comparisons products tied sorting",
    (32, 504, HOPPER): "products tied sorting",
    (128, 90, HOPPER): "comparisons products tied sorting",
    (128, 91, HOPPER): "products tied sorting",
    (32, 5233, HOPPER): "products tied sorting",
    (32, 5234, HOPPER): "products sorting tied",
    (128, 34552, HOPPER): "products tied sorting",
    (128, 34553, HOPPER): "products sorting tied",
}

# Columns with others, samples.
ON_CPU: dict[tuple[int, int | None, int], str] = {
    (2, None, 257): "few meanwhile bits trees",
    (2, None, 258): "few meanwhile trees",
    (2, None, 4096): "few meanwhile trees",
    (2, None, 4097): "meanwhile trees",
    (2, None, 699050): "meanwhile trees",
    (2, None, 699051): "trees",
    (8, None, 256): "few meanwhile bits trees",
    (8, None, 257): "meanwhile bits trees",
    (8, None, 658): "meanwhile bits trees",
    (8, None, 659): "meanwhile trees",
    (8, None, 58254): "meanwhile trees",
    (8, None, 58255): "trees",
    (64, None, 1008): "meanwhile bits trees",
    (64, None, 1009): "bits trees",
    (64, None, 2010): "bits trees",
    (64, None, 2011): "trees",
    (128, None, 254): "meanwhile bits trees",
    (128, None, 255): "bits trees",
    (128, None, 2403): "bits trees",
    (128, None, 2404): "trees",
    (3, 5, 314): "few meanwhile bits trees",
    (3, 5, 315): "few meanwhile trees",
    (3, 5, 1092): "few meanwhile trees",
    (3, 5, 1093): "meanwhile trees",
    (3, 5, 139810): "meanwhile trees",
    (3, 5, 139811): "trees",
}

# Pairs of variables, samples, whether values have 8 bytes.
PAIRS = {
    (1, 23170, False): "comparisons sorting",
    (1, 23171, False): "sorting",
    (65504, 2, False): "comparisons sorting",
    (65505, 2, False): "sorting",
    (532, 1000, False): "comparisons sorting",
    (533, 1000, False): "sorting",
    (1, 16383, True): "comparisons sorting",
    (1, 16384, True): "sorting",
    (32752, 2, True): "comparisons sorting",
    (32753, 2, True): "sorting",
    (266, 1000, True): "comparisons sorting",
    (267, 1000, True): "sorting",
}


def matrix(p: int, n: int, capability: tuple[int, int]) -> Plan:
    return matrix_on_gpu(p, p, n, symmetric=True, wide=True, capability=capability)


def on_cpu(p: int, q: int | None, n: int) -> Plan:
    return kendall_plan.matrix_on_cpu(p, p if q is None else q, n, symmetric=q is None)


def pairs(count: int, n: int, wide: bool) -> Plan:
    return kendall_plan.pairs_on_gpu(count, n, wide=wide)


@pytest.mark.parametrize("sizes", MATRICES)
def test_a_matrix_on_a_gpu(sizes: tuple[int, int, tuple[int, int]]) -> None:
    assert " ".join(matrix(*sizes).names).replace("products with ties", "tied") == MATRICES[sizes]


@pytest.mark.parametrize("sizes", ON_CPU)
def test_a_matrix_on_the_cpu(sizes: tuple[int, int | None, int]) -> None:
    assert " ".join(on_cpu(*sizes).names).replace("few meanwhile", "meanwhile") == ON_CPU[sizes]


@pytest.mark.parametrize("sizes", PAIRS)
def test_pairs_on_a_gpu(sizes: tuple[int, int, bool]) -> None:
    assert " ".join(pairs(*sizes).names) == PAIRS[sizes]


def test_counts_are_not_made_by_comparisons() -> None:
    statistic = matrix_on_gpu(3, 3, 100, symmetric=True, wide=True, capability=HOPPER)
    counts = matrix_on_gpu(3, 3, 100, symmetric=True, wide=True, capability=HOPPER, counted=True)
    assert statistic.sure == "comparisons"
    assert counts.candidates[0].refused == "it makes no counts"


def test_ties_take_longer_and_may_be_sorted() -> None:
    plan = matrix(32, 8000, HOPPER)
    assert (plan.first(NO_TIES), plan.first(), plan.sure) == ("products", "sorting", "sorting")
    ms = {one.name: one.ms for one in plan.candidates}
    assert 0 < ms["products"] < ms["sorting"] < ms["products with ties"]  # type: ignore[operator]


def test_a_way_that_is_asked_for() -> None:
    with only("sorting"):
        assert matrix(1000, 1000, HOPPER).first(NO_TIES) == "sorting"
        assert not few_on_gpu(1, 10, wide=True)
    with only("trees"):
        assert on_cpu(128, None, 1000).first() == "trees"
        assert not kendall_plan.few_on_cpu(1, 10)


def test_a_plan_says_why() -> None:
    text = str(matrix(1000, 1000, TURING))
    assert text.splitlines()[0] == "Tau of all pairs of 1,000 columns, 1,000 samples"
    assert "1. sorting" in text
    assert "not asked: tensor cores multiply integers from compute capability 8.0 on" in text


def _table() -> None:
    """Print the tables as they are now."""
    for table, plan in ((MATRICES, matrix), (ON_CPU, on_cpu), (PAIRS, pairs)):
        for sizes in table:
            names = " ".join(plan(*sizes).names)  # type: ignore[operator]
            names = names.replace("products with ties", "tied").replace("few meanwhile", "meanwhile")
            print(f'    {sizes}: "{names}",')
        print()


if __name__ == "__main__":
    _table()
